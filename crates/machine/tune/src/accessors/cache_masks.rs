//! Masks of cache ways, as the file `schemata` of resctrl shows them
//! (Documentation/filesystems/resctrl.rst).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use punctual_model::CpuSet;

/// Name of the line with the ways of the third-level cache.
const L3: &str = "L3:";

/// The ways of each cache: `L3:0=fff;1=fff`. The keys are the IDs of the caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Masks(pub(super) BTreeMap<u32, u64>);

/// A text that is not a value of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl FromStr for Masks {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let domains = text.strip_prefix(L3).ok_or(Malformed)?;
        let mut masks = BTreeMap::new();
        for one in domains.split(';') {
            let (id, mask) = one.split_once('=').ok_or(Malformed)?;
            let id = plain(id, 10).and_then(|id| u32::try_from(id).ok());
            let mask = plain(mask, 16).filter(|mask| *mask != 0);
            let (Some(id), Some(mask)) = (id, mask) else {
                return Err(Malformed);
            };
            if masks.insert(id, mask).is_some() {
                return Err(Malformed);
            }
        }
        Ok(Self(masks))
    }
}

/// Parses a number without a sign.
fn plain(text: &str, radix: u32) -> Option<u64> {
    let digits = text.chars().all(|c| c.is_digit(radix));
    digits.then(|| u64::from_str_radix(text, radix).ok())?
}

impl fmt::Display for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let domains = self.0.iter().map(|(id, mask)| format!("{id}={mask:x}"));
        write!(f, "{L3}{}", domains.collect::<Vec<_>>().join(";"))
    }
}

impl Masks {
    /// Parses the content of a file `schemata`. Returns `None` if it has no line for the
    /// third-level cache as a whole.
    pub(super) fn of_file(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim);
        lines.find(|line| line.starts_with(L3))?.parse().ok()
    }

    /// Returns the masks that differ from those of `found`.
    pub(super) fn beyond(&self, found: &Self) -> Self {
        let differs = |(id, mask): &(&u32, &u64)| found.0.get(*id) != Some(*mask);
        let differing = self.0.iter().filter(differs);
        Self(differing.map(|(id, mask)| (*id, *mask)).collect())
    }
}

/// The group of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// It does not exist.
    Absent,
    /// Its creation was begun but not finished.
    Unfinished,
    /// It has these CPUs and ways.
    Complete(CpuSet, Masks),
}

/// The value of a cache partition: the group, and the ways of the root group, which contains all
/// other CPUs.
///
/// Displayed as `none; L3:0=fff` or `2-3 L3:0=f; L3:0=ff0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Division {
    pub(super) group: Group,
    pub(super) root: Masks,
}

const NONE: &str = "none";
const PART: &str = "unfinished";

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.group {
            Group::Absent => write!(f, "{NONE}; {}", self.root),
            Group::Unfinished => write!(f, "{PART}; {}", self.root),
            Group::Complete(cpus, ways) => write!(f, "{cpus} {ways}; {}", self.root),
        }
    }
}

impl FromStr for Division {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let (group, root) = text.split_once("; ").ok_or(Malformed)?;
        let group = match group {
            NONE => Group::Absent,
            PART => Group::Unfinished,
            other => {
                let (cpus, ways) = other.split_once(' ').ok_or(Malformed)?;
                let cpus: CpuSet = cpus.parse().map_err(|_| Malformed)?;
                if cpus.is_empty() {
                    return Err(Malformed);
                }
                Group::Complete(cpus, ways.parse()?)
            }
        };
        Ok(Self {
            group,
            root: root.parse()?,
        })
    }
}

impl Division {
    /// Returns whether `found` has everything that this value has. It can have masks of more caches.
    pub(super) fn is_in(&self, found: &Self) -> bool {
        let group = match (&self.group, &found.group) {
            (Group::Complete(cpus, ways), Group::Complete(other, found)) => {
                cpus == other && ways.beyond(found).0.is_empty()
            }
            (wanted, found) => wanted == found,
        };
        group && self.root.beyond(&found.root).0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_line_of_the_cache_is_found() {
        let text = "    MB:0=100;1=100\n    L3:0=00fff;1=0000f\n";
        let masks = Masks::of_file(text).unwrap();
        assert_eq!(masks.to_string(), "L3:0=fff;1=f");
        for other in ["", "L2:0=ff", "L3CODE:0=ff\nL3DATA:0=ff", "L3:0=", "L3:0=0"] {
            assert_eq!(Masks::of_file(other), None, "{other}");
        }
    }

    #[test]
    fn value_is_compared_where_it_has_masks() {
        let of = |text: &str| text.parse::<Division>().unwrap();
        let wanted = of("2-3 L3:0=f; L3:0=ff0");
        assert!(wanted.is_in(&of("2-3 L3:0=f;1=fff; L3:0=ff0;1=fff")));
        for other in [
            "2-3 L3:0=f; L3:0=fff",
            "2-3 L3:0=7; L3:0=ff0",
            "2 L3:0=f; L3:0=ff0",
            "none; L3:0=ff0",
            "unfinished; L3:0=ff0",
        ] {
            assert!(!wanted.is_in(&of(other)), "{other}");
        }
        assert!(of("none; L3:0=fff").is_in(&of("none; L3:0=fff")));
        assert!(!of("none; L3:0=fff").is_in(&of("unfinished; L3:0=fff")));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "none",
            "none; ",
            "none; L3:0=+f",
            "none; L3:0=f;0=f",
            "none; ../x",
            " L3:0=f; L3:0=f",
            "2-3; L3:0=f",
        ] {
            assert!(text.parse::<Division>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn its_text_is_read_back(
            masks in prop::collection::btree_map(any::<u32>(), 1_u64.., 1..4),
            cpus in prop::collection::btree_set(0_u32..300, 0..9),
        ) {
            let masks = Masks(masks);
            let cpus: CpuSet = cpus.into_iter().collect();
            let group = if cpus.is_empty() {
                Group::Absent
            } else {
                Group::Complete(cpus, masks.clone())
            };
            let division = Division { group, root: masks };
            prop_assert_eq!(division.to_string().parse(), Ok(division));
        }

        #[test]
        fn no_text_panics(text in "[0-9a-fL3:;= -]{0,40}|\\PC{0,40}") {
            let _ = text.parse::<Division>();
            let _ = Masks::of_file(&text);
        }
    }
}
