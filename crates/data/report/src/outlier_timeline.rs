//! One explained outlier with the events around it: what its text and its
//! picture are made of.

use punctual_model::{
    Delay, EventKind, Nanos, Outlier, RecordingId, Segment, ShareKind, SignedNanos, ThreadLane,
    TraceEvent, Window, softirq_name,
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
    /// Of a job what each thread did that had a part in it, the job's own first; empty
    /// for what is no job.
    pub lanes: Vec<ThreadLane>,
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
        Delay::Job => Ends {
            from: ("released", "the release wait ends"),
            to: ("completed", "the thread returns to its release wait"),
            length: "for the job",
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
        let wrote = matches!(
            event.kind,
            EventKind::PageFaultUser { .. }
                | EventKind::PageFaultKernel { .. }
                | EventKind::SysEnter { .. }
                | EventKind::SysExit { .. }
        );
        event.kind.is_about(tid) || (wrote && event.pid == tid)
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

/// The name and the kind of a handler that an event begins: drawn as a block.
pub(crate) fn opened(kind: &EventKind) -> Option<(String, ShareKind)> {
    Some(match kind {
        EventKind::IrqEntry { name, .. } => (name.to_string(), ShareKind::Interrupt),
        EventKind::VectorEntry { vector } => (vector.name().to_owned(), ShareKind::Interrupt),
        EventKind::SoftirqEntry { vec } => (softirq_name(*vec), ShareKind::Softirq),
        _ => return None,
    })
}

/// Whether it ends a handler.
pub(crate) const fn closes(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::IrqExit { .. } | EventKind::VectorExit { .. } | EventKind::SoftirqExit { .. }
    )
}
