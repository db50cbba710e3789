//! The programs of the recorder of jobs, and their maps.

use std::collections::{BTreeMap, BTreeSet};

use aya::maps::{Array, MapData};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};

use super::JobAsk;
use super::rings::Rings;
use crate::watch::WatchError;

/// The programs; `bpf/build.sh` makes them.
pub(crate) static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/jobs.bpf.o");

/// Memory of all rings, and of that of one CPU: 64 bytes a record.
const ALL_BYTES: usize = 64 << 20;
const RING_BYTES: std::ops::RangeInclusive<usize> = (256 << 10)..=(4 << 20);
const RECORD_BYTES: usize = 64;

/// A program, its tracepoint, and the name of the model's event that it stands for.
type Program = (&'static str, &'static str, &'static str);

/// Without these no job is found.
const NEEDED: [&str; 4] = ["switching", "waking", "calling", "returning"];

/// Programs in the order of attachment.
const PROGRAMS: &[Program] = &[
    (
        "irq_handler_begins",
        "irq_handler_entry",
        "irq:irq_handler_entry",
    ),
    (
        "irq_handler_ends",
        "irq_handler_exit",
        "irq:irq_handler_exit",
    ),
    ("softirq_begins", "softirq_entry", "irq:softirq_entry"),
    ("softirq_ends", "softirq_exit", "irq:softirq_exit"),
    ("local_timer_begins", "local_timer_entry", VECTORS),
    ("local_timer_ends", "local_timer_exit", VECTORS_END),
    ("reschedule_begins", "reschedule_entry", ""),
    ("reschedule_ends", "reschedule_exit", ""),
    ("call_function_begins", "call_function_entry", ""),
    ("call_function_ends", "call_function_exit", ""),
    (
        "call_function_single_begins",
        "call_function_single_entry",
        "",
    ),
    ("call_function_single_ends", "call_function_single_exit", ""),
    ("irq_work_begins", "irq_work_entry", ""),
    ("irq_work_ends", "irq_work_exit", ""),
    ("ipi_begins", "ipi_entry", ""),
    ("ipi_ends", "ipi_exit", ""),
    ("forking", "sched_process_fork", ""),
    ("executing", "sched_process_exec", ""),
    ("exiting", "sched_process_exit", "sched:sched_process_exit"),
    (
        "migrating",
        "sched_migrate_task",
        "sched:sched_migrate_task",
    ),
    ("inheriting", "sched_pi_setprio", "sched:sched_pi_setprio"),
    ("faulting", "page_fault_user", "exceptions:page_fault_user"),
    (
        "faulting_in_call",
        "page_fault_kernel",
        "exceptions:page_fault_kernel",
    ),
    ("signalled", "signal_generate", "signal:signal_generate"),
    ("issuing", "block_rq_issue", "block:block_rq_issue"),
    ("completing", "block_rq_complete", "block:block_rq_complete"),
    ("waking", "sched_waking", "sched:sched_waking"),
    ("calling", "sys_enter", "raw_syscalls:sys_enter"),
    ("returning", "sys_exit", "raw_syscalls:sys_exit"),
    ("switching", "sched_switch", "sched:sched_switch"),
];

const VECTORS: &str = "irq_vectors:*_entry";
const VECTORS_END: &str = "irq_vectors:*_exit";

/// What `switching` writes beside the switch.
const STACKS: &str = "ftrace:kernel_stack";

/// Running programs, until this is dropped.
pub(super) struct Programs {
    programs: Ebpf,
    attached: BTreeSet<&'static str>,
    unseen: BTreeMap<String, String>,
    pid_limit: u32,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs")
            .field("unseen", &self.unseen)
            .finish_non_exhaustive()
    }
}

/// Records of one CPU's ring: a power of two.
fn ring_length(cpus: usize) -> u32 {
    let bytes = (ALL_BYTES / cpus.max(1)).clamp(*RING_BYTES.start(), *RING_BYTES.end());
    let records = (bytes / RECORD_BYTES) as u32;
    1 << records.ilog2()
}

