//! Activity of threads and CPUs in a window, as spans of time.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{EventKind, KernelPriority, Nanos, Policy, TraceEvent, Window};

use super::cpu_span::CpuSpan;
use super::faults::{Fault, Faults};
use super::pi_locks::{PiLocks, Spin};
use super::waker::{Wake, completed, waker, waker_in_light_stage};
use crate::context::{Context, Threads};
use crate::events::SYS_ENTER;
use crate::victim::FAULT_TIME;

/// State of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Runs(u32),
    /// Runnable but not running.
    Ready,
    /// Asleep, until the wake-up with this index.
    Asleep(Option<usize>),
    Stopped,
    Ended,
    Unknown,
}

/// A phase with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
    pub(crate) phase: Phase,
}

impl Span {
    pub(crate) const fn cpu(&self) -> Option<u32> {
        match self.phase {
            Phase::Runs(cpu) => Some(cpu),
            _ => None,
        }
    }
}

/// Maximum time from a switch to the event with its stack.
const STACK_AFTER: Nanos = Nanos::from_millis(1);

/// A system call in progress: its number and first two arguments.
pub(crate) type InCall = (i64, [u64; 2]);

/// All spans of a window.
pub(crate) struct Tracks {
    pub(crate) names: Threads,
    cpus: BTreeMap<u32, Vec<CpuSpan>>,
    threads: BTreeMap<u32, Vec<Span>>,
    pub(crate) wakes: Vec<Wake>,
    /// Entries (`Some`) and exits of system calls.
    calls: BTreeMap<u32, Vec<(Nanos, Option<InCall>)>>,
    pub(crate) faults: Faults,
    locks: PiLocks,
    /// Whether system calls are recorded.
    knows_calls: bool,
    /// Stacks of threads at the moment they left their CPU.
    stacks: BTreeMap<u32, Vec<(Nanos, Vec<u64>)>>,
    /// Times at which each thread was put into the run queue of its CPU.
    queued: BTreeMap<u32, Vec<Nanos>>,
    /// Times at which each thread was migrated, and the CPU that it came from.
    moves: BTreeMap<u32, Vec<(Nanos, u32)>>,
    priorities: BTreeMap<u32, Vec<(Nanos, KernelPriority)>>,
    /// Stop signals by receiver: time, signal, sender.
    signals: BTreeMap<u32, Vec<(Nanos, u32, u32)>>,
    /// In the light stage: the threads whose events are complete.
    watched: Option<BTreeSet<u32>>,
    /// Sleeps of each thread, with the system calls.
    sleeps: BTreeMap<u32, Vec<(Nanos, Option<InCall>)>>,
}

/// State while the tracks are built.
struct Open {
    since: BTreeMap<u32, (Nanos, Phase)>,
    contexts: BTreeMap<u32, (Nanos, Context)>,
    completed: BTreeMap<u32, (Nanos, u32)>,
    /// The thread and the number of a wake-up that was the last event of its CPU.
    just_woken: BTreeMap<u32, (u32, usize)>,
    /// In the light stage: time since which all switches of a CPU are recorded, because a watched
    /// thread waits for it.
    awaited: BTreeMap<u32, Nanos>,
}

