//! Context switches of single threads, read through perf_event_open(2). For the threads of the same
//! user, this needs no privilege if perf_event_paranoid is at most 2.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

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

/// Types and flags of records (perf_event_open(2)).
const RECORD_LOST: u32 = 2;
const RECORD_SWITCH: u32 = 14;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// Bytes of the ring of records: 1,024 switches.
const RING: usize = 32 << 10;

/// The switches of one thread.
pub struct ThreadSwitches {
    ring: ring::Ring,
    counts: Option<File>,
    call: Option<File>,
}

impl fmt::Debug for ThreadSwitches {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ThreadSwitches").finish_non_exhaustive()
    }
}

impl ThreadSwitches {
    /// Begins to record the switches of a thread. `root`: root path of /proc.
    ///
    /// # Errors
    /// Returns the errors of perf_event_open(2) and mmap(2).
    pub fn open(root: &Path, tid: u32) -> io::Result<Self> {
        let ring = ring::open(tid)?;
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
        ring::read(&mut self.ring)
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

#[cfg(not(target_arch = "arm"))]
mod ring {
    use std::io;

    pub(super) use perf_event::Sampler as Ring;
    use perf_event::events::Software;
    use perf_event::{Builder, Clock, SampleFlag};

    use super::{RING, ThreadSwitch, switch};

    pub(super) fn open(tid: u32) -> io::Result<Ring> {
        let tid = libc::pid_t::try_from(tid).map_err(|_| io::ErrorKind::InvalidInput)?;
        Builder::new(Software::DUMMY)
            .observe_pid(tid)
            .any_cpu()
            .context_switch(true)
            .sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::CPU)
            .sample_id_all(true)
            .clockid(Clock::MONOTONIC)
            .enabled(true)
            .build()?
            .sampled(RING)
    }

    pub(super) fn read(ring: &mut Ring) -> Vec<ThreadSwitch> {
        let mut switches = Vec::new();
        while let Some(record) = ring.next_record() {
            switches.extend(switch(record.ty(), record.misc(), &record.to_contiguous()));
        }
        switches
    }
}

/// The library does not support 32-bit Arm.
#[cfg(target_arch = "arm")]
mod ring {
    use std::io;

    use super::ThreadSwitch;

    pub(super) enum Ring {}

    pub(super) fn open(_tid: u32) -> io::Result<Ring> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn read(ring: &mut Ring) -> Vec<ThreadSwitch> {
        match *ring {}
    }
}

/// Decodes the body of a record. Returns `None` for other records, and for one that is too short.
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

    fn record(kind: u32, misc: u16, words: &[u64]) -> Option<ThreadSwitch> {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        switch(kind, misc, &body)
    }

    #[test]
    fn records_become_switches() {
        let out = |at, preempted| {
            let at = Nanos(at);
            Some(ThreadSwitch::Out { at, preempted })
        };
        let (at, cpu) = (Nanos(100), 3);
        assert_eq!(
            record(RECORD_SWITCH, 0, &[7, 100, 3]),
            Some(ThreadSwitch::In { at, cpu })
        );
        let preempted = MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT;
        assert_eq!(
            record(RECORD_SWITCH, preempted, &[7, 200, 3]),
            out(200, true)
        );
        assert_eq!(
            record(RECORD_SWITCH, MISC_SWITCH_OUT, &[7, 400, 3]),
            out(400, false)
        );
        let lost = ThreadSwitch::Lost(5);
        assert_eq!(record(RECORD_LOST, 0, &[1, 5, 7, 300, 3]), Some(lost));
        assert_eq!(lost.at(), None);
        assert_eq!(record(99, 0, &[1]), None);
        assert_eq!(record(RECORD_SWITCH, 0, &[7]), None);
    }

    proptest! {
        #[test]
        fn no_content_makes_the_reader_fail(
            kind in 0u32..20,
            misc: u16,
            body in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            switch(kind, misc, &body);
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
