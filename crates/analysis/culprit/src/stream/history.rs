//! The recent events of a trace.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::context::is_of_switch;
use punctual_model::{EventGap, EventKind, GapReason, Nanos, SliceStart, TraceEvent};

/// Maximum number of events of one CPU that are kept from before the window, to show what ran.
const LEAD: usize = 50;

/// Number of events before the window that are searched for the last switch of each CPU.
const SEARCHED: usize = 50_000;

/// Maximum number of gaps that are kept per CPU. The oldest ones are merged.
const GAPS: usize = 10_000;

/// The recent events of all CPUs, limited in number.
#[derive(Debug)]
pub(super) struct History {
    events: VecDeque<TraceEvent>,
    most: usize,
    cpus: BTreeMap<u32, Cpu>,
    /// Time of the first event of the trace.
    begin: Option<Nanos>,
    /// Whether older events have been dropped.
    dropped: bool,
}

/// Known state of one CPU.
#[derive(Debug, Default)]
struct Cpu {
    /// Time of its last event.
    last: Nanos,
    /// Current thread of the CPU.
    current: Option<u32>,
    gaps: VecDeque<EventGap>,
    /// The last dropped switch of this CPU.
    switch: Option<TraceEvent>,
}

/// The events around a late reaction.
#[derive(Debug)]
pub(super) struct TraceSlice {
    pub(super) events: Vec<TraceEvent>,
    pub(super) gaps: Vec<EventGap>,
}

/// Returns the CPUs on which the thread may have been.
pub(super) fn cpus_of(events: &[TraceEvent], tid: u32, cpu: u32) -> BTreeSet<u32> {
    let mut places = BTreeSet::from([cpu]);
    for event in events {
        match &event.kind {
            EventKind::Switch { prev, next, .. } if prev.pid == tid || next.pid == tid => {
                places.insert(event.cpu);
            }
            EventKind::Wakeup {
                task, target_cpu, ..
            } if task.pid == tid => {
                places.insert(*target_cpu);
            }
            EventKind::Migrate {
                task,
                orig_cpu,
                dest_cpu,
            } if task.pid == tid => places.extend([*orig_cpu, *dest_cpu]),
            _ => {}
        }
    }
    places
}

const fn gap(cpu: u32, from: Nanos, to: Nanos, reason: GapReason) -> EventGap {
    EventGap {
        cpu,
        from,
        to,
        reason,
    }
}

/// Shortens overlapping gaps of a CPU, so that none of them ends within another.
pub(super) fn apart(mut gaps: Vec<EventGap>) -> Vec<EventGap> {
    gaps.sort_by_key(|gap| (gap.cpu, gap.from, gap.to));
    let mut apart: Vec<EventGap> = Vec::new();
    for mut gap in gaps {
        if let Some(last) = apart.last().filter(|last| last.cpu == gap.cpu) {
            gap.from = gap.from.max(last.to);
        }
        if gap.from < gap.to {
            apart.push(gap);
        }
    }
    apart
}

