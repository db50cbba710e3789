//! Context switches of single threads, read through perf_event_open(2). For the threads of the same
//! user, this needs no privilege if perf_event_paranoid is at most 2.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::Nanos;

/// A context switch of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadSwitch {
    /// The thread begins to run.
    In {
        /// Time on CLOCK_MONOTONIC.
        at: Nanos,
        /// The CPU.
        cpu: u32,
    },
    /// The thread leaves its CPU.
    Out {
        /// Time on CLOCK_MONOTONIC.
        at: Nanos,
        /// Whether it is still runnable; otherwise it sleeps.
        preempted: bool,
    },
    /// This number of records was lost here.
    Lost(u64),
}

impl ThreadSwitch {
    /// Returns the time; `None` for lost records.
    pub const fn at(self) -> Option<Nanos> {
        match self {
            Self::In { at, .. } | Self::Out { at, .. } => Some(at),
            Self::Lost(_) => None,
        }
    }
}

/// Counts of the scheduler for a thread (/proc/PID/schedstat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerCounts {
    /// Total time of the waits for a CPU.
    pub waited: Nanos,
    /// How often it began to run.
    pub times: u64,
}

/// `struct perf_event_attr` up to `clockid` (PERF_ATTR_SIZE_VER3).
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
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
}

const _: () = assert!(size_of::<Attributes>() == 96);

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_DUMMY: u64 = 9;
/// PERF_SAMPLE_TID, PERF_SAMPLE_TIME and PERF_SAMPLE_CPU.
const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 7;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;

const RECORD_LOST: u32 = 2;
const RECORD_SWITCH: u32 = 14;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// Pages of records: 1,024 switches, if a page has 4 KiB.
const PAGES: usize = 8;
/// Positions of `data_head` and `data_tail` in `struct perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// The switches of one thread.
#[derive(Debug)]
pub struct ThreadSwitches {
    ring: Ring,
    counts: Option<File>,
    call: Option<File>,
}

impl ThreadSwitches {
    /// Begins to record the switches of a thread. `root`: root path of /proc.
    ///
    /// # Errors
    /// Returns the errors of perf_event_open(2) and mmap(2).
    pub fn open(root: &Path, tid: u32) -> io::Result<Self> {
        let attributes = Attributes {
            kind: PERF_TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: PERF_COUNT_SW_DUMMY,
            sample_type: SAMPLE_TYPE,
            flags: EXCLUDE_KERNEL | EXCLUDE_HV | SAMPLE_ID_ALL | USE_CLOCKID | CONTEXT_SWITCH,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        let ring = Ring::new(open(&attributes, tid)?)?;
        let file = |name: &str| File::open(root.join(format!("proc/{tid}/{name}"))).ok();
        Ok(Self {
            ring,
            counts: file("schedstat"),
            call: file("syscall"),
        })
    }

    /// Returns the scheduler's counts; `None` if the kernel does not count, or if the thread has
    /// ended.
    pub fn counts(&self) -> Option<SchedulerCounts> {
        counts_of(&text(self.counts.as_ref()?)?)
    }

    /// Returns the number of the current system call of the thread. `None` between calls, and without
    /// the right to read it.
    pub fn call(&self) -> Option<i64> {
        let text = text(self.call.as_ref()?)?;
        let call = text.split_whitespace().next()?.parse().ok()?;
        (call >= 0).then_some(call)
    }

    /// Returns the switches since the last call, in order.
    pub fn read(&mut self) -> Vec<ThreadSwitch> {
        switches_of(&self.ring.take())
    }
}

/// Returns the first line of a file of /proc.
fn text(file: &File) -> Option<String> {
    let mut bytes = [0; 256];
    let length = file.read_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(bytes.get(..length)?).ok()?;
    text.lines().next().map(str::to_owned)
}

fn counts_of(text: &str) -> Option<SchedulerCounts> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let (_ran, waited, times) = (
        numbers.next()?,
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
    );
    // A kernel without CONFIG_SCHED_INFO has zeros, but the thread has run.
    (times > 0).then_some(SchedulerCounts {
        waited: Nanos(waited),
        times,
    })
}

fn open(attributes: &Attributes, tid: u32) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    const ANY_CPU: libc::c_int = -1;
    const NO_GROUP: RawFd = -1;
    let pid = libc::pid_t::try_from(tid).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the kernel reads `size` bytes from the pointer, which is the size of the struct.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            pid,
            ANY_CPU,
            NO_GROUP,
            CLOSE_ON_EXEC,
        )
    };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened as RawFd) })
}

/// The memory that the kernel writes records to. Dropping this value unmaps it.
#[derive(Debug)]
struct Ring {
    _event: OwnedFd,
    first: NonNull<u8>,
    page: usize,
}

// SAFETY: the memory belongs to this value alone, and may be used from any thread.
unsafe impl Send for Ring {}

