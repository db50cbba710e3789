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

#[cfg(test)]
mod tests {
    use punctual_model::GapReason;
    use punctual_model::cause::Source;

    use super::*;
    use GapReason::{ClocksDiffer, Lost};

    /// Begin and end of a part, with the reason and the CPU of the gap that makes it unknown.
    type Part = (u64, u64, Option<(GapReason, u32)>);

    /// Splits the host's time from 100 to 200 ns on CPU 1, which one cause explains, at these gaps.
    fn parts(gaps: &[(u32, u64, u64, GapReason)]) -> Vec<Part> {
        let known = Cause::new(Source::Scheduling);
        let segment = CauseSpan {
            from: Nanos(100),
            to: Nanos(200),
            cpu: 1,
            cause: known.clone(),
            rival: Some(7),
        };
        let gap = |(cpu, from, to, reason): &(u32, u64, u64, GapReason)| EventGap {
            cpu: *cpu,
            from: Nanos(*from),
            to: Nanos(*to),
            reason: *reason,
        };
        let gaps: Vec<EventGap> = gaps.iter().map(gap).collect();
        let mut parts = Vec::new();
        without_gaps(segment, &gaps, &mut parts);
        let part = |part: CauseSpan| {
            assert_eq!((part.cpu, part.rival), (1, Some(7)));
            let gap = match part.cause.source {
                Source::Unexplained(Unknown::Gap { reason, cpu }) => Some((reason, cpu)),
                _ => None,
            };
            assert!(gap.is_some() || part.cause == known, "{:?}", part.cause);
            (part.from.0, part.to.0, gap)
        };
        parts.into_iter().map(part).collect()
    }

    #[test]
    fn time_in_a_gap_has_no_known_cause() {
        let (lost, other) = (Some((Lost, 1)), Some((Lost, 0)));
        assert_eq!(parts(&[]), [(100, 200, None)]);
        assert_eq!(
            parts(&[(0, 120, 140, Lost)]),
            [(100, 120, None), (120, 140, other), (140, 200, None)]
        );
        // The state of the own CPU before lost events is unknown until they end.
        assert_eq!(
            parts(&[(1, 120, 140, Lost)]),
            [(100, 140, lost), (140, 200, None)]
        );
        let differ = Some((ClocksDiffer, 1));
        assert_eq!(
            parts(&[(1, 120, 140, ClocksDiffer)]),
            [(100, 120, None), (120, 140, differ), (140, 200, None)]
        );
    }

    #[test]
    fn gaps_may_overlap_and_reach_beyond_the_segment() {
        let (lost, other) = (Some((Lost, 1)), Some((Lost, 0)));
        assert_eq!(parts(&[(1, 50, 300, Lost)]), [(100, 200, lost)]);
        for outside in [(1, 50, 100, Lost), (0, 50, 100, Lost), (0, 200, 300, Lost)] {
            assert_eq!(parts(&[outside]), [(100, 200, None)]);
        }
        assert_eq!(
            parts(&[(0, 50, 110, Lost), (0, 190, 300, Lost)]),
            [(100, 110, other), (110, 190, None), (190, 200, other)]
        );
        assert_eq!(
            parts(&[(0, 110, 150, Lost), (2, 130, 170, Lost)]),
            [
                (100, 110, None),
                (110, 150, other),
                (150, 170, Some((Lost, 2))),
                (170, 200, None)
            ]
        );
        assert_eq!(
            parts(&[(1, 110, 150, Lost), (0, 130, 170, Lost)]),
            [(100, 150, lost), (150, 170, other), (170, 200, None)]
        );
    }
}
