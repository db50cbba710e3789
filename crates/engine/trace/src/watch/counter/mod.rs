//! Counts wake-ups using scheduler events, in the same way as `bpf/watch.bpf.c` does in the kernel,
//! and checks for missing events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use punctual_model::{
    Comm, EventKind, GroupSeen, LateWakeup, Nanos, PriorityClass, Task, ThreadSeen, TraceEvent,
    WaitHistogram, WakeupRow, WakeupSource, Wakeups,
};

use super::{GroupFinder, MOST_COMMS, WaitNote, Waiting, WatchAsk};
use crate::flight::Streamed;

/// A thread that has been woken but is not running yet.
#[derive(Clone, Copy, Debug)]
struct Note {
    woken: Nanos,
    waker: u32,
    /// The control group that the thread had when it was woken. It is stored because a thread that
    /// runs only briefly may already have ended when the switch to it is read.
    group: Option<u64>,
}

/// State of a CPU after its last context switch.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// ID of the running thread; `None` if unknown.
    current: Option<u32>,
    /// Time from which this thread has been running.
    since: Nanos,
}

/// The key of a row, consisting of CPU, class, comm and control group.
type Row = (u32, PriorityClass, Option<Comm>, Option<u64>);

/// Finds the control groups of threads.
struct Groups {
    find: GroupFinder,
    only: BTreeSet<u64>,
}

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Groups")
            .field("only", &self.only)
            .finish_non_exhaustive()
    }
}

/// Processes the events, which must be in ascending order of time.
#[derive(Debug)]
pub(super) struct Counter {
    ask: WatchAsk,
    notes: HashMap<u32, Note>,
    /// IDs of threads that are known to be running.
    running: HashSet<u32>,
    cpus: BTreeMap<u32, Cpu>,
    rows: HashMap<Row, WaitHistogram>,
    /// How long the threads of a row ran while another thread was waiting for their CPU.
    held: HashMap<Row, Nanos>,
    named: HashSet<(Comm, PriorityClass, Option<u64>)>,
    groups: Option<Groups>,
    /// The longest waits, longest first.
    longest: Vec<LateWakeup>,
    lost: u64,
    unnamed: u64,
    events_lost: u64,
    /// End of the latest gap in the events.
    blind_until: Nanos,
    /// Time at which counting starts. Earlier wake-ups are not counted.
    from: Nanos,
}

impl Counter {
    pub(super) fn new(ask: WatchAsk, cpus: impl Iterator<Item = u32>) -> Self {
        Self {
            ask,
            notes: HashMap::new(),
            running: HashSet::new(),
            cpus: cpus.map(|cpu| (cpu, Cpu::default())).collect(),
            rows: HashMap::new(),
            held: HashMap::new(),
            groups: None,
            named: HashSet::new(),
            longest: Vec::new(),
            lost: 0,
            unnamed: 0,
            events_lost: 0,
            blind_until: Nanos::ZERO,
            from: Nanos::ZERO,
        }
    }

    /// Returns the counter with a start time, before which wake-ups are not counted.
    pub(super) fn from(self, from: Nanos) -> Self {
        Self { from, ..self }
    }

    /// Returns the counter with this function for finding control groups.
    pub(super) fn with_groups(self, find: Option<GroupFinder>) -> Self {
        let groups = find.map(|find| Groups {
            find,
            only: BTreeSet::new(),
        });
        Self { groups, ..self }
    }

    /// Replaces the groups whose threads are counted.
    pub(super) fn count_only(&mut self, ids: &BTreeSet<u64>) {
        if let Some(groups) = &mut self.groups {
            groups.only.clone_from(ids);
        }
    }

    /// Returns the control group of a thread; `None` if it is unknown or not needed.
    fn group_of(&mut self, tid: u32) -> Option<u64> {
        (self.groups.as_mut()?.find)(tid)
    }

