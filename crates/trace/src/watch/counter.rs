//! Wake-ups counted from the scheduler's events, like `bpf/watch.bpf.c` in the
//! kernel, with checks for missing events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use punctual_model::{
    Comm, EventKind, LateWakeup, Nanos, PriorityClass, Task, ThreadSeen, TraceEvent, WaitHistogram,
    WakeupRow, WakeupSource, Wakeups,
};

use super::{MOST_COMMS, WaitNote, Waiting, WatchAsk};
use crate::flight::Streamed;

/// A thread that was woken and does not run yet.
#[derive(Clone, Copy, Debug)]
struct Note {
    woken: Nanos,
    waker: u32,
}

/// The state of a CPU after its last switch.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// The running thread; `None` if unknown.
    current: Option<u32>,
    /// Its start.
    since: Nanos,
}

/// The counts of each.
type Row = (u32, PriorityClass, Option<Comm>);

/// Processes the events, which must come by increasing time.
#[derive(Debug)]
pub(super) struct Counter {
    ask: WatchAsk,
    notes: HashMap<u32, Note>,
    /// Threads known to run.
    running: HashSet<u32>,
    cpus: BTreeMap<u32, Cpu>,
    rows: HashMap<Row, WaitHistogram>,
    named: HashSet<(Comm, PriorityClass)>,
    /// The longest waits, the longest first.
    worst: Vec<LateWakeup>,
    lost: u64,
    unnamed: u64,
    events_lost: u64,
    /// The end of the last gap.
    blind_until: Nanos,
    /// Earlier wake-ups are not counted.
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
            named: HashSet::new(),
            worst: Vec::new(),
            lost: 0,
            unnamed: 0,
            events_lost: 0,
            blind_until: Nanos::ZERO,
            from: Nanos::ZERO,
        }
    }

    /// Counts wake-ups from this time on.
    pub(super) fn from(self, from: Nanos) -> Self {
        Self { from, ..self }
    }

    /// The waits that are open at `at`, until which all events were taken.
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

    /// A thread that was woken before the end of a gap may have run in it: its next
    /// event may not be the end of that wait.
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
        // One that runs was about to sleep, and does not wait.
        let before = event.time < self.from;
        if before || !wanted || task.is_idle() || self.running.contains(&task.pid) {
            return;
        }
        let note = Note {
            woken: event.time,
            waker: event.pid,
        };
        let Some(before) = self.notes.insert(task.pid, note) else {
            return;
        };
        // It ran meanwhile: no thread is woken twice. Unless it had run since
        // before all this began.
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
            // It was woken and has run, but its switch in has no event.
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

    /// Whether the events after a wake-up are unknown.
    fn is_blind(&self, note: Note) -> bool {
        note.woken < self.blind_until
    }

    /// Ends a wait. `began`: the time when `prev` got the CPU, if known.
    fn count(
        &mut self,
        event: &TraceEvent,
        note: Note,
        prev: &Task,
        next: &Task,
        began: Option<Nanos>,
    ) {
        let wait = event.time.saturating_sub(note.woken);
        let row = self.row_of(event.cpu, next);
        self.rows.entry(row).or_default().record(wait);
        let floor = match self.worst.last() {
            Some(last) if self.worst.len() >= self.ask.worst => last.latency_ns,
            _ => Nanos::ZERO,
        };
        if wait <= floor || self.ask.worst == 0 {
            return;
        }
        let late = LateWakeup {
            woken_ns: note.woken,
            latency_ns: wait,
            cpu: event.cpu,
            victim: seen(next),
            culprit: seen(prev),
            culprit_ran_ns: began.map(|began| event.time.saturating_sub(began.max(note.woken))),
            waker: note.waker,
        };
        let longer = |other: &LateWakeup| other.latency_ns >= wait;
        let place = self.worst.partition_point(longer);
        self.worst.insert(place, late);
        self.worst.truncate(self.ask.worst);
    }

    fn row_of(&mut self, cpu: u32, task: &Task) -> Row {
        let class = PriorityClass::of(task.prio.0.into(), None);
        if !self.ask.by_comm {
            return (cpu, class, None);
        }
        let name = (task.comm, class);
        if !self.named.contains(&name) {
            if self.named.len() >= MOST_COMMS {
                self.unnamed += 1;
                return (cpu, class, None);
            }
            self.named.insert(name);
        }
        (cpu, class, Some(task.comm))
    }

    /// The counts so far.
    pub(super) fn seen(&self, elapsed: Nanos, why: &str) -> Wakeups {
        let rows = self
            .rows
            .iter()
            .map(|((cpu, class, comm), waits)| WakeupRow {
                cpu: *cpu,
                class: *class,
                comm: comm.map(text),
                waits: waits.clone(),
            });
        let mut rows: Vec<WakeupRow> = rows.collect();
        rows.sort_by(|a, b| (a.cpu, a.class, &a.comm).cmp(&(b.cpu, b.class, &b.comm)));
        let mut worst = self.worst.clone();
        worst.sort_by_key(|late| Reverse(late.latency_ns));
        Wakeups {
            source: WakeupSource::Events,
            not_bpf: Some(why.to_owned()),
            elapsed_ns: elapsed,
            rows,
            worst,
            open: Vec::new(),
            lost: self.lost,
            unnamed: self.unnamed,
            events_lost: self.events_lost,
        }
    }
}

/// A thread of an event; events do not contain its policy.
fn seen(task: &Task) -> ThreadSeen {
    ThreadSeen {
        tid: task.pid,
        comm: text(task.comm),
        kernel_priority: task.prio.0.into(),
        policy: None,
    }
}

/// As in the programs: any bytes.
fn text(comm: Comm) -> String {
    String::from_utf8_lossy(comm.bytes()).into_owned()
}

#[cfg(test)]
mod tests;
