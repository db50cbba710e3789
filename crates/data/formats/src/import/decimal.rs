//! Decimal numbers of files, read exactly.

use punctual_model::Nanos;

use super::Malformed;
use super::head::shown;
use super::text::count;

/// A decimal number with at most 18 digits after the decimal point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    whole: u64,
    /// The digits after the decimal point, as a number, and how many they are.
    part: u64,
    pub(crate) places: u32,
}

impl Decimal {
    /// Parses `12` or `12.345`.
    pub(crate) fn parse(text: &str) -> Result<Self, Malformed> {
        let bad = || Malformed::NotATime(shown(text.as_bytes()));
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let places = u32::try_from(part.len())
            .ok()
            .filter(|places| *places <= 18);
        Ok(Self {
            whole: count(whole).map_err(|_| bad())?,
            part: match part {
                "" => 0,
                part => count(part).map_err(|_| bad())?,
            },
            places: places.ok_or_else(bad)?,
        })
    }

    /// Returns the number of `unit`s as a time, rounded down to whole ns.
    pub(crate) fn of(self, unit: Nanos) -> Result<Nanos, Malformed> {
        let part = u128::from(self.part) * u128::from(unit.0) / 10_u128.pow(self.places);
        let whole = self.whole.checked_mul(unit.0);
        let sum = whole.and_then(|whole| whole.checked_add(u64::try_from(part).ok()?));
        sum.map(Nanos).ok_or(Malformed::FiguresTooLarge)
    }

    /// Returns the value of one step of the last digit as a time, if the number is in `unit`s; at
    /// least 1 ns.
    pub(crate) fn step(self, unit: Nanos) -> Nanos {
        let step = 10_u64
            .checked_pow(self.places)
            .map_or(0, |steps| unit.0 / steps);
        Nanos(step.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        let of = |text: &str, unit| Decimal::parse(text).and_then(|number| number.of(Nanos(unit)));
        assert_eq!(of("10.741", 1_000).unwrap(), Nanos(10_741));
        assert_eq!(of("0.1", 1_000_000).unwrap(), Nanos(100_000));
        assert_eq!(
            of("1764230400.250000001", 1_000_000_000).unwrap().0 % 1_000,
            1
        );
        assert_eq!(of("7", 1).unwrap(), Nanos(7));
        assert_eq!(
            Decimal::parse("2.50").unwrap().step(Nanos(1_000)),
            Nanos(10)
        );
        for text in [
            "",
            ".",
            ".5",
            "-1",
            "1e3",
            "NaN",
            "1.-2",
            "1.0000000000000000000",
            "inf",
        ] {
            assert!(of(text, 1).is_err(), "{text}");
        }
        assert!(of("99999999999999999", 1_000_000).is_err());
    }
}