    /// Returns whether the threads of a group are counted.
    fn counts(&self, group: Option<u64>) -> bool {
        let only = self.ask.groups.is_some_and(|groups| groups.only);
        let is_one = |id| (self.groups.as_ref()).is_some_and(|groups| groups.only.contains(&id));
        !only || group.is_some_and(is_one)
    }

    /// Returns the waits that have not ended at `at`. All events before that time must already have
    /// been processed.
    pub(super) fn waiting(&self, at: Nanos) -> Waiting {
        let known = self.notes.iter().filter(|(_, note)| !self.is_blind(**note));
        let notes = known.map(|(tid, note)| WaitNote {
            tid: *tid,
            woken: note.woken,
            waker: note.waker,
        });
        let running = self
            .cpus
            .iter()
            .filter_map(|(cpu, state)| Some((*cpu, state.current?)));
        Waiting {
            at,
            notes: notes.collect(),
            running: running.collect(),
        }
    }

    pub(super) fn take(&mut self, events: &Streamed) {
        match events {
            Streamed::Event(event) => match &event.kind {
                EventKind::Waking { task, .. }
                | EventKind::Wakeup {
                    task, new: true, ..
                } => {
                    self.woken(event, task);
                }
                EventKind::Switch { prev, next, .. } => self.switched(event, prev, next),
                _ => {}
            },
            Streamed::Gap { to, cpu, lost, .. } => self.gap(*to, *cpu, *lost),
        }
    }

    /// Handles lost events. If a thread was woken before the end of the gap, it may have run during
    /// the gap. Its next event may then belong to a later wait.
    fn gap(&mut self, to: Nanos, cpu: u32, lost: u64) {
        self.events_lost += lost;
        self.blind_until = self.blind_until.max(to);
        let cpu = self.cpus.entry(cpu).or_default();
        if let Some(current) = cpu.current.take() {
            self.running.remove(&current);
        }
    }

    fn woken(&mut self, event: &TraceEvent, task: &Task) {
        let wanted = !self.ask.real_time_only || task.prio.is_real_time();
        // A thread that is woken while it is still running was about to sleep, and does not have to
        // wait.
        let before = event.time < self.from;
        if before || !wanted || task.is_idle() || self.running.contains(&task.pid) {
            return;
        }
        let group = self.group_of(task.pid);
        if !self.counts(group) {
            return;
        }
        let note = Note {
            woken: event.time,
            waker: event.pid,
            group,
        };
        let Some(before) = self.notes.insert(task.pid, note) else {
            return;
        };
        // The thread already has a note. It must have run since that note was made, because a
        // waiting thread is not woken again. The exception is a thread that has been running since
        // before the start.
        let all_known = || self.cpus.values().all(|cpu| cpu.current.is_some());
        if self.is_blind(before) || all_known() {
            self.lost += 1;
        }
    }

    fn switched(&mut self, event: &TraceEvent, prev: &Task, next: &Task) {
        let cpu = self.cpus.entry(event.cpu).or_default();
        let before = *cpu;
        *cpu = Cpu {
            current: Some(next.pid),
            since: event.time,
        };
        self.running.remove(&prev.pid);
        if let Some(note) = self.notes.remove(&prev.pid)
            && (self.is_blind(note) || before.current.is_some_and(|tid| tid != prev.pid))
        {
            // The thread was woken and has since run, but no event shows the switch to it.
            self.lost += 1;
        }
        if next.is_idle() {
            return;
        }
        self.running.insert(next.pid);
        let Some(note) = self.notes.remove(&next.pid) else {
            return;
        };
        if self.is_blind(note) {
            self.lost += 1;
        } else {
            let began = (before.current == Some(prev.pid)).then_some(before.since);
            self.count(event, note, prev, next, began);
        }
    }

    /// Returns whether events that followed this wake-up may be missing.
    fn is_blind(&self, note: Note) -> bool {
        note.woken < self.blind_until
    }

