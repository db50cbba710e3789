//! The values that a setting accepts, and the comparison of values in different notations.

use crate::CpuSet;

/// The values that a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// A word that the kernel lists in this other file. Both files have the same instances.
    Offered(&'static str),
    /// A word that the setting's own file lists. The current word is in brackets (in parentheses in
    /// debugfs).
    Marked,
    /// A number.
    Number {
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
    },
    /// A number, or this word.
    NumberOr {
        /// The word.
        word: &'static str,
        /// The smallest number.
        min: i64,
        /// The largest number.
        max: i64,
    },
    /// A number within the limits that two files contain. The words `min` and `max` stand for these
    /// limits.
    Between {
        /// The file with the minimum.
        least: &'static str,
        /// The file with the maximum.
        most: &'static str,
    },
    /// A word of this list.
    Words(&'static [&'static str]),
    /// 0, or a power of two.
    PowerOfTwo {
        /// The maximum.
        max: i64,
    },
    /// 0 and 1.
    Switch,
    /// CPUs, written as a hexadecimal mask.
    Mask,
    /// CPUs, written as a list.
    List,
    /// A format that only this setting uses.
    Own(&'static str),
}

impl Values {
    /// Returns a description of the values for people.
    pub fn takes(self) -> String {
        match self {
            Self::Offered(_) | Self::Marked => "one of the values that the kernel lists".to_owned(),
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::NumberOr { word, min, max } => {
                format!("`{word}`, or a number from {min} to {max}")
            }
            Self::Between { .. } => {
                "a number within the limits of the hardware, `min` or `max`".to_owned()
            }
            Self::Words(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                words.join(" or ")
            }
            Self::PowerOfTwo { max } => format!("0, or a power of two up to {max}"),
            Self::Switch => "`on` or `off`".to_owned(),
            Self::Mask | Self::List => {
                "a list of CPUs, `all`, `housekeeping` or `measured`".to_owned()
            }
            Self::Own(text) => text.to_owned(),
        }
    }

    /// Returns the value in the content of a file.
    pub fn normal(self, text: &str) -> String {
        match self {
            Self::Marked => marked(text).unwrap_or(text).to_owned(),
            _ => text.to_owned(),
        }
    }

    /// Returns the text to write for `asked`, if this text does not depend on the machine. Returns
    /// `None` for an invalid value, and for values that only the machine can check: words that the
    /// kernel lists, limits in other files, CPUs.
    pub fn plain(self, asked: &str) -> Option<String> {
        match self {
            Self::Switch => match asked {
                "on" | "true" | "yes" | "1" => Some("1".to_owned()),
                "off" | "false" | "no" | "0" => Some("0".to_owned()),
                _ => None,
            },
            Self::NumberOr { word, .. } if asked == word => Some(word.to_owned()),
            Self::Words(words) => words.contains(&asked).then(|| asked.to_owned()),
            Self::Number { min, max } | Self::NumberOr { min, max, .. } => {
                let number: i64 = asked.parse().ok()?;
                (min..=max).contains(&number).then(|| number.to_string())
            }
            Self::PowerOfTwo { max } => {
                let number: i64 = asked.parse().ok()?;
                let power = (1..=max).contains(&number) && number.count_ones() == 1;
                (number == 0 || power).then(|| number.to_string())
            }
            _ => None,
        }
    }

    /// Returns whether a setting with these values can contain this text. Does not check which
    /// words the kernel lists.
    pub fn holds(self, value: &str) -> bool {
        let within = |min: i64, max: i64| {
            let number = value.parse::<i64>();
            number.is_ok_and(|number| (min..=max).contains(&number))
        };
        match self {
            Self::Offered(_) | Self::Marked => {
                !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic())
            }
            Self::Words(words) => words.contains(&value),
            Self::Number { min, max } => within(min, max),
            Self::NumberOr { word, min, max } => value == word || within(min, max),
            Self::PowerOfTwo { max } => within(0, max),
            // Some switches accept values other than 0 and 1.
            Self::Between { .. } | Self::Switch => within(0, i64::MAX),
            Self::Mask => unmask(value).is_some(),
            Self::List => value.parse::<CpuSet>().is_ok(),
            Self::Own(_) => false,
        }
    }

    /// Returns whether two texts mean the same value, such as `f` and `000f`.
    pub fn same(self, found: &str, wanted: &str) -> bool {
        if found == wanted {
            return true;
        }
        match self {
            Self::Mask => both(unmask(found), unmask(wanted)),
            Self::List => both(found.parse::<CpuSet>().ok(), wanted.parse().ok()),
            Self::Number { .. } | Self::Switch | Self::Between { .. } => {
                both(found.parse::<i64>().ok(), wanted.parse().ok())
            }
            _ => false,
        }
    }

    /// Returns a value in a form for people, with CPUs instead of a mask.
    pub fn readable(self, value: &str) -> String {
        match self {
            Self::Mask => match unmask(value) {
                Some(cpus) if cpus.is_empty() => "no CPU".to_owned(),
                Some(cpus) => format!("CPU {cpus}"),
                None => value.to_owned(),
            },
            Self::List => format!("CPU {value}"),
            Self::Switch => match yes(value) {
                Some(true) => "on".to_owned(),
                Some(false) => "off".to_owned(),
                None => value.to_owned(),
            },
            _ => value.to_owned(),
        }
    }
}

