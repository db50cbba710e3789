//! Time in nanoseconds. Interfaces never use a bare integer for time.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A duration or an instant of a monotonic clock, in nanoseconds.
///
/// Serialised as an integer, under a key that ends in `_ns`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A difference of two instants, in nanoseconds. A latency is negative if a thread wakes too early.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SignedNanos(pub i64);

impl Nanos {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Converts microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// Converts milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// Converts seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// Returns seconds as a floating-point number, for plots and rates.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns all digits with a suitable unit: `100.001 µs`.
    pub fn exactly(self) -> String {
        const UNITS: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
        let Some((scale, unit)) = UNITS.iter().find(|(scale, _)| self.0 >= *scale) else {
            return format!("{} ns", self.0);
        };
        let digits = scale.ilog10() as usize;
        let rest = format!("{:0digits$}", self.0 % scale);
        let rest = rest.trim_end_matches('0');
        match rest {
            "" => format!("{} {unit}", self.0 / scale),
            rest => format!("{}.{rest} {unit}", self.0 / scale),
        }
    }

    /// Returns whole microseconds, rounded down. Most older tools use this unit.
    pub const fn whole_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns `self - other`, or zero if that would be negative.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns `self - other` with its sign. Saturates at the limits of `i64` (292 years).
    pub fn signed_sub(self, other: Self) -> SignedNanos {
        let difference = i128::from(self.0) - i128::from(other.0);
        SignedNanos(difference.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }
}

impl SignedNanos {
    /// Rounds down to a multiple of `step`. A step of zero changes nothing. If a microsecond is a
    /// multiple of `step`, samples stay within their microsecond.
    pub fn rounded_down(self, step: Nanos) -> Self {
        match i64::try_from(step.0) {
            Ok(step @ 2..) => Self(self.0.saturating_sub(self.0.rem_euclid(step))),
            _ => self,
        }
    }

    /// Returns the value if it is zero or positive.
    pub const fn non_negative(self) -> Option<Nanos> {
        if self.0 >= 0 {
            Some(Nanos(self.0 as u64))
        } else {
            None
        }
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Saturates at zero, because a time span has no sign (see [`Nanos::signed_sub`]).
impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Duration::from_nanos(nanos.0)
    }
}

/// Prints three significant digits and a suitable unit: `812 ns`, `4.52 µs`, `1.00 s`, `5.56 h`.
/// This form is for people. Output for machines contains integers.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(f64, &str); 5] = [
            (1.0, "ns"),
            (1e3, "µs"),
            (1e6, "ms"),
            (1e9, "s"),
            (3.6e12, "h"),
        ];
        let value = self.0 as f64;
        // Values of 999.6 and above would be printed as 1000, so they get the next unit. Hours
        // begin later, because people read 5400 s more easily than 1.50 h.
        let (scale, unit) = UNITS
            .iter()
            .rev()
            .find(|(scale, unit)| match *unit {
                "h" => value >= 2.0 * scale,
                _ => value >= 0.9995 * scale,
            })
            .unwrap_or(&UNITS[0]);
        let scaled = value / scale;
        let decimals = match scaled {
            _ if *unit == "ns" => 0,
            s if s < 9.995 => 2,
            s if s < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{scaled:.decimals$} {unit}"))
    }
}

impl fmt::Display for SignedNanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = Nanos(self.0.unsigned_abs());
        if self.0 < 0 {
            f.pad(&format!("-{magnitude}"))
        } else {
            f.pad(&magnitude.to_string())
        }
    }
}

/// Error while reading a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// A number without a unit. The unit is not guessed, because cyclictest uses µs in some places
    /// and s in others.
    #[error("'{0}' has no unit: write {0}us, {0}ms, {0}s, {0}m or {0}h")]
    NoUnit(String),
    /// A number without a unit, where a period or its frequency is expected.
    #[error("'{0}' has no unit: write {0}us, {0}ms, {0}s or {0}Hz")]
    NoUnitOfPeriod(String),
    /// Other text that is not a duration.
    #[error("'{0}' is not a duration: write for example 200us, 1.5ms, 10s or 5h33m")]
    NotADuration(String),
}