    /// Ends a wait. `began` is the time at which `prev` got the CPU, if known.
    fn count(
        &mut self,
        event: &TraceEvent,
        note: Note,
        prev: &Task,
        next: &Task,
        began: Option<Nanos>,
    ) {
        let wait = event.time.saturating_sub(note.woken);
        let row = self.row_of(event.cpu, next, note.group);
        self.rows.entry(row).or_default().record(wait);
        if let Some(began) = began.filter(|_| !prev.is_idle() && self.groups.is_some()) {
            let row = self.row_of(event.cpu, prev, None);
            let ran = event.time.saturating_sub(began.max(note.woken));
            *self.held.entry(row).or_default() += ran;
        }
        let floor = match self.longest.last() {
            Some(last) if self.longest.len() >= self.ask.longest => last.latency_ns,
            _ => Nanos::ZERO,
        };
        if wait <= floor || self.ask.longest == 0 {
            return;
        }
        let late = LateWakeup {
            woken_ns: note.woken,
            latency_ns: wait,
            cpu: event.cpu,
            victim: seen(next),
            culprit: Some(seen(prev)),
            culprit_ran_ns: began.map(|began| event.time.saturating_sub(began.max(note.woken))),
            waker: note.waker,
        };
        let longer = |other: &LateWakeup| other.latency_ns >= wait;
        let place = self.longest.partition_point(longer);
        self.longest.insert(place, late);
        self.longest.truncate(self.ask.longest);
    }

    /// Returns the key of a thread's row. `group` is the thread's control group, if it is already
    /// known.
    fn row_of(&mut self, cpu: u32, task: &Task, group: Option<u64>) -> Row {
        let class = PriorityClass::new(task.prio.0.into(), None);
        let by_group = self.ask.groups.is_some_and(|groups| groups.rows);
        // All threads whose group is unknown share a single row, which has no group name.
        let group = by_group.then(|| group.or_else(|| self.group_of(task.pid)).unwrap_or(0));
        let comm = self.ask.by_comm.then_some(task.comm);
        if comm.is_none() && group.is_none() {
            return (cpu, class, None, None);
        }
        let name = (comm.unwrap_or_default(), class, group);
        if !self.named.contains(&name) {
            if self.named.len() >= MOST_COMMS {
                self.unnamed += 1;
                return (cpu, class, None, None);
            }
            self.named.insert(name);
        }
        (cpu, class, comm, group)
    }

    /// Returns the counts so far.
    pub(super) fn seen(&self, elapsed: Nanos, why: &str) -> Wakeups {
        let all: HashSet<&Row> = self.rows.keys().chain(self.held.keys()).collect();
        let rows = all.into_iter().map(|row| {
            let (cpu, class, comm, group) = *row;
            WakeupRow {
                cpu,
                class,
                comm: comm.map(text),
                group: group.map(GroupSeen::from_id),
                held_ns: self.held.get(row).copied().unwrap_or_default(),
                waits: self.rows.get(row).cloned().unwrap_or_default(),
            }
        });
        let mut rows: Vec<WakeupRow> = rows.collect();
        rows.sort_by_key(WakeupRow::order);
        let mut largest = self.longest.clone();
        largest.sort_by_key(|late| Reverse(late.latency_ns));
        Wakeups {
            source: WakeupSource::Events,
            not_bpf: Some(why.to_owned()),
            elapsed_ns: elapsed,
            rows,
            longest: largest,
            open: Vec::new(),
            lost: self.lost,
            unnamed: self.unnamed,
            events_lost: self.events_lost,
        }
    }
}

/// Describes a thread in an event. Its policy is missing, because events do not contain it.
fn seen(task: &Task) -> ThreadSeen {
    ThreadSeen {
        tid: task.pid,
        comm: text(task.comm),
        kernel_priority: task.prio.0.into(),
        policy: None,
    }
}

/// Accepts arbitrary bytes, as `text` does for the names from the BPF programs.
fn text(comm: Comm) -> String {
    String::from_utf8_lossy(comm.bytes()).into_owned()
}

#[cfg(test)]
mod tests;
