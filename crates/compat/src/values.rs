//! Values of options: as with atoi(3), parse_time_string() and libnuma, but values
//! that those would misread are refused.

use punctual_model::{CpuSet, CpuSetError};

use crate::{CompatError, Given};

impl Given {
    /// Its value as a whole number, as with atoi(3); text that atoi would cut off
    /// or read as 0 is refused.
    ///
    /// # Errors
    /// Not a number, or outside the range of an `int`.
    pub fn whole(&self) -> Result<i32, CompatError> {
        let text = self.text();
        whole(text).ok_or_else(|| self.bad("a whole number"))
    }

    /// The same for a number of µs, with an optional unit: `20us`.
    ///
    /// # Errors
    /// Not such a number, and one with another unit.
    pub fn whole_micros(&self) -> Result<i32, CompatError> {
        let text = self.text();
        whole(text.strip_suffix("us").unwrap_or(text)).ok_or_else(|| self.bad("a whole number"))
    }

    /// Its value as seconds: a number, and `m`, `h` or `d` for minutes, hours or
    /// days; `s` changes nothing. Also several of them, the longest first: `1h30m`.
    ///
    /// # Errors
    /// Other text, and times longer than 68 years.
    pub fn seconds(&self) -> Result<i32, CompatError> {
        seconds(self.text()).ok_or_else(|| self.bad("a time: 90, 90s, 5m, 2h, 1d"))
    }

    /// Its value as text; empty if there is none.
    pub fn text(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }

    /// Its value, or the next word if that can be one.
    pub fn value_or_next(&self, can_be: impl Fn(&str) -> bool) -> Option<&str> {
        let next = self.next.as_deref().filter(|next| can_be(next));
        self.value.as_deref().or(next)
    }

    /// A whole number of at least this.
    ///
    /// # Errors
    /// Another number, or not a number.
    pub(crate) fn at_least(&self, least: i32) -> Result<u64, CompatError> {
        self.bounded(self.whole()?, least)
    }

    /// A number of at least so many µs.
    ///
    /// # Errors
    /// Another number, or not a number.
    pub(crate) fn micros_from(&self, least: i32) -> Result<u64, CompatError> {
        self.bounded(self.whole_micros()?, least)
    }

    fn bounded(&self, number: i32, least: i32) -> Result<u64, CompatError> {
        match u64::try_from(number) {
            Ok(positive) if number >= least => Ok(positive),
            _ => Err(self.bad(&format!("a number of {least} or more"))),
        }
    }

    /// A priority.
    ///
    /// # Errors
    /// An invalid value.
    pub(crate) fn priority(&self) -> Result<u8, CompatError> {
        match u8::try_from(self.whole()?) {
            Ok(priority @ 0..=99) => Ok(priority),
            _ => Err(self.bad("a priority from 0 to 99")),
        }
    }

    /// Its value, or the next word if that resembles a list of CPUs.
    pub(crate) fn list_or_next(&self) -> Option<&str> {
        self.value_or_next(|next| {
            next.starts_with(|first: char| first.is_ascii_digit() || "!+a".contains(first))
        })
    }

    /// A time in seconds, 0 or more.
    ///
    /// # Errors
    /// An invalid value.
    pub(crate) fn duration(&self) -> Result<u64, CompatError> {
        u64::try_from(self.seconds()?).map_err(|_| self.bad("a time of 0 or more"))
    }

    /// Its value, or the next word if that is a number other than 0, as tools
    /// with optional numbers look at it.
    ///
    /// # Errors
    /// A value that is not a number.
    pub(crate) fn number_or_next(&self) -> Result<Option<i32>, CompatError> {
        let number = |next: &str| whole(next).is_some_and(|number| number != 0);
        match (&self.value, self.value_or_next(number)) {
            (Some(_), _) => self.whole().map(Some),
            (None, next) => Ok(next.and_then(whole)),
        }
    }

    /// The error of an invalid value.
    pub fn bad(&self, what: &str) -> CompatError {
        let name = match (self.option.long, self.option.short) {
            ("", Some(letter)) => format!("-{letter}"),
            (long, _) => format!("--{long}"),
        };
        let text = self.value.as_deref().or(self.next.as_deref());
        CompatError::Usage(format!(
            "{name}: '{}' is not {what}",
            text.unwrap_or_default()
        ))
    }
}

/// A decimal number with an optional sign and nothing after it.
pub(crate) fn whole(text: &str) -> Option<i32> {
    let text = text.trim_start();
    let digits = text.strip_prefix('+').unwrap_or(text);
    match digits.starts_with(['+', ' ']) {
        true => None,
        false => digits.parse().ok(),
    }
}

