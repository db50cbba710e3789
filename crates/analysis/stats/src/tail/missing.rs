//! Reasons for omitting the remark on a tail.

use super::{LEAST, ROWS};

/// Reason why there is no remark on a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoTail {
    /// The lateness of a missed period is in no histogram.
    #[error("periods were missed")]
    Missed,
    /// The latency of some samples is unknown.
    #[error("samples are beyond the range")]
    BeyondRange,
    /// Nothing was measured.
    #[error("there are no samples")]
    NoSamples,
    /// Too few samples for a fit.
    #[error("fewer than {LEAST} samples are in the tail")]
    FewSamples,
    /// No distribution fits.
    #[error("the tail cannot be fitted")]
    NotFitted,
    /// With another threshold, too few samples remain for a fit.
    #[error("the tail is too short")]
    Short,
    /// With another threshold, the shape differs.
    #[error("the fit changes with the threshold")]
    Unsteady,
    /// Too few intervals to detect a change.
    #[error("fewer than {ROWS} complete intervals")]
    FewIntervals,
    /// Late wake-ups come in bursts.
    #[error("late wake-ups come in bursts (Ljung-Box)")]
    Bursts,
    /// The level changes during the run.
    #[error("the rate of late wake-ups changes with time (KPSS)")]
    Drift,
    /// The fit does not pass its goodness-of-fit test.
    #[error("the tail has a different shape (Cramér-von Mises)")]
    OtherForm,
}

#[cfg(test)]
mod tests {
    use super::NoTail::*;

    #[test]
    fn each_has_its_words() {
        for (why, text) in [
            (Missed, "periods were missed"),
            (BeyondRange, "samples are beyond the range"),
            (NoSamples, "there are no samples"),
            (FewSamples, "fewer than 100 samples are in the tail"),
            (NotFitted, "the tail cannot be fitted"),
            (Short, "the tail is too short"),
            (Unsteady, "the fit changes with the threshold"),
            (FewIntervals, "fewer than 20 complete intervals"),
            (Bursts, "late wake-ups come in bursts (Ljung-Box)"),
            (Drift, "the rate of late wake-ups changes with time (KPSS)"),
            (
                OtherForm,
                "the tail has a different shape (Cramér-von Mises)",
            ),
        ] {
            assert_eq!(why.to_string(), text);
        }
    }
}
