//! Follows the virtual CPUs of a guest in the trace of its host.
//!
//! A virtual CPU runs the guest's code from `kvm_entry` to `kvm_exit` of the host's thread that
//! represents it. For the time from an exit to the next entry, the host's events show what ran
//! instead. This time is split like a job of that thread.
//!
//! # Missing events
//! A span is only known if the events at both of its ends were recorded, and if no events were
//! lost on a CPU that the thread may have used in between. Time without a known span stays unknown.
//!
//! # Clocks
//! The guest writes no event while its CPU does not run. A span that contains such an event
//! contradicts it, and is therefore not used. If this happens often, the times of the two traces
//! cannot be compared.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use punctual_model::cause::{Cause, Source};
use punctual_model::{
    Comm, Delay, EventGap, EventKind, Evidence, GapReason, HostSpan, Nanos, Task, TraceEvent,
    Vector, Victim, Window, event_names,
};

use super::history::History;
use super::host_view::HostView;
use super::missing::{complete, is_half};
use super::{BEFORE, HELD, THREADS};
use crate::cause_span::{CauseSpan, without_gaps};
use crate::scene::hides_changes;
use crate::walk::walk;

/// Tolerated error of the measured difference between the clocks of guest and host. An event of the
/// guest contradicts the host only if it is further inside a span without guest mode.
const CLOCK_ERROR: Nanos = Nanos::from_micros(20);

/// Maximum number of spans of a virtual CPU that are kept.
const SPANS: usize = 1 << 18;

/// The virtual CPUs of a guest, while the traces of host and guest are read. Memory is bounded.
#[derive(Debug)]
pub struct VirtualCpus {
    vcpus: Vec<Vcpu>,
    by_thread: HashMap<u32, usize>,
    by_cpu: HashMap<u32, usize>,
    history: History,
    /// The virtual CPU that is current on each CPU of the host, if any.
    running: HashMap<u32, usize>,
    /// Time of the last event of each CPU of the host.
    last: HashMap<u32, Nanos>,
    names: HashMap<u32, Task>,
    ended_vectors: BTreeSet<Vector>,
    /// Events that the host's trace does not contain.
    missing: BTreeSet<String>,
    clocks_differ: bool,
    /// The spans of time that are of interest, in order, without overlaps.
    wanted: Vec<(Nanos, Nanos)>,
    now: Nanos,
    checked: u64,
    contradicted: u64,
    error: Nanos,
    span: Option<(Nanos, Nanos)>,
}

/// A virtual CPU.
#[derive(Debug)]
struct Vcpu {
    cpu: u32,
    /// The host's thread.
    tid: u32,
    state: State,
    /// CPU of the host on which the thread was last seen.
    on: Option<u32>,
    /// Whether the thread is off its CPU, so that it may be moved to another one.
    is_off: bool,
    /// Whether the thread has been off its CPU in the current span.
    was_off: bool,
    spans: Vec<Known>,
    inside: Inside,
}

/// Events of the guest in the current span without guest mode, which should have none.
#[derive(Clone, Copy, Debug, Default)]
struct Inside {
    /// The last one that is at most [`CLOCK_ERROR`] after the begin of the span.
    near: Option<Nanos>,
    /// The first one after that.
    far: Option<Nanos>,
}

/// A known span. `on`: the only CPU of the host that the thread can have used.
#[derive(Debug)]
struct Known {
    span: HostSpan,
    on: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    /// In guest mode.
    Runs {
        since: Nanos,
    },
    /// Outside guest mode. `ran_since`: begin of the time in guest mode before, if its end was not
    /// recorded yet. Older kernels write `kvm_exit` after the events of the interrupt that caused
    /// the exit.
    Away {
        since: Nanos,
        ran_since: Option<Nanos>,
    },
}

