//! Latencies that the kernel's latency tracers and rtla state as a whole. The calls of functions
//! between their ends show what ran.

use punctual_model::cause::{Cause, Detail, Missing, Name, Rank, Role, Source, Stay};
use punctual_model::{
    Comm, Delay, KernelPriority, LatencyOf, Nanos, PartKind, Segment, Task, Text, TracedCall,
    TracerStatement, Vector,
};

use super::{Ended, LateReactions};
use crate::events::{IRQ, SOFTIRQ, SWITCH, VECTORS};
use crate::finder::Late;
use crate::stream::chain::{Chains, after_entry, joined};

/// Number of stays in one place that are named for each source.
const STAYS: usize = 3;

/// A stay is not named if it is shorter than the time of its source divided by this number.
const WORTH_A_WORD: u64 = 20;

/// Number of calls that a wakeup tracer writes itself, at the wake-up and at the switch.
const OWN_CALLS: usize = 2;

impl LateReactions {
    /// Processes a latency that a tracer states. Its events come before it.
    pub fn statement(&mut self, statement: &TracerStatement) {
        let thread = thread_of(statement);
        let (expected, cpu) = (statement.begin, statement.cpu);
        let actual = expected + statement.latency;
        self.found.note_span(cpu, expected, actual);
        self.found.events += statement.calls.len() as u64;
        let late = Late {
            tid: thread.pid,
            comm: thread.comm,
            prio: thread.prio,
            cpu,
            delay: match statement.latency_of {
                LatencyOf::IrqsOff | LatencyOf::PreemptOff | LatencyOf::Either => Delay::Section,
                LatencyOf::WakeUp => Delay::Wakeup,
                LatencyOf::TimerIrq | LatencyOf::TimerThread => Delay::Timer,
            },
            expected,
            actual,
            events_from: expected,
        };
        self.forget(thread.pid, expected);
        self.ended(Ended {
            late,
            waker: None,
            before: Vec::new(),
            stated: Some(sentence(statement)),
            sample: None,
            segments: segments(statement),
        });
        // The times of the next statement may begin at 0 again, so no later function belongs to it.
        self.close(Nanos(u64::MAX));
        self.forget_functions();
    }
}

fn thread_of(statement: &TracerStatement) -> Task {
    let comm = |name: String| Comm::new(name.as_bytes());
    statement.thread.unwrap_or_else(|| Task {
        pid: Task::UNKNOWN_PID,
        comm: match statement.latency_of {
            LatencyOf::TimerIrq | LatencyOf::TimerThread => {
                comm(format!("timerlat/{}", statement.cpu))
            }
            _ => comm(format!("CPU {}", statement.cpu)),
        },
        prio: KernelPriority::UNKNOWN,
    })
}

fn sentence(statement: &TracerStatement) -> String {
    let (tracer, latency) = (&statement.tracer, statement.latency);
    match &statement.ends {
        Some((from, to)) => format!("{tracer}: {latency}, from {from} to {to}"),
        None => format!("{tracer}: {latency}"),
    }
}

/// Returns the causes of the latency, from its beginning to its end.
fn segments(statement: &TracerStatement) -> Vec<Segment> {
    if statement.parts.is_empty() {
        by_calls(statement)
    } else {
        by_parts(statement)
    }
}

/// A time without a call on the CPU.
struct CallSpan<'a> {
    from: Nanos,
    to: Nanos,
    /// The call before it. `None` if no call was traced.
    call: Option<usize>,
    next: Option<&'a TracedCall>,
    source: Source,
}