/// Reads `200us`, `1.5ms`, `10s`, `5h33m`. A unit is required.
impl FromStr for Nanos {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        if !trimmed.is_empty() && trimmed.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return Err(DurationError::NoUnit(trimmed.to_owned()));
        }
        let not_a_duration = || DurationError::NotADuration(trimmed.to_owned());
        if let Some(nanos) = decimal_with_unit(trimmed) {
            return Ok(nanos);
        }
        let duration =
            humantime::parse_duration(&trimmed.replace('µ', "u")).map_err(|_| not_a_duration())?;
        u64::try_from(duration.as_nanos())
            .map(Nanos)
            .map_err(|_| not_a_duration())
    }
}

impl Nanos {
    /// Reads the period of a loop: a duration, or a frequency such as `4kHz` or `44.1 kHz`. The
    /// period of a frequency is rounded to whole nanoseconds.
    ///
    /// # Errors
    /// [`DurationError`] if the text is neither.
    pub fn from_period(text: &str) -> Result<Self, DurationError> {
        let wrong = || DurationError::NotADuration(text.trim().to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let Some(number) = lower.strip_suffix("hz") else {
            return text.parse().map_err(|error| match error {
                DurationError::NoUnit(number) => DurationError::NoUnitOfPeriod(number),
                other => other,
            });
        };
        let (number, scale) = match (number.strip_suffix('k'), number.strip_suffix('m')) {
            (Some(number), _) => (number, 1e3),
            (_, Some(number)) => (number, 1e6),
            _ => (number, 1.0),
        };
        let hertz = number.trim().parse::<f64>().map_err(|_| wrong())? * scale;
        let nanos = (1e9 / hertz).round();
        // The longest period of a frequency is a day.
        if (1.0..=8.64e13).contains(&nanos) {
            Ok(Self(nanos as u64))
        } else {
            Err(wrong())
        }
    }
}

/// Reads `1.5ms`: a fraction with one unit, which humantime does not accept.
fn decimal_with_unit(text: &str) -> Option<Nanos> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    if !number.contains('.') {
        return None;
    }
    let scale = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 6e10,
        "h" => 3.6e12,
        _ => return None,
    };
    let nanos = (number.parse::<f64>().ok()? * scale).round();
    (nanos < u64::MAX as f64).then_some(Nanos(nanos as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_converted_without_loss() {
        assert_eq!(Nanos::from_micros(7), Nanos(7_000));
        assert_eq!(Nanos::from_millis(7), Nanos(7_000_000));
        assert_eq!(Nanos::from_secs(7), Nanos(7_000_000_000));
        assert_eq!(
            [1_999, 2_000, 999].map(|ns| Nanos(ns).whole_micros()),
            [1, 2, 0]
        );
        assert_eq!(Nanos(2_500_000_000).as_secs_f64(), 2.5);
        let duration = Duration::from_nanos(1_234_567_890_123);
        assert_eq!(Nanos::from(duration), Nanos(1_234_567_890_123));
        assert_eq!(Duration::from(Nanos(1_234_567_890_123)), duration);
        assert_eq!(Nanos::from(Duration::MAX), Nanos(u64::MAX));
    }

    #[test]
    fn sums_and_differences_stay_in_range() {
        let (most, some) = (Nanos(u64::MAX), Nanos(5));
        assert_eq!((most + some, some + some), (most, Nanos(10)));
        assert_eq!((some - Nanos(2), some - Nanos(9)), (Nanos(3), Nanos::ZERO));
        assert_eq!(some.saturating_sub(Nanos(9)), Nanos::ZERO);
        let mut sum = some;
        sum += Nanos(2);
        assert_eq!(sum, Nanos(7));
        for (left, right, difference) in [
            (5, 2, 3),
            (2, 5, -3),
            (4, 4, 0),
            (u64::MAX, 0, i64::MAX),
            (0, u64::MAX, i64::MIN),
        ] {
            assert_eq!(
                Nanos(left).signed_sub(Nanos(right)),
                SignedNanos(difference)
            );
        }
        for (signed, unsigned) in [(0, Some(0)), (7, Some(7)), (-1, None), (i64::MIN, None)] {
            assert_eq!(SignedNanos(signed).non_negative(), unsigned.map(Nanos));
        }
    }

    #[test]
    fn fractions_are_read_in_each_unit() {
        for (text, nanos) in [
            ("1.6ns", 2),
            ("1.5us", 1_500),
            ("1.5µs", 1_500),
            ("0.5 s", 500_000_000),
            ("1.5m", 90_000_000_000),
            ("1.5min", 90_000_000_000),
            ("0.5h", 1_800_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(nanos)), "{text}");
        }
        assert!("99999999.5h".parse::<Nanos>().is_err());
        assert_eq!("0.00001Hz".parse::<f64>().ok(), None);
        assert_eq!(
            Nanos::from_period("0.000012Hz"),
            Ok(Nanos(83_333_333_333_333))
        );
        assert!(Nanos::from_period("0.000011Hz").is_err(), "more than a day");
    }

    #[test]
    fn exact_form_shows_all_digits() {
        for (nanos, text) in [
            (812, "812 ns"),
            (100_000, "100 µs"),
            (100_001, "100.001 µs"),
            (99_960, "99.96 µs"),
            (1_000_000_001, "1.000000001 s"),
        ] {
            assert_eq!(Nanos(nanos).exactly(), text);
        }
    }

    #[test]
    fn people_read_three_digits() {
        for (nanos, text) in [
            (0, "0 ns"),
            (812, "812 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (4_523, "4.52 µs"),
            (99_960, "100 µs"),
            (999_700, "1.00 ms"),
            (12_345_678, "12.3 ms"),
            (1_000_000_000, "1.00 s"),
            (5_400_000_000_000, "5400 s"),
            (20_000_000_000_000, "5.56 h"),
        ] {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
        assert_eq!(SignedNanos(-4_523).to_string(), "-4.52 µs");
    }

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, nanos) in [
            ("200us", 200_000),
            ("200µs", 200_000),
            ("1.5ms", 1_500_000),
            ("10s", 10_000_000_000),
            ("5h33m", 19_980_000_000_000),
            ("1min 30s", 90_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn bare_number_is_refused_with_example() {
        let error = "1000".parse::<Nanos>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "'1000' has no unit: write 1000us, 1000ms, 1000s, 1000m or 1000h"
        );
        for text in [
            "",
            "fast",
            "-1s",
            "10 parsecs",
            "1.5.2ms",
            "99999999999999h",
        ] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }

    #[test]
    fn periods_are_also_read_as_frequencies() {
        for (text, nanos) in [
            ("1kHz", 1_000_000),
            ("250 Hz", 4_000_000),
            ("44.1khz", 22_676),
            ("0.5Hz", 2_000_000_000),
            ("2MHz", 500),
            ("500us", 500_000),
        ] {
            assert_eq!(Nanos::from_period(text), Ok(Nanos(nanos)), "{text}");
        }
        for text in [
            "Hz", "0Hz", "-1kHz", "nanHz", "infHz", "1e-9Hz", "1 k Hz", "fast",
        ] {
            let error = Nanos::from_period(text).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        let error = Nanos::from_period("1000").unwrap_err().to_string();
        assert!(error.ends_with("1000s or 1000Hz"), "{error}");
        assert!("1kHz".parse::<Nanos>().is_err(), "a budget is no frequency");
    }

    #[test]
    fn rounding_goes_down() {
        let down = |ns: i64, step: u64| SignedNanos(ns).rounded_down(Nanos(step)).0;
        assert_eq!(down(1_239, 10), 1_230);
        assert_eq!(down(-1, 10), -10);
        assert_eq!(down(7, 1), 7);
        assert_eq!(down(7, 0), 7);
        assert_eq!(down(i64::MIN, 10), i64::MIN);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = text.parse::<Nanos>();
            let _ = Nanos::from_period(&format!("{text}Hz"));
        }
    }
}
