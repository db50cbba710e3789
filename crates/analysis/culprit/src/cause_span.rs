//! Segments of a late reaction.

use punctual_model::cause::Cause;
use punctual_model::{Nanos, Segment};

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
pub(crate) fn merged(stretches: Vec<CauseSpan>) -> Vec<CauseSpan> {
    let mut merged: Vec<CauseSpan> = Vec::new();
    for stretch in stretches {
        match merged.last_mut() {
            Some(last) if last.cause == stretch.cause && last.cpu == stretch.cpu => {
                last.to = stretch.to;
            }
            _ => merged.push(stretch),
        }
    }
    merged
}