impl VirtualCpus {
    /// Creates the virtual CPUs. `threads`: the host's thread of each virtual CPU. `wanted`: the
    /// spans of time that are of interest. `clocks_differ`: whether clocks of different CPUs of the
    /// host may differ.
    pub fn new(
        threads: &BTreeMap<u32, u32>,
        mut wanted: Vec<(Nanos, Nanos)>,
        clocks_differ: bool,
    ) -> Self {
        wanted.sort_unstable();
        let mut apart: Vec<(Nanos, Nanos)> = Vec::new();
        for (from, to) in wanted {
            match apart.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => apart.push((from, to)),
            }
        }
        let vcpus: Vec<Vcpu> = threads
            .iter()
            .map(|(cpu, tid)| Vcpu {
                cpu: *cpu,
                tid: *tid,
                state: State::Unknown,
                on: None,
                is_off: true,
                was_off: true,
                spans: Vec::new(),
                inside: Inside::default(),
            })
            .collect();
        Self {
            by_thread: (vcpus.iter().map(|one| one.tid)).zip(0..).collect(),
            by_cpu: (vcpus.iter().map(|one| one.cpu)).zip(0..).collect(),
            vcpus,
            history: History::new(HELD),
            running: HashMap::new(),
            last: HashMap::new(),
            names: HashMap::new(),
            ended_vectors: BTreeSet::new(),
            missing: BTreeSet::new(),
            clocks_differ,
            wanted: apart,
            now: Nanos::ZERO,
            checked: 0,
            contradicted: 0,
            error: Nanos::ZERO,
            span: None,
        }
    }

    /// Sets the names of the events that the host's trace contains.
    pub fn learn(&mut self, recorded: &BTreeSet<String>) {
        let missing = event_names().filter(|name| !recorded.contains(*name));
        self.missing = missing.map(str::to_owned).collect();
        complete(&mut self.missing);
    }

    /// Processes an event of the host. Events must be in ascending order of time, together with
    /// those of the guest.
    pub fn event(&mut self, event: TraceEvent) {
        if event.time < self.now {
            self.forget();
        }
        self.now = event.time;
        let begin = self.span.map_or(event.time, |(begin, _)| begin);
        self.span = Some((begin, event.time));
        self.last.insert(event.cpu, event.time);
        for task in event.kind.tasks().into_iter().flatten() {
            if self.names.len() < THREADS || self.names.contains_key(&task.pid) {
                self.names.insert(task.pid, *task);
            }
        }
        if let EventKind::VectorExit { vector } = &event.kind {
            self.ended_vectors.insert(vector.clone());
        }
        let (time, cpu, pid) = (event.time, event.cpu, event.pid);
        let (mut left, mut came, mut moved) = (None, None, None);
        let (mut enters, mut exits) = (false, false);
        match &event.kind {
            EventKind::Switch { prev, next, .. } => {
                (left, came) = (Some(prev.pid), Some(next.pid));
            }
            EventKind::Migrate { task, dest_cpu, .. } => moved = Some((task.pid, *dest_cpu)),
            EventKind::KvmEntry {} => enters = true,
            EventKind::KvmExit {} => exits = true,
            _ => {}
        }
        let ran = self.history.push(event);
        if let Some(tid) = ran {
            self.unknown(tid);
        }
        if let Some((tid, to)) = moved
            && let Some(number) = self.by_thread.get(&tid).copied()
            && let Some(vcpu) = self.vcpus.get_mut(number)
        {
            vcpu.on = Some(to);
        }
        let writer = left.unwrap_or(pid);
        self.has_current(cpu, writer);
        if let Some(number) = self.by_thread.get(&writer).copied() {
            self.of_thread(number, (time, cpu), (enters, exits));
            if left.is_some()
                && let Some(vcpu) = self.vcpus.get_mut(number)
            {
                (vcpu.is_off, vcpu.was_off) = (true, true);
            }
        }
        if let Some(number) = came.and_then(|tid| self.by_thread.get(&tid).copied())
            && let Some(vcpu) = self.vcpus.get_mut(number)
        {
            // If it was running, its switch off the CPU was not recorded.
            if !vcpu.is_off || !matches!(vcpu.state, State::Away { .. }) {
                vcpu.away(time, None);
            }
            (vcpu.on, vcpu.is_off, vcpu.was_off) = (Some(cpu), false, true);
            self.running.insert(cpu, number);
        }
    }

    /// Notes that a thread is current on a CPU of the host. If a virtual CPU seemed to be current
    /// there, its switch off the CPU was not recorded.
    fn has_current(&mut self, cpu: u32, tid: u32) {
        // perf writes -1 for threads that have ended.
        if tid == u32::MAX {
            return;
        }
        let Some(number) = self.running.get(&cpu).copied() else {
            return;
        };
        if let Some(vcpu) = self.vcpus.get_mut(number)
            && vcpu.tid != tid
        {
            if vcpu.on == Some(cpu) && !vcpu.is_off {
                vcpu.forget();
            }
            self.running.remove(&cpu);
        }
    }

    /// Processes an event that the thread of a virtual CPU wrote.
    fn of_thread(&mut self, number: usize, (time, cpu): (Nanos, u32), kvm: (bool, bool)) {
        let Some(vcpu) = self.vcpus.get_mut(number) else {
            return;
        };
        let elsewhere = vcpu.on.is_some_and(|on| on != cpu);
        if vcpu.is_off || elsewhere {
            // The switch to the thread was not recorded.
            vcpu.away(time, None);
        }
        (vcpu.on, vcpu.is_off) = (Some(cpu), false);
        self.running.insert(cpu, number);
        match (kvm, vcpu.state) {
            ((true, _), State::Away { since, .. }) => {
                let inside = std::mem::take(&mut vcpu.inside);
                let was_off = vcpu.was_off;
                let tid = vcpu.tid;
                (vcpu.state, vcpu.was_off) = (State::Runs { since: time }, false);
                if self.agrees((since, time), inside) {
                    self.away((number, tid), (since, time), cpu, was_off);
                }
            }
            ((true, _), State::Runs { .. } | State::Unknown) => {
                vcpu.state = State::Runs { since: time };
                (vcpu.was_off, vcpu.inside) = (false, Inside::default());
            }
            ((_, true), State::Runs { since }) => {
                self.ran(number, (since, time), Some(cpu));
                if let Some(vcpu) = self.vcpus.get_mut(number) {
                    vcpu.away(time, None);
                }
            }
            (
                (_, true),
                State::Away {
                    since,
                    ran_since: Some(begin),
                },
            ) => {
                let on = (!vcpu.was_off).then_some(cpu);
                self.ran(number, (begin, since), on);
                if let Some(vcpu) = self.vcpus.get_mut(number) {
                    vcpu.state = State::Away {
                        since,
                        ran_since: None,
                    };
                }
            }
            // An entry is missing.
            ((_, true), State::Away { .. }) => vcpu.away(time, None),
            (_, State::Runs { since }) => vcpu.away(time, Some(since)),
            (_, State::Unknown) => vcpu.away(time, None),
            (_, State::Away { .. }) => {}
        }
    }

    /// Records that events of a CPU of the host before `until` were lost.
    pub fn lost(&mut self, cpu: u32, until: Nanos) {
        let from = self.last.get(&cpu).copied().unwrap_or_default();
        self.history.lost(cpu, until);
        self.last.insert(cpu, until);
        for vcpu in &mut self.vcpus {
            let is_apart =
                |known: &Known| known.span.to <= from || known.on.is_some_and(|on| on != cpu);
            let first = vcpu.spans.partition_point(|known| known.span.to <= from);
            let later = vcpu.spans.split_off(first);
            vcpu.spans.extend(later.into_iter().filter(is_apart));
            if vcpu.is_off || vcpu.was_off || vcpu.on.is_none_or(|on| on == cpu) {
                vcpu.forget();
            }
        }
    }

    /// Processes the time of an event on a CPU of the guest.
    pub fn guest(&mut self, cpu: u32, time: Nanos) {
        let number = self.by_cpu.get(&cpu).copied();
        let Some(vcpu) = number.and_then(|number| self.vcpus.get_mut(number)) else {
            return;
        };
        if let State::Away { since, .. } = vcpu.state
            && time > since
        {
            if time.saturating_sub(since) <= CLOCK_ERROR {
                vcpu.inside.near = Some(time);
            } else {
                vcpu.inside.far.get_or_insert(time);
            }
        }
    }

    /// Returns whether no event of the guest contradicts a span without guest mode.
    fn agrees(&mut self, (from, to): (Nanos, Nanos), inside: Inside) -> bool {
        if to.saturating_sub(from) > CLOCK_ERROR + CLOCK_ERROR {
            self.checked += 1;
        }
        let before_end = |time: Nanos| to.saturating_sub(time);
        let far = inside.far.map_or(Nanos::ZERO, before_end);
        if far > CLOCK_ERROR {
            self.contradicted += 1;
            return false;
        }
        let near = |time: Nanos| time.saturating_sub(from).min(before_end(time));
        let near = inside.near.map_or(Nanos::ZERO, near);
        self.error = self.error.max(near).max(far);
        true
    }

    fn is_wanted(&self, from: Nanos, to: Nanos) -> bool {
        let first = self.wanted.partition_point(|(_, end)| *end <= from);
        self.wanted.get(first).is_some_and(|(begin, _)| *begin < to)
    }

    /// Adds a span in guest mode.
    fn ran(&mut self, number: usize, (from, to): (Nanos, Nanos), on: Option<u32>) {
        if !self.is_wanted(from, to) {
            return;
        }
        if let Some(vcpu) = self.vcpus.get_mut(number) {
            vcpu.put(from, to, None, on);
        }
    }

    /// Adds the spans without guest mode. `on`: the CPU of the host on which they end.
    fn away(
        &mut self,
        (number, tid): (usize, u32),
        (from, to): (Nanos, Nanos),
        on: u32,
        was_off: bool,
    ) {
        if from >= to || !self.is_wanted(from, to) {
            return;
        }
        let spans = self.spans((tid, on), (from, to));
        let Some(vcpu) = self.vcpus.get_mut(number) else {
            return;
        };
        let on = (!was_off).then_some(on);
        for span in spans {
            let CauseSpan {
                from, to, cause, ..
            } = span;
            let cause = Cause {
                source: Source::Host(Box::new(cause.source)),
                ..cause
            };
            vcpu.put(from, to, Some(cause), on);
        }
    }

    /// Splits the time of a virtual CPU's thread outside guest mode by its causes.
    fn spans(&self, (tid, cpu): (u32, u32), (from, to): (Nanos, Nanos)) -> Vec<CauseSpan> {
        let begin = from.saturating_sub(BEFORE);
        let slice = self.history.slice((tid, cpu), from, begin, to);
        let mut events = slice.events;
        // The state of a CPU before a gap is not its state after the gap.
        let is_before_gap = |event: &TraceEvent| {
            let mut of_cpu = slice.gaps.iter().filter(|gap| gap.cpu == event.cpu);
            of_cpu.any(|gap| hides_changes(gap.reason) && event.time < gap.to)
        };
        events.retain(|event| {
            !is_half(event, &self.missing, &self.ended_vectors) && !is_before_gap(event)
        });
        let task = self.names.get(&tid);
        let prio = task.map(|task| task.prio);
        let elsewhere = events
            .iter()
            .any(|event| event.pid == tid && event.cpu != cpu && event.time >= from);
        let window = Window {
            victim: Victim {
                tid,
                comm: task.map_or_else(Comm::default, |task| task.comm),
                scheduling: prio
                    .filter(|prio| *prio != punctual_model::KernelPriority::UNKNOWN)
                    .map(|prio| prio.scheduling()),
                cpu,
            },
            delay: Delay::Job,
            expected: from,
            actual: to,
            events,
            lost: 0,
            left_out: 0,
            missing_events: self.missing.iter().cloned().collect(),
            light_stage: None,
            clock_error: Nanos::ZERO,
            symbols: BTreeMap::new(),
            calls: BTreeMap::new(),
            evidence: Evidence {
                virtual_machine: Some(false),
                ..Evidence::default()
            },
            host: Vec::new(),
            segments: Vec::new(),
            activity: Vec::new(),
        };
        let (spans, _) = walk(&window);
        let mut gaps = slice.gaps;
        if self.clocks_differ && elsewhere {
            gaps.push(EventGap {
                cpu,
                from,
                to,
                reason: GapReason::ClocksDiffer,
            });
        }
        gaps.sort_by_key(|gap| gap.from);
        let mut cut = Vec::new();
        for span in spans {
            without_gaps(span, &gaps, &mut cut);
        }
        cut
    }

    /// Makes the state of a virtual CPU unknown, because its thread has run without a recorded
    /// switch.
    fn unknown(&mut self, tid: u32) {
        let number = self.by_thread.get(&tid).copied();
        if let Some(vcpu) = number.and_then(|number| self.vcpus.get_mut(number)) {
            vcpu.forget();
        }
    }

    /// Makes everything unknown, because the trace has begun again.
    fn forget(&mut self) {
        self.history = History::new(HELD);
        self.last.clear();
        self.running.clear();
        self.vcpus.iter_mut().for_each(Vcpu::forget);
    }

    /// Ends both traces and returns what the host did.
    pub fn finish(self) -> HostView {
        let spans = self.vcpus.into_iter().map(|vcpu| {
            let spans = vcpu.spans.into_iter().map(|known| known.span);
            (vcpu.cpu, spans.collect())
        });
        HostView {
            spans: spans.collect(),
            error: self.error,
            contradicted: (self.checked, self.contradicted),
            span: self.span,
        }
    }
}

impl Vcpu {
    const fn away(&mut self, since: Nanos, ran_since: Option<Nanos>) {
        self.state = State::Away { since, ran_since };
        (self.was_off, self.inside) = (
            self.is_off,
            Inside {
                near: None,
                far: None,
            },
        );
    }

    const fn forget(&mut self) {
        self.state = State::Unknown;
        (self.on, self.is_off, self.was_off) = (None, true, true);
        self.inside = Inside {
            near: None,
            far: None,
        };
    }

    fn put(&mut self, from: Nanos, to: Nanos, away: Option<Cause>, on: Option<u32>) {
        if from < to && self.spans.len() < SPANS {
            let span = HostSpan {
                cpu: self.cpu,
                from,
                to,
                away,
            };
            self.spans.push(Known { span, on });
        }
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
