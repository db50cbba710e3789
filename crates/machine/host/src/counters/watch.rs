//! Reads a few counters of one CPU frequently, to find the causes of gaps in a spinning thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use punctual_model::Nanos;

use super::{SMI_COUNT, TICK_NS};
use crate::root::Root;

/// Values of the counters of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCounts {
    /// Interrupts of all kinds, including NMIs (`/proc/interrupts`). `None` if the file or the
    /// CPU's column is missing.
    pub interrupts: Option<u64>,
    /// Steal time, with a resolution of one clock tick (`/proc/stat`).
    pub steal: Option<Nanos>,
    /// System management interrupts (MSR 0x34 of Intel processors, read through `/dev/cpu/N/msr`,
    /// which only root can read).
    pub smis: Option<u64>,
}

/// Reads the counters of one CPU repeatedly. The files stay open, and no memory is allocated after
/// the first read.
///
/// Use this in a thread that runs on that CPU, because reading the register of another CPU
/// interrupts that CPU.
#[derive(Debug)]
pub struct CpuWatch {
    cpu: u32,
    interrupts: Option<File>,
    stat: Option<File>,
    msr: Option<File>,
    buffer: Vec<u8>,
}

impl CpuWatch {
    pub(crate) fn open(root: &Root, vendor: Option<&str>, cpu: u32) -> Self {
        let intel = vendor == Some("GenuineIntel");
        let msr = format!("/dev/cpu/{cpu}/msr");
        Self {
            cpu,
            interrupts: root.open("/proc/interrupts").ok(),
            stat: root.open("/proc/stat").ok(),
            msr: intel.then(|| root.open(&msr).ok()).flatten(),
            buffer: Vec::new(),
        }
    }

    /// Reads the counters. Those that cannot be read are `None`.
    pub fn read(&mut self) -> CpuCounts {
        let Self {
            cpu,
            interrupts,
            stat,
            msr,
            buffer,
        } = self;
        let cpu = *cpu;
        // The register is read first, because reading the other two files takes longer.
        let smis = msr.as_ref().and_then(smi_count);
        let steal = stat
            .as_ref()
            .and_then(|file| steal_of(whole(file, buffer).ok()?, cpu));
        let interrupts = interrupts
            .as_ref()
            .and_then(|file| interrupts_of(whole(file, buffer).ok()?, cpu));
        CpuCounts {
            interrupts,
            steal,
            smis,
        }
    }
}

/// Reads the steal time of all CPUs repeatedly. The file stays open, and no memory is allocated
/// after the first read.
#[derive(Debug)]
pub struct StealWatch {
    stat: File,
    buffer: Vec<u8>,
}

impl StealWatch {
    /// Resolution of the steal time.
    pub const STEP: Nanos = Nanos(TICK_NS);

    /// # Errors
    /// Returns an error if `/proc/stat` cannot be opened.
    pub(crate) fn open(root: &Root) -> io::Result<Self> {
        Ok(Self {
            stat: root.open("/proc/stat")?,
            buffer: Vec::new(),
        })
    }

    /// Calls `take` with each online CPU and its steal time since boot.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn read(&mut self, mut take: impl FnMut(u32, Nanos)) -> io::Result<()> {
        for line in whole(&self.stat, &mut self.buffer)?.split(|&byte| byte == b'\n') {
            let cpu = line
                .strip_prefix(b"cpu")
                .and_then(|rest| words(rest).next());
            let cpu = cpu.filter(|_| line.get(3).is_some_and(u8::is_ascii_digit));
            let cpu = cpu.and_then(number).and_then(|cpu| u32::try_from(cpu).ok());
            let ticks = words(line).nth(STEAL).and_then(number);
            if let (Some(cpu), Some(ticks)) = (cpu, ticks) {
                take(cpu, Nanos(ticks.saturating_mul(TICK_NS)));
            }
        }
        Ok(())
    }
}

/// Reads the count of system management interrupts of one CPU from that CPU's register.
#[derive(Debug)]
pub struct SmiWatch(File);

impl SmiWatch {
    /// Returns `None` if the CPU has no such register or the register cannot be read.
    pub(crate) fn open(root: &Root, vendor: Option<&str>, cpu: u32) -> Option<Self> {
        let intel = vendor == Some("GenuineIntel");
        let file = root.open(&format!("/dev/cpu/{cpu}/msr"));
        let watch = Self(file.ok().filter(|_| intel)?);
        watch.read().is_some().then_some(watch)
    }

    /// Returns the count, which has 32 bits, or `None` if it can no longer be read. Reading the
    /// register interrupts that CPU, unless the caller runs on it.
    pub fn read(&self) -> Option<u64> {
        smi_count(&self.0)
    }
}

fn smi_count(file: &File) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, SMI_COUNT).ok()?;
    // The upper 32 bits are reserved.
    Some(u64::from_le_bytes(bytes) & u64::from(u32::MAX))
}

/// Index of the steal time among the words of a line, proc_stat(5).
const STEAL: usize = 8;