fn both<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
    a.is_some() && a == b
}

fn yes(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

/// Returns the current word from a list such as `always [madvise] never`. It is in brackets, or in
/// parentheses in debugfs.
pub fn marked(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| {
        let square = word.strip_prefix('[').and_then(|w| w.strip_suffix(']'));
        square.or_else(|| word.strip_prefix('(')?.strip_suffix(')'))
    })
}

/// Returns a mask as the kernel writes it: groups of 32 bits, the highest first.
pub fn mask(cpus: &CpuSet) -> String {
    let groups = cpus.iter().next_back().map_or(1, |last| last / 32 + 1);
    let group = |n: u32| {
        cpus.iter()
            .filter(|cpu| cpu / 32 == n)
            .fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32))
    };
    let mut text = format!("{:x}", group(groups - 1));
    for n in (0..groups - 1).rev() {
        text.push_str(&format!(",{:08x}", group(n)));
    }
    text
}

/// Returns the CPUs of a mask.
pub fn unmask(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    // 8192 CPUs need 256 groups of 32 bits.
    if text.is_empty() || text.len() > 256 * 9 {
        return None;
    }
    for (place, group) in text.split(',').rev().enumerate() {
        let hexadecimal = group.len() <= 8 && group.bytes().all(|b| b.is_ascii_hexdigit());
        let bits = hexadecimal.then(|| u32::from_str_radix(group, 16).ok())??;
        let first = u32::try_from(place).ok()? * 32;
        (0..32)
            .filter(|bit| bits >> bit & 1 == 1)
            .for_each(|bit| cpus.insert(first + bit));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn masks_are_those_of_the_kernel() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        for (list, text) in [
            ("0-1", "3"),
            ("", "0"),
            ("4", "10"),
            ("32", "1,00000000"),
            ("0-63", "ffffffff,ffffffff"),
        ] {
            assert_eq!(mask(&cpus(list)), text);
            assert_eq!(unmask(text), Some(cpus(list)));
        }
        assert_eq!(unmask("00000000,0000000f"), Some(cpus("0-3")));
        for wrong in ["", "g", "123456789", "1,,2", "-1", "+1"] {
            assert_eq!(unmask(wrong), None, "{wrong}");
        }
        assert!(Values::Mask.same("0000000f", "f"));
        assert!(!Values::Mask.same("x", "y"));
    }

    #[test]
    fn only_the_words_are_accepted() {
        let values = Values::Words(&["on", "auto"]);
        assert_eq!(values.takes(), "`on` or `auto`");
        for (word, good) in [("on", true), ("auto", true), ("1", false), ("", false)] {
            assert_eq!(values.plain(word).is_some(), good, "{word}");
            assert_eq!(values.holds(word), good, "{word}");
        }
        assert!(values.same("on", "on") && !values.same("on", "auto"));
    }

    #[test]
    fn number_or_word_is_written_as_asked() {
        let (word, min, max) = ("auto", -1, 20);
        let values = Values::NumberOr { word, min, max };
        for good in ["auto", "-1", "5", "20"] {
            assert_eq!(values.plain(good).as_deref(), Some(good));
        }
        for bad in ["-2", "21", "on", ""] {
            assert_eq!(values.plain(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_chosen_word_is_marked() {
        assert_eq!(Values::Marked.normal("always [madvise] never"), "madvise");
        assert_eq!(Values::Marked.normal("none voluntary (full)"), "full");
    }

    proptest! {
        #[test]
        fn masks_lose_nothing(cpus in prop::collection::btree_set(0_u32..300, 0..40)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(unmask(&mask(&set)), Some(set));
        }

        #[test]
        fn no_text_panics(text in "[0-9a-f,x-]{0,40}") {
            let _ = unmask(&text);
            let _ = Values::Mask.same(&text, "1");
        }
    }

    #[test]
    fn values_are_shown_for_people() {
        let number = Values::Number { min: 0, max: 9 };
        for (values, raw, text) in [
            (Values::Mask, "5", "CPU 0,2"),
            (Values::Mask, "0", "no CPU"),
            (Values::Mask, "x", "x"),
            (Values::List, "0-3", "CPU 0-3"),
            (Values::Switch, "1", "on"),
            (Values::Switch, "0", "off"),
            (Values::Switch, "2", "2"),
            (number, "7", "7"),
            (Values::Marked, "never", "never"),
        ] {
            assert_eq!(values.readable(raw), text, "{values:?}");
        }
    }

    #[test]
    fn accepted_values_are_described_and_normalised() {
        let number = Values::Number { min: -1, max: 9 };
        let or = Values::NumberOr {
            word: "auto",
            min: 0,
            max: 9,
        };
        let power = Values::PowerOfTwo { max: 16 };
        let between = Values::Between {
            least: "/a",
            most: "/b",
        };
        for (values, takes, holds, refuses) in [
            (
                number,
                "a number from -1 to 9",
                vec!["-1", "9"],
                vec!["-2", "10", "a", ""],
            ),
            (
                or,
                "`auto`, or a number from 0 to 9",
                vec!["auto", "0"],
                vec!["-1", "on"],
            ),
            (
                power,
                "0, or a power of two up to 16",
                vec!["0", "16"],
                vec!["-1", "17"],
            ),
            (
                between,
                "a number within the limits of the hardware, `min` or `max`",
                vec!["0", "7000000"],
                vec!["-1", "max"],
            ),
            (
                Values::Switch,
                "`on` or `off`",
                vec!["0", "1", "2"],
                vec!["-1", "on"],
            ),
            (
                Values::Mask,
                "a list of CPUs, `all`, `housekeeping` or `measured`",
                vec!["f", "1,00000000"],
                vec!["", "g"],
            ),
            (
                Values::List,
                "a list of CPUs, `all`, `housekeeping` or `measured`",
                vec!["0-3", ""],
                vec!["3-0"],
            ),
            (
                Values::Marked,
                "one of the values that the kernel lists",
                vec!["never"],
                vec!["", "a b"],
            ),
            (
                Values::Offered("/a"),
                "one of the values that the kernel lists",
                vec!["acpi-pm"],
                vec!["a\n"],
            ),
            (Values::Own("a list"), "a list", vec![], vec!["a", ""]),
        ] {
            assert_eq!(values.takes(), takes);
            for good in holds {
                assert!(values.holds(good), "{values:?} {good}");
            }
            for bad in refuses {
                assert!(!values.holds(bad), "{values:?} {bad}");
            }
        }
        for (values, asked, plain) in [
            (number, "+7", Some("7")),
            (number, "10", None),
            (power, "8", Some("8")),
            (power, "0", Some("0")),
            (power, "1", Some("1")),
            (power, "6", None),
            (power, "32", None),
            (power, "-8", None),
            (Values::Switch, "yes", Some("1")),
            (Values::Switch, "true", Some("1")),
            (Values::Switch, "off", Some("0")),
            (Values::Switch, "false", Some("0")),
            (Values::Switch, "2", None),
            (Values::Mask, "f", None),
        ] {
            assert_eq!(values.plain(asked).as_deref(), plain, "{values:?} {asked}");
        }
    }

    #[test]
    fn values_in_other_notations_are_the_same() {
        let number = Values::Number { min: 0, max: 9 };
        for (values, found, wanted, same) in [
            (Values::Mask, "0000000f", "f", true),
            (Values::Mask, "f", "e", false),
            (Values::List, "0,1,2", "0-2", true),
            (Values::List, "0-2", "0-3", false),
            (Values::List, "x", "y", false),
            (number, "007", "7", true),
            (number, "7", "8", false),
            (Values::Switch, "01", "1", true),
            (
                Values::Between {
                    least: "/a",
                    most: "/b",
                },
                "08",
                "8",
                true,
            ),
            (Values::Marked, "01", "1", false),
        ] {
            assert_eq!(
                values.same(found, wanted),
                same,
                "{values:?} {found} {wanted}"
            );
        }
        for (text, word) in [
            ("a [b] c", Some("b")),
            ("(deep) s2idle", Some("deep")),
            ("a b", None),
            ("[a", None),
        ] {
            assert_eq!(marked(text), word);
            assert_eq!(Values::Marked.normal(text), word.unwrap_or(text));
            assert_eq!(number.normal(text), text);
        }
    }
}
