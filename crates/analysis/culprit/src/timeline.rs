//! Determines from later events which CPU matters for the victim, and what wakes it.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{
    EventKind, GapReason, Nanos, NoiseSource, NotShown, Task, TraceEvent, Window,
};

use crate::context::{Context, Threads};

/// A change of state at a point in time.
#[derive(Clone, Debug)]
pub(crate) enum TimelineEvent<'a> {
    Event(&'a TraceEvent),
    /// A non-maskable interrupt begins or ends. The kernel writes its only event at the end, with
    /// its duration.
    Nmi {
        cpu: u32,
        begins: bool,
    },
    /// From here on, events of a CPU may be missing, or may no longer be missing.
    Gap {
        cpu: u32,
        reason: GapReason,
        begins: bool,
    },
}

/// Returns the window's events in order of time, with each non-maskable interrupt split into a
/// beginning and an end. Drops everything after the actual time.
pub(crate) fn timeline_events<'a>(
    window: &Window,
    events: &'a [TraceEvent],
) -> Vec<(Nanos, TimelineEvent<'a>)> {
    let mut marks: Vec<(Nanos, TimelineEvent<'a>)> = Vec::with_capacity(events.len());
    // The boundaries of gaps come before events with the same time, because events are complete
    // from the end of a gap on.
    for gap in &window.evidence.gaps {
        let (cpu, reason) = (gap.cpu, gap.reason);
        for (time, begins) in [(gap.from, true), (gap.to, false)] {
            let mark = TimelineEvent::Gap {
                cpu,
                reason,
                begins,
            };
            marks.push((time, mark));
        }
    }
    for event in events {
        let nmi = match &event.kind {
            EventKind::NmiHandler { delta, .. } => Some((event.time - *delta, event.time)),
            EventKind::Noise {
                source: NoiseSource::Nmi,
                duration,
                ..
            // The start time in the event uses another clock.
            } if !window.has(crate::events::NMI) => Some((event.time - *duration, event.time)),
            _ => None,
        };
        let cpu = event.cpu;
        match nmi {
            Some((from, to)) if from < to => {
                marks.push((from, TimelineEvent::Nmi { cpu, begins: true }));
                marks.push((to, TimelineEvent::Nmi { cpu, begins: false }));
            }
            Some(_) => {}
            None => marks.push((event.time, TimelineEvent::Event(event))),
        }
    }
    marks.retain(|(time, _)| *time <= window.actual);
    marks.sort_by_key(|(time, _)| *time);
    marks
}

/// Context that wakes the victim up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeSource {
    /// The current thread, or an interrupt on top of it that no recorded event shows.
    Unknown,
    /// A hard interrupt: the victim's timer expired.
    Interrupt,
    /// A softirq.
    Softirq,
    /// A thread.
    Thread(Task),
}

/// A wake-up of the victim.
#[derive(Clone, Debug)]
pub(crate) struct Waking {
    pub(crate) at: Nanos,
    /// CPU of the waker.
    pub(crate) cpu: u32,
    /// Thread that was current there.
    pid: u32,
    pub(crate) by: WakeSource,
    /// Thread whose system call caused the wake-up, even if a softirq then woke the thread.
    pub(crate) caller: Option<Task>,
}

impl Waking {
    fn from_event(at: Nanos, context: &Context, event: &TraceEvent, threads: &Threads) -> Self {
        let by = woken_by(context, event, threads);
        Self {
            at,
            cpu: event.cpu,
            pid: event.pid,
            caller: match by {
                WakeSource::Thread(task) => Some(task),
                WakeSource::Softirq if !context.softirq_of_handler => {
                    let task = threads.task(event.pid);
                    (!task.is_idle()).then_some(task)
                }
                WakeSource::Softirq | WakeSource::Interrupt | WakeSource::Unknown => None,
            },
            by,
        }
    }

    /// The handler before the softirq may have interrupted a thread's call. This is assumed if the
    /// victim had woken that thread before.
    fn answered(mut self, called: &BTreeSet<u32>, event: &TraceEvent, threads: &Threads) -> Self {
        if self.by == WakeSource::Softirq && called.contains(&event.pid) {
            self.caller = Some(threads.task(event.pid));
        }
        self
    }
}

/// Later events of the victim, for lookup at any time in the window.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaterEvents {
    wakings: Vec<Waking>,
    /// CPUs on which the victim was queued or began to run, with times.
    cpus: Vec<(Nanos, u32)>,
    /// Time of its last switch in.
    switched_in: Option<Nanos>,
    /// Times at which it began to run.
    runs: Vec<Nanos>,
    /// Times at which it was put into the run queue of its CPU.
    queued: Vec<Nanos>,
    /// Threads that gave up an inherited priority, with times.
    given_up: Vec<(Nanos, u32)>,
    /// For each CPU, the times of its switches, and whether they ended its idle time.
    switches: BTreeMap<u32, Vec<(Nanos, bool)>>,
}