impl Tracks {
    pub(crate) fn from_events(window: &Window, events: &[TraceEvent]) -> Self {
        let mut tracks = Self {
            names: Threads::from_events(events),
            cpus: BTreeMap::new(),
            threads: BTreeMap::new(),
            wakes: Vec::new(),
            calls: BTreeMap::new(),
            faults: Faults::default(),
            locks: PiLocks::default(),
            knows_calls: window.has(SYS_ENTER),
            stacks: BTreeMap::new(),
            queued: BTreeMap::new(),
            moves: BTreeMap::new(),
            priorities: BTreeMap::new(),
            signals: BTreeMap::new(),
            watched: (window.light_stage.as_ref()).map(|tids| tids.iter().copied().collect()),
            sleeps: BTreeMap::new(),
        };
        if let Some(priority) = window.victim.scheduling.map(kernel_priority) {
            tracks.set_priority(window.victim.tid, Nanos::ZERO, priority);
        }
        let mut open = Open {
            since: BTreeMap::new(),
            contexts: BTreeMap::new(),
            completed: BTreeMap::new(),
            just_woken: BTreeMap::new(),
            awaited: BTreeMap::new(),
        };
        for event in events {
            tracks.on_cpu(event, &mut open);
            tracks.note(event);
            tracks.on_threads(event, &mut open);
        }
        let end = window
            .actual
            .max(events.last().map_or(Nanos::ZERO, |last| last.time));
        for (cpu, (since, context)) in &open.contexts {
            tracks.close_cpu(*cpu, *since, end, context);
        }
        for tid in open.since.keys().copied().collect::<Vec<_>>() {
            tracks.change(&mut open, tid, end, Phase::Unknown);
        }
        tracks
    }

    fn on_cpu(&mut self, event: &TraceEvent, open: &mut Open) {
        // The event is about the thread that has just left the CPU.
        if matches!(event.kind, EventKind::KernelStack { .. }) {
            return;
        }
        // No switch came before the first event, so the same thread was current.
        let (since, context) = open
            .contexts
            .entry(event.cpu)
            .or_insert_with(|| (Nanos::ZERO, Context::before(event, &self.names)));
        let spans = self.cpus.entry(event.cpu).or_default();
        // In the light stage, a CPU may have switched unseen until a watched thread waited for it.
        if self.watched.is_some() && context.current.is_none_or(|task| task.pid != event.pid) {
            let known = open.awaited.get(&event.cpu).copied().unwrap_or(event.time);
            let known = known.clamp(*since, event.time);
            context.current = None;
            if known > *since {
                spans.push(CpuSpan::new(*since, known, context));
            }
            *since = known;
            context.current = Some(self.names.task(event.pid));
        }
        if event.time > *since {
            spans.push(CpuSpan::new(*since, event.time, context));
        }
        *since = event.time;
        match &event.kind {
            EventKind::Waking { target_cpu: on, .. } | EventKind::Migrate { dest_cpu: on, .. } => {
                open.awaited.insert(*on, event.time);
            }
            _ => {}
        }
        // The completion of a disk request wakes threads only in the handler that processes it.
        let begins = match event.kind {
            EventKind::IrqEntry { .. } | EventKind::VectorEntry { .. } => {
                context.handlers.is_empty()
            }
            EventKind::SoftirqEntry { .. } => true,
            _ => false,
        };
        if begins {
            open.completed.remove(&event.cpu);
        }
        context.apply(event, &mut self.names);
        if let Some(done) = completed(event) {
            open.completed.insert(event.cpu, done);
        }
    }

    fn close_cpu(&mut self, cpu: u32, from: Nanos, to: Nanos, context: &Context) {
        if to > from {
            let span = CpuSpan::new(from, to, context);
            self.cpus.entry(cpu).or_default().push(span);
        }
    }

