//! Performance counters: opened here on each CPU, and read by the BPF programs when a watched thread
//! gets and loses a CPU, and at the boundaries of its work. The programs sum them for each thread.
//!
//! Counters of a CPU, unlike those of a thread, add no work to the kernel's switches of threads.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use punctual_model::Counter;

/// The kernel's events behind the counters, in the order of [`Counter::ALL`]: type and config of
/// `struct perf_event_attr`.
#[derive(Clone, Copy, Debug)]
pub struct CounterEvents([(u32, u64); Counter::ALL.len()]);

impl CounterEvents {
    /// The counters of the processor: PERF_TYPE_HARDWARE with PERF_COUNT_HW_CPU_CYCLES, _INSTRUCTIONS
    /// and _CACHE_MISSES.
    pub const HARDWARE: Self = Self([(0, 0), (0, 1), (0, 3)]);

    /// Counters of the kernel, which exist on every machine, in place of those of the processor:
    /// PERF_TYPE_SOFTWARE with PERF_COUNT_SW_CPU_CLOCK, _PAGE_FAULTS and _CONTEXT_SWITCHES. They show
    /// that the way from the kernel to a job works.
    pub const SOFTWARE: Self = Self([(1, 0), (1, 2), (1, 3)]);
}

/// The open counters. Dropping this value closes them.
#[derive(Debug)]
pub(super) struct Counters(Vec<(Counter, u32, OwnedFd)>);

impl Counters {
    /// Opens the counters of these CPUs.
    ///
    /// # Errors
    /// Returns the reason if there is none of them.
    pub(super) fn open(events: CounterEvents, cpus: &[u32]) -> Result<Self, String> {
        let (mut opened, mut first) = (Vec::new(), None);
        for (counter, event) in Counter::ALL.into_iter().zip(events.0) {
            for cpu in cpus {
                match open(event, *cpu) {
                    Ok(file) => opened.push((counter, *cpu, file)),
                    Err(error) => first = first.or(Some(error)),
                }
            }
        }
        match first {
            Some(error) if opened.is_empty() => Err(reason(&error)),
            _ => Ok(Self(opened)),
        }
    }

    /// Returns the open counters, each with its CPU.
    pub(super) fn each(&self) -> impl Iterator<Item = (Counter, u32, BorrowedFd<'_>)> {
        use std::os::fd::AsFd as _;
        let all = self.0.iter();
        all.map(|(counter, cpu, file)| (*counter, *cpu, file.as_fd()))
    }
}

/// Calls perf_event_open(2) for all threads of a CPU.
fn open((kind, config): (u32, u64), cpu: u32) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    // The first version of struct perf_event_attr: type and size, config, and zeros.
    #[repr(C)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        zeros: [u64; 6],
    }
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        zeros: [0; 6],
    };
    // SAFETY: the kernel reads `size` bytes from the pointer, which is the size of the struct.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1,
            cpu,
            -1,
            CLOSE_ON_EXEC,
        )
    };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened as i32) })
}

/// Sets the counter of a CPU in a map, which the loader cannot do.
///
/// # Errors
/// Returns the errors of bpf(2).
pub(super) fn set(map: BorrowedFd<'_>, cpu: u32, counter: BorrowedFd<'_>) -> io::Result<()> {
    const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
    #[repr(C)]
    struct Element {
        map: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let value = counter.as_raw_fd();
    let element = Element {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: (&raw const cpu) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    // SAFETY: the kernel reads `size_of::<Element>()` bytes of the struct, and four bytes each of
    // the key and the value, which live until the call returns.
    let done = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_UPDATE_ELEM,
            &raw const element,
            size_of::<Element>(),
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns the reason for missing counters.
fn reason(error: &io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "the processor has none that this kernel can use, as in most virtual machines"
        }
        Some(libc::EACCES | libc::EPERM) => {
            "their use needs CAP_PERFMON (/proc/sys/kernel/perf_event_paranoid)"
        }
        Some(libc::ENOSYS) => "the kernel was built without them (CONFIG_PERF_EVENTS)",
        _ => return format!("perf_event_open: {error}"),
    };
    format!("{why} (perf_event_open: {error})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_counters_have_a_reason() {
        // The kernel has no event of this type.
        let none = CounterEvents([(u32::MAX, 0); 3]);
        let why = Counters::open(none, &[0]).unwrap_err();
        assert!(why.contains("perf_event_open: "), "{why}");
        let why = reason(&io::Error::from_raw_os_error(libc::ENOENT));
        assert!(why.starts_with("the processor has none"), "{why}");
        let why = reason(&io::Error::from_raw_os_error(libc::EACCES));
        assert!(why.contains("CAP_PERFMON"), "{why}");
    }
}
