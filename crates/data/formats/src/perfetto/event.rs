//! Events of the kernel as Perfetto's `FtraceEvent`.

use punctual_model::{Comm, EventKind, Task, Vector};

use super::message::{
    CpuIdle, Event, FtraceEvent, HrtimerExpireEntry, HrtimerStart, IrqHandlerEntry, IrqHandlerExit,
    LocalTimer, SchedMigrateTask, SchedPiSetprio, SchedProcessExit, SchedSwitch, SchedWaking,
    SignalDeliver, SignalGenerate, Softirq, SysEnter, SysExit, Timer, TimerExpireEntry,
    WorkqueueExecute,
};

/// `PWR_EVENT_EXIT` of the kernel: the CPU leaves its idle state.
const IDLE_EXIT: u32 = u32::MAX;

/// The number of softirqs for which Perfetto has names.
const SOFTIRQS: u32 = 10;

/// A handler that runs on top of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Handler {
    Irq(u32),
    Vector(Vector),
    Softirq(u32),
    Hrtimer(u64),
}

/// Returns the event in Perfetto's form, or `None` if Perfetto does not show such events.
pub(super) fn ftrace(kind: &EventKind) -> Option<Event> {
    switching(kind)
        .or_else(|| interrupting(kind))
        .or_else(|| timing(kind))
        .or_else(|| calling(kind))
}

/// Returns an event of the thread `pid`.
pub(super) fn at(timestamp: u64, pid: u32, event: Event) -> FtraceEvent {
    FtraceEvent {
        timestamp,
        pid,
        event: Some(event),
    }
}

/// Returns the handler that an event starts.
pub(super) fn begun(kind: &EventKind) -> Option<Handler> {
    Some(match kind {
        EventKind::IrqEntry { irq, .. } => Handler::Irq(*irq),
        EventKind::VectorEntry { vector } => Handler::Vector(vector.clone()),
        EventKind::SoftirqEntry { vec } if *vec < SOFTIRQS => Handler::Softirq(*vec),
        EventKind::HrtimerExpireEntry { hrtimer, .. } => Handler::Hrtimer(*hrtimer),
        _ => return None,
    })
}

/// Returns the handler that an event ends.
pub(super) fn ended(kind: &EventKind) -> Option<Handler> {
    Some(match kind {
        EventKind::IrqExit { irq, .. } => Handler::Irq(*irq),
        EventKind::VectorExit { vector } => Handler::Vector(vector.clone()),
        EventKind::SoftirqExit { vec } if *vec < SOFTIRQS => Handler::Softirq(*vec),
        EventKind::HrtimerExpireExit { hrtimer } => Handler::Hrtimer(*hrtimer),
        _ => return None,
    })
}

impl Handler {
    /// Returns the event that ends the handler.
    pub(super) fn end(&self) -> Event {
        match self {
            Self::Irq(irq) => irq_exit(*irq, 1),
            Self::Vector(vector) => vector_exit(vector),
            Self::Softirq(vec) => Event::SoftirqExit(Softirq { vec: *vec }),
            Self::Hrtimer(timer) => Event::HrtimerExpireExit(Timer { timer: *timer }),
        }
    }
}

/// Returns a switch. `state` is the state of the thread that leaves the CPU.
pub(super) fn switch(prev: &Task, state: u32, next: &Task) -> Event {
    Event::SchedSwitch(SchedSwitch {
        prev_comm: text(prev.comm),
        prev_pid: prev.pid as i32,
        prev_prio: prev.prio.0.into(),
        prev_state: state.into(),
        next_comm: text(next.comm),
        next_pid: next.pid as i32,
        next_prio: next.prio.0.into(),
    })
}

fn text(comm: Comm) -> String {
    comm.to_string()
}

fn waking(task: &Task, target_cpu: u32) -> SchedWaking {
    SchedWaking {
        comm: text(task.comm),
        pid: task.pid as i32,
        prio: task.prio.0.into(),
        target_cpu: target_cpu as i32,
    }
}

fn switching(kind: &EventKind) -> Option<Event> {
    Some(match kind {
        EventKind::Switch {
            prev,
            prev_state,
            next,
        } => switch(prev, prev_state.0, next),
        EventKind::Waking { task, target_cpu } => Event::SchedWaking(waking(task, *target_cpu)),
        EventKind::Wakeup {
            task,
            target_cpu,
            new,
        } => {
            let waking = waking(task, *target_cpu);
            if *new {
                Event::SchedWakeupNew(waking)
            } else {
                Event::SchedWakeup(waking)
            }
        }
        EventKind::Migrate {
            task,
            orig_cpu,
            dest_cpu,
        } => Event::SchedMigrateTask(SchedMigrateTask {
            comm: text(task.comm),
            pid: task.pid as i32,
            prio: task.prio.0.into(),
            orig_cpu: *orig_cpu as i32,
            dest_cpu: *dest_cpu as i32,
        }),
        EventKind::PiSetprio { task, newprio } => Event::SchedPiSetprio(SchedPiSetprio {
            comm: text(task.comm),
            newprio: newprio.0.into(),
            oldprio: task.prio.0.into(),
            pid: task.pid as i32,
        }),
        EventKind::ProcessExit { task } => Event::SchedProcessExit(SchedProcessExit {
            comm: text(task.comm),
            pid: task.pid as i32,
            prio: task.prio.0.into(),
        }),
        _ => return None,
    })
}