    /// Records the data of an event that describe no phase.
    fn note(&mut self, event: &TraceEvent) {
        let (tid, at) = (event.pid, event.time);
        self.faults.note(event);
        self.locks.note(event);
        match &event.kind {
            EventKind::SysEnter { id, args } => {
                self.calls
                    .entry(tid)
                    .or_default()
                    .push((at, Some((*id, *args))));
            }
            EventKind::SleepsIn { id, args } => {
                let call = (*id >= 0).then_some((*id, *args));
                self.sleeps.entry(tid).or_default().push((at, call));
            }
            EventKind::SysExit { id, .. } => {
                let calls = self.calls.entry(tid).or_default();
                // The call began before the first event.
                if calls.is_empty() {
                    calls.push((Nanos::ZERO, Some((*id, [0; 2]))));
                }
                calls.push((at, None));
            }
            EventKind::KernelStack { frames } => {
                let stacks = self.stacks.entry(tid).or_default();
                stacks.push((at, frames.clone()));
            }
            EventKind::Wakeup { task, .. } => {
                self.queued.entry(task.pid).or_default().push(at);
            }
            EventKind::Migrate { task, orig_cpu, .. } => {
                self.moves
                    .entry(task.pid)
                    .or_default()
                    .push((at, *orig_cpu));
            }
            EventKind::PiSetprio { task, newprio } => self.set_priority(task.pid, at, *newprio),
            EventKind::SignalGenerate { sig, pid, .. }
                if crate::victim::STOP_SIGNALS.contains(sig) =>
            {
                self.signals.entry(*pid).or_default().push((at, *sig, tid));
            }
            EventKind::Switch { prev, next, .. } => {
                self.set_priority(prev.pid, at, prev.prio);
                self.set_priority(next.pid, at, next.prio);
            }
            EventKind::Waking { task, .. } => self.set_priority(task.pid, at, task.prio),
            _ => {}
        }
    }

    fn set_priority(&mut self, tid: u32, at: Nanos, priority: KernelPriority) {
        let known = self.priorities.entry(tid).or_default();
        if known.last().is_none_or(|(_, last)| *last != priority) {
            known.push((at, priority));
        }
    }

    fn on_threads(&mut self, event: &TraceEvent, open: &mut Open) {
        let (at, tid) = (event.time, event.pid);
        self.note_signal(event, open);
        // A thread that emits an event is running.
        let known = open.since.get(&tid).map(|(_, phase)| *phase);
        // The event is about the thread that has just left the CPU.
        let late = matches!(event.kind, EventKind::KernelStack { .. });
        if tid != 0 && !late && !matches!(known, Some(Phase::Runs(cpu)) if cpu == event.cpu) {
            // The event of the switch to this thread is missing, so the time of the switch is
            // unknown.
            if let Some((_, phase @ Phase::Ready)) = open.since.get_mut(&tid) {
                *phase = Phase::Unknown;
            }
            self.change(open, tid, at, Phase::Runs(event.cpu));
        }
        match &event.kind {
            EventKind::Switch {
                prev,
                prev_state,
                next,
            } => {
                let phase = match () {
                    () if prev_state.is_runnable() => Phase::Ready,
                    () if prev_state.is_stopped() || prev_state.is_traced() => Phase::Stopped,
                    () if prev_state.is_exit() => Phase::Ended,
                    () => Phase::Asleep(None),
                };
                self.change(open, prev.pid, at, phase);
                self.change(open, next.pid, at, Phase::Runs(event.cpu));
            }
            EventKind::Waking { task, .. } => {
                let before = open.since.get(&task.pid).map(|(_, phase)| *phase);
                match before {
                    None | Some(Phase::Asleep(_) | Phase::Stopped | Phase::Unknown) => {
                        self.wakes_up(event, open);
                        self.change(open, task.pid, at, Phase::Ready);
                    }
                    Some(Phase::Runs(_) | Phase::Ready | Phase::Ended) => {}
                }
            }
            _ => {}
        }
    }

    fn wakes_up(&mut self, event: &TraceEvent, open: &mut Open) {
        let EventKind::Waking { task, .. } = &event.kind else {
            return;
        };
        let Some((_, context)) = open.contexts.get(&event.cpu) else {
            return;
        };
        let by = match &self.watched {
            Some(_) => waker_in_light_stage(event),
            None => waker(event, context, open.completed.get(&event.cpu).copied()),
        };
        let number = self.wakes.len();
        self.wakes.push(Wake {
            at: event.time,
            by,
            signal: None,
        });
        open.just_woken.insert(event.cpu, (task.pid, number));
        let (_, phase) = open
            .since
            .entry(task.pid)
            .or_insert((Nanos::ZERO, Phase::Unknown));
        if matches!(phase, Phase::Asleep(_) | Phase::Unknown) {
            *phase = Phase::Asleep(Some(number));
        }
    }

