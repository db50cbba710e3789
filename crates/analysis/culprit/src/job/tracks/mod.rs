//! Activity of threads and CPUs in a window, as spans of time.

mod queries;

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::cause::InterruptWakeup;
use punctual_model::{EventKind, KernelPriority, Nanos, Policy, TraceEvent, Window};

use super::cpu_span::CpuSpan;
use super::faults::{Fault, Faults};
use super::pi_locks::{PiLocks, Spin};
use super::waker::{By, Timer, Wake, completed, waker, waker_in_light_stage};
use crate::context::{Context, Threads};
use crate::events::SYS_ENTER;
use crate::timeline::shows_interrupts;
use crate::victim::FAULT_TIME;

/// The signal that also ends an uninterruptible sleep.
const SIGKILL: u32 = 9;

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
    /// Whether a wake-up by a thread may really come from an interrupt on top of it.
    hides_interrupts: bool,
    /// Numbers of futex(2).
    futexes: BTreeSet<i64>,
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
    /// Threads whose last sleep no signal but SIGKILL ends.
    uninterruptible: BTreeSet<u32>,
    /// The timer that is about to wake a thread.
    timers: BTreeMap<u32, Timer>,
    /// In the light stage: time since which all switches of a CPU are recorded, because a watched
    /// thread waits for it.
    awaited: BTreeMap<u32, Nanos>,
    interrupt_wakeups: Vec<InterruptWakeup>,
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
            hides_interrupts: !shows_interrupts(window),
            futexes: (window.calls.iter())
                .filter(|(_, name)| *name == "futex")
                .map(|(id, _)| *id)
                .collect(),
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
            uninterruptible: BTreeSet::new(),
            timers: BTreeMap::new(),
            awaited: BTreeMap::new(),
            interrupt_wakeups: window.evidence.interrupt_wakeups.clone(),
        };
        tracks.names.add(&window.evidence.wakers);
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
            EventKind::TimerDue { pid, due, latest } => {
                let timer = Timer {
                    due: *due,
                    latest: *latest,
                    cpu: event.cpu,
                };
                open.timers.insert(*pid, timer);
            }
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
                if prev_state.is_uninterruptible() {
                    open.uninterruptible.insert(prev.pid);
                } else {
                    open.uninterruptible.remove(&prev.pid);
                }
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
        let timer = open.timers.remove(&task.pid);
        let by = match &self.watched {
            _ if timer.is_some() => By::Timer,
            Some(_) => waker_in_light_stage(event, &open.interrupt_wakeups),
            None => waker(event, context, open.completed.get(&event.cpu).copied()),
        };
        let number = self.wakes.len();
        self.wakes.push(Wake {
            at: event.time,
            by,
            timer,
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
                let wakes = *sig == SIGKILL || !open.uninterruptible.contains(pid);
                if let Some((_, number)) = woken.filter(|(tid, _)| tid == pid && wakes) {
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

#[cfg(test)]
mod tests;
