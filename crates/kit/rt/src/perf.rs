//! Performance counters of the processor and of the kernel (perf_event_open(2)).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// An event that the kernel counts: `type` and `config` of `struct perf_event_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfEvent {
    /// The type.
    pub kind: u32,
    /// The event of this type.
    pub config: u64,
}

impl PerfEvent {
    /// Cycles during which the processor was not halted.
    pub const CYCLES: Self = Self::hardware(0);
    /// Completed instructions.
    pub const INSTRUCTIONS: Self = Self::hardware(1);
    /// Misses in the last level of cache.
    pub const CACHE_MISSES: Self = Self::hardware(3);
    /// Time on a CPU, in ns.
    pub const CPU_CLOCK: Self = Self::software(0);
    /// Page faults.
    pub const PAGE_FAULTS: Self = Self::software(2);
    /// Context switches.
    pub const CONTEXT_SWITCHES: Self = Self::software(3);

    /// An event of PERF_TYPE_HARDWARE, which the processor counts.
    const fn hardware(config: u64) -> Self {
        Self { kind: 0, config }
    }

    /// An event of PERF_TYPE_SOFTWARE, which every kernel with CONFIG_PERF_EVENTS counts.
    const fn software(config: u64) -> Self {
        Self { kind: 1, config }
    }
}

/// The first version of `struct perf_event_attr` (PERF_ATTR_SIZE_VER0), which every kernel accepts.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_and_breakpoint: u64,
    config1: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64);

const FORMAT_TIME_ENABLED: u64 = 1;
const FORMAT_TIME_RUNNING: u64 = 2;
const FORMAT_GROUP: u64 = 8;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;

/// The threads that a counter covers: all threads of a CPU, or the calling thread in a group of
/// counters.
#[derive(Clone, Copy)]
enum Counted {
    Cpu(u32),
    Thread { leader: RawFd, flags: u64 },
}

fn open(event: PerfEvent, counted: Counted) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    const NONE: RawFd = -1;
    let (pid, cpu, leader, flags, read_format) = match counted {
        Counted::Cpu(cpu) => (-1, cpu as libc::c_int, NONE, 0, 0),
        Counted::Thread { leader, flags } => {
            let format = FORMAT_TIME_ENABLED | FORMAT_TIME_RUNNING | FORMAT_GROUP;
            (0, -1, leader, flags, format)
        }
    };
    let attributes = Attributes {
        kind: event.kind,
        size: size_of::<Attributes>() as u32,
        config: event.config,
        read_format,
        flags,
        ..Attributes::default()
    };
    // SAFETY: the kernel reads `size` bytes from the pointer, which is the size of the struct.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            pid,
            cpu,
            leader,
            CLOSE_ON_EXEC,
        )
    };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened as RawFd) })
}

/// Opens a counter for all threads of a CPU, in user space and in the kernel.
///
/// # Errors
/// Returns the errors of perf_event_open(2); [`missing_counters`] explains them.
pub fn open_cpu_counter(event: PerfEvent, cpu: u32) -> io::Result<OwnedFd> {
    open(event, Counted::Cpu(cpu))
}

/// Returns the reason for missing counters: `the processor has none that this kernel can use, ...`.
pub fn missing_counters(error: &io::Error) -> String {
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

/// Number of values before the counts of a group: the number of counts, and the two times.
const HEAD: usize = 3;

/// Maximum number of events of a group.
const MOST: usize = 5;

/// Counters of the calling thread that one system call reads together. Either all of them count or
/// none, so that their values belong to the same time.
#[derive(Debug)]
pub struct ThreadCounters<const N: usize> {
    leader: OwnedFd,
    /// Keeps the other counters of the group open.
    _others: Vec<OwnedFd>,
    /// The place of each event in the group; `None` if it is not counted.
    places: [Option<usize>; N],
    user_only: bool,
    refusal: Option<io::Error>,
}

/// The values of [`ThreadCounters`] at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterValues<const N: usize> {
    /// The counts, in the order of the events; `None` for an event that is not counted.
    pub counts: [Option<u64>; N],
    /// How long the thread has run since the counters were opened.
    pub enabled: Duration,
    /// How long they counted. Less than `enabled` if several users share the processor's counters.
    pub running: Duration,
}

