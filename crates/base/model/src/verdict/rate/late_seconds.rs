//! Late seconds: the unit in which lateness is counted.

use super::Rate;
use crate::Nanos;

/// The late seconds of a run: the seconds since its start with at least one late period.
///
/// The unit grows with the harm, as that of ITU-T G.826 (errored seconds) does: a burst of 300 ms
/// is one late second, or two if it crosses the edge between them. A machine that is always late
/// has 86,400 a day. A group of late periods, in contrast, would count as one event however long it
/// lasts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateSeconds {
    /// Numbers of the late seconds since the start of the run, in ascending order.
    seconds: Vec<u64>,
}

/// Late seconds with no longer pause between them, in seconds, belong to one cluster.
const PAUSE: u64 = 2;

/// Minimum number of clusters for an estimate of their size without a margin.
const MANY: usize = 30;

impl LateSeconds {
    /// Adds a period that was late, by its due time since the start of the run. Periods may be
    /// added in any order and more than once.
    pub fn add(&mut self, since_start: Nanos) {
        let second = since_start.0 / Nanos::from_secs(1).0;
        match self.seconds.last() {
            Some(last) if *last > second => {
                if let Err(place) = self.seconds.binary_search(&second) {
                    self.seconds.insert(place, second);
                }
            }
            Some(last) if *last == second => {}
            _ => self.seconds.push(second),
        }
    }

    /// Adds late seconds whose time is unknown, spread over those of the first `seconds` that are not
    /// late yet.
    pub fn add_elsewhere(&mut self, unknown: u64, seconds: u64) {
        let is_late = |second: &u64| self.seconds.binary_search(second).is_ok();
        let clean: Vec<u64> = (0..seconds).filter(|second| !is_late(second)).collect();
        let count = unknown.min(clean.len() as u64);
        for number in 0..count {
            let place = (2 * number + 1) * clean.len() as u64 / (2 * count);
            if let Some(second) = clean.get(place as usize) {
                self.add(Nanos(second.saturating_mul(Nanos::from_secs(1).0)));
            }
        }
    }

    /// Returns the number of late seconds.
    pub fn count(&self) -> u64 {
        self.seconds.len() as u64
    }

    /// Returns the numbers of the late seconds since the start of the run, in ascending order.
    pub fn seconds(&self) -> &[u64] {
        &self.seconds
    }

    /// Returns the rate of late seconds in the measured time.
    pub fn rate(&self, measured: Nanos) -> Rate {
        Rate::from_late_seconds(self, measured)
    }

    /// Returns the number of series of adjacent late seconds. The last second of each may be late
    /// only because an event crossed the edge between two seconds.
    pub(super) fn split(&self) -> u64 {
        let pairs = self.seconds.windows(2);
        let adjacent: Vec<bool> = pairs.map(|pair| pair[1] == pair[0] + 1).collect();
        let starts = (adjacent.iter().enumerate())
            .filter(|(place, is)| **is && (*place == 0 || !adjacent[place - 1]));
        starts.count() as u64
    }

