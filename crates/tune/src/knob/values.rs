//! What a setting takes, how a person says it, and when two texts are the same.

use punctual_model::CpuSet;

use super::{Knob, Place};
use crate::TuneError;
use crate::knob::Pattern;
use crate::site::Site;

/// What a plan knows of the CPUs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// Those online.
    pub(crate) online: CpuSet,
    /// Those that are to be measured or to run the application.
    pub(crate) measured: Option<CpuSet>,
    /// Those that the same plan takes offline.
    pub(crate) leaving: CpuSet,
}

impl Context {
    /// CPUs given as a list or in one of three words.
    pub(crate) fn cpus(&self, setting: &str, text: &str) -> Result<CpuSet, TuneError> {
        let invalid = |expected: String| TuneError::Invalid {
            setting: setting.to_owned(),
            value: text.to_owned(),
            expected,
        };
        let without = || TuneError::NeedsCpus {
            setting: setting.to_owned(),
            word: text.to_owned(),
        };
        let stay = self.online.difference(&self.leaving);
        let cpus = match text {
            "all" => stay,
            "measured" => self.measured.clone().ok_or_else(without)?,
            "housekeeping" => {
                let measured = self.measured.as_ref().ok_or_else(without)?;
                let rest = stay.difference(measured);
                if rest.is_empty() {
                    return Err(TuneError::Cpus(format!(
                        "{setting}: CPU {measured} are all there are: none is left for the system"
                    )));
                }
                rest
            }
            list => list.parse::<CpuSet>().map_err(|error| {
                invalid(format!("{error}; or one of all, housekeeping, measured"))
            })?,
        };
        let absent = cpus.difference(&self.online);
        if !absent.is_empty() {
            return Err(invalid(format!(
                "CPU {absent} is not online ({})",
                self.online
            )));
        }
        Ok(cpus)
    }
}