/// Reads the whole file from its beginning.
fn whole<'a>(file: &File, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
    const FIRST: usize = 16 * 1024;
    const LIMIT: usize = 16 << 20;
    if buffer.is_empty() {
        buffer.resize(FIRST, 0);
    }
    let mut length = 0;
    loop {
        match file.read_at(&mut buffer[length..], length as u64) {
            Ok(0) => return Ok(&buffer[..length]),
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if length == buffer.len() {
            if length >= LIMIT {
                return Ok(&buffer[..length]);
            }
            buffer.resize(2 * length, 0);
        }
    }
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// Parses a number. Returns `None` if the word contains anything else.
fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, &byte| {
        let digit = byte.is_ascii_digit().then_some(byte - b'0')?;
        sum.checked_mul(10)?.checked_add(digit.into())
    })
}

/// Returns the sum of the CPU's column. Skips rows that are not per CPU (`ERR`, `MIS`): they have
/// only one number, which does not belong to the CPU of the first column.
fn interrupts_of(text: &[u8], cpu: u32) -> Option<u64> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let header = lines.next()?;
    let columns = words(header).count();
    let column = words(header)
        .position(|word| word.strip_prefix(b"CPU").and_then(number) == Some(cpu.into()))?;
    let mut sum = 0_u64;
    for line in lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let (id, counts) = (line[..colon].trim_ascii(), &line[colon + 1..]);
        if [&b"ERR"[..], b"MIS", b"Err"].contains(&id) {
            continue;
        }
        let whole = words(counts).take(columns).filter_map(number).count() == columns;
        if whole && let Some(count) = words(counts).nth(column).and_then(number) {
            sum = sum.saturating_add(count);
        }
    }
    Some(sum)
}

/// Returns the steal time of a CPU, which is the eighth number of its `cpuN` line (proc_stat(5)).
fn steal_of(text: &[u8], cpu: u32) -> Option<Nanos> {
    let ticks = text
        .split(|&byte| byte == b'\n')
        .map_while(|line| Some((line.strip_prefix(b"cpu")?, line)))
        .find(|(rest, _)| {
            words(rest).next().and_then(number) == Some(cpu.into())
            // "cpu  402 …" contains the sums of all CPUs, so its first word has no CPU number.
            && rest.first().is_some_and(u8::is_ascii_digit)
        })
        .and_then(|(_, line)| words(line).nth(STEAL).and_then(number))?;
    Some(Nanos(ticks.saturating_mul(TICK_NS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTERRUPTS: &[u8] = b"           CPU0       CPU2       \n\
        \x20 4:          1         20  IO-APIC   5-edge      ACPI:Ged\n\
        NMI:          3          4   Non-maskable interrupts\n\
        LOC:        100        200   Local timer interrupts\n\
        ERR:          9\nMIS:          8\n";

    #[test]
    fn cpu_column_is_found_by_name() {
        assert_eq!(interrupts_of(INTERRUPTS, 0), Some(104));
        assert_eq!(interrupts_of(INTERRUPTS, 2), Some(224));
        assert_eq!(interrupts_of(INTERRUPTS, 1), None);
        assert_eq!(interrupts_of(b"", 0), None);
    }

    #[test]
    fn single_cpu_does_not_own_errors() {
        let text = b"  CPU0\n 1: 5 timer\nERR: 7\nMIS: 7\n";
        assert_eq!(interrupts_of(text, 0), Some(5));
    }

    #[test]
    fn steal_is_per_cpu_not_summed() {
        let text = b"cpu  1 9 9 9 9 9 9 99 9 9\ncpu0 1 2 3 4 5 6 7 402 0 0\ncpu1 1 2 3\nintr 5\n";
        assert_eq!(steal_of(text, 0), Some(Nanos(402 * TICK_NS)));
        assert_eq!(steal_of(text, 1), None);
        assert_eq!(steal_of(text, 9), None);
    }

    #[test]
    fn each_cpus_steal_time_is_read() {
        let text = "cpu  1 9 9 9 9 9 9 99 9 9\ncpu0 1 2 3 4 5 6 7 402 0 0\ncpu1 1 2 3\n\
                    cpu12 1 2 3 4 5 6 7 8\nintr 5\n";
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        std::fs::write(folder.path().join("proc/stat"), text).unwrap();
        let host = crate::Host::new(folder.path());
        let mut found = Vec::new();
        let mut watch = host.watch_steal().unwrap();
        watch
            .read(|cpu, steal| found.push((cpu, steal.0 / TICK_NS)))
            .unwrap();
        assert_eq!(found, [(0, 402), (12, 8)]);
    }

    #[test]
    fn this_machine_counts_on() {
        let host = crate::Host::live();
        let cpu = host.allowed().unwrap().first().unwrap();
        let mut watch = host.watch(cpu);
        let first = watch.read();
        // At the latest, a timer interrupt on this or another CPU ends the sleep. No counter
        // decreases.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = watch.read();
        assert!(second.interrupts >= first.interrupts);
        assert!(second.steal >= first.steal);
        assert_eq!(first.interrupts.is_some(), second.interrupts.is_some());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(cpu[0-9]{0,3}|CPU0|[A-Z]{3}:|[ 0-9\n]){0,40}", cpu in 0_u32..3) {
            let _ = interrupts_of(text.as_bytes(), cpu);
            let _ = steal_of(text.as_bytes(), cpu);
        }
    }
}
