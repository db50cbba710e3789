//! What a recording contributes to its verdict.

use super::{Completion, Recording};
use crate::verdict::Grounds;
use crate::{Accounting, Nanos, Unknown, Verdict};

/// The probe whose samples are as far apart as its interval says.
const TIMER: &str = "timer";

impl Recording {
    /// Judges what was measured by its requirement and its break value; of a part of a
    /// check-up, an experiment or a search, the answer is theirs.
    pub fn judge(&self) -> Verdict {
        let own = self.judge_alone();
        match &self.judgement {
            Some(judgement) => Verdict {
                outcome: judgement.outcome,
                sentence: judgement.sentence.clone(),
                ..own
            },
            None => own,
        }
    }

    fn judge_alone(&self) -> Verdict {
        let crossed = self.completion == Completion::Break;
        self.requirement.judge_by(&Grounds {
            threads: &self.threads,
            measured: (0..self.threads.len())
                .map(|place| self.measured_for(place))
                .collect(),
            series: Some(&self.series),
            missed_unknown: !self.knows(Unknown::Missed),
            alike: self.lanes_are_alike(),
            break_value: (self.duration_parameter("break_ns")).map(|limit| (limit, crossed)),
            suspensions: &self.suspensions,
            worst: &self.worst,
        })
    }

    /// For how long a thread measured, warm-up not included; `None` where that
    /// is not known.
    fn measured_for(&self, place: usize) -> Option<Nanos> {
        let Accounting {
            expected,
            recorded,
            missed,
            ..
        } = self.threads.get(place)?.accounting;
        let due = recorded.saturating_add(missed);
        if self.probe.name == TIMER
            && let Some(interval) = self.duration_parameter("interval_ns")
        {
            return Some(Nanos(interval.0.saturating_mul(due)));
        }
        if !self.knows(Unknown::Duration) {
            return None;
        }
        let phases = self.probe.parameters.get("phases");
        let phases = phases.and_then(|list| list.as_array()).map_or(1, Vec::len);
        let mut share = due as f64 / expected.max(due).max(1) as f64 / phases.max(1) as f64;
        // One that spins does so for a part of each window.
        if let (Some(width), Some(window)) = (
            self.duration_parameter("width_ns"),
            self.duration_parameter("window_ns"),
        ) {
            share *= (width.0 as f64 / window.0.max(1) as f64).min(1.0);
        }
        Some(Nanos((self.duration_ns.0 as f64 * share) as u64))
    }
}
