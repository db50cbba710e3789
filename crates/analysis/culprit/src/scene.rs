//! State of the CPUs, the threads and the victim at a point in the window.

use std::collections::BTreeMap;

use punctual_model::{Delay, EventKind, GapReason, KernelPriority, Nanos, TraceEvent, Window};

use crate::context::{Context, IpiSender, Threads};
use crate::timeline::{LaterEvents, TimelineEvent, WakeSource};
use crate::victim::{State, Thread, Why};

/// Timer slack of a thread that has not set one (prctl(2), PR_SET_TIMERSLACK).
pub(crate) const USUAL_SLACK: Nanos = Nanos::from_micros(50);

/// State up to the current time, and the later events of the victim.
pub(crate) struct Scene<'a> {
    pub(crate) window: &'a Window,
    pub(crate) future: LaterEvents,
    contexts: BTreeMap<u32, Context>,
    pub(crate) threads: Threads,
    pub(crate) victim: Thread,
    /// Last migration of the victim since it was due: the old and the new CPU.
    pub(crate) moved: Option<(u32, u32)>,
}

/// A span of time without events, and the state during it.
pub(crate) struct Moment<'a, 'w> {
    pub(crate) scene: &'a Scene<'w>,
    /// State of the CPU that matters.
    pub(crate) context: &'a Context,
    pub(crate) cpu: u32,
    pub(crate) from: Nanos,
    pub(crate) length: Nanos,
    /// Event that ends the span.
    pub(crate) next: Option<&'a TimelineEvent<'a>>,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(
        window: &'a Window,
        events: &'a [TraceEvent],
        marks: &[(Nanos, TimelineEvent<'a>)],
    ) -> Self {
        let threads = Threads::from_events(events);
        Self {
            future: LaterEvents::from_timeline(window, marks, &threads),
            contexts: before_all(marks, &threads),
            victim: Thread::from_events(window, events),
            window,
            threads,
            moved: None,
        }
    }

    /// Updates the state.
    pub(crate) fn apply(&mut self, at: Nanos, mark: &TimelineEvent<'_>) {
        match mark {
            TimelineEvent::Nmi { cpu, begins } => {
                let context = self.contexts.entry(*cpu).or_default();
                context.nmi = match begins {
                    true => context.nmi.saturating_add(1),
                    false => context.nmi.saturating_sub(1),
                };
            }
            TimelineEvent::Gap {
                cpu,
                reason,
                begins: true,
            } => self.contexts.entry(*cpu).or_default().gap = Some(*reason),
            TimelineEvent::Gap { cpu, reason, .. } => {
                // Changes during the gap are unknown.
                if hides_changes(*reason) {
                    self.contexts.insert(*cpu, Context::default());
                    if *cpu == self.victim.cpu {
                        self.victim.state = if self.sleeps_until_timer(at) {
                            State::Asleep(Why::First)
                        } else {
                            State::Unknown
                        };
                    }
                } else if let Some(context) = self.contexts.get_mut(cpu) {
                    context.gap = None;
                }
            }
            TimelineEvent::Event(event) => {
                let due = event.time >= self.window.expected;
                let context = self.contexts.entry(event.cpu).or_default();
                context.apply(event, &mut self.threads);
                if let Some((sender, cpus)) = IpiSender::from_event(event, &self.threads) {
                    for cpu in cpus.iter().filter(|cpu| **cpu != event.cpu) {
                        if let Some(target) = self.contexts.get_mut(cpu) {
                            target.interrupted_by(sender);
                        }
                    }
                }
                self.threads.apply(event);
                self.victim.apply(event, due);
                if due && self.victim.moved.is_some() {
                    self.moved = self.victim.moved;
                }
            }
        }
    }

    /// Returns whether the victim is asleep from `at` until its own timer expires: it had armed the
    /// timer, and the next event of the victim is a wake-up by an interrupt.
    pub(crate) fn sleeps_until_timer(&self, at: Nanos) -> bool {
        let woken = self.future.waking(at);
        self.window.delay == Delay::Timer
            && self.victim.slack.is_some()
            && woken.is_some_and(|waking| waking.by == WakeSource::Interrupt)
    }

    pub(crate) fn context(&self, cpu: u32) -> Option<&Context> {
        self.contexts.get(&cpu)
    }

    /// Returns how late the victim's timer may expire, and whether this value is known.
    pub(crate) fn slack(&self) -> (Nanos, bool) {
        let real_time = self.victim.prio.is_none_or(KernelPriority::is_real_time);
        match self.victim.slack {
            _ if self.window.delay != Delay::Timer => (Nanos::ZERO, true),
            Some(slack) => (slack, true),
            // The kernel ignores the slack of a real-time thread.
            None if real_time => (Nanos::ZERO, true),
            None => (USUAL_SLACK, false),
        }
    }

    /// Returns the CPU that matters for the victim at a time.
    pub(crate) fn victim_cpu(&self, at: Nanos) -> u32 {
        match &self.victim.state {
            State::Running | State::Queued | State::Stopped | State::Gone => self.victim.cpu,
            State::Woken => self.future.cpu_at(at).unwrap_or(self.victim.cpu),
            State::Asleep(Why::Lock { chain, .. }) => (self.future.holder(chain, at))
                .and_then(|holder| self.running_on(holder))
                .or_else(|| self.future.waking(at).map(|waking| waking.cpu))
                .unwrap_or(self.victim.cpu),
            State::Asleep(_) => self
                .future
                .waking(at)
                .map_or(self.victim.cpu, |waking| waking.cpu),
            State::Unknown => self.future.cpu_at(at).unwrap_or(self.victim.cpu),
        }
    }

    fn running_on(&self, pid: u32) -> Option<u32> {
        self.contexts
            .iter()
            .find(|(_, context)| context.current.is_some_and(|task| task.pid == pid))
            .map(|(cpu, _)| *cpu)
    }
}

/// Returns whether the state after a gap cannot be derived from the events after it.
pub(crate) const fn hides_changes(reason: GapReason) -> bool {
    matches!(reason, GapReason::Lost | GapReason::Contradiction)
}

/// Derives the state of each CPU before its first event. This event names the thread that was
/// current.
fn before_all(marks: &[(Nanos, TimelineEvent<'_>)], threads: &Threads) -> BTreeMap<u32, Context> {
    let mut contexts = BTreeMap::new();
    for (_, mark) in marks {
        let TimelineEvent::Event(event) = mark else {
            continue;
        };
        if matches!(event.kind, EventKind::KernelStack { .. }) {
            continue;
        }
        contexts
            .entry(event.cpu)
            .or_insert_with(|| Context::before(event, threads));
    }
    contexts
}