fn by_calls(statement: &TracerStatement) -> Vec<Segment> {
    let calls: Vec<&TracedCall> = (statement.calls.iter())
        .filter(|call| call.cpu == statement.cpu)
        .collect();
    let chains = Chains::new(&calls, &statement.stacks);
    let (begin, end) = (statement.begin, statement.begin + statement.latency);
    let mut spans: Vec<CallSpan<'_>> = Vec::new();
    if calls.is_empty() {
        spans.push(CallSpan {
            from: begin,
            to: end,
            call: None,
            next: None,
            source: of_thread(statement, &thread_of(statement), None),
        });
    }
    for (place, call) in calls.iter().enumerate() {
        let from = if place == 0 { begin } else { call.time };
        let next = calls.get(place + 1).copied();
        let to = next.map_or(end, |next| next.time).clamp(begin, end);
        let from = from.clamp(begin, to);
        if from < to {
            spans.push(CallSpan {
                from,
                to,
                call: Some(place),
                next,
                source: source(statement, &calls, place, &chains),
            });
        }
    }
    let causes = with_stays(statement, &spans, &chains);
    let segment = |(span, cause): (&CallSpan<'_>, Cause)| Segment {
        from: span.from,
        to: span.to,
        cpu: statement.cpu,
        cause,
        words: None,
    };
    spans.iter().zip(causes).map(segment).collect()
}