/// What a setting takes.
#[derive(Clone, Copy)]
pub(crate) enum Values {
    /// A word that the kernel lists in another file, which has the same
    /// instances.
    Offered(&'static str),
    /// One of the words of its own file, where the chosen one stands in
    /// brackets (parentheses in debugfs).
    Marked,
    /// A number.
    Number { min: i64, max: i64 },
    /// A number, or this word.
    NumberOr {
        word: &'static str,
        min: i64,
        max: i64,
    },
    /// A number between those of two files; `min` and `max` stand for them.
    Between {
        least: &'static str,
        most: &'static str,
    },
    /// 0, or a power of two.
    PowerOfTwo { max: i64 },
    /// 0 and 1.
    Switch,
    /// CPUs, written as a hexadecimal mask.
    Mask,
    /// CPUs, written as a list.
    List,
    /// Something of its own.
    Own(&'static str),
}

impl Values {
    /// For a person.
    pub(crate) fn takes(self) -> String {
        match self {
            Self::Offered(_) | Self::Marked => "one of the words that the kernel lists".to_owned(),
            Self::Number { min, max } => format!("a number, {min} to {max}"),
            Self::NumberOr { word, min, max } => format!("`{word}` or a number, {min} to {max}"),
            Self::Between { .. } => {
                "a number within the limits of the hardware, `min` or `max`".to_owned()
            }
            Self::PowerOfTwo { max } => format!("0, or a power of two up to {max}"),
            Self::Switch => "`on` or `off`".to_owned(),
            Self::Mask | Self::List => {
                "CPUs: a list, `all`, `housekeeping` or `measured`".to_owned()
            }
            Self::Own(text) => text.to_owned(),
        }
    }

    /// The value within a file's text.
    pub(crate) fn normal(self, text: &str) -> String {
        match self {
            Self::Marked => marked(text).unwrap_or(text).to_owned(),
            _ => text.to_owned(),
        }
    }

    pub(crate) fn offered(
        self,
        site: &Site<'_>,
        knob: &Knob,
        instance: &str,
    ) -> Result<Option<Vec<String>>, TuneError> {
        let path = match self {
            Self::Marked => knob.file(site, instance)?,
            Self::Offered(file) => beside(site, knob, instance, file)?,
            _ => return Ok(None),
        };
        match site.files.read(&path) {
            Ok(text) => Ok(Some(
                text.split_whitespace()
                    .map(|word| word.trim_matches(['[', ']', '(', ')']).to_owned())
                    .collect(),
            )),
            Err(source) => Err(TuneError::Read { path, source }),
        }
    }

    /// The text to be written for what a person asked.
    pub(crate) fn resolve(
        self,
        knob: &Knob,
        site: &Site<'_>,
        instance: &str,
        asked: &str,
        context: &Context,
    ) -> Result<String, TuneError> {
        let invalid = || TuneError::Invalid {
            setting: knob.setting(instance),
            value: asked.to_owned(),
            expected: format!("it takes {}", self.takes()),
        };
        let switch = match asked {
            "on" | "true" | "yes" | "1" => Some(true),
            "off" | "false" | "no" | "0" => Some(false),
            _ => None,
        };
        match self {
            Self::Offered(_) | Self::Marked => {
                knob.check(site, instance, asked)?;
                Ok(asked.to_owned())
            }
            Self::Switch => {
                switch.map_or_else(|| Err(invalid()), |on| Ok(u8::from(on).to_string()))
            }
            Self::NumberOr { word, .. } if asked == word => Ok(word.to_owned()),
            Self::Number { min, max } | Self::NumberOr { min, max, .. } => match asked.parse() {
                Ok(number) if (min..=max).contains(&number) => Ok(number.to_string()),
                _ => Err(invalid()),
            },
            Self::PowerOfTwo { max } => match asked.parse::<i64>() {
                Ok(0) => Ok("0".to_owned()),
                Ok(number) if (1..=max).contains(&number) && number.count_ones() == 1 => {
                    Ok(number.to_string())
                }
                _ => Err(invalid()),
            },
            Self::Between { least, most } => {
                let limit = |file| number(site, knob, instance, file);
                let (least, most) = (limit(least)?, limit(most)?);
                match asked {
                    "min" => Ok(least.to_string()),
                    "max" => Ok(most.to_string()),
                    _ => match asked.parse() {
                        Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
                        _ => Err(TuneError::Invalid {
                            setting: knob.setting(instance),
                            value: asked.to_owned(),
                            expected: format!(
                                "it takes a number from {least} to {most}, `min` or `max`"
                            ),
                        }),
                    },
                }
            }
            Self::Mask => Ok(mask(&context.cpus(&knob.setting(instance), asked)?)),
            Self::List => Ok(context.cpus(&knob.setting(instance), asked)?.to_string()),
            Self::Own(_) => Err(invalid()),
        }
    }

    /// Whether this text can have been read of such a setting; which words the
    /// kernel lists is not looked at.
    pub(crate) fn holds(self, value: &str) -> bool {
        let within = |min: i64, max: i64| {
            let number = value.parse::<i64>();
            number.is_ok_and(|number| (min..=max).contains(&number))
        };
        match self {
            Self::Offered(_) | Self::Marked => {
                !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic())
            }
            Self::Number { min, max } => within(min, max),
            Self::NumberOr { word, min, max } => value == word || within(min, max),
            Self::PowerOfTwo { max } => within(0, max),
            // Some switches have more than two positions.
            Self::Between { .. } | Self::Switch => within(0, i64::MAX),
            Self::Mask => unmask(value).is_some(),
            Self::List => value.parse::<CpuSet>().is_ok(),
            Self::Own(_) => false,
        }
    }

    pub(crate) fn same(self, found: &str, wanted: &str) -> bool {
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

    pub(crate) fn readable(self, value: &str) -> String {
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

/// The word in brackets or parentheses.
fn marked(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| {
        let square = word.strip_prefix('[').and_then(|w| w.strip_suffix(']'));
        square.or_else(|| word.strip_prefix('(')?.strip_suffix(')'))
    })
}

/// The file beside an instance's own that says what it takes.
fn beside(
    site: &Site<'_>,
    knob: &Knob,
    instance: &str,
    file: &'static str,
) -> Result<std::path::PathBuf, TuneError> {
    let path = match knob.place {
        Place::Each(_) => Pattern(file).path(instance),
        _ => Some(file.to_owned()),
    };
    path.map(|path| site.below(&path))
        .ok_or_else(|| TuneError::NoInstance {
            setting: knob.setting(instance),
            there: "no such name is possible".to_owned(),
        })
}

fn number(
    site: &Site<'_>,
    knob: &Knob,
    instance: &str,
    file: &'static str,
) -> Result<i64, TuneError> {
    let path = beside(site, knob, instance, file)?;
    let text = match site.files.read(&path) {
        Ok(text) => text,
        Err(source) => return Err(TuneError::Read { path, source }),
    };
    text.trim().parse().map_err(|_| TuneError::Invalid {
        setting: knob.setting(instance),
        value: text.trim().chars().take(40).collect(),
        expected: format!("{} should hold a number", path.display()),
    })
}

/// A mask as the kernel writes it: 32 bits a group, the highest first.
pub(crate) fn mask(cpus: &CpuSet) -> String {
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

/// The CPUs of a mask.
pub(crate) fn unmask(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    // 8192 CPUs are 256 groups.
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
    fn words_stand_for_cpus() {
        let context = Context {
            online: "0-7".parse().unwrap(),
            measured: Some("2-3".parse().unwrap()),
            leaving: "4-7".parse().unwrap(),
        };
        let cpus = |text: &str| context.cpus("x", text).map(|cpus| cpus.to_string());
        assert_eq!(cpus("all").unwrap(), "0-3");
        assert_eq!(cpus("housekeeping").unwrap(), "0-1");
        assert_eq!(cpus("measured").unwrap(), "2-3");
        assert_eq!(cpus("1,5").unwrap(), "1,5");
        assert!(cpus("8").unwrap_err().to_string().contains("not online"));
        assert!(cpus("2-").is_err());
        let none = Context::default();
        let error = none.cpus("x", "housekeeping").unwrap_err();
        assert!(error.to_string().contains("--cpus"), "{error}");
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
}
