//! Periods that came due: those with a sample, and those that were missed.

use crate::decimal::rank_of;
use crate::{Histogram, Nanos, ThreadRecord};

/// The periods of one or more threads that came due after the warm-up. What is
/// judged is judged on these: a missed period is late, not absent ("coordinated
/// omission"; G. Tene, "How NOT to measure latency", 2015).
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// The latencies that are known: of samples and of missed periods.
    known: Histogram,
    /// Missed periods of which nobody knows how late they were.
    unknown: u64,
}

/// A quantile between what is sure and what is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// It is not less than this, even if each unknown latency was none.
    pub at_least: Nanos,
    /// It is not more than this; `None`: unknown latencies decide.
    pub at_most: Option<Nanos>,
}

impl Bounds {
    /// The quantile itself, where unknown latencies change nothing.
    pub fn exact(self) -> Option<Nanos> {
        self.at_most.filter(|at_most| *at_most == self.at_least)
    }
}

impl ThreadRecord {
    /// Its periods that came due after the warm-up.
    pub fn due(&self) -> Due {
        let mut known = self.histogram.clone();
        let missed = self.accounting.missed;
        let told = self.missed_histogram.as_deref().map_or(0, |late| {
            known.merge(late);
            late.recorded()
        });
        Due {
            known,
            unknown: missed.saturating_sub(told),
        }
    }
}

impl Due {
    /// How many there are.
    pub fn periods(&self) -> u64 {
        self.known.recorded().saturating_add(self.unknown)
    }

    /// Missed periods of unknown latency.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// The latencies that are known.
    pub fn known(&self) -> &Histogram {
        &self.known
    }

    /// Adds the periods of others.
    pub fn merge(&mut self, other: &Self) {
        self.known.merge(&other.known);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// The largest latency that is known; zero where all were early, `None`
    /// where nothing is known.
    pub fn max(&self) -> Option<Nanos> {
        match self.known.count() {
            0 if self.known.early() > 0 => Some(Nanos::ZERO),
            _ => self.known.max(),
        }
    }

    /// The latency that the share `quantile` (0 to 1) of the periods does not
    /// exceed, by nearest rank; early ones are below all others. `None` without
    /// periods, and where another tool's figures do not tell.
    pub fn quantile(&self, quantile: f64) -> Option<Bounds> {
        let rank = rank_of(quantile, self.periods())?;
        let early = self.known.early();
        let at = |rank: u64| match rank.checked_sub(early) {
            None | Some(0) => Some(Nanos::ZERO),
            Some(rank) => self.known.at_rank(rank),
        };
        Some(Bounds {
            at_least: at(rank.saturating_sub(self.unknown))?,
            at_most: match rank <= self.known.recorded() {
                true => at(rank),
                false => None,
            },
        })
    }

    /// How many are known to exceed `limit`.
    pub fn above(&self, limit: Nanos) -> u64 {
        self.known.above(limit)
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
        Due { known, unknown }
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
}
