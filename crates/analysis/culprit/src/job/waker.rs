//! Determines what wakes a thread: another thread, a timer or a device.

use punctual_model::cause::{Device, InterruptSource, InterruptWakeup};
use punctual_model::{EventKind, Nanos, Text, TraceEvent, Vector};

use crate::context::{Context, Handler, SOFTIRQ_HRTIMER, SOFTIRQ_TIMER, SOFTIRQS_OF_NETWORK};

/// Maximum time from the completion of a disk request to a wake-up in the same handler. A later
/// wake-up is not attributed to the disk.
const OF_COMPLETION: Nanos = Nanos::from_micros(500);

/// A wake-up of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    pub(crate) at: Nanos,
    pub(crate) by: By,
    /// The timer that ended the sleep, if its time is known.
    pub(crate) timer: Option<Timer>,
    /// The signal that ended the sleep, if it was one.
    pub(crate) signal: Option<u32>,
}

/// A timer that wakes a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    pub(crate) due: Nanos,
    /// Until when the kernel may delay it, because of timer slack.
    pub(crate) latest: Nanos,
    /// The CPU of its interrupt.
    pub(crate) cpu: u32,
}

/// Source of a wake-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Thread(u32),
    Timer,
    Device(Device),
    /// An interrupt or softirq whose own events were not recorded, as in the light stage.
    Unrecorded,
}

/// Returns the source of a `sched_waking` event, based on the state of its CPU. `completed`: the
/// last disk request that completed there, with its time.
pub(crate) fn waker(event: &TraceEvent, context: &Context, completed: Option<(Nanos, u32)>) -> By {
    let disk = completed
        .filter(|(at, _)| *at + OF_COMPLETION > event.time)
        .map(|(_, dev)| By::Device(Device::Disk(dev)));
    if let Some(handler) = context.handlers.first() {
        return disk.unwrap_or_else(|| in_handler(handler));
    }
    if event.has(TraceEvent::HARDIRQ) || event.has(TraceEvent::NMI) {
        return disk.unwrap_or(By::Device(Device::Interrupt));
    }
    if let Some(vec) = context.softirq.filter(|_| event.has(TraceEvent::SOFTIRQ)) {
        return match vec {
            SOFTIRQ_TIMER | SOFTIRQ_HRTIMER => By::Timer,
            // The softirq is part of a thread's own call: it delivers the data that the thread
            // sent.
            vec if SOFTIRQS_OF_NETWORK.contains(&vec)
                && !context.softirq_of_handler
                && !serves_softirqs(context) =>
            {
                By::Thread(event.pid)
            }
            _ => disk.unwrap_or(By::Device(Device::Softirq(vec))),
        };
    }
    // A CPU is recorded from the first wake-up on, so the events of its softirq may be missing.
    if event.has(TraceEvent::SOFTIRQ) {
        return disk.unwrap_or(By::Unrecorded);
    }
    match event.pid {
        0 => disk.unwrap_or(By::Device(Device::Interrupt)),
        pid => By::Thread(pid),
    }
}

fn in_handler(handler: &Handler) -> By {
    match handler {
        Handler::Timer { .. } | Handler::Vector(Vector::LocalTimer) => By::Timer,
        Handler::Vector(vector) => By::Device(Device::Vector(Text::from(match vector {
            Vector::Reschedule => "reschedule",
            Vector::CallFunction | Vector::CallFunctionSingle => "call of another CPU",
            Vector::IrqWork => "irq_work",
            _ => "interrupt",
        }))),
        // On arm and RISC-V, the timer is a device interrupt.
        Handler::Irq { name, .. } if name.0.contains("timer") => By::Timer,
        Handler::Irq { irq, name } => By::Device(Device::Irq {
            irq: *irq,
            name: name.clone(),
        }),
    }
}

/// Returns the source of a `sched_waking` event in the light stage. Its flags distinguish threads
/// from interrupts, whose sources are known from their stacks.
pub(crate) fn waker_in_light_stage(event: &TraceEvent, known: &[InterruptWakeup]) -> By {
    let EventKind::Waking { task, .. } = &event.kind else {
        return By::Unrecorded;
    };
    let of_event = |one: &&InterruptWakeup| one.at == event.time && one.woken == task.pid;
    if let Some(known) = known.iter().find(of_event) {
        return match &known.by {
            InterruptSource::Timer => By::Timer,
            InterruptSource::Device(device) => By::Device(device.clone()),
            InterruptSource::Peer => By::Thread(event.pid),
        };
    }
    if event.pid == 0 || event.has(TraceEvent::HARDIRQ) || event.has(TraceEvent::SOFTIRQ) {
        By::Unrecorded
    } else {
        By::Thread(event.pid)
    }
}

/// Returns whether the idle thread or ksoftirqd is current. Softirqs do not do their work on behalf
/// of these threads.
fn serves_softirqs(context: &Context) -> bool {
    context
        .current
        .is_none_or(|task| task.is_idle() || task.comm.bytes().starts_with(b"ksoftirqd"))
}

/// Returns the disk, if the event completes a request.
pub(crate) const fn completed(event: &TraceEvent) -> Option<(Nanos, u32)> {
    match event.kind {
        EventKind::BlockComplete { dev, .. } => Some((event.time, dev)),
        _ => None,
    }
}

#[cfg(test)]
#[path = "waker_tests.rs"]
mod tests;