impl Programs {
    /// Loads and starts the programs; their rings, and the number of these.
    pub(super) fn start(ask: JobAsk) -> Result<(Self, Rings, u32), WatchError> {
        let cpus = aya::util::nr_cpus().unwrap_or(1).max(1);
        let length = ring_length(cpus);
        let count = cpus as u32;
        let pid_limit = ask.pid_max.saturating_add(1);
        let programs = EbpfLoader::new()
            .override_global("ring_mask", &(length - 1), true)
            .override_global("pid_limit", &pid_limit, true)
            .map_max_entries("records", count * length)
            .map_max_entries("marks", count * length)
            .map_max_entries("heads", count)
            .map_max_entries("watched", pid_limit.div_ceil(64))
            .map_max_entries("wakers", pid_limit.div_ceil(64))
            .map_max_entries("their_wakers", pid_limit.div_ceil(64))
            .map_max_entries("places", count)
            .load(OBJECT)
            .map_err(|error| match Btf::from_sys_fs() {
                Ok(_) => WatchError::refused(&error),
                Err(missing) => WatchError::NoBtf(missing),
            })?;
        let types = Btf::from_sys_fs().map_err(WatchError::NoBtf)?;
        let mut all = Self {
            programs,
            attached: BTreeSet::new(),
            unseen: BTreeMap::new(),
            pid_limit,
        };
        let maps = (all.data("heads")?, all.data("marks")?, all.data("records")?);
        let rings = Rings::map(maps, cpus, length).map_err(|error| WatchError::refused(&error))?;
        for (name, tracepoint, event) in PROGRAMS {
            match all.attach(name, tracepoint, &types) {
                Ok(()) => {
                    all.attached.insert(event);
                }
                Err(error) if NEEDED.contains(name) => return Err(error),
                Err(_) if event.is_empty() => {}
                Err(error) => {
                    all.unseen.insert((*event).to_owned(), error.to_string());
                }
            }
        }
        all.attached.insert(STACKS);
        Ok((all, rings, count))
    }

    fn attach(&mut self, name: &str, tracepoint: &str, types: &Btf) -> Result<(), WatchError> {
        let program: &mut BtfTracePoint = self
            .programs
            .program_mut(name)
            .ok_or_else(|| WatchError::Refused(format!("the program {name} is missing")))?
            .try_into()
            .map_err(|error: aya::programs::ProgramError| WatchError::refused(&error))?;
        program
            .load(tracepoint, types)
            .and_then(|()| program.attach().map(|_| ()))
            .map_err(|error| WatchError::refused(&error))
    }

    /// Whether an event is recorded, by the model's name.
    pub(super) fn records(&self, event: &str) -> bool {
        self.attached.contains(event)
    }

    pub(super) const fn unseen(&self) -> &BTreeMap<String, String> {
        &self.unseen
    }

    /// Replaces the watched threads `before`.
    pub(super) fn watch(&mut self, before: &BTreeSet<u32>, tids: &[u32]) -> Result<(), WatchError> {
        let mut words: BTreeMap<u32, u64> = before.iter().map(|tid| (tid / 64, 0)).collect();
        for tid in tids.iter().filter(|tid| **tid < self.pid_limit) {
            *words.entry(tid / 64).or_default() |= 1 << (tid % 64);
        }
        let mut map: Array<&mut MapData, u64> = self.map_mut("watched")?.try_into()?;
        for (place, bits) in words {
            if place < map.len() {
                map.set(place, bits, 0)?;
            }
        }
        Ok(())
    }

    /// Replaces the system calls that are release waits; without any, all are marked.
    pub(super) fn release_calls(
        &mut self,
        before: &[u32],
        calls: &[u32],
    ) -> Result<(), WatchError> {
        let mut map: Array<&mut MapData, u32> = self.map_mut("release_calls")?.try_into()?;
        let limit = map.len();
        let no_longer = before.iter().map(|call| (*call, 0));
        for (call, is) in no_longer.chain(calls.iter().map(|call| (*call, 1))) {
            if call < limit {
                map.set(call, is, 0)?;
            }
        }
        let mut all: Array<&mut MapData, u32> = self.map_mut("all_calls")?.try_into()?;
        all.set(0, u32::from(calls.is_empty()), 0)?;
        Ok(())
    }

    fn data(&self, name: &str) -> Result<&MapData, WatchError> {
        match self.programs.map(name) {
            Some(aya::maps::Map::Array(data)) => Ok(data),
            _ => Err(WatchError::Refused(format!("the map {name} is missing"))),
        }
    }

    fn map_mut(&mut self, name: &str) -> Result<&mut aya::maps::Map, WatchError> {
        let map = self.programs.map_mut(name);
        map.ok_or_else(|| WatchError::Refused(format!("the map {name} is missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::ring_length;

    #[test]
    fn rings_are_powers_of_two_within_the_limit() {
        assert_eq!(ring_length(2), 65_536);
        assert_eq!(ring_length(48), 16_384);
        assert_eq!(ring_length(1_000), 4_096);
    }
}