    /// A signal wakes its receiver, and `signal_generate` follows immediately on the same CPU. In
    /// between, the kernel holds the lock that protects the signals, with interrupts disabled.
    fn note_signal(&mut self, event: &TraceEvent, open: &mut Open) {
        match &event.kind {
            // Other events of the same wake-up.
            EventKind::Wakeup { .. } | EventKind::Migrate { .. } | EventKind::IpiSend { .. } => {}
            EventKind::SignalGenerate { sig, pid, .. } => {
                let woken = open.just_woken.remove(&event.cpu);
                if let Some((_, number)) = woken.filter(|(tid, _)| tid == pid) {
                    self.wakes[number].signal = Some(*sig);
                }
            }
            _ => {
                open.just_woken.remove(&event.cpu);
            }
        }
    }

    /// Ends the current phase of a thread and begins another.
    fn change(&mut self, open: &mut Open, tid: u32, at: Nanos, phase: Phase) {
        let is_known = |all: &BTreeSet<u32>| all.contains(&tid);
        if tid == 0 || !self.watched.as_ref().is_none_or(is_known) {
            return;
        }
        let (from, before) = open
            .since
            .insert(tid, (at, phase))
            .unwrap_or((Nanos::ZERO, Phase::Unknown));
        if at > from {
            let span = Span {
                from,
                to: at,
                phase: before,
            };
            self.threads.entry(tid).or_default().push(span);
        }
    }

    /// Returns whether the events are those of the light stage.
    pub(crate) const fn is_light(&self) -> bool {
        self.watched.is_some()
    }

    /// Returns the spans of a thread between two times, without gaps.
    pub(crate) fn spans(&self, tid: u32, from: Nanos, to: Nanos) -> Vec<Span> {
        let all = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let unknown = |from, to| Span {
            from,
            to,
            phase: Phase::Unknown,
        };
        cover(
            all,
            (from, to),
            |span| (span.from, span.to),
            |span, from, to| span.map_or(unknown(from, to), |span| Span { from, to, ..*span }),
        )
    }

    /// Returns the spans of a CPU between two times, without gaps.
    pub(crate) fn on(&self, cpu: u32, from: Nanos, to: Nanos) -> Vec<CpuSpan> {
        let all = self.cpus.get(&cpu).map_or(&[][..], Vec::as_slice);
        cover(
            all,
            (from, to),
            |span| (span.from, span.to),
            |span, from, to| CpuSpan {
                from,
                to,
                current: span.and_then(|span| span.current),
                on_top: span.and_then(|span| span.on_top.clone()),
            },
        )
    }

    /// Returns the CPUs on which a runnable thread waited, in order. The last one is the CPU that
    /// it got at `to`.
    pub(crate) fn waited_on(&self, tid: u32, from: Nanos, to: Nanos) -> Vec<(Nanos, Nanos, u32)> {
        let all = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let after = all.get(all.partition_point(|span| span.from < to));
        let after = after.and_then(Span::cpu);
        let before = all
            .iter()
            .rev()
            .find(|span| span.to <= from && span.cpu().is_some());
        let last = after.or_else(|| before.and_then(Span::cpu));
        let mut parts = Vec::new();
        let mut at = from;
        for (moved, cpu) in self.moves.get(&tid).into_iter().flatten() {
            if *moved > at && *moved < to {
                parts.push((at, *moved, *cpu));
                at = *moved;
            }
        }
        parts.extend(last.map(|cpu| (at, to, cpu)));
        parts
    }

    /// Returns the system call of a thread at a given time; the outer `None` means unknown.
    pub(crate) fn call_at(&self, tid: u32, at: Nanos) -> Option<Option<InCall>> {
        let calls = self.calls.get(&tid)?;
        let after = calls.partition_point(|(from, _)| *from <= at);
        match after.checked_sub(1) {
            Some(before) => Some(calls[before].1),
            // Before the first entry, the thread is in user space.
            None => Some(None),
        }
    }

