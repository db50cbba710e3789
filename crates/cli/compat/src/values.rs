//! Parses values of options like atoi(3) and libnuma, but rejects values that those would misread.
//! For times, see `times`.

use punctual_model::{CpuSet, CpuSetError};

use crate::{CompatError, Given};

impl Given {
    /// Returns the value as a whole number, like atoi(3). Rejects text that atoi would truncate or
    /// read as 0.
    ///
    /// # Errors
    /// Returns an error if the value is not a number, or is outside the range of an `int`.
    pub fn whole(&self) -> Result<i32, CompatError> {
        let text = self.text();
        whole(text).ok_or_else(|| self.bad("a whole number"))
    }

    /// Returns the value as text; empty if there is none.
    pub fn text(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }

    /// Returns a whole number of at least `least`.
    ///
    /// # Errors
    /// Returns an error if the value is too small or is not a number.
    pub(crate) fn at_least(&self, least: i32) -> Result<u64, CompatError> {
        let number = self.whole()?;
        match u64::try_from(number) {
            Ok(positive) if number >= least => Ok(positive),
            _ => Err(self.bad(&format!("a number of {least} or more"))),
        }
    }

    /// Returns a priority.
    ///
    /// # Errors
    /// Returns an error for an invalid value.
    pub(crate) fn priority(&self) -> Result<u8, CompatError> {
        match u8::try_from(self.whole()?) {
            Ok(priority @ 0..=99) => Ok(priority),
            _ => Err(self.bad("a priority from 0 to 99")),
        }
    }

    /// Returns the value of an option as a number, if it has a value.
    ///
    /// # Errors
    /// Returns an error if the value is not a whole number.
    pub(crate) fn number(&self) -> Result<Option<i32>, CompatError> {
        self.value.is_some().then(|| self.whole()).transpose()
    }

    /// Returns the error for an invalid value.
    pub fn bad(&self, what: &str) -> CompatError {
        let name = match (self.option.long, self.option.short) {
            ("", Some(letter)) => format!("-{letter}"),
            (long, _) => format!("--{long}"),
        };
        CompatError::Usage(format!("{name}: '{}' is not {what}", self.text()))
    }
}

/// Parses a decimal number with an optional sign and nothing after it.
pub(crate) fn whole(text: &str) -> Option<i32> {
    let text = text.trim_start();
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.starts_with(['+', ' ']) {
        None
    } else {
        digits.parse().ok()
    }
}

/// Reason why a CPU list is rejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CpuListError {
    /// The text is not a list.
    #[error(transparent)]
    Syntax(#[from] CpuSetError),
    /// An index is beyond the usable CPUs.
    #[error("only {usable} CPUs are usable")]
    BeyondUsable {
        /// Number of usable CPUs.
        usable: usize,
    },
    /// The list does not name any CPU.
    #[error("it is empty")]
    Empty,
    /// Some CPUs in the list do not exist.
    #[error("CPU {missing} does not exist (present: {present})")]
    Missing {
        /// The missing CPUs.
        missing: CpuSet,
        /// The CPUs that exist.
        present: CpuSet,
    },
}

/// Parses a CPU list like numa_parse_cpustring_all(3): `0-3,8`, `all`. With the prefix `!`, the
/// list selects all other CPUs. With `+`, its numbers are indices among the usable CPUs. With
/// either prefix, the result contains only usable CPUs.
///
/// # Errors
/// Returns an error if the text is not a CPU list, or if a CPU does not exist.
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
    let chosen = if inverted {
        present.difference(&named)
    } else {
        named
    };
    Ok(if inverted || relative {
        chosen.intersection(allowed)
    } else {
        chosen
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
