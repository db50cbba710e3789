//! The figures of a run that are compared.

use crate::counts::{Counts, Scale};

/// A figure of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figure {
    /// A quantile, in ns.
    Quantile(f64),
    /// The share of the periods that were missed.
    Missed,
    /// The share of the samples from a given place on the scale upwards.
    From(usize),
}

impl Figure {
    /// Returns the value of the figure. `None` if unknown.
    pub(crate) fn value(self, scale: &Scale, counts: &Counts) -> Option<f64> {
        let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
        let samples = counts.total().saturating_add(counts.early);
        match self {
            Self::Quantile(quantile) => counts.quantile(scale, quantile).map(|ns| ns as f64),
            Self::Missed => share(counts.missed, samples + counts.missed),
            Self::From(place) => share(counts.from(place), samples),
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Histogram, SignedNanos};

    use super::*;

    /// Five samples, an early sample and two missed periods.
    #[test]
    fn figures_are_shares_of_their_samples() {
        let mut histogram = Histogram::new();
        for ns in [-1, 10, 20, 20, 30, 40] {
            histogram.record(SignedNanos(ns));
        }
        let scale = Scale::from_histograms([&histogram].into_iter());
        let counts = Counts::new(&scale, &histogram, 2);
        let value = |figure: Figure| figure.value(&scale, &counts);
        assert_eq!(value(Figure::Missed), Some(0.25));
        assert_eq!(
            [0, 1, 3, 4].map(|place| value(Figure::From(place)).unwrap()),
            [5.0, 4.0, 1.0, 0.0].map(|one| one / 6.0)
        );
        assert_eq!(value(Figure::Quantile(0.5)), Some(20.0));
        let none = Counts::new(&scale, &Histogram::new(), 0);
        for figure in [Figure::Missed, Figure::From(0), Figure::Quantile(0.5)] {
            assert_eq!(figure.value(&scale, &none), None, "{figure:?}");
        }
        let only_missed = Counts { missed: 3, ..none };
        assert_eq!(Figure::Missed.value(&scale, &only_missed), Some(1.0));
    }
}
