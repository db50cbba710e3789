//! What would be left of the outliers of a run without some of their causes.

use punctual_model::cause::Source;
use punctual_model::{Explanation, LateSeconds, Nanos, Outlier, Recording};

/// What would be left of the outliers of a run without some causes.
///
/// The prediction assumes that the other shares of an outlier would stay as they are. Only kept
/// outliers are examined. Time that no event explains is not removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Without {
    /// Number of outliers to which the causes contributed.
    pub concerned: u64,
    /// Number of outliers that would be within the threshold.
    pub within: u64,
    /// Number of outliers that would still be above the threshold.
    pub above: u64,
    /// The longest latency that would be left. `None` without outliers.
    pub longest: Option<Nanos>,
    /// The seconds of the run that have an outlier.
    pub late: LateSeconds,
    /// The seconds of the run that would still have one.
    pub late_then: LateSeconds,
}

impl Without {
    /// Returns the 95% interval of the late seconds a day that would be left, if the rest of the day is
    /// like the run. In the upper end, each of the `others`, which were not examined, is a late second
    /// of its own. A run below a minute is too short for an interval.
    pub fn per_day(&self, measured: Nanos, others: u64) -> Option<[f64; 2]> {
        if measured < Nanos::from_secs(60) {
            return None;
        }
        let mut possible = self.late_then.clone();
        possible.add_elsewhere(others, measured.0 / Nanos::from_secs(1).0);
        let (certain, possible) = (self.late_then.rate(measured), possible.rate(measured));
        let least = certain.per_day(certain.at_least(0.025))?;
        Some([least, possible.per_day(possible.at_most(0.025))?])
    }
}

/// Returns the number of outliers that were not examined by [`without`]: those that were not
/// explained, and those that were explained but not kept.
pub fn not_examined(explanation: &Explanation) -> [u64; 2] {
    let kept = explanation.outliers.len() as u64;
    [
        explanation.seen.saturating_sub(explanation.explained),
        explanation.explained.saturating_sub(kept),
    ]
}

/// Predicts the outliers of a run without the sources for which `is_removed` returns true.
pub fn without(
    recording: &Recording,
    explanation: &Explanation,
    is_removed: impl Fn(&Source) -> bool,
) -> Without {
    let mut all = Without::default();
    for outlier in &explanation.outliers {
        let removed = removed_from(outlier, &is_removed);
        let left = outlier.latency_ns.saturating_sub(removed);
        let since_start = outlier.time.duration_since(recording.started).as_nanos();
        let since_start = Nanos(u64::try_from(since_start).unwrap_or_default());
        all.concerned += u64::from(removed > Nanos::ZERO);
        all.longest = all.longest.max(Some(left));
        all.late.add(since_start);
        if left > explanation.threshold_ns {
            all.above += 1;
            all.late_then.add(since_start);
        } else {
            all.within += 1;
        }
    }
    all
}

fn removed_from(outlier: &Outlier, is_removed: &impl Fn(&Source) -> bool) -> Nanos {
    let shares = outlier.blame.shares.iter();
    let removed = shares.filter(|share| {
        let unexplained = matches!(share.cause.source, Source::Unexplained(_));
        !unexplained && is_removed(&share.cause.source)
    });
    Nanos(removed.map(|share| share.ns.0).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tally;
    use std::time::Duration;

    use punctual_model::cause::{Cause, Unknown};
    use punctual_model::{Share, testing};

    fn outlier(number: u64, second: u64, shares: &[(Source, u64)]) -> Outlier {
        let shares = shares
            .iter()
            .map(|(source, us)| Share::new(Cause::new(source.clone()), Nanos::from_micros(*us), 1));
        let blame = testing::blame(shares.collect());
        Outlier {
            number,
            time: testing::recording(1, 1).started + Duration::from_secs(second),
            monotonic_ns: Nanos::ZERO,
            cpu: Some(0),
            thread: 0,
            latency_ns: blame.latency(),
            blame,
            light_stage: false,
        }
    }

    fn explanation() -> Explanation {
        let (net, block) = (Source::Softirq(3), Source::Softirq(4));
        let unknown = Source::Unexplained(Unknown::NoWaker);
        Explanation {
            threshold_ns: Nanos::from_micros(100),
            outliers: vec![
                outlier(1, 0, &[(net.clone(), 90), (block.clone(), 40)]),
                outlier(2, 0, &[(net.clone(), 400)]),
                outlier(3, 5, &[(net.clone(), 20), (block, 110)]),
                outlier(4, 9, &[(unknown, 500), (net, 10)]),
            ],
            ..Explanation::default()
        }
    }

    #[test]
    fn only_removed_time_can_bring_an_outlier_within_the_threshold() {
        let explanation = explanation();
        let recording = testing::recording(1, 1);
        let of = |removed: &[Source]| {
            let found = without(&recording, &explanation, |source| removed.contains(source));
            (found.within, found.above, found.late_then.count())
        };
        let (net, block) = (Source::Softirq(3), Source::Softirq(4));
        assert_eq!(of(&[]), (0, 4, 3));
        assert_eq!(of(std::slice::from_ref(&net)), (2, 2, 2));
        assert_eq!(of(std::slice::from_ref(&block)), (2, 2, 2));
        // Together they explain three outliers. The unexplained one stays.
        assert_eq!(of(&[net.clone(), block.clone()]), (3, 1, 1));
        let tally = Tally::from_outliers(&explanation.outliers, explanation.threshold_ns);
        for cause in tally.causes() {
            let alone = of(std::slice::from_ref(&cause.source)).0;
            let known = !matches!(cause.source, Source::Unexplained(_));
            assert_eq!(cause.late_only_by, known.then_some(alone), "{cause:?}");
        }
        let all = without(&recording, &explanation, |_| true);
        assert_eq!(
            (all.within, all.longest),
            (3, Some(Nanos::from_micros(500)))
        );
        assert_eq!(all.concerned, 4);
    }

    /// Outliers that were not examined raise the upper end only.
    #[test]
    fn unexamined_outliers_count_as_not_removed() {
        let mut explanation = explanation();
        (explanation.seen, explanation.explained) = (9, 6);
        assert_eq!(not_examined(&explanation), [3, 2]);
        let recording = testing::recording(1, 1);
        let found = without(&recording, &explanation, |_| true);
        assert_eq!(found.per_day(Nanos::from_secs(59), 0), None);
        let minutes = Nanos::from_secs(600);
        let [least, most] = found.per_day(minutes, 0).unwrap();
        let [same, more] = found.per_day(minutes, 5).unwrap();
        assert!(
            least > 0.0 && least < 144.0 && most > 144.0,
            "{least} to {most}"
        );
        assert!(least == same && more > most + 144.0 * 4.0, "{more}");
    }

    #[test]
    fn removing_more_never_leaves_more() {
        let explanation = explanation();
        let recording = testing::recording(1, 1);
        let some = without(&recording, &explanation, |source| {
            *source == Source::Softirq(3)
        });
        let more = without(&recording, &explanation, |source| {
            matches!(source, Source::Softirq(_))
        });
        assert!(more.above <= some.above && more.longest <= some.longest);
        assert!(more.late_then.count() <= some.late_then.count());
        assert_eq!(more.late, some.late);
    }
}