impl Ring {
    fn new(event: OwnedFd) -> io::Result<Self> {
        let page = rustix::param::page_size();
        // SAFETY: this creates a new mapping at an address that the kernel chooses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                (1 + PAGES) * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(at.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self {
            _event: event,
            first,
            page,
        })
    }

    /// Returns a word of the first page.
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both words are in the first page, which is mapped as long as this value exists, and
        // are aligned. The kernel and this program access them only atomically.
        unsafe { self.first.add(at).cast::<AtomicU64>().as_ref() }
    }

    /// Returns the bytes that the kernel has written since the last call.
    fn take(&mut self) -> Vec<u8> {
        let size = PAGES * self.page;
        // Orders the reads of the records after the read of the head.
        let head = self.word(HEAD).load(Ordering::Acquire);
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length.min(size)];
        for (at, byte) in (tail..).zip(&mut bytes) {
            let place = self.page + (at % size as u64) as usize;
            // SAFETY: `place` is within the mapped pages. The kernel does not write between tail and
            // head.
            *byte = unsafe { self.first.add(place).read_volatile() };
        }
        // From here on, the kernel may overwrite the records.
        self.word(TAIL).store(head, Ordering::Release);
        bytes
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: `new` mapped this address with this length, and no reference into it exists.
        unsafe { libc::munmap(self.first.as_ptr().cast(), (1 + PAGES) * self.page) };
    }
}

/// Decodes records. Ends at one that is incomplete.
fn switches_of(mut bytes: &[u8]) -> Vec<ThreadSwitch> {
    let mut switches = Vec::new();
    while let Some((header, _)) = bytes.split_first_chunk::<8>() {
        let [k0, k1, k2, k3, m0, m1, s0, s1] = *header;
        let size = usize::from(u16::from_ne_bytes([s0, s1]));
        let Some((record, rest)) = bytes.split_at_checked(size.max(8)) else {
            break;
        };
        let misc = u16::from_ne_bytes([m0, m1]);
        switches.extend(switch(
            u32::from_ne_bytes([k0, k1, k2, k3]),
            misc,
            &record[8..],
        ));
        bytes = rest;
    }
    switches
}

fn switch(kind: u32, misc: u16, body: &[u8]) -> Option<ThreadSwitch> {
    let word = |place: usize| {
        let bytes = body.get(place * 8..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    };
    match kind {
        RECORD_LOST => word(1).map(ThreadSwitch::Lost),
        // The thread, the time and the CPU of `sample_id`.
        RECORD_SWITCH => {
            let at = Nanos(word(1)?);
            Some(if misc & MISC_SWITCH_OUT == 0 {
                let cpu = body.get(16..)?.first_chunk()?;
                let cpu = u32::from_ne_bytes(*cpu);
                ThreadSwitch::In { at, cpu }
            } else {
                let preempted = misc & MISC_SWITCH_OUT_PREEMPT != 0;
                ThreadSwitch::Out { at, preempted }
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let size = 8 + 8 * words.len() as u16;
        let header = [
            &kind.to_ne_bytes()[..],
            &misc.to_ne_bytes(),
            &size.to_ne_bytes(),
        ]
        .concat();
        let words = words.iter().flat_map(|word| word.to_ne_bytes());
        header.into_iter().chain(words).collect()
    }

    #[test]
    fn records_become_switches() {
        let bytes = [
            record(RECORD_SWITCH, 0, &[7, 100, 3]),
            record(
                RECORD_SWITCH,
                MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT,
                &[7, 200, 3],
            ),
            record(99, 0, &[1]),
            record(RECORD_LOST, 0, &[1, 5, 7, 300, 3]),
            record(RECORD_SWITCH, MISC_SWITCH_OUT, &[7, 400, 3]),
            record(RECORD_SWITCH, 0, &[7, 500, 3])[..12].to_vec(),
        ];
        let (at, cpu) = (Nanos(100), 3);
        let out = |at, preempted| ThreadSwitch::Out {
            at: Nanos(at),
            preempted,
        };
        let expected = [
            ThreadSwitch::In { at, cpu },
            out(200, true),
            ThreadSwitch::Lost(5),
            out(400, false),
        ];
        assert_eq!(switches_of(&bytes.concat()), expected);
        assert_eq!(ThreadSwitch::Lost(5).at(), None);
    }

    proptest! {
        #[test]
        fn no_content_makes_the_reader_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            switches_of(&bytes);
        }
    }

    #[test]
    fn absent_counts_are_unknown() {
        let counts = SchedulerCounts {
            waited: Nanos(32),
            times: 78,
        };
        assert_eq!(counts_of("45814067 32 78\n"), Some(counts));
        for text in ["0 0 0", "", "1 2", "1 2 x"] {
            assert_eq!(counts_of(text), None, "{text}");
        }
    }

    #[test]
    fn sleeps_of_a_thread_are_recorded() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            while ended.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let tid = told.recv().unwrap().as_raw_nonzero().get() as u32;
        let opened = ThreadSwitches::open(Path::new("/"), tid);
        let mut seen = Vec::new();
        if let Ok(mut switches) = opened {
            let before = switches.counts().map(|counts| counts.times);
            let start = Instant::now();
            while seen.len() < 6 && start.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(5));
                seen.extend(switches.read());
            }
            assert!(seen.len() >= 6, "{seen:?}");
            assert!(switches.counts().map(|counts| counts.times) > before);
            assert!(seen.is_sorted_by_key(|one| one.at()), "{seen:?}");
        } else {
            punctual_testing::skip_refused("perf_event_open", opened.unwrap_err());
        }
        drop(end);
        sleeper.join().unwrap();
    }
}
