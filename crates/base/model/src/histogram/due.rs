//! Due periods: the periods with a sample, and the missed ones.

use super::bucket_counts::rank_of;
use crate::{Above, AboveLimit, Histogram, Nanos, OpenPeriods};

/// The due periods of one or more threads after the warm-up. Verdicts are based on these periods,
/// because a missed period is late, not absent ("coordinated omission"; G. Tene, "How NOT to
/// measure latency", 2015).
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// The known latencies of samples and of missed periods.
    known: Histogram,
    /// Lower bounds of the lateness of periods that still had no wake-up at the end of the run
    /// ("open periods").
    open: Option<Box<Histogram>>,
    /// Missed periods of unknown latency.
    unknown: u64,
    /// Numbers of known latencies above given limits, if they were counted one by one.
    above: Vec<AboveLimit>,
}

/// A quantile, as a lower and an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The lower bound, which holds even if all unknown latencies were zero.
    pub at_least: Nanos,
    /// The upper bound. `None` if it depends on unknown latencies.
    pub at_most: Option<Nanos>,
}

impl Bounds {
    /// Returns the exact quantile if unknown latencies do not affect it.
    pub fn exact(self) -> Option<Nanos> {
        self.at_most.filter(|at_most| *at_most == self.at_least)
    }
}

impl Due {
    /// Combines the periods with a sample and `missed` periods without one. Of the missed periods,
    /// those in `late` got a wake-up later, and those in `open` had none by the end of the run.
    pub(crate) fn new(
        samples: &Histogram,
        missed: u64,
        late: Option<&Histogram>,
        open: Option<OpenPeriods>,
        above: &[AboveLimit],
    ) -> Self {
        let mut known = samples.clone();
        let told = late.map_or(0, |late| {
            known.merge(late);
            late.recorded()
        });
        let untold = missed.saturating_sub(told);
        let open = open.filter(|_| untold > 0);
        let open = open.map(|open| Box::new(open.at_least(untold)));
        let unknown = untold - open.as_ref().map_or(0, |open| open.recorded());
        Self {
            known,
            open,
            unknown,
            above: above.to_vec(),
        }
    }

    /// Returns the number of periods.
    pub fn periods(&self) -> u64 {
        let known = self.known.recorded().saturating_add(self.open());
        known.saturating_add(self.unknown)
    }

