//! The kernel's counters of each CPU: their values, and their changes between two points in time.

mod delta;
pub(crate) use delta::TICK_NS;
mod stat;
mod table;
mod watch;

pub use watch::{CpuCounts, CpuWatch, SmiWatch, StealWatch};

use std::collections::BTreeMap;
use std::fmt::Display;

use punctual_model::CpuSet;

use crate::Unread;
use crate::facts::ONLINE;
use crate::root::{Root, number};
use stat::Stat;
pub(crate) use table::Table;

/// Model-specific register that contains the SMI count of 64-bit Intel processors since Nehalem
/// (`MSR_SMI_COUNT`, Intel's Software Developer's Manual, volume 4).
const SMI_COUNT: u64 = 0x34;

/// Values of the kernel's counters at one point in time. [`Counters::since`] returns the difference
/// of two of them.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// /proc/interrupts, with a column for each online CPU.
    interrupts: Option<Table>,
    /// /proc/softirqs, with a column for each possible CPU.
    softirqs: Option<Table>,
    /// /proc/stat.
    stat: Option<Stat>,
    /// Thermal throttling events of each CPU.
    throttled: BTreeMap<u32, u64>,
    /// System management interrupts of each CPU.
    smis: BTreeMap<u32, u64>,
    /// Reasons why values could not be read, without duplicates.
    unknown: Vec<String>,
}

impl Counters {
    /// Reads all counters. `vendor` is the processor's vendor: on processors of vendors other than
    /// Intel, the register of the SMI count has another meaning.
    pub(crate) fn read(root: &Root, vendor: Option<&str>) -> Self {
        let mut counters = Self::default();
        counters.interrupts = counters.note_table(root, "interrupts", "/proc/interrupts");
        counters.softirqs = counters.note_table(root, "softirqs", "/proc/softirqs");
        counters.stat = counters.note(
            "steal time and context switches",
            "/proc/stat",
            root.text("/proc/stat").map(|text| Stat::parse(&text)),
        );
        let cpus = counters.cpus(root);
        counters.throttled = counters.note_by_cpu(
            "thermal throttling",
            "/sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count",
            &cpus,
            |file| root.value(file, number),
        );
        const MSR: &str = "/dev/cpu/*/msr";
        match vendor {
            Some("GenuineIntel") => {
                // The upper 32 bits of the register are reserved.
                let count = |file: &str| {
                    let count = root.u64_at(file, SMI_COUNT)?;
                    Ok::<_, Unread>(count & u64::from(u32::MAX))
                };
                counters.smis = counters.note_by_cpu("SMI count", MSR, &cpus, count);
            }
            vendor => counters.unknown.push(format!(
                "SMI count: only Intel processors have one (this is {})",
                vendor.unwrap_or("of an unknown vendor")
            )),
        }
        counters
    }

    /// Returns a list of the values that could not be read, each with the reason.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Returns the online CPUs, or the CPUs that have counters if the list of online CPUs cannot be
    /// read.
    fn cpus(&self, root: &Root) -> CpuSet {
        root.cpu_list(ONLINE)
            .value
            .unwrap_or_else(|| self.seen().collect())
    }

    /// Returns the CPUs that have per-CPU counters.
    fn seen(&self) -> impl Iterator<Item = u32> + '_ {
        let interrupts = self.interrupts.iter().flat_map(Table::cpus);
        interrupts.chain(self.stat.iter().flat_map(Stat::cpus))
    }

    /// Records the reason why a value could not be read.
    fn note<T>(&mut self, what: &str, file: &str, read: Result<T, impl Display>) -> Option<T> {
        read.map_err(|reason| self.unknown.push(format!("{what}: {file}: {reason}")))
            .ok()
    }

    /// Reads one table.
    fn note_table(&mut self, root: &Root, what: &str, file: &str) -> Option<Table> {
        let text = self.note(what, file, root.text(file))?;
        self.note(what, file, Table::parse(&text))
    }

    /// Reads one number per CPU from the file that `pattern` names, with `*` replaced by the CPU.
    /// CPUs that fail for the same reason share one line.
    fn note_by_cpu<E: Display>(
        &mut self,
        what: &str,
        pattern: &str,
        cpus: &CpuSet,
        read: impl Fn(&str) -> Result<u64, E>,
    ) -> BTreeMap<u32, u64> {
        let mut values = BTreeMap::new();
        let mut reasons: BTreeMap<String, CpuSet> = BTreeMap::new();
        for cpu in cpus.iter() {
            match read(&pattern.replace('*', &cpu.to_string())) {
                Ok(value) => drop(values.insert(cpu, value)),
                Err(reason) => reasons.entry(reason.to_string()).or_default().insert(cpu),
            }
        }
        for (reason, failed) in reasons {
            self.unknown.push(if failed == *cpus {
                format!("{what}: {pattern}: {reason}")
            } else {
                format!("{what} of CPU {failed}: {pattern}: {reason}")
            });
        }
        values
    }
}
