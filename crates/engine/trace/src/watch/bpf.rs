//! Counts wake-ups in the kernel with BPF programs (`bpf/watch.bpf.c`).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use aya::include_bytes_aligned;
use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use punctual_model::{
    GroupSeen, LateWakeup, Nanos, PriorityClass, WakeupRow, WakeupSource, Wakeups,
};

use super::layout::{CLASSES, Cpu, Name, Row};
use super::notes::Notes;
use super::{GroupAsk, GroupsOf, MOST_COMMS, Waiting, WatchAsk};
use crate::WatchError;
use crate::bpf::{Programs, Reads, text};
use crate::clock::monotonic;

/// The object file with the BPF programs, built by `bpf/build.sh`.
pub(crate) static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/watch.bpf.o");

/// The names of the programs, each with its tracepoint.
const PROGRAMS: [(&str, &str); 3] = [
    ("waking", "sched_waking"),
    ("waking_new", "sched_wakeup_new"),
    ("switching", "sched_switch"),
];

/// Maximum number of notes about woken threads; each takes 16 bytes. If there are more threads,
/// some of them share a note, and notes that are lost because of this are counted.
const MOST_NOTES: u32 = 1 << 17;

/// Total memory for the rows by comm on all CPUs, in bytes.
pub(super) const ROWS_BYTES: usize = 8 << 20;

/// The running programs. Dropping this value stops them.
pub(super) struct BpfWatch {
    programs: Programs,
    open: Notes,
    ask: WatchAsk,
    began: Instant,
    comm_rows: u32,
    only: BTreeSet<u64>,
}

impl std::fmt::Debug for BpfWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BpfWatch")
            .field("ask", &self.ask)
            .finish_non_exhaustive()
    }
}

impl BpfWatch {
    /// Loads and starts the programs.
    ///
    /// # Errors
    /// Returns an error if the kernel has no BTF, or rejects the programs (because of missing
    /// privileges, lockdown or its version).
    pub(super) fn start(ask: WatchAsk) -> Result<Self, WatchError> {
        let cpus = aya::util::nr_cpus().unwrap_or(1).max(1);
        let notes = ask.pid_max.saturating_add(1).clamp(1024, MOST_NOTES);
        let notes = notes.next_power_of_two();
        let by_group = ask.groups.is_some_and(|groups| groups.rows);
        let only = ask.groups.is_some_and(|groups| groups.only);
        let of_scheduler = |ask: GroupAsk| ask.of == GroupsOf::Scheduler;
        let of_scheduler = ask.groups.is_some_and(of_scheduler);
        let comm_rows = if ask.by_comm || by_group {
            comm_rows(cpus)
        } else {
            0
        };
        let (mask, by_comm) = (notes - 1, u32::from(ask.by_comm));
        let below: u32 = if ask.real_time_only { 100 } else { 140 };
        let (by_group, only, of_scheduler) = (
            u32::from(by_group),
            u32::from(only),
            u32::from(of_scheduler),
        );
        let mut programs = Programs::load(OBJECT, Reads::Types, |loader| {
            loader
                .override_global("note_mask", &mask, true)
                .override_global("by_comm", &by_comm, true)
                .override_global("priority_below", &below, true)
                .override_global("comm_rows", &comm_rows, true)
                .override_global("by_group", &by_group, true)
                .override_global("only_groups", &only, true)
                .override_global("of_scheduler", &of_scheduler, true)
                .map_max_entries("notes", notes)
                .map_max_entries("rows", CLASSES + comm_rows)
                .map_max_entries("names", comm_rows.max(1));
        })?;
        for (name, tracepoint) in PROGRAMS {
            programs.attach(name, tracepoint)?;
        }
        programs.forget_types();
        let began = Instant::now();
        let open = Self::count_from_now(&mut programs, notes as usize)?;
        Ok(Self {
            programs,
            open,
            ask,
            began,
            comm_rows,
            only: BTreeSet::new(),
        })
    }

    /// Maps the notes into memory and lets the programs write them. Call this after all programs
    /// have been attached.
    fn count_from_now(programs: &mut Programs, notes: usize) -> Result<Notes, WatchError> {
        let open = Notes::map(programs.array("notes")?, notes).map_err(|error| {
            WatchError::Refused(format!(
                "the shared memory of the BPF programs cannot be \
                mapped: {error}"
            ))
        })?;
        let mut counting: Array<&mut MapData, u64> = programs.map_mut(".bss")?.try_into()?;
        counting.set(0, 1, 0)?;
        Ok(open)
    }

    /// Returns the threads that are waiting now.
    ///
    /// # Errors
    /// Returns an error if a map cannot be read.
    pub(super) fn waiting(&self) -> Result<Waiting, WatchError> {
        let notes = self.open.waiting();
        let at = monotonic();
        let cpus: PerCpuArray<&MapData, Cpu> = self.programs.map("cpus")?.try_into()?;
        let values = cpus.get(&0, 0)?;
        let running = values.iter().map(|cpu| cpu.running);
        Ok(Waiting {
            at,
            notes,
            running: (0..).zip(running).collect(),
        })
    }