    /// Returns the system call in which a thread went to sleep at a given time: `Some(None)` if it
    /// was in no call, and the outer `None` if no event shows it.
    pub(crate) fn call_of_sleep(&self, tid: u32, at: Nanos) -> Option<Option<InCall>> {
        let sleeps = self.sleeps.get(&tid)?;
        let first = sleeps.partition_point(|(from, _)| *from < at);
        let (from, call) = sleeps.get(first)?;
        (*from == at).then_some(*call)
    }

    /// Returns when a thread enters and leaves system calls between two times.
    pub(crate) fn calls_between(&self, tid: u32, from: Nanos, to: Nanos) -> Vec<Nanos> {
        let calls = self.calls.get(&tid).map_or(&[][..], Vec::as_slice);
        let first = calls.partition_point(|(at, _)| *at <= from);
        calls[first..]
            .iter()
            .map(|(at, _)| *at)
            .take_while(|at| *at < to)
            .collect()
    }

    /// Returns whether a thread that is runnable at a given time is known to be in its CPU's run
    /// queue by then: it was preempted, or its wake-up has reached that CPU.
    pub(crate) fn was_queued(&self, tid: u32, at: Nanos) -> bool {
        let all = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let now = all.partition_point(|span| span.to <= at);
        let Some(since) = all.get(now).map(|span| span.from) else {
            return false;
        };
        let preempted = now > 0 && matches!(all[now - 1].phase, Phase::Runs(_));
        let queued = self.queued.get(&tid).into_iter().flatten();
        preempted || queued.into_iter().any(|time| (since..=at).contains(time))
    }

    /// Returns whether the last event of a thread before its sleep was a page fault.
    pub(crate) fn slept_in_fault(&self, tid: u32, at: Nanos) -> bool {
        let Some(fault) = self.faults.last(tid, at) else {
            return false;
        };
        if let Some(end) = fault.end {
            return end > at;
        }
        // In user space, only a system call or a fault leads to a sleep. If the thread is in a
        // call, or if calls are not recorded, any old fault is assumed to have ended.
        if at > fault.from + FAULT_TIME && !(fault.user && self.knows_calls) {
            return false;
        }
        self.no_call_since(tid, fault.from, at)
    }

    /// Returns whether a thread neither enters nor leaves a system call between two times.
    fn no_call_since(&self, tid: u32, from: Nanos, at: Nanos) -> bool {
        let calls = self.calls.get(&tid).map_or(&[][..], Vec::as_slice);
        let after = calls.partition_point(|(time, _)| *time <= at);
        after
            .checked_sub(1)
            .is_none_or(|before| calls[before].0 <= from)
    }

    /// Returns the time of the page fault because of which a thread is asleep at a given time;
    /// `None` if it is not asleep because of a fault.
    pub(crate) fn fault_before_sleep(&self, tid: u32, at: Nanos) -> Option<Nanos> {
        let spans = self.threads.get(&tid)?;
        let next = spans.get(spans.partition_point(|span| span.from < at))?;
        if next.from != at {
            return None;
        }
        let asleep = matches!(next.phase, Phase::Asleep(_));
        let last = self.faults.last(tid, at)?;
        (asleep && self.slept_in_fault(tid, at)).then_some(last.from)
    }

    /// Returns the page fault in which a running thread is at a given time. If the fault has no
    /// end, the thread may also have returned to user space.
    pub(crate) fn in_fault(&self, tid: u32, at: Nanos) -> Option<Fault> {
        let fault = self.faults.last(tid, at)?;
        let is_inside = match fault.end {
            Some(end) => at < end,
            // A fault in a system call cannot be distinguished from the rest of the call.
            None => fault.user && self.knows_calls && self.no_call_since(tid, fault.from, at),
        };
        is_inside.then_some(fault)
    }

