//! One explained outlier with the events around it: what its text and its
//! picture are made of.

use punctual_model::{
    Delay, EventKind, Nanos, Outlier, RecordingId, Segment, ShareKind, SignedNanos, Task,
    TaskState, TimerlatContext, TraceEvent, Vector, Window, softirq_name,
};

/// One explained outlier with the events around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlierTimeline {
    /// The recording that it is of.
    pub recording: RecordingId,
    /// What was found out.
    pub outlier: Outlier,
    /// The events.
    pub window: Window,
    /// Who took which stretch of it.
    pub segments: Vec<Segment>,
}

/// What the two ends of an outlier are called.
pub(crate) struct Ends {
    /// At the expected time: in a picture, and in a line.
    pub(crate) from: (&'static str, &'static str),
    /// At the actual time.
    pub(crate) to: (&'static str, &'static str),
    /// What its length is.
    pub(crate) length: &'static str,
}

/// From what to what latencies of a kind go.
const fn ends(delay: Delay) -> Ends {
    const CAME: (&str, &str) = ("actual", "actual wake-up");
    match delay {
        Delay::Timer => Ends {
            from: ("expected", "expected wake-up"),
            to: CAME,
            length: "late",
        },
        Delay::Call => Ends {
            from: ("called", "start of the call that wakes the thread"),
            to: CAME,
            length: "late",
        },
        Delay::Step => Ends {
            from: ("begun", "clock read before the step"),
            to: ("done", "clock read after the step"),
            length: "for the step",
        },
        Delay::Wakeup => Ends {
            from: ("woken", "wake-up of the thread"),
            to: ("running", "the thread runs"),
            length: "late",
        },
        Delay::Taken => Ends {
            from: ("off CPU", "the thread leaves its CPU while runnable"),
            to: ("running", "the thread runs"),
            length: "late",
        },
    }
}

impl OutlierTimeline {
    pub(crate) const fn ends(&self) -> Ends {
        ends(self.window.delay)
    }

    /// `outlier 3: 143 µs late on CPU 1`.
    pub(crate) fn title(&self) -> String {
        let outlier = &self.outlier;
        format!(
            "outlier {}: {} {} on CPU {}",
            outlier.number,
            outlier.latency_ns,
            self.ends().length,
            self.window.victim.cpu
        )
    }

    /// A time relative to the expected one, as people read it: `+12.4 µs`.
    pub(crate) fn when(&self, time: Nanos) -> String {
        let SignedNanos(ns) = time.signed_sub(self.window.expected);
        let size = Nanos(ns.unsigned_abs());
        match ns {
            0 => "0".to_owned(),
            1.. => format!("+{size}"),
            _ => format!("-{size}"),
        }
    }

    /// Whether an event is about the victim.
    pub(crate) fn is_own(&self, event: &TraceEvent) -> bool {
        let tid = self.window.victim.tid;
        match &event.kind {
            EventKind::Switch { prev, next, .. } => prev.pid == tid || next.pid == tid,
            EventKind::Waking { task, .. }
            | EventKind::Wakeup { task, .. }
            | EventKind::Migrate { task, .. }
            | EventKind::PiSetprio { task, .. }
            | EventKind::ProcessExit { task } => task.pid == tid,
            EventKind::SignalGenerate { pid, .. } => *pid == tid,
            EventKind::PageFaultUser { .. }
            | EventKind::PageFaultKernel { .. }
            | EventKind::SysEnter { .. }
            | EventKind::SysExit { .. } => event.pid == tid,
            _ => false,
        }
    }

    /// What happened, in a few words.
    pub(crate) fn describe(&self, event: &TraceEvent) -> String {
        let window = &self.window;
        match &event.kind {
            EventKind::IrqEntry { .. }
            | EventKind::IrqExit { .. }
            | EventKind::SoftirqRaise { .. }
            | EventKind::SoftirqEntry { .. }
            | EventKind::SoftirqExit { .. }
            | EventKind::VectorEntry { .. }
            | EventKind::VectorExit { .. }
            | EventKind::NmiHandler { .. } => handler(&event.kind),
            EventKind::HrtimerStart { .. }
            | EventKind::HrtimerCancel { .. }
            | EventKind::HrtimerExpireEntry { .. }
            | EventKind::HrtimerExpireExit { .. }
            | EventKind::TimerExpireEntry { .. }
            | EventKind::TimerExpireExit { .. }
            | EventKind::WorkqueueStart { .. }
            | EventKind::WorkqueueEnd { .. }
            | EventKind::IpiSend { .. } => function(&event.kind, window),
            EventKind::SysEnter { id } => format!("{} begins", window.call(*id)),
            EventKind::SysExit { id, ret } => format!("{} returns {ret}", window.call(*id)),
            EventKind::IrqDisable { caller, .. } => {
                format!("interrupts disabled at {}", window.symbol(*caller))
            }
            EventKind::IrqEnable { caller, .. } => {
                format!("interrupts enabled at {}", window.symbol(*caller))
            }
            EventKind::PreemptDisable { caller, .. } => {
                format!("preemption disabled at {}", window.symbol(*caller))
            }
            EventKind::PreemptEnable { caller, .. } => {
                format!("preemption enabled at {}", window.symbol(*caller))
            }
            other => thread(other),
        }
    }
}

/// What a handler does.
fn handler(kind: &EventKind) -> String {
    match kind {
        EventKind::IrqEntry { irq, name } => format!("interrupt {name} ({irq}) begins"),
        EventKind::IrqExit { irq, .. } => format!("interrupt {irq} ends"),
        EventKind::SoftirqRaise { vec } => format!("softirq {} raised", softirq_name(*vec)),
        EventKind::SoftirqEntry { vec } => format!("softirq {} begins", softirq_name(*vec)),
        EventKind::SoftirqExit { vec } => format!("softirq {} ends", softirq_name(*vec)),
        EventKind::VectorEntry { vector } => format!("interrupt {} begins", vector.name()),
        EventKind::VectorExit { vector } => format!("interrupt {} ends", vector.name()),
        EventKind::NmiHandler { delta, .. } => {
            format!("NMI ends after {delta}")
        }
        other => other.name().to_owned(),
    }
}