    /// Returns the number of periods that still had no wake-up at the end of the run. Only a lower
    /// bound of their latency is known.
    pub fn open(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.recorded())
    }

    /// Returns a latency that at least one open period exceeds: the largest lower bound.
    pub fn open_at_least(&self) -> Option<Nanos> {
        self.open.as_ref().and_then(|open| open.max())
    }

    /// Returns the number of missed periods of unknown latency.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Returns the known latencies.
    pub fn known(&self) -> &Histogram {
        &self.known
    }

    /// Returns the known latencies and the lower bounds of open periods.
    pub fn at_least(&self) -> Histogram {
        let mut least = self.known.clone();
        if let Some(open) = &self.open {
            least.merge(open);
        }
        least
    }

    /// Adds the periods of another value.
    pub fn merge(&mut self, other: &Self) {
        let first = self.periods() == 0;
        if first {
            self.above.clone_from(&other.above)
        } else {
            self.above.retain_mut(|mine| {
                let theirs = other.above.iter().find(|one| one.limit_ns == mine.limit_ns);
                mine.periods = mine
                    .periods
                    .saturating_add(theirs.map_or(0, |one| one.periods));
                theirs.is_some() || other.periods() == 0
            })
        }
        self.known.merge(&other.known);
        if let Some(theirs) = &other.open {
            self.open.get_or_insert_default().merge(theirs);
        }
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// Returns the largest known latency, with open periods at their lower bound. Zero if all
    /// periods were early, `None` if nothing is known.
    pub fn max(&self) -> Option<Nanos> {
        let known = match self.known.count() {
            0 if self.known.early() > 0 => Some(Nanos::ZERO),
            // If another tool does not report its maximum, the maximum of the other samples could
            // be too small.
            1.. => Some(self.known.max()?),
            _ => None,
        };
        known.max(self.open_at_least())
    }

    /// Returns the given quantile (0 to 1) of the periods by nearest rank. Early periods rank below
    /// all others. `None` if there are no periods, or if the figures of another tool do not
    /// determine the quantile.
    pub fn quantile(&self, quantile: f64) -> Option<Bounds> {
        let rank = rank_of(quantile, self.periods())?;
        let early = self.known.early();
        let at = |of: &Histogram, rank: u64| match rank.checked_sub(early) {
            None | Some(0) => Some(Nanos::ZERO),
            Some(rank) => of.at_rank(rank),
        };
        let surely = rank.saturating_sub(self.unknown);
        let at_least = match &self.open {
            None => at(&self.known, surely)?,
            Some(open) => {
                let mut least = self.known.clone();
                least.merge(open);
                at(&least, surely)?
            }
        };
        let at_most = if rank <= self.known.recorded() {
            at(&self.known, rank)
        } else {
            None
        };
        Some(Bounds {
            // The value of a bucket is rounded up, but not beyond the maximum of its histogram. The
            // maximum of the merged histogram may be larger.
            at_least: at_most.map_or(at_least, |at_most| at_least.min(at_most)),
            at_most,
        })
    }

    /// Returns the number of periods known to exceed `limit`.
    pub fn above(&self, limit: Nanos) -> u64 {
        let open = self.open.as_ref().map_or(0, |open| open.above(limit));
        self.known.above(limit).saturating_add(open)
    }

    /// Returns the number of periods that exceed `limit`. The number is exact if the periods were
    /// counted one by one, or if `limit` is a bucket edge.
    pub fn above_limit(&self, limit: Nanos) -> Above {
        let counted = self.above.iter().find(|one| one.limit_ns == limit);
        let known = match counted {
            Some(counted) => Above {
                at_least: counted.periods,
                at_most: counted.periods,
            },
            None => self.known.above_limit(limit),
        };
        let open = self.open.as_ref().map_or(0, |open| open.above(limit));
        let undecided = self.unknown.saturating_add(self.open());
        Above {
            at_least: known.at_least.saturating_add(open),
            at_most: known.at_most.saturating_add(undecided),
        }
    }

    /// Returns the upper bound of the largest known latency. Another tool may have rounded it down.
    pub(crate) fn max_at_most(&self) -> Option<Nanos> {
        let unit = self
            .known
            .resolution()
            .map_or(1, |one| one.unit_ns.0.max(1));
        Some(Nanos(self.max()?.0.saturating_add(unit - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SignedNanos;

    fn due(latencies: &[i64], unknown: u64) -> Due {
        let mut known = Histogram::new();
        for latency in latencies {
            known.record(SignedNanos(*latency));
        }
        Due {
            known,
            unknown,
            ..Due::default()
        }
    }

    proptest::proptest! {
        /// Checks that the bounds of a quantile hold for any lateness of the open periods.
        #[test]
        fn open_periods_widen_a_quantile_upwards_only(
            known in proptest::collection::vec(0i64..1_000_000, 0..60),
            late in 1u64..1_000_000,
            periods in 1u64..20,
            more in proptest::collection::vec(0u64..2_000_000, 20),
            quantile in 0.01f64..1.0,
        ) {
            let mut seen = due(&known, 0);
            let open = crate::OpenPeriods { periods, late_ns: Nanos(late), period_ns: Nanos(7) };
            seen.open = Some(Box::new(open.at_least(periods)));
            let at_least = |number: u64| late.saturating_sub(7 * number);
            let mut truth = due(&known, 0);
            for (number, more) in (0..periods).zip(&more) {
                truth.known.record(SignedNanos((at_least(number) + more) as i64));
            }
            proptest::prop_assert_eq!(seen.periods(), truth.periods());
            let found = seen.quantile(quantile).unwrap();
            let exact = truth.quantile(quantile).unwrap().exact().unwrap();
            // A bucket is wider than its values by up to 1%.
            proptest::prop_assert!(found.at_least.0 <= exact.0 + exact.0 / 100 + 1);
            if let Some(at_most) = found.at_most {
                proptest::prop_assert!(exact.0 <= at_most.0 + at_most.0 / 100 + 1);
                proptest::prop_assert!(found.at_least <= at_most);
            }
            for limit in [late / 2, late, late * 2].map(Nanos) {
                proptest::prop_assert!(seen.above(limit) <= truth.above(limit));
            }
            proptest::prop_assert!(seen.max() <= truth.max());
        }
    }

    #[test]
    fn unknown_latencies_widen_a_quantile() {
        let bounds = |quantile, unknown| due(&[10, 20, 30, 40], unknown).quantile(quantile);
        let of = |at_least: u64, at_most: Option<u64>| {
            let (at_least, at_most) = (Nanos(at_least), at_most.map(Nanos));
            Some(Bounds { at_least, at_most })
        };
        assert_eq!(bounds(0.5, 0), of(20, Some(20)));
        assert_eq!(bounds(0.5, 1), of(20, Some(30)));
        assert_eq!(bounds(1.0, 1), of(40, None));
        assert_eq!(due(&[], 0).quantile(0.5), None);
        assert_eq!(due(&[], 3).quantile(0.5), of(0, None));
    }

    #[test]
    fn early_samples_are_below_all_others() {
        let due = due(&[-5, -5, 10, 20], 0);
        assert_eq!(due.quantile(0.5).unwrap().at_least, Nanos::ZERO);
        assert_eq!(due.quantile(0.75).unwrap().at_least, Nanos(10));
        assert_eq!(due.above(Nanos(10)), 1);
    }

    fn above(limit: u64, periods: u64) -> crate::AboveLimit {
        crate::AboveLimit {
            limit_ns: Nanos(limit),
            periods,
        }
    }

    #[test]
    fn merged_periods_are_counted_one_by_one_only_if_both_were() {
        let counted = |latencies: &[i64], counts: &[(u64, u64)]| Due {
            above: counts
                .iter()
                .map(|(limit, periods)| above(*limit, *periods))
                .collect(),
            ..due(latencies, 1)
        };
        let mut sum = Due::default();
        sum.merge(&counted(&[10, 20], &[(15, 1), (5, 2)]));
        assert_eq!(sum.above, [above(15, 1), above(5, 2)]);
        sum.merge(&counted(&[30], &[(15, 1), (7, 1)]));
        assert_eq!(sum.above, [above(15, 2)]);
        assert_eq!((sum.periods(), sum.unknown()), (5, 2));
        sum.merge(&Due::default());
        assert_eq!(sum.above, [above(15, 2)], "nothing was added");
        let exact = sum.above_limit(Nanos(15));
        assert_eq!((exact.at_least, exact.at_most), (2, 4), "two are unknown");
        sum.merge(&counted(&[40], &[]));
        assert_eq!(sum.above, []);
    }

    #[test]
    fn open_periods_are_later_than_their_lower_bound() {
        let open = crate::OpenPeriods {
            periods: 2,
            late_ns: Nanos(100),
            period_ns: Nanos(40),
        };
        let mut hanging = due(&[10, 20], 0);
        hanging.open = Some(Box::new(open.at_least(2)));
        let mut sum = due(&[30], 0);
        sum.merge(&hanging);
        assert_eq!(
            (sum.periods(), sum.open(), sum.open_at_least()),
            (5, 2, Some(Nanos(100)))
        );
        assert_eq!(sum.max(), Some(Nanos(100)));
        assert_eq!(sum.at_least().recorded(), 5);
        let limit = sum.above_limit(Nanos(50));
        assert_eq!((limit.at_least, limit.at_most), (2, 2));
        let limit = sum.above_limit(Nanos(70));
        assert_eq!((limit.at_least, limit.at_most), (1, 2));
        assert_eq!(sum.above(Nanos(15)), 4);
        sum.merge(&hanging);
        assert_eq!(sum.open(), 4);
    }
}
