//! Performance counters: opened here on each CPU, and read by the BPF programs when a watched thread
//! gets and loses a CPU, and at the boundaries of its work. The programs sum them for each thread.
//!
//! Counters of a CPU, unlike those of a thread, add no work to the kernel's switches of threads.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use punctual_model::Counter;
use punctual_rt::{PerfEvent, missing_counters, open_cpu_counter};

/// The kernel's events behind the counters, in the order of [`Counter::ALL`].
#[derive(Clone, Copy, Debug)]
pub struct CounterEvents([PerfEvent; Counter::ALL.len()]);

impl CounterEvents {
    /// The counters of the processor.
    pub const HARDWARE: Self = Self([
        PerfEvent::CYCLES,
        PerfEvent::INSTRUCTIONS,
        PerfEvent::CACHE_MISSES,
    ]);

    /// Counters of the kernel, which exist on every machine, in place of those of the processor.
    /// They show that the way from the kernel to a job works.
    pub const SOFTWARE: Self = Self([
        PerfEvent::CPU_CLOCK,
        PerfEvent::PAGE_FAULTS,
        PerfEvent::CONTEXT_SWITCHES,
    ]);
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
                match open_cpu_counter(event, *cpu) {
                    Ok(file) => opened.push((counter, *cpu, file)),
                    Err(error) => first = first.or(Some(error)),
                }
            }
        }
        match first {
            Some(error) if opened.is_empty() => Err(missing_counters(&error)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_counters_have_a_reason() {
        // The kernel has no event of this type.
        let none = PerfEvent {
            kind: u32::MAX,
            config: 0,
        };
        let why = Counters::open(CounterEvents([none; 3]), &[0]).unwrap_err();
        assert!(why.contains("perf_event_open: "), "{why}");
    }
}