/// What a timer or a worker does.
fn function(kind: &EventKind, window: &Window) -> String {
    match kind {
        EventKind::HrtimerStart {
            function,
            expires_ns,
            softexpires_ns,
            ..
        } => {
            let slack = expires_ns.saturating_sub(*softexpires_ns);
            let slack = Nanos(u64::try_from(slack).unwrap_or(0));
            format!("timer {} armed, slack {slack}", window.symbol(*function))
        }
        EventKind::HrtimerCancel { .. } => "timer cancelled".to_owned(),
        EventKind::HrtimerExpireEntry { function, .. } => {
            format!("timer {} expires", window.symbol(*function))
        }
        EventKind::TimerExpireEntry { function, .. } => {
            format!("timer {} expires (wheel)", window.symbol(*function))
        }
        EventKind::HrtimerExpireExit { .. } | EventKind::TimerExpireExit { .. } => {
            "timer function ends".to_owned()
        }
        EventKind::WorkqueueStart { function, .. } => {
            format!("work {} begins", window.symbol(*function))
        }
        EventKind::WorkqueueEnd { function, .. } => {
            format!("work {} ends", window.symbol(*function))
        }
        EventKind::IpiSend {
            cpu: Some(cpu),
            callback,
            ..
        } => format!("IPI to CPU {cpu} for {}", window.symbol(*callback)),
        EventKind::IpiSend { callback, .. } => {
            format!("IPI to other CPUs for {}", window.symbol(*callback))
        }
        other => other.name().to_owned(),
    }
}

/// What happens to threads.
fn thread(kind: &EventKind) -> String {
    match kind {
        EventKind::Switch {
            prev,
            prev_state,
            next,
        } => format!(
            "{} {}, {} runs ({})",
            name(prev),
            left(*prev_state),
            name(next),
            next.prio
        ),
        EventKind::Waking { task, .. } => format!("wakes {}", name(task)),
        EventKind::Wakeup {
            task, target_cpu, ..
        } => format!("{} enqueued on CPU {target_cpu}", name(task)),
        EventKind::Migrate {
            task,
            orig_cpu,
            dest_cpu,
        } => format!(
            "{} migrates from CPU {orig_cpu} to CPU {dest_cpu}",
            name(task)
        ),
        EventKind::PiSetprio { task, newprio } => {
            format!("priority of {}: {} -> {newprio}", name(task), task.prio)
        }
        EventKind::ProcessExit { task } => format!("{} ends", name(task)),
        EventKind::IdleEntry { state, .. } => format!("enters idle state {state}"),
        EventKind::IdleExit { .. } => "leaves idle".to_owned(),
        EventKind::PageFaultUser { address, .. } => format!("page fault at {address:#x}"),
        EventKind::PageFaultKernel { address, .. } => {
            format!("page fault in the kernel at {address:#x}")
        }
        EventKind::ContentionBegin { .. } => "waits for a kernel lock".to_owned(),
        EventKind::ContentionEnd { .. } => "acquires the kernel lock".to_owned(),
        EventKind::SignalGenerate { sig, pid, comm } => format!("signal {sig} to {comm}-{pid}"),
        EventKind::SignalDeliver { sig } => format!("receives signal {sig}"),
        EventKind::Noise { duration, .. } => format!("noise of {duration}"),
        EventKind::SampleThreshold { duration, .. } => format!("noise of {duration} in a sample"),
        EventKind::Timerlat {
            context,
            timer_latency,
            ..
        } => {
            let place = match context {
                TimerlatContext::Irq => "interrupt",
                TimerlatContext::Thread => "thread",
                TimerlatContext::User => "user space",
            };
            format!("timerlat: {timer_latency} in the {place}")
        }
        other => other.name().to_owned(),
    }
}

fn left(state: TaskState) -> &'static str {
    match () {
        () if state.is_runnable() => "preempted",
        () if state.is_exit() => "ends",
        () if state.is_stopped() || state.is_traced() => "is stopped",
        () => "sleeps",
    }
}

/// `make-12`, `idle`.
pub(crate) fn name(task: &Task) -> String {
    match task.is_idle() {
        true => "idle".to_owned(),
        false => task.to_string(),
    }
}

/// `12.0 µs  interrupt eth0 (24)`: a stretch or a share without its length.
pub(crate) fn taker(kind: ShareKind, who: &str, detail: Option<&str>) -> String {
    let mut text = format!("{}: {who}", kind.name());
    if let Some(detail) = detail.filter(|detail| !detail.is_empty()) {
        text.push_str(&format!(", {detail}"));
    }
    text
}

/// Whether it opens or closes a handler: drawn as a block.
pub(crate) const fn opens(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::IrqEntry { .. } | EventKind::VectorEntry { .. } | EventKind::SoftirqEntry { .. }
    )
}

/// The end of what [`opens`].
pub(crate) const fn closes(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::IrqExit { .. } | EventKind::VectorExit { .. } | EventKind::SoftirqExit { .. }
    )
}

/// What a block is named.
pub(crate) fn opened(kind: &EventKind) -> String {
    match kind {
        EventKind::IrqEntry { name, .. } => name.to_string(),
        EventKind::VectorEntry { vector } => Vector::name(vector).to_owned(),
        EventKind::SoftirqEntry { vec } => softirq_name(*vec),
        other => other.name().to_owned(),
    }
}