/// Adds to each source its longest stays in one place.
fn with_stays(
    statement: &TracerStatement,
    spans: &[CallSpan<'_>],
    chains: &Chains<'_>,
) -> Vec<Cause> {
    let stays = |source: &Source| {
        let own = spans.iter().filter(|span| span.source == *source);
        let mut own: Vec<&CallSpan<'_>> = own.collect();
        own.sort_by_key(|span| std::cmp::Reverse(span.to - span.from));
        let sum: u64 = own.iter().map(|span| (span.to - span.from).0).sum();
        own.retain(|span| (span.to - span.from).0 > sum / WORTH_A_WORD);
        let stays = own.into_iter().take(STAYS).filter_map(|span| {
            let at = match span.call {
                Some(call) => chains.at(call)?,
                None => statement.ends.as_ref()?.0.clone(),
            };
            let next = span.next.map(|next| next.function.clone());
            // The function may have returned to one of its callers.
            let is_caller = |next: &Text| span.call.is_some_and(|call| chains.contains(call, next));
            Some(Stay {
                ns: Some(span.to - span.from),
                at,
                until: next.filter(|next| !next.0.is_empty() && !is_caller(next)),
            })
        });
        let stays: Vec<Stay> = stays.collect();
        (!stays.is_empty()).then_some(Detail::Stays(stays))
    };
    let mut known: Vec<(&Source, Option<Detail>)> = Vec::new();
    let mut causes = Vec::with_capacity(spans.len());
    for span in spans {
        let place = known.iter().position(|(source, _)| **source == span.source);
        let place = place.unwrap_or_else(|| {
            known.push((&span.source, stays(&span.source)));
            known.len() - 1
        });
        causes.push(Cause::new(span.source.clone()).with(known[place].1.clone()));
    }
    causes
}

/// Returns what ran after a call.
fn source(
    statement: &TracerStatement,
    calls: &[&TracedCall],
    place: usize,
    chains: &Chains<'_>,
) -> Source {
    type E = punctual_model::TraceEvent;
    let call = calls[place];
    let functions = calls.iter().filter(|call| !call.function.0.is_empty());
    let is_traced = functions.count() > OWN_CALLS;
    if statement.latency_of == LatencyOf::WakeUp && !is_traced && !chains.schedules(place) {
        // The flags of the wake-up are not those of the time until the switch.
        let same = calls
            .last()
            .filter(|last| last.thread.pid == call.thread.pid);
        let what = same.map_or(Missing::WhatRan, |last| {
            Missing::HandlerOn(Name::from(&last.thread))
        });
        return Cause::not_recorded(what, &[IRQ, VECTORS, SOFTIRQ]).source;
    }
    if call.flags & E::NMI != 0 {
        return Source::Nmi;
    }
    if call.flags & E::HARDIRQ != 0 {
        return Source::Vector(handler(calls, place));
    }
    let softirq = chains
        .softirq(place)
        .filter(|_| call.flags & E::SOFTIRQ != 0);
    match softirq {
        Some(vec) => Source::Softirq(vec),
        None => of_thread(
            statement,
            &call.thread,
            Some((call, chains.schedules(place))),
        ),
    }
}

/// Returns what ran while a thread was current. `call`: the last call, and whether it belongs to the
/// scheduler.
fn of_thread(
    statement: &TracerStatement,
    thread: &Task,
    call: Option<(&TracedCall, bool)>,
) -> Source {
    type E = punctual_model::TraceEvent;
    // The kernel writes `<...>` for a thread whose name it has not kept.
    let own = statement
        .thread
        .filter(|own| own.pid == thread.pid && thread.comm.bytes() == b"<...>");
    let name = Name::from(&own.unwrap_or(*thread));
    let off = call.map(|(call, _)| call.flags & E::IRQS_OFF != 0);
    let depth = call.map_or(0, |(call, _)| call.preempt_count & 0xf);
    match statement.latency_of {
        LatencyOf::IrqsOff => Source::IrqsOff(name),
        LatencyOf::PreemptOff => Source::PreemptOff(name),
        LatencyOf::Either if off == Some(true) => Source::IrqsOff(name),
        LatencyOf::Either => Source::PreemptOff(name),
        _ if call.is_none() => Cause::not_recorded(Missing::WhatRan, &[SWITCH]).source,
        _ if call.is_some_and(|(_, schedules)| schedules) => Source::Scheduling,
        _ if thread.is_idle() => Source::IdleExit(statement.cpu),
        _ if statement.thread.is_some_and(|own| own.pid == thread.pid) => Source::Scheduling,
        _ if off == Some(true) => Source::IrqsOff(name),
        _ if depth > 0 => Source::PreemptOff(name),
        _ => Source::Thread {
            role: role(statement.thread.as_ref(), thread),
            thread: name,
        },
    }
}

/// Returns the relation of a preemptible thread to the woken one.
fn role(victim: Option<&Task>, thread: &Task) -> Role {
    let own = victim.map_or(KernelPriority::UNKNOWN, |victim| victim.prio);
    match () {
        () if own == KernelPriority::UNKNOWN || thread.prio == KernelPriority::UNKNOWN => {
            Role::Unranked
        }
        () if thread.prio.is_above(own) => Role::HigherPriority,
        () if thread.prio == own => Role::Competing,
        () => Role::Blocking,
    }
}

/// Functions of the kernel's interrupt code that call the handler of a device.
const CALL_HANDLERS: [&str; 3] = [
    "__handle_irq_event_percpu",
    "handle_irq_event_percpu",
    "handle_percpu_devid_irq",
];

/// Parts of the names of functions that only the interrupt of a timer calls.
const OF_TIMER: [&str; 4] = ["hrtimer", "apic_timer", "arch_timer_handler", "tick_"];

/// Returns the interrupt that was active after a call.
fn handler(calls: &[&TracedCall], place: usize) -> Vector {
    let is_in = |call: &&&TracedCall| call.flags & punctual_model::TraceEvent::HARDIRQ != 0;
    let before = calls[..place].iter().rev().take_while(is_in).count();
    let run = calls[place - before..].iter().take_while(is_in);
    let mut timer = None;
    for call in run {
        let caller = call.caller.as_ref().map_or("", |caller| &*caller.0);
        if CALL_HANDLERS.contains(&caller) && !CALL_HANDLERS.contains(&&*call.function.0) {
            return Vector::Other(call.function.clone());
        }
        let of_timer = |name: &str| OF_TIMER.iter().any(|part| name.contains(part));
        if of_timer(&call.function.0) || of_timer(caller) {
            timer = Some(Vector::LocalTimer);
        }
    }
    timer.unwrap_or_else(|| Vector::Other("of unknown source".into()))
}

/// Turns the parts that rtla states into segments, one after the other.
fn by_parts(statement: &TracerStatement) -> Vec<Segment> {
    let end = statement.begin + statement.latency;
    let stack: Option<Text> = (statement.stacks.last())
        .map(|stack| after_entry(stack))
        .filter(|stack| !stack.is_empty())
        .map(joined);
    let blocking = statement
        .parts
        .iter()
        .find(|part| part.kind == PartKind::BlockingThread);
    let blocking = blocking.map(|part| name_of(&part.name, part.number));
    let stay = |at: &Text| {
        Detail::Stays(vec![Stay {
            ns: None,
            at: at.clone(),
            until: None,
        }])
    };
    let mut segments: Vec<Segment> = Vec::new();
    let mut push = |ns: Nanos, cause: Cause| {
        let from = segments.last().map_or(statement.begin, |last| last.to);
        let to = (from + ns).min(end);
        if from < to {
            segments.push(Segment {
                from,
                to,
                cpu: statement.cpu,
                cause,
                words: None,
            });
        }
    };
    // The interrupt came late because the thread that it then interrupted had disabled interrupts.
    let late = match (blocking, &stack) {
        (Some(thread), Some(at)) => Cause::new(Source::IrqsOff(thread)).with(stay(at)),
        _ => Cause::new(Source::TimerLate),
    };
    for part in &statement.parts {
        let ns = part.ns.unwrap_or_default();
        let number = part.number.unwrap_or(0);
        let thread = |role| {
            Cause::new(Source::Thread {
                role,
                thread: name_of(&part.name, part.number),
            })
        };
        let cause = match part.kind {
            PartKind::IrqDelay => late.clone(),
            PartKind::IdleExit => Cause::new(Source::IdleExit(statement.cpu)),
            PartKind::TimerIrq => Cause::new(Source::Vector(Vector::LocalTimer)),
            PartKind::BlockingThread => {
                let activity = stack
                    .clone()
                    .map(punctual_model::cause::Activity::PreemptionOff);
                thread(Role::Blocking).with(Detail::Rank(Rank {
                    prio: KernelPriority::UNKNOWN,
                    activity,
                    before: None,
                }))
            }
            PartKind::Nmi => Cause::new(Source::Nmi),
            PartKind::Irq => Cause::new(Source::Vector(Vector::named(&part.name.0))),
            PartKind::Softirq => Cause::new(Source::Softirq(number)),
            PartKind::Thread => thread(Role::HigherPriority),
        };
        push(ns, cause);
    }
    // If the interrupt itself stopped rtla, the rest is its delay.
    let rest = match statement.latency_of {
        LatencyOf::TimerIrq => late,
        _ => Cause::not_recorded(Missing::WhatRan, &[SWITCH]),
    };
    push(statement.latency, rest);
    segments
}

fn name_of(comm: &Text, pid: Option<u32>) -> Name {
    Name {
        pid,
        comm: Comm::new(comm.0.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Comm, KernelPriority, TraceEvent};

    use super::*;

    fn task(pid: u32, name: &str) -> Task {
        let mut comm = [0; 16];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        Task {
            pid,
            comm: Comm(comm),
            prio: KernelPriority::real_time(80),
        }
    }

    /// Returns what ran on CPU 3 while `thread` was current, for a latency of thread 7.
    fn ran(of: LatencyOf, thread: &Task, flags: u8, depth: u8, schedules: bool) -> Source {
        let statement = TracerStatement {
            latency_of: of,
            tracer: "t".into(),
            latency: Nanos(10),
            begin: Nanos(0),
            cpu: 3,
            thread: Some(Task {
                prio: KernelPriority(120),
                ..task(7, "own")
            }),
            ends: None,
            calls: Vec::new(),
            stacks: Vec::new(),
            parts: Vec::new(),
        };
        let call = TracedCall {
            time: Nanos(1),
            cpu: 3,
            thread: *thread,
            flags,
            preempt_count: depth,
            function: "f".into(),
            caller: None,
        };
        of_thread(&statement, thread, Some((&call, schedules)))
    }

    #[test]
    fn state_of_the_cpu_decides_what_ran() {
        const OFF: u8 = TraceEvent::IRQS_OFF;
        let (other, own) = (task(9, "other"), task(7, "own"));
        let name = || Name::from(&other);
        let wake = |flags, depth| ran(LatencyOf::WakeUp, &other, flags, depth, false);
        assert_eq!(wake(OFF, 1), Source::IrqsOff(name()));
        assert_eq!(wake(0, 1), Source::PreemptOff(name()));
        // The upper half of the count is not a depth of preemption.
        let preemptible = Source::Thread {
            role: Role::HigherPriority,
            thread: name(),
        };
        assert_eq!(wake(0, 0), preemptible);
        assert_eq!(wake(0, 0x10), preemptible);
        assert_eq!(
            ran(LatencyOf::WakeUp, &own, OFF, 1, false),
            Source::Scheduling
        );
        assert_eq!(
            ran(LatencyOf::WakeUp, &other, OFF, 1, true),
            Source::Scheduling
        );
        let idle = task(0, "swapper/3");
        assert_eq!(
            ran(LatencyOf::WakeUp, &idle, OFF, 1, false),
            Source::IdleExit(3)
        );
        // A tracer of sections says itself what was disabled.
        assert_eq!(
            ran(LatencyOf::PreemptOff, &other, OFF, 0, true),
            Source::PreemptOff(name())
        );
        assert_eq!(
            ran(LatencyOf::IrqsOff, &other, 0, 1, true),
            Source::IrqsOff(name())
        );
        assert_eq!(
            ran(LatencyOf::Either, &other, OFF, 1, true),
            Source::IrqsOff(name())
        );
        assert_eq!(
            ran(LatencyOf::Either, &other, 0, 1, true),
            Source::PreemptOff(name())
        );
    }

    /// A wakeup tracer without function tracing writes the wake-up, the switch, and one call at each.
    #[test]
    fn flags_of_a_wake_up_are_not_those_of_the_time_after_it() {
        let call = |us: u64, function: &str, thread: Task, flags: u8| TracedCall {
            time: Nanos::from_micros(us),
            cpu: 3,
            thread,
            flags,
            preempt_count: 4,
            function: function.into(),
            caller: None,
        };
        let causes = |between: &[TracedCall], last: Task| {
            let (bash, interrupt) = (task(9, "bash"), TraceEvent::HARDIRQ | TraceEvent::IRQS_OFF);
            let mut calls = vec![
                call(0, "", bash, interrupt),
                call(2, "ttwu_do_activate", bash, interrupt),
            ];
            calls.extend(between.iter().cloned());
            calls.push(call(998, "__schedule", last, TraceEvent::IRQS_OFF));
            calls.push(call(1_000, "", last, TraceEvent::IRQS_OFF));
            let segments = by_calls(&TracerStatement {
                latency_of: LatencyOf::WakeUp,
                tracer: "wakeup_rt".into(),
                latency: Nanos::from_micros(1_000),
                begin: Nanos(0),
                cpu: 3,
                thread: Some(task(7, "own")),
                ends: None,
                calls,
                stacks: Vec::new(),
                parts: Vec::new(),
            });
            let causes = segments.iter().map(|one| one.cause.label());
            causes.collect::<Vec<_>>()
        };
        let sparse = causes(&[], task(9, "bash"));
        assert!(
            sparse[1].contains("bash-9, or a handler that interrupted it"),
            "{sparse:?}"
        );
        assert!(sparse.last().unwrap().contains("scheduler"), "{sparse:?}");
        let other = causes(&[], task(8, "other"));
        assert!(other[1].contains("what ran"), "{other:?}");
        let interrupt = TraceEvent::HARDIRQ;
        let traced = call(3, "handle_edge_irq", task(9, "bash"), interrupt);
        let traced = causes(&[traced], task(9, "bash"));
        assert!(traced[2].contains("interrupt"), "{traced:?}");
    }

    #[test]
    fn only_a_name_that_the_kernel_lost_is_replaced() {
        let section = |thread: &Task| ran(LatencyOf::IrqsOff, thread, 0, 0, false);
        let named = |name: &str, pid| Source::IrqsOff(Name::from(&task(pid, name)));
        assert_eq!(section(&task(7, "<...>")), named("own", 7));
        assert_eq!(section(&task(9, "<...>")), named("<...>", 9));
        assert_eq!(section(&task(7, "renamed")), named("renamed", 7));
    }
}

#[cfg(test)]
#[path = "statement_tests.rs"]
mod segment_tests;
