//! The options of oslat 2.10, and the settings that result from them.

use punctual_model::CpuSet;

use crate::machine::Machine;
use crate::option_row::{OptionRow, put};
use crate::options::Common;
use crate::times::CountsIn;
use crate::{CompatError, Given, Parsed};

/// The settings from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OslatSettings {
    pub(super) common: Common,
    pub(super) buckets: usize,
    /// Width of a bucket, in ns.
    pub(super) width_ns: u64,
    pub(super) bias: bool,
    /// Whether to use the bias of the first CPU for all CPUs.
    pub(super) single: bool,
    pub(super) cpus: CpuSet,
    /// The CPU list as it was given on the command line.
    pub(super) cpu_list: Option<String>,
    pub(super) main_cpu: Option<u32>,
    pub(super) priority: u8,
    pub(super) copies: bool,
    pub(super) memory: u64,
    pub(super) threshold_us: u64,
    pub(super) omits_zeroes: bool,
}

impl AsMut<Common> for OslatSettings {
    fn as_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// In the order of the original's help.
pub(super) const OPTIONS: &[OptionRow<OslatSettings>] = &[
    OptionRow::new(
        "-b --bucket-size=N",
        "number of buckets, 5 to 1024; default 32",
        |settings, given, _| {
            settings.buckets = match given.whole()? {
                buckets @ 5..=1_024 => buckets as usize,
                _ => return Err(given.bad("a number of buckets from 5 to 1024")),
            };
            Ok(())
        },
    ),
    OptionRow::flag(
        "-B --bias",
        "subtract the shortest iteration from all buckets",
        |settings| settings.bias = true,
    ),
    OptionRow::new(
        "-c --cpu-list=CPUS",
        "CPUs to spin on, e.g. 1,3,5,7-15; default: all usable",
        |settings, given, machine| {
            settings.cpus = machine.cpus(given, given.text())?;
            settings.cpu_list = Some(given.text().to_owned());
            Ok(())
        },
    ),
    OptionRow::new(
        "-C --cpu-main-thread=CPU",
        "CPU of the main thread; default 0",
        |settings, given, machine| {
            settings.main_cpu = Some(main_cpu(given, machine)?);
            Ok(())
        },
    ),
    OptionRow::new(
        "-D --duration=TIME",
        "run time in seconds, or with another unit: 90, 90s, 5m, 1h30m, 2d; default 1",
        |settings, given, _| {
            settings.common.duration_s = match given.duration()? {
                0 => return Err(given.bad("a time above 0")),
                seconds => seconds,
            };
            Ok(())
        },
    ),
    OptionRow::JSON,
    OptionRow::new(
        "-f --rtprio=PRIO",
        "use SCHED_FIFO with this priority, 1 to 99",
        |settings, given, _| {
            settings.priority = match given.priority()? {
                0 => return Err(given.bad("a priority from 1 to 99")),
                priority => priority,
            };
            Ok(())
        },
    ),
    OptionRow::new(
        "-m --workload-mem=SIZE",
        "size of memory that the workload copies, e.g. 4K, 1M; default 16K",
        put!(memory = |given| memory(given)?),
    ),
    OptionRow::flag("-q --quiet", "print the summary only", |settings| {
        settings.common.quiet = true
    }),
    OptionRow::flag(
        "-s --single-preheat",
        "with -B: use the bias of the first CPU for all CPUs",
        |settings| settings.single = true,
    ),
    OptionRow::new(
        "-T --trace-threshold=US",
        "stop when an iteration takes US us or longer; mark and stop the kernel's trace",
        put!(threshold_us = |given| given.micros_from(1)?),
    ),
    // This option is handled before the options are read.
    OptionRow::accepted("-v --version", "print the version"),
    OptionRow::new(
        "-w --workload=NAME",
        "work in each iteration: no (default) or memmove",
        |settings, given, _| {
            settings.copies = match given.text() {
                "no" => false,
                "memmove" => true,
                _ => return Err(given.bad("a workload: no or memmove")),
            };
            Ok(())
        },
    ),
    OptionRow::new(
        "-W --bucket-width=NS",
        "bucket width in ns; default 1000; unless it is a multiple of 1000, figures are printed in \
         ns",
        put!(width_ns = |given| given.time(CountsIn::Nanos, 1)?),
    ),
    OptionRow::flag(
        "-z --zero-omit",
        "omit buckets that are 0 on all CPUs",
        |settings| settings.omits_zeroes = true,
    ),
    OptionRow::HELP,
];

impl OslatSettings {
    /// Reads the options in the order they were given.
    ///
    /// # Errors
    /// Returns an error for invalid values.
    pub(super) fn read(parsed: &Parsed, machine: &Machine) -> Result<Self, CompatError> {
        let mut settings = Self {
            common: Common {
                duration_s: 1,
                ..Common::default()
            },
            width_ns: 1_000,
            cpus: machine.allowed.clone(),
            memory: 16 << 10,
            ..Self::default()
        };
        parsed.read_into(&mut settings, OPTIONS, machine)?;
        if settings.buckets == 0 {
            // If the buckets are narrow, more of them are needed to cover the same range.
            settings.buckets = if settings.precise() && settings.width_ns < 1_000 {
                (32_000 / settings.width_ns) as usize
            } else {
                32
            };
        }
        Ok(settings)
    }

    /// Returns whether figures are shown in ns.
    pub(super) fn precise(&self) -> bool {
        !self.width_ns.is_multiple_of(1_000)
    }
}

fn main_cpu(given: &Given, machine: &Machine) -> Result<u32, CompatError> {
    let present = &machine.present;
    let cpu = u32::try_from(given.whole()?).ok();
    cpu.filter(|cpu| present.contains(*cpu))
        .ok_or_else(|| given.bad(&format!("an existing CPU (present: {present})")))
}

/// Parses `4K`, `1M`, `2G` or a number of bytes, up to the size that the probe can copy.
fn memory(given: &Given) -> Result<u64, CompatError> {
    let text = given.text();
    let (number, unit) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 10),
        Some('m' | 'M') => (&text[..text.len() - 1], 20),
        Some('g' | 'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = number.parse::<u64>().ok();
    let bytes = bytes.and_then(|number| number.checked_mul(1 << unit));
    bytes
        .filter(|bytes| (1..=1 << 26).contains(bytes))
        .ok_or_else(|| given.bad("a size up to 64M: 4096, 16K, 1M"))
}