fn interrupting(kind: &EventKind) -> Option<Event> {
    Some(match kind {
        EventKind::IrqEntry { irq, name } => Event::IrqHandlerEntry(IrqHandlerEntry {
            irq: *irq as i32,
            name: name.to_string(),
        }),
        EventKind::IrqExit { irq, ret } => irq_exit(*irq, *ret),
        EventKind::VectorEntry {
            vector: Vector::LocalTimer,
        } => Event::LocalTimerEntry(LocalTimer {}),
        // Perfetto does not show other vectors, but it shows interrupts by their name, so the
        // vectors are written as interrupts.
        EventKind::VectorEntry { vector } => Event::IrqHandlerEntry(IrqHandlerEntry {
            irq: 0,
            name: vector.name().to_owned(),
        }),
        EventKind::VectorExit { vector } => vector_exit(vector),
        EventKind::SoftirqRaise { vec } if *vec < SOFTIRQS => {
            Event::SoftirqRaise(Softirq { vec: *vec })
        }
        EventKind::SoftirqEntry { vec } if *vec < SOFTIRQS => {
            Event::SoftirqEntry(Softirq { vec: *vec })
        }
        EventKind::SoftirqExit { vec } if *vec < SOFTIRQS => {
            Event::SoftirqExit(Softirq { vec: *vec })
        }
        _ => return None,
    })
}

fn irq_exit(irq: u32, ret: i32) -> Event {
    Event::IrqHandlerExit(IrqHandlerExit {
        irq: irq as i32,
        ret,
    })
}

fn vector_exit(vector: &Vector) -> Event {
    match vector {
        Vector::LocalTimer => Event::LocalTimerExit(LocalTimer {}),
        // The second argument is `IRQ_HANDLED`.
        _ => irq_exit(0, 1),
    }
}

fn timing(kind: &EventKind) -> Option<Event> {
    Some(match *kind {
        EventKind::HrtimerStart {
            hrtimer,
            function,
            expires_ns,
            softexpires_ns,
        } => Event::HrtimerStart(HrtimerStart {
            hrtimer,
            function,
            expires: expires_ns,
            softexpires: softexpires_ns,
        }),
        EventKind::HrtimerCancel { hrtimer } => Event::HrtimerCancel(Timer { timer: hrtimer }),
        EventKind::HrtimerExpireEntry {
            hrtimer,
            function,
            now_ns,
        } => Event::HrtimerExpireEntry(HrtimerExpireEntry {
            hrtimer,
            now: now_ns,
            function,
        }),
        EventKind::HrtimerExpireExit { hrtimer } => {
            Event::HrtimerExpireExit(Timer { timer: hrtimer })
        }
        EventKind::TimerExpireEntry { timer, function } => {
            Event::TimerExpireEntry(TimerExpireEntry { timer, function })
        }
        EventKind::TimerExpireExit { timer } => Event::TimerExpireExit(Timer { timer }),
        EventKind::IdleEntry { state, cpu_id } => Event::CpuIdle(CpuIdle { state, cpu_id }),
        EventKind::IdleExit { cpu_id } => Event::CpuIdle(CpuIdle {
            state: IDLE_EXIT,
            cpu_id,
        }),
        _ => return None,
    })
}

fn calling(kind: &EventKind) -> Option<Event> {
    Some(match kind {
        EventKind::WorkqueueStart { work, function } => {
            Event::WorkqueueExecuteStart(WorkqueueExecute {
                work: *work,
                function: *function,
            })
        }
        EventKind::WorkqueueEnd { work, function } => {
            Event::WorkqueueExecuteEnd(WorkqueueExecute {
                work: *work,
                function: *function,
            })
        }
        EventKind::SignalGenerate { sig, pid, comm } => Event::SignalGenerate(SignalGenerate {
            comm: text(*comm),
            pid: *pid as i32,
            sig: *sig as i32,
        }),
        EventKind::SignalDeliver { sig } => {
            Event::SignalDeliver(SignalDeliver { sig: *sig as i32 })
        }
        EventKind::SysEnter { id, args } => Event::SysEnter(SysEnter {
            id: *id,
            args: args.to_vec(),
        }),
        EventKind::SysExit { id, ret } => Event::SysExit(SysExit { id: *id, ret: *ret }),
        _ => return None,
    })
}
