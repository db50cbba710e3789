//! Traces of the tracers timerlat and osnoise without events of the scheduler, as rtla saves them.
//! The tracers' own events show what delayed their threads.

use std::collections::BTreeSet;

use punctual_model::{
    EventKind, GapReason, KernelPriority, Nanos, NoiseSource, NotShown, Task, TaskState,
    TraceEvent, Window,
};

use crate::events::{IRQ, SOFTIRQ, SWITCH, VECTORS, WAKING};
use crate::noise;

/// Maximum time from the end of one thread to the start of the next, if no other thread ran in
/// between.
const ADJACENT: Nanos = Nanos::from_micros(2);

/// Tracer sample that states a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TracerSample {
    /// A sample of timerlat. `woken`: time of the timer's interrupt and the thread that it
    /// interrupted, if known. `ran`: time at which the woken thread ran, if the sample also contains
    /// its own work.
    Timerlat {
        woken: Option<(Nanos, Task)>,
        ran: Option<Nanos>,
    },
    /// A sample of osnoise, whose thread never sleeps.
    Osnoise,
}

/// A time in which another thread ran while the tracer's thread had to wait.
struct Run {
    from: Nanos,
    to: Nanos,
    thread: Task,
}

/// Adds the scheduler and handler events that osnoise's events represent.
pub(super) fn complete(window: &mut Window, sample: TracerSample, recorded: &BTreeSet<String>) {
    let noises = ["osnoise:irq_noise", "osnoise:thread_noise"];
    if recorded.contains(SWITCH) {
        return;
    }
    let complete = noises.iter().all(|name| recorded.contains(*name));
    let mut added = Vec::new();
    if complete {
        added.extend(noise::spell_out(window));
        added.extend(switches(window, sample));
        // A noise states its start, which may be before the first line.
        let first = added.iter().map(|event| event.time).min();
        for gap in &mut window.evidence.gaps {
            if gap.reason == GapReason::BeforeTrace {
                gap.to = gap.to.min(first.unwrap_or(gap.to)).max(gap.from);
            }
        }
    }
    if let TracerSample::Timerlat {
        woken: Some(woken), ..
    } = sample
    {
        added.extend(interrupt(window, woken));
        added.push(waking(window, woken));
        window.evidence.timer_interrupt = Some(woken.0);
        // The tracers write their events at the end of each noise, so events from the interrupt on
        // are in the trace even if its first line is later than the due time.
        (window.evidence.gaps).retain(|gap| gap.reason != GapReason::BeforeTrace);
    }
    window.events.extend(added);
    // The sort is stable: an added event follows the event that it was derived from.
    window.events.sort_by_key(|event| event.time);
    if !complete {
        window.missing_events.retain(|name| name != WAKING);
        return;
    }
    let replaced = [SWITCH, WAKING, IRQ, SOFTIRQ, VECTORS];
    (window.missing_events).retain(|name| !replaced.contains(&name.as_str()));
    (window.evidence.not_shown).retain(|what| *what != NotShown::Vectors);
}

/// Returns the tracer's thread. Its priority is not in the trace.
const fn own(window: &Window) -> Task {
    Task {
        pid: window.victim.tid,
        comm: window.victim.comm,
        prio: KernelPriority::UNKNOWN,
    }
}

fn event(window: &Window, time: Nanos, pid: u32, flags: u8, kind: EventKind) -> TraceEvent {
    TraceEvent {
        time,
        cpu: window.victim.cpu,
        pid,
        flags,
        preempt_count: 0,
        kind,
    }
}

/// The timer's interrupt wakes the thread.
fn waking(window: &Window, (at, interrupted): (Nanos, Task)) -> TraceEvent {
    let kind = EventKind::Waking {
        task: own(window),
        target_cpu: window.victim.cpu,
    };
    event(window, at, interrupted.pid, TraceEvent::HARDIRQ, kind)
}

/// Returns the stack that the timer's interrupt saved. The thread of timerlat prints it after its
/// sample (`timerlat_dump_stack`).
fn interrupt(window: &Window, (at, interrupted): (Nanos, Task)) -> Option<TraceEvent> {
    let mut events = window.events.iter();
    let frames = events.find_map(|event| match &event.kind {
        EventKind::KernelStack { frames }
            if event.cpu == window.victim.cpu
                && event.pid == window.victim.tid
                && event.time >= window.actual =>
        {
            Some(frames.clone())
        }
        _ => None,
    })?;
    let kind = EventKind::TimerlatStack { frames };
    Some(event(
        window,
        at,
        interrupted.pid,
        TraceEvent::HARDIRQ,
        kind,
    ))
}

/// Returns the switches from and to threads with noise. The thread of osnoise runs before the first
/// of them. That of timerlat runs only after the last, or from the time that a sample states.
fn switches(window: &Window, sample: TracerSample) -> Vec<TraceEvent> {
    let own = own(window);
    let runs = runs(window);
    let mut switches = Vec::new();
    let mut switch = |at, prev: Task, next: Task| {
        let kind = EventKind::Switch {
            prev,
            prev_state: TaskState(0),
            next,
        };
        switches.push(event(window, at, prev.pid, 0, kind));
    };
    let ran = match sample {
        TracerSample::Osnoise => Some(Nanos::ZERO),
        TracerSample::Timerlat { ran, .. } => ran,
    };
    if let TracerSample::Timerlat {
        woken: Some((_, interrupted)),
        ran: Some(at),
    } = sample
        && !runs
            .iter()
            .any(|run| (at.saturating_sub(ADJACENT)..=at).contains(&run.to))
    {
        switch(at, interrupted, own);
    }
    for (place, run) in runs.iter().enumerate() {
        let follows = place > 0 && run.from <= runs[place - 1].to + ADJACENT;
        if !follows && ran.is_some_and(|at| at <= run.from) {
            switch(run.from, own, run.thread);
        }
        let next = runs.get(place + 1);
        let next = next.filter(|next| next.from <= run.to + ADJACENT);
        switch(run.to, run.thread, next.map_or(own, |next| next.thread));
    }
    switches
}

/// Returns the runs of threads, in order of time. osnoise writes their events at the end, with
/// durations that exclude handlers.
fn runs(window: &Window) -> Vec<Run> {
    let cpu = window.victim.cpu;
    let noises = window.events.iter().filter(|event| event.cpu == cpu);
    let noises: Vec<(Nanos, &NoiseSource, Nanos)> = noises
        .filter_map(|event| match &event.kind {
            EventKind::Noise {
                source, duration, ..
            } => Some((event.time, source, *duration)),
            _ => None,
        })
        .collect();
    let run = |(to, source, duration): &(Nanos, &NoiseSource, Nanos)| {
        let NoiseSource::Thread { pid, comm } = source else {
            return None;
        };
        let mut from = to.saturating_sub(*duration);
        for (at, source, length) in noises.iter().rev() {
            let is_handler = !matches!(source, NoiseSource::Thread { .. });
            if is_handler && *at <= *to && *at > from {
                from = from.saturating_sub(*length);
            }
        }
        let (pid, comm, prio) = (*pid, *comm, KernelPriority::UNKNOWN);
        let thread = Task { pid, comm, prio };
        (pid != window.victim.tid).then_some(Run {
            from,
            to: *to,
            thread,
        })
    };
    noises.iter().filter_map(run).collect()
}
