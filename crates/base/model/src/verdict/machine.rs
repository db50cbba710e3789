//! Statements about the machine: limits with a confidence.

use super::blocks::{Blocks, late_in_blocks};
use super::follows;
use super::grounds::{Grounds, Single, blocks_of, missed_unknown};
use super::length::length;
use super::rate::Rate;
use crate::{Due, Limit, Metric, Nanos, grouped};

/// Parameters of the proof of a statement about the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof {
    /// Probability that a bound is wrong.
    pub(super) error: f64,
    /// Number of judged threads. A limit is broken if any thread breaks it, so the error of
    /// *broken* is divided by this number. This is the first step of Holm (1979), which is
    /// sufficient to answer whether any thread breaks the limit. A limit is held if all threads
    /// hold it, so each thread may use the whole error.
    pub(super) threads: usize,
}

impl Proof {
    /// Judges a limit on one thread.
    pub(super) fn judge(
        self,
        limit: Limit,
        fact: Single,
        grounds: &Grounds<'_>,
        place: usize,
        due: &Due,
    ) -> Single {
        let Metric::Percentile(percent) = limit.metric else {
            // One occurrence proves *broken*. No measurement can prove that something never
            // happens.
            return fact.open_if_held(|| {
                "no run is long enough to prove that a limit is never exceeded: require a \
                 percentile, or a rate with punctual check"
                    .to_owned()
            });
        };
        let share = (100.0 - percent) / 100.0;
        match self.late_share(Nanos(limit.at_most), share, grounds, place, due) {
            Ok(held) => fact.with_ground(Some(held), String::new),
            Err(why) => fact.with_ground(None, || why),
        }
    }

    /// Returns whether at most this share of the periods is later than `limit`, or the reason why
    /// this is open.
    ///
    /// Late periods cluster, so each of them counts less than an independent one would. Their
    /// counts in blocks of time show how much less. The method also allows for unseen events: an
    /// event that makes all periods of one second late, and that is rare enough not to occur in the
    /// measured time.
    fn late_share(
        self,
        limit: Nanos,
        share: f64,
        grounds: &Grounds<'_>,
        place: usize,
        due: &Due,
    ) -> Result<bool, String> {
        if grounds.missed_unknown {
            return Err(missed_unknown());
        }
        let measured = grounds.measured(place).filter(|time| *time > Nanos::ZERO);
        let measured = measured.ok_or("the measured time is unknown")?;
        let Blocks {
            late: [least, most],
            start,
            length: block,
        } = late_in_blocks(grounds.series, place, limit, measured)?;
        let late = blocks_of(&most, start, block);
        let above = due.above_limit(limit);
        let least = Rate::of_blocks(above.at_least, least, measured);
        let most = Rate::of_blocks(above.at_most, most, measured);
        let periods = due.periods() as f64;
        let allowed = periods * share;
        let in_a_second = periods / measured.as_secs_f64();
        let unseen = Rate::plain(0, measured).at_most(self.error / 2.0) * in_a_second;
        let at_most = most.at_most(self.error / 2.0) + unseen;
        let at_least = least.at_least(self.error / self.threads.max(1) as f64);
        let name = "late periods";
        let doubt = most.doubt().or(least.doubt());
        let doubt = doubt.map(|doubt| doubt.sentence(name));
        let drift = || {
            let run = (start, measured);
            follows(grounds.readings, &late, run, most.local_dispersion(), name)
        };
        match doubt.or_else(drift) {
            Some(doubt) => Err(doubt),
            None if at_least > allowed => Ok(false),
            None if at_most <= allowed => Ok(true),
            None => {
                let advice = most.likely_share(allowed, unseen, self.error / 2.0);
                let advice = advice.map_or_else(String::new, |time| {
                    format!(
                        "; measure for {} (long enough in 80% of the runs of a machine like this \
                         one)",
                        length(time.as_secs_f64())
                    )
                });
                Err(format!(
                    "{} to {} of {} periods exceed the limit, {} are allowed{advice}",
                    grouped(at_least as u64),
                    grouped(at_most.min(periods).ceil() as u64),
                    grouped(due.periods()),
                    grouped((allowed + 1e-6) as u64)
                ))
            }
        }
    }
}