    /// Returns the variance divided by the mean that clusters of this size cause: the mean size of
    /// the cluster to which a late second belongs. It is reduced by the share of late seconds,
    /// because a machine that is always late does not vary at all. If the clusters are few, it is
    /// raised by one standard error.
    pub(super) fn clustering(&self, measured: Nanos) -> f64 {
        let mut sizes: Vec<f64> = Vec::new();
        let mut last = None;
        for second in &self.seconds {
            match (last, sizes.last_mut()) {
                (Some(before), Some(size)) if second - before <= PAUSE => *size += 1.0,
                _ => sizes.push(1.0),
            }
            last = Some(*second);
        }
        let all: f64 = sizes.iter().sum();
        if all == 0.0 {
            return 1.0;
        }
        let size = sizes.iter().map(|size| size * size).sum::<f64>() / all;
        let clean = (1.0 - all / measured.as_secs_f64()).max(0.0);
        let few = match sizes.len() {
            MANY.. => 1.0,
            number => 1.0 + 1.0 / (number as f64).sqrt(),
        };
        size * clean * few
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(millis: impl IntoIterator<Item = u64>) -> LateSeconds {
        let mut late = LateSeconds::default();
        millis
            .into_iter()
            .for_each(|ms| late.add(Nanos::from_millis(ms)));
        late
    }

    const MINUTE: Nanos = Nanos::from_secs(60);

    #[test]
    fn unit_grows_with_lateness() {
        // Several CPUs may be late at once, and the order does not matter.
        let found = of([2_000, 0, 999, 1_000, 2_999, 9_000, 2_000]);
        assert_eq!(found.seconds(), [0, 1, 2, 9]);
        // A burst of 300 ms is one late second, or two if it crosses an edge.
        assert_eq!(of(5_100..5_400).count(), 1);
        assert_eq!(of(4_900..5_200).count(), 2);
        // A machine that is always late has 86,400 late seconds a day, not one event.
        let always = of(0..60_000).rate(MINUTE);
        assert_eq!(always.events, 60);
        assert_eq!(always.per_day(60.0), Some(86_400.0));
        assert_eq!(always.at_most(0.05), 60.0);
        assert!(always.at_least(0.05) > 40.0, "{always:?}");
        assert_eq!(of([]).count(), 0);
    }

    #[test]
    fn long_clusters_widen_the_bounds() {
        let single = of((0..6).map(|n| n * 10_000));
        let expected = 0.9 * (1.0 + 1.0 / 6f64.sqrt());
        assert!((single.clustering(MINUTE) - expected).abs() < 1e-9);
        // Three clusters of five seconds each.
        let clusters = of((0..15).map(|n| n / 5 * 20_000 + n % 5 * 1_000));
        let expected = 5.0 * 0.75 * (1.0 + 1.0 / 3f64.sqrt());
        assert!((clusters.clustering(MINUTE) - expected).abs() < 1e-9);
        // If every second is late, nothing varies.
        assert_eq!(of(0..60_000).clustering(MINUTE), 0.0);
    }

    fn late(seconds: &[u64]) -> LateSeconds {
        let mut late = LateSeconds::default();
        seconds
            .iter()
            .for_each(|second| late.add(Nanos::from_secs(*second)));
        late
    }

    #[test]
    fn seconds_are_counted_once_in_their_order() {
        let mut all = late(&[5, 2, 9, 2, 5, 7, 9]);
        all.add(Nanos(9_999_999_999));
        all.add(Nanos(10_000_000_000));
        assert_eq!(
            (all.seconds(), all.count()),
            ([2, 5, 7, 9, 10].as_slice(), 5)
        );
    }

    #[test]
    fn pairs_of_adjacent_seconds_may_be_one_burst() {
        for (seconds, split) in [
            (vec![], 0),
            (vec![3], 0),
            (vec![1, 2], 1),
            (vec![1, 2, 3, 4], 1),
            (vec![1, 2, 4, 5, 6, 9], 2),
            (vec![1, 3, 5], 0),
        ] {
            assert_eq!(late(&seconds).split(), split, "{seconds:?}");
        }
    }

    #[test]
    fn clustering_is_the_mean_size_of_a_late_seconds_cluster() {
        let of = |seconds: &[u64]| late(seconds).clustering(Nanos::from_secs(100));
        let is = |found: f64, known: f64| assert!((found - known).abs() < 1e-9, "{found} {known}");
        is(of(&[]), 1.0);
        // With few clusters, their size is uncertain.
        is(of(&[5]), 0.99 * 2.0);
        is(of(&[1, 2, 4]), 3.0 * 0.97 * 2.0);
        // A pause of three seconds begins another cluster.
        is(of(&[1, 4]), 0.98 * (1.0 + 0.5f64.sqrt()));
        is(of(&[1, 2, 10]), 5.0 / 3.0 * 0.97 * (1.0 + 0.5f64.sqrt()));
        let many: Vec<u64> = (0..30).map(|number| number * 3).collect();
        is(of(&many), 0.7);
        let almost = 0.71 * (1.0 + 1.0 / 29f64.sqrt());
        is(of(&many[1..]), almost);
        is(of(&(0..100).collect::<Vec<_>>()), 0.0);
    }

    #[test]
    fn unknown_jobs_are_spread_over_the_clean_seconds() {
        let with = |own: &[u64], unknown, seconds| {
            let mut all = late(own);
            all.add_elsewhere(unknown, seconds);
            all.seconds
        };
        assert_eq!(with(&[0], 2, 10), [0, 3, 7]);
        assert_eq!(with(&[], 1, 9), [4]);
        assert_eq!(with(&[1], 0, 3), [1]);
        assert_eq!(with(&[1], 9, 3), [0, 1, 2]);
        assert_eq!(with(&[1, 2], 9, 0), [1, 2]);
    }
}
