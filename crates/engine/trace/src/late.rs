//! Records kernel stacks if a timer or a watched thread is late, using BPF programs that run at the
//! end of the delay (`bpf/late.bpf.c`). If there is no delay, they write nothing.

use std::collections::BTreeSet;

use aya::include_bytes_aligned;
use aya::maps::{HashMap, MapData};
use punctual_model::{Comm, EventKind, KernelPriority, Nanos, Task, TraceEvent};

use crate::WatchError;
use crate::bpf::{Mapped, Programs, Reads, settled};

/// The object file with the BPF programs, built by `bpf/build.sh`.
pub(crate) static OBJECT: &[u8] = include_bytes_aligned!("../bpf/late.bpf.o");

/// The programs, each with its tracepoint.
const PROGRAMS: [(&str, &str); 4] = [
    ("starting", "hrtimer_start"),
    ("expiring", "hrtimer_expire_entry"),
    ("waking", "sched_waking"),
    ("switching", "sched_switch"),
];

/// Values that are also defined in the BPF programs.
const FRAMES: usize = 24;
const RECORDS: usize = 2 * 512;
const TIMER: u32 = 1;
const BLOCKER: u32 = 2;

/// Number of words in `struct record`.
const WORDS: usize = 8 + FRAMES;

/// The content of `struct record`, as words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LateRecord([u64; WORDS]);

impl LateRecord {
    const fn time(&self) -> Nanos {
        Nanos(self.0[0])
    }

    /// Returns the two 32-bit members in a word, in memory order.
    fn halves(&self, word: usize) -> [u32; 2] {
        let [a, b, c, d, e, f, g, h] = self.0[word].to_ne_bytes();
        [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
    }

    fn event(&self) -> Option<TraceEvent> {
        let [_, kind] = self.halves(3);
        let [cpu, pid] = self.halves(4);
        let [prio, count] = self.halves(5);
        let count = (count as usize).min(FRAMES);
        let frames = self.0[8..8 + count].to_vec();
        let late = Nanos(self.0[1]);
        let kind = match kind {
            TIMER => EventKind::TimerLate {
                late,
                function: self.0[2],
                frames,
            },
            BLOCKER => EventKind::SwitchedOut {
                task: Task {
                    comm: Comm::new([self.0[6], self.0[7]].map(u64::to_ne_bytes).as_flattened()),
                    pid,
                    prio: KernelPriority(prio as i32 as i16),
                },
                waited: late,
                frames,
            },
            _ => return None,
        };
        Some(TraceEvent {
            time: self.time(),
            cpu,
            pid,
            flags: 0,
            preempt_count: 0,
            kind,
        })
    }
}

/// The running programs. Dropping this value stops them.
pub struct LateStacks {
    programs: Programs,
    records: Mapped,
    watched: BTreeSet<u32>,
    pid_limit: u32,
}

impl std::fmt::Debug for LateStacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LateStacks")
            .field("watched", &self.watched())
            .finish_non_exhaustive()
    }
}

impl LateStacks {
    /// Loads the programs, which run while there are watched threads. They record delays longer
    /// than `late`. `pid_max` is the largest thread ID (kernel.pid_max).
    ///
    /// # Errors
    /// Returns an error if the kernel has no BTF, or rejects the programs (because of missing
    /// privileges, lockdown or its version).
    pub fn start(pid_max: u32, late: Nanos) -> Result<Self, WatchError> {
        let pid_limit = pid_max.saturating_add(1);
        let words = pid_limit.div_ceil(64);
        let mut programs = Programs::load(OBJECT, Reads::Types, |loader| {
            loader
                .override_global("late_ns", &late.0, true)
                .override_global("pid_limit", &pid_limit, true)
                .map_max_entries("watched", words);
        })?;
        for (name, tracepoint) in PROGRAMS {
            programs.attach(name, tracepoint)?;
            // The kernel calls the programs of a tracepoint in the order in which they were
            // attached. Recording a stack takes up to 30 us, so the programs that record the event
            // itself must be attached before these programs.
            programs.pause(name)?;
        }
        programs.forget_types();
        let records = Mapped::new(programs.array("records")?, RECORDS * WORDS);
        Ok(Self {
            records: records.map_err(|error| WatchError::refused(&error))?,
            programs,
            watched: BTreeSet::new(),
            pid_limit,
        })
    }

    /// Returns the number of watched threads.
    pub fn watched(&self) -> usize {
        self.watched.len()
    }

