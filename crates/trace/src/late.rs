//! Where the kernel was when a timer or a watched thread was late at last: stacks that
//! BPF programs take then (`bpf/late.bpf.c`). Nothing is written unless something is late.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use aya::maps::{Array, MapData};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader, Pod, include_bytes_aligned};
use punctual_model::{Comm, EventKind, KernelPriority, Nanos, Task, TraceEvent};

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
    programs: Ebpf,
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
        let mut programs = EbpfLoader::new()
            .override_global("late_ns", &late.0, true)
            .override_global("pid_limit", &pid_limit, true)
            .map_max_entries("watched", pid_limit.div_ceil(64))
            .load(OBJECT)
            .map_err(|error| match Btf::from_sys_fs() {
                Ok(_) => WatchError::refused(&error),
                Err(missing) => WatchError::NoBtf(missing),
            })?;
        let types = Btf::from_sys_fs().map_err(WatchError::NoBtf)?;
        for (name, tracepoint) in PROGRAMS {
            let program: &mut BtfTracePoint = programs
                .program_mut(name)
                .ok_or_else(|| WatchError::Refused(format!("the program {name} is missing")))?
                .try_into()
                .map_err(|error: aya::programs::ProgramError| WatchError::refused(&error))?;
            program
                .load(tracepoint, &types)
                .and_then(|()| program.attach().map(|_| ()))
                .map_err(|error| WatchError::refused(&error))?;
        }
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
        let mut words: BTreeMap<u32, u64> = self.watched.iter().map(|tid| (tid / 64, 0)).collect();
        for tid in &tids {
            *words.entry(tid / 64).or_default() |= 1 << (tid % 64);
        }
        let map = self.programs.map_mut("watched");
        let map = map.ok_or_else(|| missing("watched"))?;
        let mut map: Array<&mut MapData, u64> = map.try_into()?;
        for (place, bits) in words {
            map.set(place, bits, 0)?;
        }
        self.watched = tids;
        Ok(())
    }

    /// The latest that was recorded, by increasing time.
    ///
    /// # Errors
    /// A map that cannot be read.
    pub fn latest(&self) -> Result<Vec<TraceEvent>, WatchError> {
        let map = self.programs.map("records");
        let map: Array<&MapData, Record> = map.ok_or_else(|| missing("records"))?.try_into()?;
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

fn missing(name: &str) -> WatchError {
    WatchError::Refused(format!("the map {name} is missing"))
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
