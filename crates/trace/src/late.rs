//! Where the kernel was when a timer or a watched thread was late at last: stacks that
//! BPF programs take then (`bpf/late.bpf.c`). Nothing is written unless something is late.

#![allow(unsafe_code)]

use std::collections::BTreeSet;

use aya::maps::{Array, MapData};
use aya::{Pod, include_bytes_aligned};
use punctual_model::{Comm, EventKind, KernelPriority, Nanos, Task, TraceEvent};

use crate::bpf::Programs;
use crate::watch::WatchError;

/// The programs; `bpf/build.sh` makes them.
pub(crate) static OBJECT: &[u8] = include_bytes_aligned!("../bpf/late.bpf.o");

/// Each with its tracepoint.
const PROGRAMS: [(&str, &str); 3] = [
    ("expiring", "hrtimer_expire_entry"),
    ("waking", "sched_waking"),
    ("switching", "sched_switch"),
];

/// As in the programs.
const FRAMES: usize = 24;
const RECORDS: u32 = 2 * 512;
const TIMER: u32 = 1;
const BLOCKER: u32 = 2;

/// `struct record`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    time: u64,
    late: u64,
    function: u64,
    sequence: u32,
    kind: u32,
    cpu: u32,
    pid: u32,
    prio: u32,
    count: u32,
    comm: [u8; 16],
    frames: [u64; FRAMES],
}

// SAFETY: integers and arrays of them, without padding; any bytes are a value.
unsafe impl Pod for Record {}

impl Record {
    fn event(&self) -> Option<TraceEvent> {
        let count = (self.count as usize).min(FRAMES);
        let frames = self.frames[..count].to_vec();
        let late = Nanos(self.late);
        let kind = match self.kind {
            TIMER => EventKind::TimerLate {
                late,
                function: self.function,
                frames,
            },
            BLOCKER => EventKind::SwitchedOut {
                task: Task {
                    comm: Comm::new(&self.comm),
                    pid: self.pid,
                    prio: KernelPriority(self.prio as i32 as i16),
                },
                waited: late,
                frames,
            },
            _ => return None,
        };
        Some(TraceEvent {
            time: Nanos(self.time),
            cpu: self.cpu,
            pid: self.pid,
            flags: 0,
            preempt_count: 0,
            kind,
        })
    }
}

/// Running programs, until this is dropped.
pub struct LateStacks {
    programs: Programs,
    watched: BTreeSet<u32>,
    pid_limit: u32,
}

impl std::fmt::Debug for LateStacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LateStacks")
            .field("watched", &self.watched.len())
            .finish_non_exhaustive()
    }
}

impl LateStacks {
    /// Loads and starts the programs. `late`: what is later than that is recorded;
    /// `pid_max`: the largest number of a thread (kernel.pid_max).
    ///
    /// # Errors
    /// A kernel without BTF, or one that refuses: rights, lockdown, age.
    pub fn start(pid_max: u32, late: Nanos) -> Result<Self, WatchError> {
        let pid_limit = pid_max.saturating_add(1);
        let words = pid_limit.div_ceil(64);
        let mut programs = Programs::load(OBJECT, |loader| {
            loader
                .override_global("late_ns", &late.0, true)
                .override_global("pid_limit", &pid_limit, true)
                .map_max_entries("watched", words);
        })?;
        for (name, tracepoint) in PROGRAMS {
            programs.attach(name, tracepoint)?;
        }
        programs.forget_types();
        Ok(Self {
            programs,
            watched: BTreeSet::new(),
            pid_limit,
        })
    }

    /// Replaces the watched threads.
    ///
    /// # Errors
    /// The kernel refuses to change a map.
    pub fn watch(&mut self, tids: impl Iterator<Item = u32>) -> Result<(), WatchError> {
        let limit = self.pid_limit;
        let tids: BTreeSet<u32> = tids.filter(|tid| *tid < limit).collect();
        self.programs
            .replace_threads("watched", &self.watched, &tids)?;
        self.watched = tids;
        Ok(())
    }

    /// The latest that was recorded, by increasing time.
    ///
    /// # Errors
    /// A map that cannot be read.
    pub fn latest(&self) -> Result<Vec<TraceEvent>, WatchError> {
        let map: Array<&MapData, Record> = self.programs.map("records")?.try_into()?;
        let mut found = Vec::new();
        for place in 0..RECORDS {
            let record = map.get(&place, 0)?;
            // It may be written meanwhile.
            if record.sequence > 0 && map.get(&place, 0)? == record {
                found.extend(record.event());
            }
        }
        found.sort_by_key(|event| event.time);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_make_an_event_or_none() {
        for kind in [0, TIMER, BLOCKER, 3, u32::MAX] {
            let record = Record {
                time: 7,
                late: 9,
                function: 1,
                sequence: 1,
                kind,
                cpu: 2,
                pid: 3,
                prio: u32::MAX,
                count: u32::MAX,
                comm: [0xff; 16],
                frames: [5; FRAMES],
            };
            let event = record.event();
            assert_eq!(event.is_some(), (TIMER..=BLOCKER).contains(&kind));
            if let Some(event) = event {
                assert_eq!((event.time, event.cpu, event.pid), (Nanos(7), 2, 3));
                assert_eq!(event.kind.frames().len(), FRAMES);
            }
        }
    }
}
