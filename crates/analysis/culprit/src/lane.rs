//! Which CPU matters for the victim, and who wakes it, from what comes later.

use std::collections::BTreeSet;

use punctual_model::{EventKind, Nanos, NoiseSource, Task, TraceEvent, Window};

use crate::context::{Context, Threads};

/// What changes at a moment.
#[derive(Clone, Debug)]
pub(crate) enum Mark<'a> {
    Event(&'a TraceEvent),
    /// A non-maskable interrupt begins or ends: its only event is written when
    /// it is over, with how long it took.
    Nmi {
        cpu: u32,
        begins: bool,
    },
}

/// The window's events by time, each non-maskable interrupt as a beginning and
/// an end. What is after the actual time is left out.
pub(crate) fn marks<'a>(window: &Window, events: &'a [TraceEvent]) -> Vec<(Nanos, Mark<'a>)> {
    let mut marks: Vec<(Nanos, Mark<'a>)> = Vec::with_capacity(events.len());
    for event in events {
        let nmi = match &event.kind {
            EventKind::NmiHandler { delta, .. } => Some((event.time - *delta, event.time)),
            EventKind::Noise {
                source: NoiseSource::Nmi,
                duration,
                ..
            // Its own begin is on another clock.
            } if !window.has(crate::events::NMI) => Some((event.time - *duration, event.time)),
            _ => None,
        };
        let cpu = event.cpu;
        match nmi {
            Some((from, to)) if from < to => {
                marks.push((from, Mark::Nmi { cpu, begins: true }));
                marks.push((to, Mark::Nmi { cpu, begins: false }));
            }
            Some(_) => {}
            None => marks.push((event.time, Mark::Event(event))),
        }
    }
    marks.retain(|(time, _)| *time <= window.actual);
    marks.sort_by_key(|(time, _)| *time);
    marks
}

/// How the victim is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// In a hard interrupt: its timer came.
    Interrupt,
    /// In a softirq.
    Softirq,
    /// By a thread.
    Thread(Task),
}

/// A wake-up of the victim.
#[derive(Clone, Debug)]
pub(crate) struct Waking {
    pub(crate) at: Nanos,
    /// Where the waker ran.
    pub(crate) cpu: u32,
    /// The thread that was current there.
    pid: u32,
    pub(crate) by: By,
    /// The thread whose call it was, also where a softirq finished that.
    pub(crate) caller: Option<Task>,
}

impl Waking {
    fn of(at: Nanos, context: &Context, event: &TraceEvent, threads: &Threads) -> Self {
        let by = woken_by(context, event, threads);
        Self {
            at,
            cpu: event.cpu,
            pid: event.pid,
            caller: match by {
                By::Thread(task) => Some(task),
                By::Softirq if !context.softirq_of_handler => {
                    let task = threads.task(event.pid);
                    (!task.is_idle()).then_some(task)
                }
                By::Softirq | By::Interrupt => None,
            },
            by,
        }
    }

    /// The handler that the softirq followed may have come on top of a thread's
    /// call: so it was where the victim had called that thread before.
    fn answered(mut self, called: &BTreeSet<u32>, event: &TraceEvent, threads: &Threads) -> Self {
        if self.by == By::Softirq && called.contains(&event.pid) {
            self.caller = Some(threads.task(event.pid));
        }
        self
    }
}

/// What the window shows of the victim's future at any moment in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Future {
    wakings: Vec<Waking>,
    /// Where it was put or began to run.
    places: Vec<(Nanos, u32)>,
    /// When it last began to run.
    switched_in: Option<Nanos>,
    /// When it was put into the queue of its CPU.
    queued: Vec<Nanos>,
    /// When a thread gave up a priority that it was lent, and which.
    given_up: Vec<(Nanos, u32)>,
}

