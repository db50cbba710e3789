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
