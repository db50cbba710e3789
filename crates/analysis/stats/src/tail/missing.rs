//! Why there is no remark on a tail.

use super::{LEAST, ROWS};

/// Why there is no remark on a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoTail {
    /// How late a missed period was is in no histogram.
    #[error("periods were missed")]
    Missed,
    /// How late these are is unknown.
    #[error("samples are beyond the range")]
    BeyondRange,
    /// Nothing was measured.
    #[error("there are no samples")]
    NoSamples,
    /// Too few to be fitted.
    #[error("fewer than {LEAST} samples are in the tail")]
    FewSamples,
    /// No distribution fits.
    #[error("the tail cannot be fitted")]
    NotFitted,
    /// Above another threshold nothing can be fitted.
    #[error("the tail is too short")]
    Short,
    /// Above another threshold it has another shape.
    #[error("the fit changes with the threshold")]
    Unsteady,
    /// Too few to see a change.
    #[error("fewer than {ROWS} complete intervals")]
    FewIntervals,
    /// One late wake-up follows another.
    #[error("late wake-ups come in bursts (Ljung-Box)")]
    Bursts,
    /// The run has no one level.
    #[error("late wake-ups become more or fewer with time (KPSS)")]
    Drift,
    /// The fit does not pass its test.
    #[error("the tail has another form (Cramér-von Mises)")]
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
            (Drift, "late wake-ups become more or fewer with time (KPSS)"),
            (OtherForm, "the tail has another form (Cramér-von Mises)"),
        ] {
            assert_eq!(why.to_string(), text);
        }
    }
}