impl Future {
    pub(crate) fn of(tid: u32, marks: &[(Nanos, Mark<'_>)], threads: &Threads) -> Self {
        let mut future = Self::default();
        let mut contexts = std::collections::BTreeMap::<u32, Context>::new();
        let mut threads = threads.clone();
        // Whom the victim has woken.
        let mut called = BTreeSet::new();
        for (at, mark) in marks {
            let Mark::Event(event) = mark else { continue };
            let context = contexts.entry(event.cpu).or_default();
            context.apply(event, &mut threads);
            match &event.kind {
                EventKind::Waking { task, .. } if event.pid == tid => {
                    called.insert(task.pid);
                }
                EventKind::Waking { task, .. } if task.pid == tid => {
                    let waking = Waking::of(*at, context, event, &threads);
                    let waking = waking.answered(&called, event, &threads);
                    future.wakings.push(waking);
                }
                EventKind::PiSetprio { task, .. } if task.pid == event.pid => {
                    future.given_up.push((*at, task.pid));
                }
                EventKind::Wakeup {
                    task, target_cpu, ..
                } if task.pid == tid => {
                    future.queued.push(*at);
                    future.places.push((*at, *target_cpu));
                    // Where no `sched_waking` is recorded, it is the next best:
                    // mostly written in the same interrupt.
                    let known = future.wakings.last().is_some_and(|last| {
                        future.places.len() < 2
                            || last.at >= future.places[future.places.len() - 2].0
                    });
                    if !known {
                        future
                            .wakings
                            .push(Waking::of(*at, context, event, &threads));
                    }
                }
                EventKind::Switch { next, .. } if next.pid == tid => {
                    future.switched_in = Some(*at);
                    future.places.push((*at, event.cpu));
                }
                _ => {}
            }
        }
        future
    }

    /// The first wake-up that is not before `time`.
    pub(crate) fn waking(&self, time: Nanos) -> Option<&Waking> {
        self.wakings.iter().find(|waking| waking.at >= time)
    }

    /// Who holds the lock that the victim sleeps for from `time` on, of the threads to
    /// which it lent its priority: the one that gives that up and wakes it. `None`: it
    /// sleeps for something else.
    pub(crate) fn holder(&self, chain: &[u32], time: Nanos) -> Option<u32> {
        let waking = self.waking(time)?;
        let gives_up =
            |(at, pid): &(Nanos, u32)| *pid == waking.pid && (time..=waking.at).contains(at);
        let released = self.given_up.iter().any(gives_up);
        (waking.by != By::Interrupt && chain.contains(&waking.pid) && released)
            .then_some(waking.pid)
    }

    /// Whether a thread gives up what it was lent at `time` or later.
    pub(crate) fn gives_up(&self, pid: u32, time: Nanos) -> bool {
        self.given_up
            .iter()
            .any(|(at, of)| *of == pid && *at >= time)
    }

    /// Whether it is put into the queue of its CPU at `time` or later.
    pub(crate) fn is_queued(&self, time: Nanos) -> bool {
        self.queued.iter().any(|at| *at >= time)
    }

    /// Whether there is a switch to it from `time` on.
    pub(crate) fn is_switched_in(&self, time: Nanos) -> bool {
        self.switched_in.is_some_and(|at| at >= time)
    }

    /// Where it is put next.
    pub(crate) fn place(&self, time: Nanos) -> Option<u32> {
        let next = self.places.iter().find(|(at, _)| *at >= time);
        next.map(|(_, cpu)| *cpu)
    }
}

fn woken_by(context: &Context, event: &TraceEvent, threads: &Threads) -> By {
    if !context.handlers.is_empty() || event.has(TraceEvent::HARDIRQ) {
        return By::Interrupt;
    }
    if context.softirq.is_some() || event.has(TraceEvent::SOFTIRQ) {
        return By::Softirq;
    }
    match context.current {
        // The idle thread wakes nobody by itself: the interrupt was not seen.
        Some(task) if task.is_idle() => By::Interrupt,
        Some(task) => By::Thread(task),
        None => By::Thread(threads.task(event.pid)),
    }
}