impl<const N: usize> ThreadCounters<N> {
    /// Opens counters for the calling thread, in user space and in the kernel. If the process may
    /// count only user space (perf_event_paranoid is 2), they do not count in the kernel; see
    /// [`is_user_only`](Self::is_user_only). Events that cannot be counted are left out.
    ///
    /// # Errors
    /// Returns the error for the first event if none can be counted; [`missing_counters`] explains
    /// it.
    pub fn open(events: [PerfEvent; N]) -> io::Result<Self> {
        const { assert!(N > 0 && N <= MOST) };
        match Self::open_group(events, 0) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Self::open_group(events, EXCLUDE_KERNEL | EXCLUDE_HV)
            }
            opened => opened,
        }
    }

    fn open_group(events: [PerfEvent; N], flags: u64) -> io::Result<Self> {
        let mut files: Vec<OwnedFd> = Vec::with_capacity(N);
        let mut places = [None; N];
        let mut first = None;
        for (event, place) in events.into_iter().zip(&mut places) {
            let leader = files.first().map_or(-1, AsRawFd::as_raw_fd);
            match open(event, Counted::Thread { leader, flags }) {
                Ok(file) => {
                    *place = Some(files.len());
                    files.push(file);
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        let mut files = files.into_iter();
        match (files.next(), first) {
            (Some(leader), first) => Ok(Self {
                leader,
                _others: files.collect(),
                places,
                user_only: flags != 0,
                refusal: first,
            }),
            (None, Some(error)) => Err(error),
            (None, None) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Returns whether the counters do not count in the kernel, because that was refused.
    pub fn is_user_only(&self) -> bool {
        self.user_only
    }

    /// Returns the error for the first event that is not counted; `None` if all are counted.
    pub fn refusal(&self) -> Option<&io::Error> {
        self.refusal.as_ref()
    }

    /// Reads all counters with one system call. Returns `None` if they cannot be read.
    #[inline]
    pub fn read(&self) -> Option<CounterValues<N>> {
        let mut words = [0_u64; HEAD + MOST];
        // SAFETY: the kernel writes at most as many bytes as the array has.
        let bytes = unsafe {
            libc::read(
                self.leader.as_raw_fd(),
                words.as_mut_ptr().cast(),
                size_of_val(&words),
            )
        };
        let read = usize::try_from(bytes).ok()? / size_of::<u64>();
        let [_, enabled, running, ..] = words;
        (read >= HEAD).then(|| CounterValues {
            counts: self.places.map(|place| {
                let at = HEAD + place?;
                words[..read].get(at).copied()
            }),
            enabled: Duration::from_nanos(enabled),
            running: Duration::from_nanos(running),
        })
    }
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
        for error in [
            ThreadCounters::open([none]).unwrap_err(),
            open_cpu_counter(none, 0).unwrap_err(),
        ] {
            let why = missing_counters(&error);
            assert!(why.contains("perf_event_open: "), "{why}");
        }
        let why = missing_counters(&io::Error::from_raw_os_error(libc::ENOENT));
        assert!(why.starts_with("the processor has none"), "{why}");
        let why = missing_counters(&io::Error::from_raw_os_error(libc::EACCES));
        assert!(why.contains("CAP_PERFMON"), "{why}");
    }

    #[test]
    fn group_counts_the_calling_thread() {
        let absent = PerfEvent {
            kind: u32::MAX,
            config: 0,
        };
        let events = [absent, PerfEvent::CPU_CLOCK, PerfEvent::CONTEXT_SWITCHES];
        let counters = match ThreadCounters::open(events) {
            Ok(counters) => counters,
            Err(error) => return punctual_testing::skip_refused("perf_event_open", &error),
        };
        assert!(counters.refusal().is_some());
        let before = counters.read().unwrap();
        crate::spin_for(Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(1));
        let after = counters.read().unwrap();
        assert_eq!(after.counts[0], None);
        assert!(after.counts[1] > before.counts[1], "{before:?} {after:?}");
        assert!(after.counts[2].is_some(), "{after:?}");
        assert!(after.running > before.running, "{before:?} {after:?}");
        assert_eq!(after.enabled, after.running);
        assert_eq!(before.enabled, before.running);
    }
}
