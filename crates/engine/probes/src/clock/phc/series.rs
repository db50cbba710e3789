//! Offsets over time: their drift, and the jitter that is left without it.

use punctual_model::Nanos;

/// One second.
pub(super) const SECOND: i64 = 1_000_000_000;

/// Largest number of readings to keep, 4 MB. At the default interval, these are four minutes.
const MOST: usize = 1 << 18;

/// Returns the nearest number of whole seconds.
pub(super) fn whole_seconds(offset: i64) -> i64 {
    let half = SECOND / 2 * offset.signum();
    offset.saturating_add(half) / SECOND
}

/// An offset, without its whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// On CLOCK_MONOTONIC.
    pub(super) at: Nanos,
    pub(super) offset: i64,
}

/// The offsets of a run. Its memory is allocated before the run.
#[derive(Debug)]
pub(super) struct Series {
    points: Vec<Point>,
    /// Whether there were more points than the memory holds.
    cut: bool,
}

/// Figures of a series. `None` if there are too few points.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) mean: Option<f64>,
    pub(super) least: Option<f64>,
    pub(super) most: Option<f64>,
    /// Slope of the line of least squares, in nanoseconds per second.
    pub(super) drift_ppb: Option<f64>,
    /// Standard deviation from this line, in nanoseconds.
    pub(super) jitter: Option<f64>,
}

impl Series {
    /// Creates a series for a run of this length.
    pub(super) fn for_run(duration: Option<Nanos>, interval: Nanos) -> Self {
        let rounds = duration.map_or(u64::MAX, |all| all.0 / interval.0.max(1) + 1);
        let rounds = usize::try_from(rounds).unwrap_or(MOST).min(MOST);
        Self {
            points: Vec::with_capacity(rounds),
            cut: false,
        }
    }

    /// Adds a point, unless the memory is full.
    pub(super) fn push(&mut self, point: Point) {
        if self.points.len() < self.points.capacity() {
            self.points.push(point);
        } else {
            self.cut = true;
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    /// Computes the figures.
    pub(super) fn figures(&self) -> Figures {
        let Some(first) = self.points.first() else {
            return Figures::default();
        };
        let count = self.points.len() as f64;
        let pairs = || {
            self.points.iter().map(|point| {
                let time = point.at.saturating_sub(first.at).as_secs_f64();
                (time, (point.offset - first.offset) as f64)
            })
        };
        let (time, offset) = pairs().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (time, offset) = (time / count, offset / count);
        let offsets = self.points.iter().map(|point| point.offset);
        let mut figures = Figures {
            mean: Some(first.offset as f64 + offset),
            least: offsets.clone().min().map(|least| least as f64),
            most: offsets.max().map(|most| most as f64),
            ..Figures::default()
        };
        let (mut spread, mut common) = (0.0, 0.0);
        for (t, o) in pairs() {
            spread += (t - time) * (t - time);
            common += (t - time) * (o - offset);
        }
        // A line through two points has no deviation.
        if self.points.len() > 2 && spread > 0.0 {
            let slope = common / spread;
            let squares: f64 = pairs()
                .map(|(t, o)| (o - offset - slope * (t - time)).powi(2))
                .sum();
            figures.drift_ppb = Some(slope);
            figures.jitter = Some((squares / (count - 2.0)).sqrt());
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(offsets: impl IntoIterator<Item = i64>) -> Series {
        let mut series = Series::for_run(Some(Nanos::from_secs(99)), Nanos::from_secs(1));
        for (place, offset) in offsets.into_iter().enumerate() {
            let at = Nanos::from_secs(place as u64);
            series.push(Point { at, offset });
        }
        series
    }

    #[test]
    fn whole_seconds_are_the_nearest() {
        for (offset, whole) in [
            (0, 0),
            (499_999_999, 0),
            (500_000_000, 1),
            (-600_000_000, -1),
            (37_000_000_123, 37),
            (36_999_999_000, 37),
            (-37_000_000_001, -37),
        ] {
            assert_eq!(whole_seconds(offset), whole, "{offset}");
        }
        let _ = (whole_seconds(i64::MAX), whole_seconds(i64::MIN));
    }

    #[test]
    fn drift_is_not_jitter() {
        let figures = series((0..50).map(|n| 1_000 + 20 * n)).figures();
        assert!((figures.drift_ppb.unwrap() - 20.0).abs() < 1e-6);
        assert!(figures.jitter.unwrap() < 1e-3);
        assert_eq!(figures.mean, Some(1_490.0));
        assert_eq!(
            (figures.least, figures.most),
            (Some(1_000.0), Some(1_980.0))
        );
        // Alternating by 10 ns around a constant.
        let figures = series((0..50).map(|n| if n % 2 == 0 { 10 } else { -10 })).figures();
        assert!((figures.jitter.unwrap() - 10.2).abs() < 0.1, "{figures:?}");
        assert!(figures.drift_ppb.unwrap().abs() < 0.1);
    }

    #[test]
    fn few_readings_have_no_drift() {
        assert_eq!(series([]).figures(), Figures::default());
        let figures = series([5, 7]).figures();
        assert_eq!((figures.mean, figures.drift_ppb), (Some(6.0), None));
        assert_eq!(figures.jitter, None);
    }

    #[test]
    fn full_memory_is_reported() {
        let mut series = Series::for_run(Some(Nanos(1)), Nanos(1));
        let capacity = series.points.capacity();
        for place in 0..=capacity as u64 {
            let at = Nanos(place);
            series.push(Point { at, offset: 0 });
        }
        assert!(series.is_cut() && series.len() == capacity);
        assert_eq!(Series::for_run(None, Nanos(1)).points.capacity(), MOST);
    }

    proptest! {
        #[test]
        fn no_offsets_panic(offsets in prop::collection::vec(-SECOND..SECOND, 0..40)) {
            let figures = series(offsets.iter().copied()).figures();
            prop_assert_eq!(figures.mean.is_some(), !offsets.is_empty());
            prop_assert!(figures.jitter.is_none_or(|jitter| jitter >= 0.0));
        }
    }
}
