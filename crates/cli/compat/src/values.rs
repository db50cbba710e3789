//! Values of options: as with atoi(3) and libnuma, but values that those would misread
//! are refused. Times are in `times`.

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

    /// Its value as text; empty if there is none.
    pub fn text(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }

    /// A whole number of at least this.
    ///
    /// # Errors
    /// Another number, or not a number.
    pub(crate) fn at_least(&self, least: i32) -> Result<u64, CompatError> {
        let number = self.whole()?;
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

    /// The number of an optional value.
    ///
    /// # Errors
    /// A value that is not a whole number.
    pub(crate) fn number(&self) -> Result<Option<i32>, CompatError> {
        self.value.is_some().then(|| self.whole()).transpose()
    }

    /// The error of an invalid value.
    pub fn bad(&self, what: &str) -> CompatError {
        let name = match (self.option.long, self.option.short) {
            ("", Some(letter)) => format!("-{letter}"),
            (long, _) => format!("--{long}"),
        };
        CompatError::Usage(format!("{name}: '{}' is not {what}", self.text()))
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
