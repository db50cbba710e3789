//! Sets of CPUs in the kernel's list format.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A set of CPU numbers, written in the list format of the kernel: `0-3,8`
/// (`Documentation/admin-guide/kernel-parameters.rst`, "cpu lists").
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(BTreeSet<u32>);

/// Error while reading a CPU list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuSetError {
    /// A part is neither a number nor a range.
    #[error("'{part}' in the CPU list '{list}' is not a CPU or a range: write for example 0-3,8")]
    NotACpu {
        /// The part that could not be read.
        part: String,
        /// The whole list.
        list: String,
    },
    /// The end of a range is below its start.
    #[error("the range '{part}' in the CPU list '{list}' runs backwards")]
    Backwards {
        /// The range.
        part: String,
        /// The whole list.
        list: String,
    },
    /// A CPU number is larger than any kernel supports.
    #[error("CPU {cpu} in the CPU list '{list}' is above {max}, the largest possible number")]
    TooLarge {
        /// The number.
        cpu: u64,
        /// The largest possible number.
        max: u32,
        /// The whole list.
        list: String,
    },
}

impl CpuSet {
    /// The largest accepted CPU number. The kernel supports at most 8192 CPUs (`NR_CPUS`), and a
    /// typing error in a list must not exhaust the memory.
    pub const MAX_CPU: u32 = 8_191;

    /// Reads a list from the kernel command line, such as `2-N` or `all:1/2`: `N` is the last CPU,
    /// and `all` means all CPUs (Documentation/admin-guide/kernel-parameters.rst, cpu lists).
    /// Ignores CPUs beyond `last`, because the machine has none.
    ///
    /// # Errors
    /// Returns the errors of [`from_str`](str::parse).
    pub fn of_command_line(list: &str, last: u32) -> Result<Self, CpuSetError> {
        let plain: Vec<String> = (list.split(','))
            .map(|part| with_numbers(part.trim(), last))
            .collect();
        let all: Self = plain.join(",").parse()?;
        Ok(all.iter().filter(|cpu| *cpu <= last).collect())
    }

    /// Creates an empty set.
    pub const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Adds `cpu`.
    pub fn insert(&mut self, cpu: u32) {
        self.0.insert(cpu);
    }

    /// Returns the CPUs in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Returns the lowest CPU.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// Returns the CPUs of `self` that are not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Returns the CPUs in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Returns whether each CPU of `self` is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

/// Prints consecutive CPUs as ranges: `0-3,8`. Prints nothing for the empty set, as
/// `/sys/devices/system/cpu/isolated` does.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<(u32, u32)> = Vec::new();
        for cpu in self.iter() {
            match parts.last_mut() {
                Some((_, end)) if *end + 1 == cpu => *end = cpu,
                _ => parts.push((cpu, cpu)),
            }
        }
        let text: Vec<String> = parts
            .iter()
            .map(|(start, end)| match end - start {
                0 => start.to_string(),
                _ => format!("{start}-{end}"),
            })
            .collect();
        f.pad(&text.join(","))
    }
}

/// Reads `0-3,8`, and the kernel's stride form `0-31:1/4` (one CPU of every four). White space
/// around the parts is allowed. An empty text is the empty set.
impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let mut set = BTreeSet::new();
        if list.trim().is_empty() {
            return Ok(Self(set));
        }
        for part in list.trim().split(',').map(str::trim) {
            let (start, end, used, group) = parse_part(part).ok_or(CpuSetError::NotACpu {
                part: part.to_owned(),
                list: list.trim().to_owned(),
            })?;
            if end < start {
                return Err(CpuSetError::Backwards {
                    part: part.to_owned(),
                    list: list.trim().to_owned(),
                });
            }
            if end > u64::from(Self::MAX_CPU) {
                return Err(CpuSetError::TooLarge {
                    cpu: end,
                    max: Self::MAX_CPU,
                    list: list.trim().to_owned(),
                });
            }
            set.extend(
                (start..=end)
                    .filter(|cpu| (cpu - start) % group < used)
                    .map(|cpu| cpu as u32),
            );
        }
        Ok(Self(set))
    }
}

