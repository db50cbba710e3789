//! Segments of a late reaction.

use punctual_model::cause::{Cause, Unknown};
use punctual_model::{EventGap, Nanos, Segment};

use crate::scene::hides_changes;

/// A segment of time that is attributed to one cause.
#[derive(Clone, Debug)]
pub(crate) struct CauseSpan {
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
    /// CPU on which the cause was determined.
    pub(crate) cpu: u32,
    pub(crate) cause: Cause,
    /// Thread that was running on the CPU while the victim was runnable. `Some` only if the victim
    /// may have been throttled.
    pub(crate) rival: Option<u32>,
}

impl CauseSpan {
    pub(crate) fn length(&self) -> Nanos {
        self.to - self.from
    }

    /// Returns the segment as a segment of a plot.
    pub(crate) fn segment(self) -> Segment {
        Segment {
            from: self.from,
            to: self.to,
            cpu: self.cpu,
            cause: self.cause,
            words: None,
        }
    }
}

/// Merges neighbouring segments that have the same cause and CPU.
pub(crate) fn merged(spans: Vec<CauseSpan>) -> Vec<CauseSpan> {
    let mut merged: Vec<CauseSpan> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if last.cause == span.cause && last.cpu == span.cpu => {
                last.to = span.to;
            }
            _ => merged.push(span),
        }
    }
    merged
}

/// Appends the parts of a segment to `parts`. The cause of each part whose events may be missing is
/// unknown.
pub(crate) fn without_gaps(segment: CauseSpan, gaps: &[EventGap], parts: &mut Vec<CauseSpan>) {
    let mut at = segment.from;
    let mut put = |from: Nanos, to: Nanos, cause: Cause| {
        if from < to {
            parts.push(CauseSpan {
                from,
                to,
                cause,
                ..segment.clone()
            });
        }
    };
    let unknown = |gap: &EventGap| {
        let (reason, cpu) = (gap.reason, gap.cpu);
        Cause::unexplained(Unknown::Gap { reason, cpu })
    };
    // The events of the CPU before its last gap were not used.
    let own = gaps
        .iter()
        .filter(|gap| gap.cpu == segment.cpu && hides_changes(gap.reason));
    if let Some(last) = own.max_by_key(|gap| gap.to) {
        let to = last.to.min(segment.to);
        put(at, to, unknown(last));
        at = at.max(to);
    }
    for gap in gaps {
        let (from, to) = (gap.from.max(at), gap.to.min(segment.to));
        if from < to {
            put(at, from, segment.cause.clone());
            put(from, to, unknown(gap));
            at = to;
        }
    }
    put(at, segment.to, segment.cause.clone());
}
