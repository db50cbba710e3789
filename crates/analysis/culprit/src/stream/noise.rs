//! Noise that the tracer osnoise recorded without a sample above its threshold. Each noise delayed the
//! tracer's thread, which never sleeps.

use std::collections::BTreeMap;

use punctual_model::cause::{Cause, Detail, Name, Role, Source};
use punctual_model::{
    Comm, Delay, EventKind, KernelPriority, LatencyOf, Nanos, NoiseSource, PartKind, Segment,
    StatedPart, Task, Text, TraceEvent, TracerStatement, Vector,
};

use super::chain::joined;
use super::stated_latency::TimerlatIrq;
use super::{Ended, LateReactions, TraceFacts};
use crate::events::SWITCH;
use crate::finder::Late;

/// Maximum time from a wake-up to the noise of the woken thread.
const AFTER_WAKEUP: Nanos = Nanos::from_micros(50);

impl LateReactions {
    /// Keeps a noise if it is one of the longest.
    pub(super) fn note_noise(&mut self, event: &TraceEvent) {
        let Some(length) = length(event) else {
            return;
        };
        let shorter = |one: &TraceEvent| self::length(one) < Some(length);
        if self.noises.len() < self.wanted.most {
            self.noises.push(event.clone());
        } else if let Some(shortest) = self.noises.iter_mut().min_by_key(|one| self::length(one))
            && shorter(shortest)
        {
            *shortest = event.clone();
        }
    }

    /// Adds the delays of timerlat's interrupts whose thread has no sample: of the interrupt that stopped
    /// the tracer, and of all if no thread has a sample.
    pub(super) fn add_interrupts(&mut self, facts: &TraceFacts<'_>) {
        if !self.wanted.pids.is_empty() || self.wanted.comm.is_some() {
            return;
        }
        let is_stated =
            |cpu: u32| !self.has_samples || self.stopped_on.is_some_and(|stopped| stopped == cpu);
        let mut stated: Vec<(u32, TimerlatIrq)> = (self.interrupts.iter())
            .filter(|(cpu, irq)| irq.ran.is_none() && is_stated(**cpu))
            .map(|(cpu, irq)| (*cpu, irq.clone()))
            .collect();
        stated.sort_by_key(|(_, irq)| irq.at);
        for (
            cpu,
            TimerlatIrq {
                sample, thread, at, ..
            },
        ) in stated
        {
            let stack = self
                .history
                .back_all(at)
                .find_map(|event| match &event.kind {
                    EventKind::KernelStack { frames } if event.cpu == cpu => Some(frames),
                    _ => None,
                });
            let stack = stack.map(|frames| named(frames, facts.symbols));
            let delay = StatedPart {
                kind: PartKind::IrqDelay,
                name: "".into(),
                number: None,
                ns: Some(sample.latency),
            };
            let interrupted = StatedPart {
                kind: PartKind::BlockingThread,
                name: thread.comm.to_string().as_str().into(),
                number: Some(thread.pid),
                ns: None,
            };
            let mut parts = vec![delay];
            parts.extend((!thread.is_idle()).then_some(interrupted));
            self.has_samples = true;
            self.statement(&TracerStatement {
                latency_of: LatencyOf::TimerIrq,
                tracer: "timerlat".into(),
                latency: sample.latency,
                begin: at.saturating_sub(sample.latency),
                cpu,
                thread: None,
                ends: None,
                calls: Vec::new(),
                stacks: stack.into_iter().collect(),
                parts,
            });
        }
    }

    /// Adds the longest noises as reactions, unless samples state latencies.
    pub(super) fn add_noise(&mut self, facts: &TraceFacts<'_>) {
        let named = !self.wanted.pids.is_empty() || self.wanted.comm.is_some();
        if self.has_samples || named || facts.recorded.contains(SWITCH) {
            return;
        }
        let mut noises = std::mem::take(&mut self.noises);
        noises.sort_by_key(|event| event.time);
        for event in noises {
            let Some(length) = length(&event) else {
                continue;
            };
            let thread = self
                .tracers
                .get(&event.cpu)
                .copied()
                .unwrap_or_else(|| Task {
                    pid: Task::UNKNOWN_PID,
                    comm: Comm::new(format!("osnoise/{}", event.cpu).as_bytes()),
                    prio: KernelPriority::UNKNOWN,
                });
            let expected = event.time.saturating_sub(length);
            let late = Late {
                tid: thread.pid,
                comm: thread.comm,
                prio: thread.prio,
                cpu: event.cpu,
                delay: Delay::Step,
                expected,
                actual: event.time,
                events_from: expected,
            };
            let wakeup = self.history.back_all(expected.saturating_sub(AFTER_WAKEUP));
            let wakeup = wakeup.filter(|one| one.time <= event.time);
            let wakeup = wakeup.filter_map(|one| woken_in(one, facts.symbols)).next();
            let segment = Segment {
                from: expected,
                to: event.time,
                cpu: event.cpu,
                cause: cause(&event).with(wakeup.map(Detail::AfterWakeup)),
                words: None,
            };
            self.ended(Ended {
                late,
                waker: None,
                before: Vec::new(),
                stated: Some(format!("osnoise: noise of {length}")),
                sample: None,
                segments: vec![segment],
            });
        }
    }
}

const fn length(event: &TraceEvent) -> Option<Nanos> {
    match &event.kind {
        EventKind::Noise { duration, .. } => Some(*duration),
        _ => None,
    }
}

/// Returns the cause that the event of a noise names. The trace does not contain priorities.
fn cause(event: &TraceEvent) -> Cause {
    let EventKind::Noise { source, .. } = &event.kind else {
        return Cause::new(Source::Gap);
    };
    match source {
        NoiseSource::Thread { pid, comm } => Cause::new(Source::Thread {
            role: Role::Unranked,
            thread: Name {
                pid: Some(*pid),
                comm: *comm,
            },
        }),
        NoiseSource::Irq { desc, .. } => Cause::new(Source::Vector(Vector::named(&desc.0))),
        NoiseSource::Softirq { vector } => Cause::new(Source::Softirq(*vector)),
        NoiseSource::Nmi => Cause::new(Source::Nmi),
    }
}

/// Returns the functions of a stack.
fn named(frames: &[u64], symbols: &BTreeMap<u64, String>) -> Vec<Text> {
    let names = frames
        .iter()
        .map(|frame| symbols.get(frame).map_or("?", String::as_str));
    names.map(Text::from).collect()
}

/// Functions of a wake-up. Their callers are those that wanted it.
const OF_WAKEUP: [&str; 3] = ["try_to_wake_up", "ttwu_do_wakeup", "ttwu_do_activate"];

/// Returns the callers of a wake-up, if the event is the stack of one.
fn woken_in(event: &TraceEvent, symbols: &BTreeMap<u64, String>) -> Option<Text> {
    let EventKind::KernelStack { frames } = &event.kind else {
        return None;
    };
    let named = named(frames, symbols);
    let last = named
        .iter()
        .rposition(|name| OF_WAKEUP.contains(&&*name.0))?;
    let callers = &named[last + 1..];
    (!callers.is_empty()).then(|| joined(callers))
}