/// Returns a part of a list with the kernel's words replaced by numbers: `N` in capitals, `all` in
/// any case (lib/bitmap-str.c, `bitmap_parse_region`).
fn with_numbers(part: &str, last: u32) -> String {
    let (range, stride) = part.split_at(part.find(':').unwrap_or(part.len()));
    if range.eq_ignore_ascii_case("all") {
        return format!("0-{last}{stride}");
    }
    let number = |text: &str| match text {
        "N" => last.to_string(),
        other => other.to_owned(),
    };
    let ends: Vec<String> = range.split('-').map(number).collect();
    format!("{}{stride}", ends.join("-"))
}

/// Parses one part of a list into (start, end, CPUs used of each group, CPUs per group).
fn parse_part(part: &str) -> Option<(u64, u64, u64, u64)> {
    // `u64::from_str` also accepts "+3", which a CPU list does not.
    let number = |text: &str| -> Option<u64> {
        text.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse().ok())?
    };
    let (range, stride) = match part.split_once(':') {
        Some((range, stride)) => (range, Some(stride)),
        None => (part, None),
    };
    let (start, end) = match range.split_once('-') {
        Some((start, end)) => (number(start.trim())?, number(end.trim())?),
        None => (number(range)?, number(range)?),
    };
    let (used, group) = match stride {
        None => (1, 1),
        Some(stride) => {
            let (used, group) = stride.split_once('/')?;
            (number(used)?, number(group)?)
        }
    };
    (used > 0 && group >= used).then_some((start, end, used, group))
}

impl TryFrom<String> for CpuSet {
    type Error = CpuSetError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> Self {
        set.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kernel_cpu_lists_are_parsed() {
        let set: CpuSet = "0-3,8".parse().unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(set.to_string(), "0-3,8");
        assert_eq!("".parse(), Ok(CpuSet::new()));
        assert_eq!("0-7:1/4".parse::<CpuSet>().unwrap().to_string(), "0,4");
        assert_eq!(" 2 , 1\n".parse::<CpuSet>().unwrap().to_string(), "1-2");
    }

    #[test]
    fn kernel_words_name_last_and_all_cpus() {
        let of = |list: &str| CpuSet::of_command_line(list, 15).map(|set| set.to_string());
        for (list, cpus) in [
            ("4-N", "4-15"),
            ("N", "15"),
            ("0,N", "0,15"),
            ("all", "0-15"),
            ("ALL:1/8", "0,8"),
            ("12-N:1/2", "12,14"),
            ("2-31", "2-15"),
            ("2-3", "2-3"),
        ] {
            assert_eq!(of(list).as_deref(), Ok(cpus), "{list}");
        }
        for list in ["4-n", "allx", "N-", "4-NN", "two"] {
            assert!(of(list).is_err(), "{list}");
        }
        // Kernel files never contain these.
        assert!("4-N".parse::<CpuSet>().is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |list: &str| list.parse::<CpuSet>().unwrap_err().to_string();
        assert!(error("0,x").contains("'x' in the CPU list '0,x'"));
        assert!(error("3-1").contains("runs backwards"));
        assert!(error("0-99999").contains("CPU 99999"));
        for list in [
            "-1",
            "1,,2",
            "1-",
            "+1",
            "0-3:0/4",
            "0-3:5/4",
            "99999999999999999999",
        ] {
            assert!(list.parse::<CpuSet>().is_err(), "{list}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_reading_are_inverse(cpus in prop::collection::btree_set(0u32..300, 0..40)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(set.to_string().parse(), Ok(set));
        }

        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = text.parse::<CpuSet>();
        }
    }

    #[test]
    fn subset_has_no_other_cpu() {
        let set = |list: &str| list.parse::<CpuSet>().unwrap();
        for (own, other, is_subset) in [
            ("", "", true),
            ("", "1", true),
            ("1,3", "0-3", true),
            ("1,4", "0-3", false),
            ("0-3", "1", false),
        ] {
            assert_eq!(set(own).is_subset(&set(other)), is_subset, "{own} {other}");
            let common = set(own).intersection(&set(other));
            assert!(common.is_subset(&set(own)) && common.is_subset(&set(other)));
        }
    }
}