    /// Replaces the watched threads. If there are none, the programs do not run.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses to change a map, or to start a program again.
    pub fn watch(&mut self, tids: impl Iterator<Item = u32>) -> Result<(), WatchError> {
        let limit = self.pid_limit;
        let tids: BTreeSet<u32> = tids.filter(|tid| *tid < limit).collect();
        // If a thread was already watched at an earlier time, its stored wake-up time is outdated.
        let waiting = self.programs.map_mut("waiting")?;
        let mut waiting: HashMap<&mut MapData, u32, u64> = waiting.try_into()?;
        for tid in tids.difference(&self.watched) {
            let _ = waiting.remove(tid);
        }
        self.programs
            .replace_threads("watched", &self.watched, &tids)?;
        for (name, _) in PROGRAMS {
            if tids.is_empty() {
                self.programs.pause(name)?
            } else {
                self.programs.resume(name)?
            }
        }
        self.watched = tids;
        Ok(())
    }

    /// Returns the records at or after `time`, in ascending order of time.
    pub fn since(&self, time: Nanos) -> Vec<TraceEvent> {
        let records = (0..RECORDS).filter_map(|place| self.record(place, time));
        let mut found: Vec<TraceEvent> = records.filter_map(|record| record.event()).collect();
        found.sort_by_key(|event| event.time);
        found
    }

    /// Returns the record at this index if it is from `since` or later and is not being written at
    /// the moment.
    fn record(&self, place: usize, since: Nanos) -> Option<LateRecord> {
        let first = place * WORDS;
        if self.records.word(first) < since.0 {
            return None;
        }
        settled(
            || self.records.word(first + 3) & u64::from(u32::MAX),
            || LateRecord(std::array::from_fn(|word| self.records.word(first + word))),
        )
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::{ClockId, clock_nanosleep_absolute};
    use rustix::time::Timespec;

    use super::*;
    use crate::sleeper::Sleeper;

    fn recorder(late: Nanos) -> Option<LateStacks> {
        LateStacks::start(4 << 20, late)
            .inspect_err(|error| {
                punctual_testing::skip_refused("the recorder of late stacks", error.to_string());
            })
            .ok()
    }

    #[test]
    fn thread_killed_in_its_sleep_leaves_nothing() {
        let Some(mut stacks) = recorder(Nanos::from_secs(100)) else {
            return;
        };
        let keys = |stacks: &LateStacks| -> Vec<u32> {
            let map = stacks.programs.map("waiting").unwrap();
            let map: HashMap<&MapData, u32, u64> = map.try_into().unwrap();
            map.keys().flatten().collect()
        };
        let sleeper = Sleeper::start();
        stacks.watch([sleeper.tid()].into_iter()).unwrap();
        // A wake-up leaves an entry only until the thread runs.
        std::thread::sleep(std::time::Duration::from_millis(400));
        sleeper.kill(|| true);
        assert_eq!(keys(&stacks), [0; 0]);
    }

    /// Its time has passed before it starts.
    #[test]
    fn timer_of_the_past_is_not_late() {
        let Some(mut stacks) = recorder(Nanos::from_secs(1)) else {
            return;
        };
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        stacks.watch([tid].into_iter()).unwrap();
        let long_ago = Timespec {
            tv_sec: 0,
            tv_nsec: 1,
        };
        for _ in 0..10 {
            clock_nanosleep_absolute(ClockId::Monotonic, &long_ago).unwrap();
        }
        let recorded = stacks.since(Nanos::ZERO);
        let is_timer = |event: &&TraceEvent| matches!(event.kind, EventKind::TimerLate { .. });
        let timers: Vec<&TraceEvent> = recorded.iter().filter(is_timer).collect();
        assert!(timers.is_empty(), "{timers:?}");
    }

    #[test]
    fn any_bytes_make_an_event_or_none() {
        for kind in [0, TIMER, BLOCKER, 3, u32::MAX] {
            let mut record = LateRecord([5; WORDS]);
            record.0[..8].copy_from_slice(&[7, 9, 1, 0, 0, u64::MAX, u64::MAX, u64::MAX]);
            let halves = |one: u32, two: u32| {
                let bytes = [one, two].map(u32::to_ne_bytes);
                u64::from_ne_bytes(bytes.as_flattened().try_into().unwrap())
            };
            (record.0[3], record.0[4]) = (halves(1, kind), halves(2, 3));
            let event = record.event();
            assert_eq!(event.is_some(), (TIMER..=BLOCKER).contains(&kind));
            if let Some(event) = event {
                assert_eq!((event.time, event.cpu, event.pid), (Nanos(7), 2, 3));
                assert_eq!(event.kind.frames().len(), FRAMES);
            }
        }
    }
}
