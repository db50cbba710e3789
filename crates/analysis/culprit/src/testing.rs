//! Hand-made events and windows for the tests of this crate.

use punctual_model::{
    Comm, Delay, EventKind, KernelPriority, Nanos, Policy, Scheduling, Task, TaskState, TraceEvent,
    Victim, Window,
};

/// The late thread of [`window`], bound to CPU 1.
pub(crate) const VICTIM: u32 = 100;

pub(crate) const SLEEPS: u32 = 1;
pub(crate) const RUNNABLE: u32 = 0;

pub(crate) fn task(name: &str, pid: u32, prio: i16) -> Task {
    Task {
        pid,
        comm: Comm::new(name.as_bytes()),
        prio: KernelPriority(prio),
    }
}

/// SCHED_FIFO 95.
pub(crate) fn victim() -> Task {
    task("victim", VICTIM, 4)
}

/// An ordinary thread.
pub(crate) const MAKE: u32 = 12;

pub(crate) fn make() -> Task {
    task("make", MAKE, 120)
}

pub(crate) fn us(us: u64) -> Nanos {
    Nanos::from_micros(us)
}

pub(crate) fn idle() -> Task {
    task("swapper", 0, 120)
}

/// An event of CPU 1 at a time in µs, while the thread `pid` is current.
pub(crate) fn event(us: u64, pid: u32, kind: EventKind) -> TraceEvent {
    TraceEvent {
        time: Nanos::from_micros(us),
        cpu: 1,
        pid,
        flags: 0,
        preempt_count: 0,
        kind,
    }
}

pub(crate) fn switch(us: u64, prev: Task, state: u32, next: Task) -> TraceEvent {
    let kind = EventKind::Switch {
        prev,
        prev_state: TaskState(state),
        next,
    };
    event(us, prev.pid, kind)
}

/// A thread of CPU 1 wakes another one there.
pub(crate) fn waking(us: u64, pid: u32, task: Task) -> TraceEvent {
    let target_cpu = 1;
    event(us, pid, EventKind::Waking { task, target_cpu })
}

pub(crate) fn wakeup(us: u64, pid: u32, task: Task) -> TraceEvent {
    let (target_cpu, new) = (1, false);
    let kind = EventKind::Wakeup {
        task,
        target_cpu,
        new,
    };
    event(us, pid, kind)
}

/// Moves an event to another CPU.
pub(crate) fn on(cpu: u32, event: TraceEvent) -> TraceEvent {
    TraceEvent { cpu, ..event }
}

/// Sets the flags of an event.
pub(crate) fn flagged(flags: u8, event: TraceEvent) -> TraceEvent {
    TraceEvent { flags, ..event }
}

/// A late timer of the victim, with times in µs. All events are recorded.
pub(crate) fn window(expected: u64, actual: u64, events: Vec<TraceEvent>) -> Window {
    Window {
        victim: Victim {
            tid: VICTIM,
            comm: victim().comm,
            scheduling: Some(Scheduling {
                policy: Policy::Fifo,
                priority: 95,
            }),
            cpu: 1,
        },
        delay: Delay::Timer,
        expected: Nanos::from_micros(expected),
        actual: Nanos::from_micros(actual),
        events,
        lost: 0,
        left_out: 0,
        missing_events: Vec::new(),
        light_stage: None,
        clock_error: Nanos::ZERO,
        symbols: Default::default(),
        calls: Default::default(),
        evidence: Default::default(),
        host: Vec::new(),
        segments: Vec::new(),
        activity: Vec::new(),
    }
}