    /// Returns the thread that a running thread spins for in the kernel, in the system call that
    /// contains the given time.
    pub(crate) fn spin(&self, tid: u32, at: Nanos) -> Option<Spin> {
        let calls = self.calls.get(&tid)?;
        let after = calls.partition_point(|(from, _)| *from <= at);
        let (entered, call) = calls[after.checked_sub(1)?];
        let (_, args) = call?;
        let exit = calls.get(after).map_or(Nanos(u64::MAX), |(exit, _)| *exit);
        self.locks
            .spin(tid, (entered, exit), args, |owner, is_unlock| {
                let calls = self.calls.get(&owner).into_iter().flatten();
                let unlocks =
                    calls.filter(|(_, call)| call.is_some_and(|(_, args)| is_unlock(args)));
                unlocks.map(|(at, _)| *at).collect()
            })
    }

    /// Returns the signal that stopped a thread at a given time, and its sender. The kernel sends
    /// a signal for a process to one of its threads but stops all of them. So if the thread itself
    /// received none, the only stop signal so far is the cause.
    pub(crate) fn stop_signal(&self, tid: u32, at: Nanos) -> Option<(u32, u32)> {
        let spans = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let since = spans.get(spans.partition_point(|span| span.to <= at));
        let at = since.map_or(at, |span| span.from.min(at));
        let own = self.signals.get(&tid).into_iter().flatten();
        let last = own.rev().find(|(time, ..)| *time <= at);
        if let Some((_, signal, sender)) = last {
            return Some((*signal, *sender));
        }
        let all = self.signals.values().flatten();
        let mut before = all.filter(|(time, ..)| *time <= at);
        let (_, signal, sender) = *before.next()?;
        before
            .all(|(_, other, by)| (*other, *by) == (signal, sender))
            .then_some((signal, sender))
    }

    /// Returns the stack of a thread that left its CPU at a given time.
    pub(crate) fn stack(&self, tid: u32, at: Nanos) -> Option<&[u64]> {
        let stacks = self.stacks.get(&tid)?;
        let first = stacks.partition_point(|(from, _)| *from < at);
        let (from, frames) = stacks.get(first)?;
        (*from < at + STACK_AFTER).then_some(frames)
    }

    /// Returns the effective priority, as far as it is known.
    pub(crate) fn priority(&self, tid: u32, at: Nanos) -> KernelPriority {
        let unknown = KernelPriority::UNKNOWN;
        let Some(known) = self.priorities.get(&tid) else {
            return unknown;
        };
        let after = known.partition_point(|(from, _)| *from <= at);
        known
            .get(after.saturating_sub(1))
            .map_or(unknown, |(_, priority)| *priority)
    }
}

/// Splits a segment of time at the boundaries of consecutive spans. `make` gets `None` for the
/// gaps.
fn cover<S, T>(
    spans: &[S],
    (from, to): (Nanos, Nanos),
    ends: impl Fn(&S) -> (Nanos, Nanos),
    mut make: impl FnMut(Option<&S>, Nanos, Nanos) -> T,
) -> Vec<T> {
    let mut pieces = Vec::new();
    let mut at = from;
    let first = spans.partition_point(|span| ends(span).1 <= from);
    for span in &spans[first..] {
        let (begins, end) = ends(span);
        if begins >= to || at >= to {
            break;
        }
        if begins > at {
            pieces.push(make(None, at, begins));
            at = begins;
        }
        let until = end.min(to);
        if until > at {
            pieces.push(make(Some(span), at, until));
            at = until;
        }
    }
    if to > at {
        pieces.push(make(None, at, to));
    }
    pieces
}

fn kernel_priority(scheduling: punctual_model::Scheduling) -> KernelPriority {
    match (scheduling.policy, scheduling.priority) {
        (Policy::Deadline, _) => KernelPriority(-1),
        (policy, priority) if policy.is_real_time() => {
            KernelPriority::real_time(priority.clamp(1, 99))
        }
        _ => KernelPriority(120),
    }
}