impl LaterEvents {
    pub(crate) fn from_timeline(
        window: &Window,
        marks: &[(Nanos, TimelineEvent<'_>)],
        threads: &Threads,
    ) -> Self {
        let tid = window.victim.tid;
        let in_thread = |waking: Waking| match waking.by {
            WakeSource::Thread(_) if !shows_interrupts(window) => Waking {
                by: WakeSource::Unknown,
                caller: None,
                ..waking
            },
            _ => waking,
        };
        let mut future = Self::default();
        let mut contexts = BTreeMap::<u32, Context>::new();
        let mut threads = threads.clone();
        // Threads that the victim has woken.
        let mut called = BTreeSet::new();
        for (at, mark) in marks {
            let event = match mark {
                TimelineEvent::Event(event) => event,
                TimelineEvent::Gap { cpu, .. } => {
                    contexts.remove(cpu);
                    continue;
                }
                TimelineEvent::Nmi { .. } => continue,
            };
            let context = contexts.entry(event.cpu).or_default();
            context.apply(event, &mut threads);
            if matches!(event.kind, EventKind::Switch { .. }) {
                let switches = future.switches.entry(event.cpu).or_default();
                switches.push((*at, event.pid == 0));
            }
            match &event.kind {
                EventKind::Waking { task, .. } if event.pid == tid => {
                    called.insert(task.pid);
                }
                EventKind::Waking { task, .. } if task.pid == tid => {
                    let waking = Waking::from_event(*at, context, event, &threads);
                    let waking = waking.answered(&called, event, &threads);
                    future.wakings.push(in_thread(waking));
                }
                EventKind::PiSetprio { task, .. } if task.pid == event.pid => {
                    future.given_up.push((*at, task.pid));
                }
                EventKind::Wakeup {
                    task, target_cpu, ..
                } if task.pid == tid => {
                    future.queued.push(*at);
                    future.cpus.push((*at, *target_cpu));
                    // Replaces a missing `sched_waking`, which is usually emitted in the same
                    // interrupt.
                    let known = future.wakings.last().is_some_and(|last| {
                        future.cpus.len() < 2 || last.at >= future.cpus[future.cpus.len() - 2].0
                    });
                    if !known {
                        let waking = Waking::from_event(*at, context, event, &threads);
                        future.wakings.push(in_thread(waking));
                    }
                }
                EventKind::Switch { next, .. } if next.pid == tid => {
                    future.switched_in = Some(*at);
                    future.runs.push(*at);
                    future.cpus.push((*at, event.cpu));
                }
                _ => {}
            }
        }
        future
    }

    /// Returns the first wake-up at `time` or later. Returns `None` if the victim runs before that
    /// wake-up, because an earlier wake-up was then not recorded.
    pub(crate) fn waking(&self, time: Nanos) -> Option<&Waking> {
        let next = self.wakings.iter().find(|waking| waking.at >= time)?;
        let mut runs = self.runs.iter();
        (!runs.any(|at| *at > time && *at < next.at)).then_some(next)
    }

    /// Returns whether a CPU that seems to be idle was idle until its next switch. Some kernels lose
    /// the switches of the idle thread; the next switch then shows that another thread had run.
    /// Returns `None` without a later switch.
    pub(crate) fn is_idle_until_switch(&self, cpu: u32, time: Nanos) -> Option<bool> {
        let switches = self.switches.get(&cpu)?;
        let next = switches.partition_point(|(at, _)| *at <= time);
        switches.get(next).map(|(_, idle)| *idle)
    }

    /// Returns the holder of the lock that the victim is waiting for from `time` on. Among the
    /// threads that inherited the victim's priority, the holder is the one that gives it up and
    /// wakes the victim. Returns `None` if the victim is asleep for another reason.
    pub(crate) fn holder(&self, chain: &[u32], time: Nanos) -> Option<u32> {
        let waking = self.waking(time)?;
        let gives_up =
            |(at, pid): &(Nanos, u32)| *pid == waking.pid && (time..=waking.at).contains(at);
        let released = self.given_up.iter().any(gives_up);
        (waking.by != WakeSource::Interrupt && chain.contains(&waking.pid) && released)
            .then_some(waking.pid)
    }

    /// Returns whether a thread gives up an inherited priority at `time` or later.
    pub(crate) fn gives_up(&self, pid: u32, time: Nanos) -> bool {
        self.given_up
            .iter()
            .any(|(at, of)| *of == pid && *at >= time)
    }

    /// Returns whether the victim is put into the run queue of its CPU at `time` or later.
    pub(crate) fn is_queued(&self, time: Nanos) -> bool {
        self.queued.iter().any(|at| *at >= time)
    }

    /// Returns whether the victim is switched in at `time` or later.
    pub(crate) fn is_switched_in(&self, time: Nanos) -> bool {
        self.switched_in.is_some_and(|at| at >= time)
    }

    /// Returns the CPU on which the victim is queued or runs next.
    pub(crate) fn cpu_at(&self, time: Nanos) -> Option<u32> {
        let next = self.cpus.iter().find(|(at, _)| *at >= time);
        next.map(|(_, cpu)| *cpu)
    }
}

/// Returns whether the events show if code ran in an interrupt, either by their flags or because
/// the start of every interrupt is recorded.
pub(crate) fn shows_interrupts(window: &Window) -> bool {
    let hidden = |what| window.evidence.not_shown.contains(&what);
    let started = window.has(crate::events::IRQ)
        && window.has(crate::events::SOFTIRQ)
        && !hidden(NotShown::Vectors);
    started || !hidden(NotShown::Flags)
}

fn woken_by(context: &Context, event: &TraceEvent, threads: &Threads) -> WakeSource {
    if !context.handlers.is_empty() || event.has(TraceEvent::HARDIRQ) {
        return WakeSource::Interrupt;
    }
    if context.softirq.is_some() || event.has(TraceEvent::SOFTIRQ) {
        return WakeSource::Softirq;
    }
    match context.current {
        // The idle thread never wakes a thread, so an interrupt without an event did it.
        Some(task) if task.is_idle() => WakeSource::Interrupt,
        Some(task) => WakeSource::Thread(task),
        None => WakeSource::Thread(threads.task(event.pid)),
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