    /// Replaces the control groups whose threads are counted.
    ///
    /// # Errors
    /// Returns an error if a map cannot be changed.
    pub(super) fn count_only(&mut self, ids: &BTreeSet<u64>) -> Result<(), WatchError> {
        let map = self.programs.map_mut("wanted")?;
        let mut map: HashMap<&mut MapData, u64, u32> = map.try_into()?;
        for gone in self.only.difference(ids) {
            map.remove(gone)?;
        }
        for new in ids.difference(&self.only) {
            map.insert(new, 1, 0)?;
        }
        self.only.clone_from(ids);
        Ok(())
    }

    /// Returns the time since the start.
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// Returns an error if a map cannot be read.
    pub(super) fn read(&self) -> Result<Wakeups, WatchError> {
        let mut all = Wakeups {
            source: WakeupSource::Bpf,
            not_bpf: None,
            elapsed_ns: Nanos::from(self.elapsed()),
            rows: Vec::new(),
            longest: Vec::new(),
            open: Vec::new(),
            lost: 0,
            events_lost: 0,
            unnamed: 0,
        };
        self.read_cpus(&mut all)?;
        let rows: PerCpuArray<&MapData, Row> = self.programs.map("rows")?.try_into()?;
        for named in self.row_names()? {
            for (cpu, row) in rows.get(&named.place, 0)?.iter().enumerate() {
                if row.count > 0 || row.held > 0 {
                    all.rows.push(WakeupRow {
                        cpu: cpu as u32,
                        class: named.class,
                        comm: named.comm.clone(),
                        group: named.group.map(GroupSeen::from_id),
                        held_ns: Nanos(row.held),
                        waits: row.histogram(),
                    });
                }
            }
        }
        all.rows.sort_by_key(WakeupRow::order);
        Ok(all)
    }

    /// Reads the longest waits and the losses of each CPU.
    fn read_cpus(&self, all: &mut Wakeups) -> Result<(), WatchError> {
        let cpus: PerCpuArray<&MapData, Cpu> = self.programs.map("cpus")?.try_into()?;
        // A CPU may write while its data is being copied. In that case, `writes` is odd or differs
        // in the next copy, so copy again. If the data keeps changing, the last copy is used. This
        // is acceptable because only figures of single waits can be wrong, and each write takes
        // less than 1 us.
        let mut values = cpus.get(&0, 0)?;
        for _ in 0..8 {
            let again = cpus.get(&0, 0)?;
            let still = (values.iter().zip(again.iter()))
                .all(|(a, b)| a.writes == b.writes && a.writes.is_multiple_of(2));
            values = again;
            if still {
                break;
            }
        }
        for (number, cpu) in values.iter().enumerate() {
            all.lost += cpu.replaced;
            all.unnamed += cpu.unnamed;
            let late = cpu.longest.iter().filter(|late| late.latency > 0);
            all.longest.extend(late.map(|late| LateWakeup {
                woken_ns: Nanos(late.woken),
                latency_ns: Nanos(late.latency),
                cpu: number as u32,
                victim: late.victim.seen(),
                culprit: Some(late.culprit.seen()),
                culprit_ran_ns: Some(Nanos(late.culprit_ran)),
                waker: late.waker,
            }));
        }
        all.longest
            .sort_by_key(|late| std::cmp::Reverse(late.latency_ns));
        all.longest.truncate(self.ask.longest);
        Ok(())
    }

    /// Returns the rows that are in use, and what is counted in each.
    fn row_names(&self) -> Result<Vec<Named>, WatchError> {
        let of_class = |(place, class)| Named {
            place,
            class,
            comm: None,
            group: None,
        };
        let classes = (0..CLASSES).zip(PriorityClass::ALL);
        let mut names: Vec<Named> = classes.map(of_class).collect();
        let by_group = self.ask.groups.is_some_and(|groups| groups.rows);
        if self.comm_rows > 0 {
            let map: HashMap<&MapData, Name, u32> = self.programs.map("names")?.try_into()?;
            for entry in map.iter() {
                let (name, place) = entry?;
                let class = PriorityClass::ALL.get(name.class as usize).copied();
                names.extend(class.map(|class| Named {
                    place,
                    class,
                    comm: self.ask.by_comm.then(|| text(&name.comm)),
                    group: by_group.then_some(name.group),
                }));
            }
        }
        Ok(names)
    }
}

/// Which waits are counted in a row.
struct Named {
    place: u32,
    class: PriorityClass,
    comm: Option<String>,
    group: Option<u64>,
}

/// Returns the maximum number of comms that can have a row, given the number of CPUs.
pub(super) fn comm_rows(cpus: usize) -> u32 {
    let fit = ROWS_BYTES / (cpus * size_of::<Row>());
    fit.clamp(16, MOST_COMMS) as u32
}