impl History {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            events: VecDeque::new(),
            most,
            cpus: BTreeMap::new(),
            begin: None,
            dropped: false,
        }
    }

    /// Adds the next event. If the event shows that a thread has run without a recorded switch to
    /// it, returns this thread.
    pub(super) fn push(&mut self, event: TraceEvent) -> Option<u32> {
        let begin = *self.begin.get_or_insert(event.time);
        if self.events.len() >= self.most
            && let Some(oldest) = self.events.pop_front()
        {
            self.dropped = true;
            if matches!(oldest.kind, EventKind::Switch { .. })
                && let Some(cpu) = self.cpus.get_mut(&oldest.cpu)
            {
                cpu.switch = Some(oldest);
            }
        }
        let held_from = self.events.front().map_or(begin, |first| first.time);
        let cpu = self.cpus.entry(event.cpu).or_default();
        let (pid, next) = match &event.kind {
            EventKind::Switch { prev, next, .. } => (prev.pid, next.pid),
            _ => (event.pid, event.pid),
        };
        let mut ran = None;
        // perf writes -1 for threads that have ended.
        if pid != u32::MAX && !is_of_switch(&event) {
            if cpu.current.is_some_and(|current| current != pid) {
                let span = gap(event.cpu, cpu.last, event.time, GapReason::Contradiction);
                cpu.add(span, held_from);
                ran = Some(pid);
            }
            cpu.current = Some(next);
        }
        cpu.last = event.time;
        self.events.push_back(event);
        ran
    }

    /// Records that events of a CPU before this time were lost.
    pub(super) fn lost(&mut self, cpu: u32, until: Nanos) {
        let held_from = self.events.front().map_or(until, |first| first.time);
        let known = self.cpus.entry(cpu).or_default();
        let span = gap(cpu, known.last, until, GapReason::Lost);
        known.add(span, held_from);
        known.current = None;
        known.last = known.last.max(until);
    }

    /// Returns the events of a thread since a time, and of switches to it, the latest first.
    pub(super) fn back(&self, tid: u32, since: Nanos) -> impl Iterator<Item = &TraceEvent> {
        let is_own = move |event: &&TraceEvent| match &event.kind {
            EventKind::Switch { next, .. } => next.pid == tid,
            _ => event.pid == tid,
        };
        let events = self.events.iter().rev();
        events
            .take_while(move |event| event.time >= since)
            .filter(is_own)
    }

    /// Returns the events since a time, the latest first.
    pub(super) fn back_all(&self, since: Nanos) -> impl Iterator<Item = &TraceEvent> {
        let events = self.events.iter().rev();
        events.take_while(move |event| event.time >= since)
    }

    /// Returns whether events of a CPU may be missing in a span of time.
    pub(super) fn is_incomplete(&self, cpu: u32, from: Nanos, to: Nanos) -> bool {
        let gaps = self.cpus.get(&cpu).map(|cpu| &cpu.gaps);
        gaps.is_some_and(|gaps| gaps.iter().rev().any(|gap| gap.from < to && gap.to > from))
    }

    /// Returns the events of the thread `tid` from `from` to `to`, and the gaps in that time.
    /// `expected`: start of the latency.
    pub(super) fn slice(
        &self,
        (tid, cpu): (u32, u32),
        expected: Nanos,
        from: Nanos,
        to: Nanos,
    ) -> TraceSlice {
        let first = self.events.partition_point(|event| event.time < from);
        let end = self.events.partition_point(|event| event.time <= to);
        let span = || self.events.range(first..end.max(first));
        let story = SliceStart::from_events(span(), tid, Some(cpu));
        let mut events = self.lead(&story.cpus, first);
        events.extend(span().filter(|event| story.concerns(event)).cloned());
        let mut gaps: Vec<EventGap> = Vec::new();
        for cpu in &story.cpus {
            let known = self.cpus.get(cpu).into_iter().flat_map(|cpu| &cpu.gaps);
            let begins = events.iter().find(|event| event.cpu == *cpu);
            let begins = begins.map_or(from, |event| event.time.min(from));
            gaps.extend(known.filter(|gap| gap.from < to && gap.to >= begins));
            gaps.extend(self.before(*cpu, expected));
        }
        TraceSlice {
            events,
            gaps: apart(gaps),
        }
    }

    /// Returns the events of all CPUs from `from` to `to`, and the gaps in that time. A job can wait
    /// for threads on any CPU. `expected`: release of the job.
    pub(super) fn slice_of_all(&self, expected: Nanos, from: Nanos, to: Nanos) -> TraceSlice {
        let first = self.events.partition_point(|event| event.time < from);
        let end = self.events.partition_point(|event| event.time <= to);
        let cpus: BTreeSet<u32> = self.cpus.keys().copied().collect();
        let mut events = self.lead(&cpus, first);
        events.extend(self.events.range(first..end.max(first)).cloned());
        let known = self.cpus.values().flat_map(|cpu| &cpu.gaps);
        let mut gaps: Vec<EventGap> = known
            .filter(|gap| gap.from < to && gap.to >= from)
            .cloned()
            .collect();
        gaps.extend(cpus.iter().filter_map(|cpu| self.before(*cpu, expected)));
        TraceSlice {
            events,
            gaps: apart(gaps),
        }
    }

    /// Returns the gap before the oldest event that is still held or that the trace contains, if
    /// the latency begins in that gap.
    fn before(&self, cpu: u32, expected: Nanos) -> Option<EventGap> {
        let (begin, held) = (self.begin?, self.events.front()?.time);
        let (reason, until) = if self.dropped {
            (GapReason::NotHeld, held)
        } else {
            (GapReason::BeforeTrace, begin)
        };
        (expected < until).then(|| gap(cpu, Nanos::ZERO, until, reason))
    }

    /// Returns the last events of these CPUs before the event at `first`, back to the last switch.
    fn lead(&self, cpus: &BTreeSet<u32>, first: usize) -> Vec<TraceEvent> {
        let mut lead = Vec::new();
        let mut count: BTreeMap<u32, usize> = BTreeMap::new();
        let mut open = cpus.clone();
        for event in self.events.range(..first).rev().take(SEARCHED) {
            if open.is_empty() {
                break;
            }
            if !open.contains(&event.cpu) {
                continue;
            }
            let switch = matches!(event.kind, EventKind::Switch { .. });
            let count = count.entry(event.cpu).or_default();
            *count += 1;
            if switch || *count <= LEAD {
                lead.push(event.clone());
            }
            if switch {
                open.remove(&event.cpu);
            }
        }
        let older = open
            .iter()
            .filter_map(|cpu| self.cpus.get(cpu)?.switch.clone());
        lead.extend(older);
        // The sort is stable: events of one CPU with equal times keep their order.
        lead.reverse();
        lead.sort_by_key(|event| event.time);
        lead
    }
}

impl Cpu {
    fn add(&mut self, gap: EventGap, held_from: Nanos) {
        while self.gaps.front().is_some_and(|gap| gap.to < held_from) {
            self.gaps.pop_front();
        }
        if self.gaps.len() >= GAPS
            && let Some(first) = self.gaps.pop_front()
            && let Some(second) = self.gaps.front_mut()
        {
            // Merges them into one gap that covers both, which is the more cautious statement.
            second.from = first.from.min(second.from);
        }
        self.gaps.push_back(gap);
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