fn seconds(text: &str) -> Option<i32> {
    if let Some(number) = whole(text) {
        return Some(number);
    }
    let (mut all, mut rest, mut longer) = (0_i32, text, i32::MAX);
    while let Some(end) = rest.find(|c: char| c.is_ascii_alphabetic()) {
        let (number, unit) = rest.split_at(end);
        let unit_s = match unit.as_bytes().first()?.to_ascii_lowercase() {
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            _ => return None,
        };
        // Each part once, the longest first.
        if unit_s >= longer {
            return None;
        }
        longer = unit_s;
        all = all.checked_add(whole(number)?.checked_mul(unit_s)?)?;
        rest = &unit[1..];
    }
    rest.is_empty().then_some(all).filter(|_| !text.is_empty())
}

/// Why a list of CPUs is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CpuListError {
    /// It is not a list.
    #[error(transparent)]
    Syntax(#[from] CpuSetError),
    /// An index beyond the usable CPUs.
    #[error("only {usable} CPUs are usable")]
    BeyondUsable {
        /// How many these are.
        usable: usize,
    },
    /// No CPU is named.
    #[error("it is empty")]
    Empty,
    /// CPUs that are not there.
    #[error("CPU {missing} does not exist (present: {present})")]
    Missing {
        /// Which of them.
        missing: CpuSet,
        /// The CPUs that exist.
        present: CpuSet,
    },
}

/// Reads a CPU list as numa_parse_cpustring_all(3) does: `0-3,8`, `all`; after
/// `!` all others, after `+` indices among the usable CPUs. With either
/// of them, only usable CPUs are left.
///
/// # Errors
/// Not such a list, or a CPU that does not exist.
pub(crate) fn cpu_list(
    text: &str,
    present: &CpuSet,
    allowed: &CpuSet,
) -> Result<CpuSet, CpuListError> {
    let inverted = text.contains('!');
    let relative = text.contains('+');
    let list: String = text.chars().filter(|c| !matches!(c, '!' | '+')).collect();
    let named: CpuSet = match list.as_str() {
        "all" => present.clone(),
        list => {
            let numbers: CpuSet = list.parse()?;
            if relative {
                let usable: Vec<u32> = allowed.iter().collect();
                let nth = |number: u32| usable.get(number as usize).copied();
                let found: Option<CpuSet> = numbers.iter().map(nth).collect();
                let usable = usable.len();
                found.ok_or(CpuListError::BeyondUsable { usable })?
            } else {
                numbers
            }
        }
    };
    if named.is_empty() {
        return Err(CpuListError::Empty);
    }
    let missing = named.difference(present);
    if !missing.is_empty() {
        return Err(CpuListError::Missing {
            missing,
            present: present.clone(),
        });
    }
    let chosen = match inverted {
        true => present.difference(&named),
        false => named,
    };
    Ok(match inverted || relative {
        true => chosen.intersection(allowed),
        false => chosen,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole() {
        assert_eq!(whole("100"), Some(100));
        assert_eq!(whole(" +7"), Some(7));
        assert_eq!(whole("-5"), Some(-5));
        for text in ["", "1ms", "10 ", "1.5", "0x10", "++1", "3000000000", "é"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }

    #[test]
    fn times_have_the_tools_units() {
        for (text, expected) in [
            ("10", 10),
            ("10s", 10),
            ("5m", 300),
            ("2H", 7_200),
            ("1d", 86_400),
            ("1m30s", 90),
            // As Go writes times.
            ("1h0m0s", 3_600),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in [
            "", "s", "1s30m", "1m1m", "1m30", "1w", "99999d", "5mé", "1é", "ms",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn cpu_lists_are_libnumas() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let read = |text: &str| {
            cpu_list(text, &set("0-7"), &set("2-5"))
                .map(|cpus| cpus.to_string())
                .map_err(|_| ())
        };
        assert_eq!(read("0-1,7"), Ok("0-1,7".to_owned()));
        assert_eq!(read("all"), Ok("0-7".to_owned()));
        assert_eq!(read("!2-3"), Ok("4-5".to_owned()));
        assert_eq!(read("+0,3"), Ok("2,5".to_owned()));
        assert_eq!(read("!+0"), Ok("3-5".to_owned()));
        for text in ["8", "+4", "a", "", "3-1"] {
            assert_eq!(read(text), Err(()), "{text}");
        }
    }
}
