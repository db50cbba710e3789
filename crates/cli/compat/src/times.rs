//! Times on the command lines of all tools. A time is a number, or numbers with units.
//!
//! The originals read numbers with atoi(3) and durations with parse_time_string(). hwlatdetect
//! reads units with another function. A time that they would misread is either read as intended
//! (`-i 1ms`) or rejected.

use crate::lines::Unit;
use crate::{CompatError, Given};

/// The unit in which an option counts. It applies to the setting, and to a number that is given
/// without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountsIn {
    /// Nanoseconds.
    Nanos,
    /// Microseconds.
    Micros,
    /// Seconds, for durations.
    Seconds,
}

impl From<Unit> for CountsIn {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Micros => Self::Micros,
            Unit::Nanos => Self::Nanos,
        }
    }
}

/// The units, longest first, each in ns.
const UNITS: [(&str, u64); 8] = [
    ("w", 604_800 * SECOND),
    ("d", 86_400 * SECOND),
    ("h", 3_600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];
const SECOND: u64 = 1_000_000_000;

impl CountsIn {
    fn nanos(self) -> u64 {
        match self {
            Self::Nanos => 1,
            Self::Micros => 1_000,
            Self::Seconds => SECOND,
        }
    }

    /// Returns the length of a unit in ns. Only durations may have minutes and longer units,
    /// because for an interval, `5m` may have been meant as 5 ms.
    fn unit(self, name: &str) -> Option<u64> {
        let (_, nanos) = (UNITS.iter()).find(|(unit, _)| unit.eq_ignore_ascii_case(name))?;
        (self == Self::Seconds || *nanos <= SECOND).then_some(*nanos)
    }

    /// Parses a time as a number of these units. Returns `None` if the text is not a time, or if
    /// the time is not a whole number of these units.
    fn read(self, text: &str) -> Option<u64> {
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok();
        }
        let (mut all, mut rest, mut longer) = (0_u64, text, u64::MAX);
        while !rest.is_empty() {
            let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
            let end = after.find(|c: char| c.is_ascii_digit());
            let (unit, after) = after.split_at(end.unwrap_or(after.len()));
            let unit = self.unit(unit)?;
            // Each unit may occur only once, with the longest unit first.
            if unit >= longer {
                return None;
            }
            longer = unit;
            let part = number.parse::<u64>().ok()?.checked_mul(unit)?;
            all = all.checked_add(part)?;
            rest = after;
        }
        all.is_multiple_of(self.nanos()).then(|| all / self.nanos())
    }

    /// Returns examples of valid times.
    fn examples(self) -> &'static str {
        match self {
            Self::Nanos => "a whole number of ns: 500, 500ns, 20us, 1ms",
            Self::Micros => "a whole number of us: 20, 20us, 1ms, 1s",
            Self::Seconds => "a whole number of seconds: 90, 90s, 5m, 1h30m, 2d",
        }
    }
}

impl Given {
    /// Returns the value as a time of at least `least`. Both are in the unit of the option.
    ///
    /// # Errors
    /// Returns an error if the time is shorter than that, above the range of an `int`, or invalid.
    pub(crate) fn time(&self, counts_in: CountsIn, least: u64) -> Result<u64, CompatError> {
        let text = self.text().trim_start();
        let time = counts_in.read(text.strip_prefix('+').unwrap_or(text));
        let time = time.ok_or_else(|| self.bad(counts_in.examples()))?;
        let largest = i32::MAX as u64;
        if (least..=largest).contains(&time) {
            Ok(time)
        } else {
            Err(self.bad(&format!("a time from {least} to {largest} {counts_in}")))
        }
    }

    /// Returns a number of µs, at least `least`.
    ///
    /// # Errors
    /// See [`time`](Self::time).
    pub(crate) fn micros_from(&self, least: u64) -> Result<u64, CompatError> {
        self.time(CountsIn::Micros, least)
    }

    /// Returns a duration in seconds, 0 or more.
    ///
    /// # Errors
    /// See [`time`](Self::time).
    pub(crate) fn duration(&self) -> Result<u64, CompatError> {
        self.time(CountsIn::Seconds, 0)
    }
}

impl std::fmt::Display for CountsIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nanos => "ns",
            Self::Micros => "us",
            Self::Seconds => "s",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_default_to_unit_of_option() {
        use CountsIn::{Micros, Nanos, Seconds};
        for (counts_in, text, expected) in [
            (Micros, "20", 20),
            (Micros, "20us", 20),
            (Micros, "5000ns", 5),
            (Micros, "1ms", 1_000),
            (Micros, "1ms500us", 1_500),
            (Micros, "2s", 2_000_000),
            (Nanos, "20", 20),
            (Nanos, "20us", 20_000),
            (Seconds, "10", 10),
            (Seconds, "10s", 10),
            (Seconds, "5m", 300),
            (Seconds, "2H", 7_200),
            (Seconds, "1d", 86_400),
            (Seconds, "1w", 604_800),
            (Seconds, "1m30s", 90),
            (Seconds, "2000ms", 2),
            // Go prints times in this format.
            (Seconds, "1h0m0s", 3_600),
        ] {
            assert_eq!(counts_in.read(text), Some(expected), "{text}");
        }
        for (counts_in, text) in [
            (Micros, "5m"),
            (Micros, "1h"),
            (Micros, "1500ns"),
            (Micros, "1.5ms"),
            (Micros, "-1"),
            (Micros, "10 us"),
            (Seconds, "500ms"),
            (Seconds, "1s30m"),
            (Seconds, "1m1m"),
            (Seconds, "1m30"),
            (Seconds, "s"),
            (Seconds, "5mé"),
            (Seconds, "é"),
            (Seconds, "99999999999999999999"),
            (Seconds, "99999999999w"),
        ] {
            assert_eq!(counts_in.read(text), None, "{text}");
        }
    }

    proptest! {
        /// For any values, the parts of a time add up to the time.
        #[test]
        fn parts_add_up(parts in prop::array::uniform4(0_u64..1_000)) {
            let [minutes, seconds, millis, micros] = parts;
            let text = format!("{minutes}m{seconds}s{millis}ms{micros}us");
            let nanos = ((minutes * 60 + seconds) * 1_000 + millis) * 1_000 + micros;
            let expected = nanos.is_multiple_of(1_000_000).then_some(nanos / 1_000_000);
            prop_assert_eq!(CountsIn::Seconds.read(&text), expected);
        }

        #[test]
        fn no_text_panics(text in "[0-9a-zé.+-]{0,12}") {
            for counts_in in [CountsIn::Nanos, CountsIn::Micros, CountsIn::Seconds] {
                let _ = counts_in.read(&text);
            }
        }
    }
}
