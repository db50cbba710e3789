//! One explained outlier with the events around it. Both its text and its plot are made from this.

use punctual_model::{
    Delay, EventKind, Nanos, Outlier, Recording, RecordingId, Segment, ShareKind, SignedNanos,
    ThreadActivity, TraceEvent, Window, softirq_name,
};

use crate::figures;

/// One explained outlier with the events around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlierTimeline {
    /// The recording that contains the outlier.
    pub recording: RecordingId,
    /// The explanation of the outlier.
    pub outlier: Outlier,
    /// The events around the outlier.
    pub window: Window,
    /// The segments of the latency, each with its cause.
    pub segments: Vec<Segment>,
    /// For a job, the activity of each thread involved, beginning with the job's own thread. Empty
    /// for outliers that are not jobs.
    pub activity: Vec<ThreadActivity>,
    /// Whether the times are from another tool's trace, so that the date is unknown.
    pub in_trace: bool,
}

/// The names for the two ends of an outlier.
pub(crate) struct Ends {
    /// Name of the expected time: first the name for a plot, then the name for a line of text.
    pub(crate) from: (&'static str, &'static str),
    /// Name of the actual time, in the same two forms.
    pub(crate) to: (&'static str, &'static str),
    /// The words that follow the duration, such as "late".
    pub(crate) length: &'static str,
}

/// Returns the names of the two ends for a kind of latency.
const fn ends(delay: Delay) -> Ends {
    const CAME: (&str, &str) = ("actual", "actual wake-up");
    match delay {
        Delay::Timer => Ends {
            from: ("expected", "expected wake-up"),
            to: CAME,
            length: "late",
        },
        Delay::Call => Ends {
            from: (
                "called",
                "start of the call, or the edge, that wakes the thread",
            ),
            to: CAME,
            length: "late",
        },
        Delay::Step => Ends {
            from: ("begun", "clock read before the operation"),
            to: ("done", "clock read after the operation"),
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
        Delay::Section => Ends {
            from: ("begun", "interrupts or preemption are disabled"),
            to: ("done", "interrupts and preemption are enabled"),
            length: "blocked",
        },
        Delay::Work => Ends {
            from: ("begun", "clock read before the work"),
            to: ("done", "clock read after the work"),
            length: "for the work",
        },
    }
}

impl OutlierTimeline {
    /// Returns the timeline of the events in `window`.
    pub fn new(recording: &Recording, outlier: Outlier, mut window: Window) -> Self {
        let explanation = recording.explanation.as_ref();
        let segments = if window.segments_fit() {
            std::mem::take(&mut window.segments)
        } else {
            Vec::new()
        };
        Self {
            recording: recording.id,
            in_trace: explanation.is_some_and(|all| all.trace.is_some()),
            segments,
            activity: std::mem::take(&mut window.activity),
            outlier,
            window,
        }
    }

    pub(crate) const fn ends(&self) -> Ends {
        ends(self.window.delay)
    }

    /// Returns a title such as `outlier 3: 143 µs late on CPU 1`.
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

    /// Returns when the thread should have reacted: as a date, or as the time shown in the trace.
    pub(crate) fn time(&self) -> String {
        if self.in_trace {
            format!("at {}", figures::trace_time(self.outlier.monotonic_ns))
        } else {
            figures::wall(self.outlier.time, 6)
        }
    }

    /// Formats a time relative to the expected one: `+12.4 µs`.
    pub(crate) fn when(&self, time: Nanos) -> String {
        let SignedNanos(ns) = time.signed_sub(self.window.expected);
        let size = Nanos(ns.unsigned_abs());
        match ns {
            0 => "0".to_owned(),
            1.. => format!("+{size}"),
            _ => format!("-{size}"),
        }
    }

    /// Returns whether an event is about the victim.
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

/// Returns the name and kind of the handler that an event starts, to be drawn as a block.
pub(crate) fn opened(kind: &EventKind) -> Option<(String, ShareKind)> {
    Some(match kind {
        EventKind::IrqEntry { name, .. } => (name.to_string(), ShareKind::Interrupt),
        EventKind::VectorEntry { vector } => (vector.name().to_owned(), ShareKind::Interrupt),
        EventKind::SoftirqEntry { vec } => (softirq_name(*vec), ShareKind::Softirq),
        _ => return None,
    })
}

/// Returns whether an event ends a handler.
pub(crate) const fn closes(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::IrqExit { .. } | EventKind::VectorExit { .. } | EventKind::SoftirqExit { .. }
    )
}
