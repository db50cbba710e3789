//! The unit of a file that does not name it, microseconds or nanoseconds: with `-N`, cyclictest
//! prints figures in ns in exactly the same form as figures in µs.

use punctual_model::{Nanos, Recording};

use super::blank::MICROSECOND;

/// One nanosecond.
pub(crate) const NANOSECOND: Nanos = Nanos(1);

/// Lower bound of a wake-up latency, in ns. A minimum smaller than this must be in µs.
pub(crate) const TOO_SHORT_NS: u64 = 100;

/// Upper bound of a run's minimum, in µs. A minimum of this value or more must be in ns.
const TOO_LATE_US: u64 = 1_000;

/// The unit of a file's figures, and a warning if it is assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileUnit {
    /// One unit, in ns.
    pub(crate) one: Nanos,
    /// The warning for the user.
    said: Option<&'static str>,
}

impl FileUnit {
    /// Returns the unit `given` by the user, or, failing that, the unit suggested by the smallest
    /// figure of the file. If the file contains the interval, a minimum of at least one interval
    /// counts as ns, because no thread always wakes later than its interval.
    pub(crate) fn new(given: Option<Nanos>, least: Option<u64>, interval_us: Option<u64>) -> Self {
        let (one, said) = match (given, least) {
            (Some(unit), _) => (unit, None),
            (None, None | Some(..TOO_SHORT_NS)) => (MICROSECOND, None),
            (None, Some(least)) if least >= interval_us.unwrap_or(TOO_LATE_US).min(TOO_LATE_US) => {
                (
                    NANOSECOND,
                    Some(
                        "the file does not state its unit; its smallest latency is too large for \
                     microseconds, so nanoseconds are assumed (if this is wrong, use --unit us)",
                    ),
                )
            }
            (None, Some(_)) => (
                MICROSECOND,
                Some(
                    "the file does not state its unit; microseconds are assumed (if cyclictest \
                     ran with -N, use --unit ns)",
                ),
            ),
        };
        Self { one, said }
    }

    /// Warns the user about the assumption.
    pub(crate) fn note(self, recording: &mut Recording) {
        recording.warnings.extend(self.said.map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_fit_unit_or_cause_warning() {
        let of = |unit, least, interval| {
            let found = FileUnit::new(unit, least, interval);
            (found.one, found.said.is_some())
        };
        assert_eq!(of(None, None, None), (MICROSECOND, false));
        assert_eq!(of(None, Some(3), None), (MICROSECOND, false));
        assert_eq!(of(None, Some(350), None), (MICROSECOND, true));
        assert_eq!(of(None, Some(18_000), None), (NANOSECOND, true));
        assert_eq!(of(None, Some(350), Some(200)), (NANOSECOND, true));
        assert_eq!(
            of(Some(MICROSECOND), Some(18_000), None),
            (MICROSECOND, false)
        );
        assert_eq!(of(Some(NANOSECOND), Some(3), None), (NANOSECOND, false));
    }
}
