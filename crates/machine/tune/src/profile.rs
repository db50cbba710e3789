//! Profiles: named sets of settings and boot parameters, in TOML.

use std::ops::Range;
use std::path::Path;

use punctual_files::{Budget, FileError, trusted};
use punctual_model::{Remedy, Role, RoleError, Setting, boot_parameter};
use toml::de::{DeTable, DeValue};

use crate::setting::nearest;
use crate::{TuneError, setting};

/// A built-in profile.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Name.
    pub name: &'static str,
    /// Text, which users can copy and edit.
    pub text: &'static str,
}

/// The built-in profiles.
pub const PROFILES: &[BuiltIn] = &[
    BuiltIn {
        name: "audio",
        text: include_str!("../profiles/audio.toml"),
    },
    BuiltIn {
        name: "control",
        text: include_str!("../profiles/control.toml"),
    },
    BuiltIn {
        name: "low-latency",
        text: include_str!("../profiles/low-latency.toml"),
    },
    BuiltIn {
        name: "network",
        text: include_str!("../profiles/network.toml"),
    },
    BuiltIn {
        name: "throughput-off",
        text: include_str!("../profiles/throughput-off.toml"),
    },
];

/// Maximum size of a profile. A profile with a few settings needs a few hundred bytes.
const LARGEST: u64 = 1 << 20;

/// The position of a wish in a file.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    file: String,
    line: usize,
    column: usize,
    text: String,
    width: usize,
}

impl Spot {
    pub(crate) fn new(file: &str, whole: &str, span: Range<usize>) -> Self {
        let start = (0..=span.start.min(whole.len()))
            .rev()
            .find(|place| whole.is_char_boundary(*place))
            .unwrap_or(0);
        let before = &whole[..start];
        let begins = before.rfind('\n').map_or(0, |place| place + 1);
        let text = whole[begins..].lines().next().unwrap_or_default();
        let column = before[begins..].chars().count() + 1;
        let wide = whole.get(span).map_or(1, |part| {
            part.lines().next().unwrap_or_default().chars().count()
        });
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column,
            text: text.to_owned(),
            width: wide.max(1),
        }
    }

    /// Creates an error that points to this position.
    pub(crate) fn error(&self, message: impl Into<String>) -> TuneError {
        TuneError::Profile {
            file: self.file.clone(),
            line: self.line,
            column: self.column,
            message: message.into(),
            text: self.text.clone(),
            marker: format!("{}{}", " ".repeat(self.column - 1), "^".repeat(self.width)),
        }
    }
}

/// A request for one setting.
#[derive(Clone, Debug)]
pub struct Wish {
    pub(crate) setting: &'static Setting,
    /// Name of the instance; `None` for all instances.
    pub(crate) selector: Option<String>,
    pub(crate) value: String,
    /// Position in a profile; `None` if the wish is from the command line.
    pub(crate) spot: Option<Spot>,
    /// Whether the setting may be left out, with a reason, if the machine does not have the setting
    /// or its kernel refuses it.
    pub(crate) lenient: bool,
}

impl Wish {
    /// Parses `setting=value` or `setting@instance=value`.
    ///
    /// # Errors
    /// Returns [`TuneError::NoSuchSetting`], or [`TuneError::Invalid`] if there is no `=`.
    pub fn parse(text: &str) -> Result<Self, TuneError> {
        let (name, value) = text.split_once('=').ok_or_else(|| TuneError::Invalid {
            setting: "--set".to_owned(),
            value: text.to_owned(),
            expected: "use setting=value or setting@instance=value".to_owned(),
        })?;
        Self::new(name.trim(), value.trim().to_owned(), None)
    }

    /// Creates a wish from a remedy of the audit. The plan leaves the wish out if it is not
    /// possible.
    ///
    /// # Errors
    /// Returns the errors of [`parse`](Self::parse).
    pub fn of_remedy(remedy: &Remedy) -> Result<Self, TuneError> {
        Ok(Self::parse(&remedy.assignment())?.lenient())
    }

    /// Allows the plan to leave the wish out, with a reason, if it is not possible.
    #[must_use]
    pub fn lenient(self) -> Self {
        Self {
            lenient: true,
            ..self
        }
    }

    /// Returns the setting.
    pub fn setting(&self) -> &'static Setting {
        self.setting
    }

    fn new(name: &str, value: String, spot: Option<Spot>) -> Result<Self, TuneError> {
        let (name, selector) = match name.split_once('@') {
            Some((name, selector)) => (name, Some(selector.to_owned())),
            None => (name, None),
        };
        let setting = setting(name)?;
        match &selector {
            Some(selector) if setting.instance_form().is_none() => Err(TuneError::NoInstance {
                setting: format!("{name}@{selector}"),
                there: format!("{name} applies to the whole machine"),
            }),
            _ => Ok(Self {
                setting,
                selector,
                value,
                lenient: spot.is_some(),
                spot,
            }),
        }
    }

    /// Returns whether an invalid wish is left out instead of stopping the plan. An invalid wish
    /// that a user wrote stops the plan, because mistakes in the user's text should be shown.
    pub(crate) fn is_loose(&self) -> bool {
        self.lenient && self.spot.is_none()
    }

    /// Returns the error with a pointer to the profile's line.
    pub(crate) fn placed(&self, error: TuneError) -> TuneError {
        match &self.spot {
            Some(spot) => spot.error(error.to_string()),
            None => error,
        }
    }
}

/// A parameter of the kernel's command line, before `{measured}` and `{housekeeping}` are
/// substituted.
#[derive(Clone, Debug)]
pub(crate) struct BootWish {
    pub(crate) key: String,
    /// `None` for a word without a value.
    pub(crate) value: Option<String>,
}

/// A named set of settings and boot parameters.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Name of the built-in profile or of the file.
    pub name: String,
    /// Purpose, in one sentence.
    pub summary: String,
    pub(crate) settings: Vec<Wish>,
    pub(crate) boot: Vec<BootWish>,
}

impl Profile {
    /// Returns the built-in profile with that name. If there is none, reads the profile from the
    /// file with that path.
    ///
    /// # Errors
    /// Returns [`TuneError::NoProfile`], or [`TuneError::Profile`] with line and column.
    pub fn find(name: &str) -> Result<Self, TuneError> {
        if let Some(built_in) = PROFILES.iter().find(|profile| profile.name == name) {
            return Self::parse(built_in.name, built_in.text);
        }
        let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
        let missing = |why: String| TuneError::NoProfile {
            name: name.to_owned(),
            why: match nearest(name, &names) {
                Some(near) => format!("{why} (did you mean '{near}'?)"),
                None => why,
            },
            known: names.join(", "),
        };
        let path = Path::new(name);
        // Root may apply only profiles that root wrote.
        let read = if rustix::process::geteuid().is_root() {
            trusted::text(path, LARGEST)
        } else {
            Budget::bytes(LARGEST).read_text(path)
        };
        match read {
            Ok(text) => Self::parse(name, &text),
            Err(FileError::Refused { why, .. }) => Err(TuneError::Untrusted {
                path: path.to_owned(),
                why,
            }),
            Err(error) => Err(missing(format!("no file can be read ({})", error.reason()))),
        }
    }

    /// Parses the text of a profile.
    ///
    /// # Errors
    /// Returns [`TuneError::Profile`] with line and column.
    pub fn parse(name: &str, text: &str) -> Result<Self, TuneError> {
        let spot = |span: Range<usize>| Spot::new(name, text, span);
        let table = DeTable::parse(text)
            .map_err(|error| spot(error.span().unwrap_or(0..0)).error(error.message()))?;
        let mut profile = Self {
            name: name.to_owned(),
            summary: String::new(),
            settings: Vec::new(),
            boot: Vec::new(),
        };
        let role = read_role(table.get_ref(), &spot)?;
        for (key, value) in table.get_ref() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("summary", DeValue::String(summary)) => profile.summary = summary.to_string(),
                // The role was already read before the settings, regardless of its position in the
                // file.
                ("role", _) => {}
                ("settings", DeValue::Table(settings)) => {
                    profile.settings = read_settings(settings, role, &spot)?;
                }
                ("boot", DeValue::Table(boot)) => profile.boot = read_boot(boot, &spot)?,
                ("summary", _) => {
                    return Err(spot(value.span()).error("the summary must be a text in quotes"));
                }
                (table @ ("settings" | "boot"), _) => {
                    return Err(spot(key.span()).error(format!(
                        "this is a table: write [{table}] on a separate line"
                    )));
                }
                (other, _) => {
                    let near = match nearest(other, &["summary", "role", "settings", "boot"]) {
                        Some(near) => format!("did you mean '{near}'?"),
                        None => {
                            "a profile can have summary, role, [settings] and [boot]".to_owned()
                        }
                    };
                    return Err(spot(key.span()).error(format!("there is no '{other}': {near}")));
                }
            }
        }
        Ok(profile)
    }

    /// Creates a profile from wishes, such as those of an audit.
    pub fn of_wishes(name: &str, settings: Vec<Wish>) -> Self {
        Self {
            name: name.to_owned(),
            summary: String::new(),
            settings,
            boot: Vec::new(),
        }
    }

    /// Returns the number of settings.
    pub fn len(&self) -> usize {
        self.settings.len()
    }

    /// Returns whether the profile names no settings.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }
}

/// Converts a plain value to text. Returns `None` for tables, lists, dates and fractions.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number.to_string()),
        DeValue::Boolean(on) => Some(if *on { "on" } else { "off" }.to_owned()),
        _ => None,
    }
}

/// Reads the role of the machine, which determines the values for `recommended`.
fn read_role(table: &DeTable<'_>, spot: &dyn Fn(Range<usize>) -> Spot) -> Result<Role, TuneError> {
    let Some(value) = table.get("role") else {
        return Ok(Role::default());
    };
    let wrong = |why: String| spot(value.span()).error(why);
    match value.get_ref() {
        DeValue::String(name) => name
            .parse()
            .map_err(|error: RoleError| wrong(error.to_string())),
        _ => Err(wrong("a role must be a text in quotes".to_owned())),
    }
}

/// Word in a profile that selects the recommended value from the table of settings.
const RECOMMENDED: &str = "recommended";

fn read_settings(
    table: &DeTable<'_>,
    role: Role,
    spot: &dyn Fn(Range<usize>) -> Spot,
) -> Result<Vec<Wish>, TuneError> {
    let mut wishes = Vec::new();
    for (key, value) in table {
        let place = spot(value.span());
        let text = plain(value.get_ref()).ok_or_else(|| {
            place.error(
                "the value of a setting must be a text in quotes, a whole number, true or false",
            )
        })?;
        let wish = Wish::new(key.get_ref(), text, Some(place.clone()));
        let mut wish = wish.map_err(|error| spot(key.span()).error(error.to_string()))?;
        if wish.value == RECOMMENDED {
            let wanted = wish.setting.wanted_for(role).ok_or_else(|| {
                place.error(format!("no value is recommended for the role {role}"))
            })?;
            wish.value = wanted.to_owned();
        }
        wishes.push(wish);
    }
    Ok(wishes)
}

fn read_boot(
    table: &DeTable<'_>,
    spot: &dyn Fn(Range<usize>) -> Spot,
) -> Result<Vec<BootWish>, TuneError> {
    let mut arguments: Vec<(usize, BootWish)> = Vec::new();
    for (key, value) in table {
        let good = |text: &str| !text.contains(|c: char| c.is_whitespace() || c == '"');
        let name = key.get_ref();
        if name.is_empty() || !good(name) || name.contains('=') {
            return Err(
                spot(key.span()).error("this is not an argument of the kernel's command line")
            );
        }
        let value_text = match value.get_ref() {
            DeValue::Boolean(true) => None,
            other => Some(plain(other).filter(|text| good(text)).ok_or_else(|| {
                spot(value.span())
                    .error("a boot argument must be a text without spaces, a whole number, or true")
            })?),
        };
        let value = match value_text.as_deref() {
            Some(RECOMMENDED) => {
                let row = boot_parameter(name).ok_or_else(|| {
                    spot(value.span()).error("no value is recommended for this argument")
                })?;
                Some(row.value.to_owned()).filter(|value| !value.is_empty())
            }
            _ => value_text,
        };
        let wish = BootWish {
            key: name.to_string(),
            value,
        };
        arguments.push((key.span().start, wish));
    }
    arguments.sort_by_key(|(place, _)| *place);
    Ok(arguments.into_iter().map(|(_, wish)| wish).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn built_in_profiles_are_sound() {
        for built_in in PROFILES {
            let profile = Profile::find(built_in.name).unwrap();
            assert!(!profile.summary.is_empty(), "{}", built_in.name);
            assert!(!profile.is_empty() || !profile.boot.is_empty());
        }
    }

    #[test]
    fn what_is_recommended_follows_the_role() {
        let value = |role: &str, name: &str| {
            let text = format!("{role}\n[settings]\n{name} = \"recommended\"\n");
            Profile::parse("x", &text).map(|profile| profile.settings[0].value.clone())
        };
        assert_eq!(value("", "swappiness").unwrap(), "10");
        assert_eq!(value("role = \"telco\"", "timer-migration").unwrap(), "on");
        assert_eq!(value("", "timer-migration").unwrap(), "off");
        let none = value("", "freq-max").unwrap_err().to_string();
        assert!(none.contains("no value is recommended"), "{none}");
        let boot = |name: &str| {
            let text = format!("[boot]\n{name} = \"recommended\"\n");
            Profile::parse("x", &text).map(|profile| profile.boot[0].value.clone())
        };
        assert_eq!(boot("rcu_nocbs").unwrap().unwrap(), "{measured}");
        assert_eq!(boot("threadirqs").unwrap(), None);
        let none = boot("quiet").unwrap_err().to_string();
        assert!(none.contains("no value is recommended"), "{none}");
        for wrong in ["role = \"cook\"", "role = 3"] {
            let error = value(wrong, "swappiness").unwrap_err().to_string();
            assert!(error.starts_with("x:1:8: "), "{error}");
        }
    }

    #[test]
    fn built_in_profiles_repeat_no_recommended_value() {
        for built_in in PROFILES {
            let table = DeTable::parse(built_in.text).unwrap();
            let spot = |span: Range<usize>| Spot::new("x", built_in.text, span);
            let role = read_role(table.get_ref(), &spot).unwrap();
            let settings = table.get_ref().get("settings").unwrap().get_ref();
            let DeValue::Table(settings) = settings else {
                panic!("no table");
            };
            for (name, value) in settings {
                let row = setting(name.get_ref()).unwrap();
                let written = |value: &str| row.values.plain(value).unwrap_or(value.to_owned());
                let stated = written(&plain(value.get_ref()).unwrap());
                let again = row.wanted_for(role).map(written) == Some(stated);
                assert!(!again, "{}: {}", built_in.name, row.name);
            }
            let profile = Profile::parse(built_in.name, built_in.text).unwrap();
            for wish in &profile.boot {
                let stated = format!("{} = \"recommended\"", wish.key);
                let known = boot_parameter(&wish.key).is_some();
                assert!(!known || built_in.text.contains(&stated), "{}", wish.key);
            }
        }
    }

    #[test]
    fn a_typo_is_pointed_at() {
        let message = |text: &str| Profile::parse("mine.toml", text).unwrap_err().to_string();
        insta::assert_snapshot!(message("summary = \"x\"\n[settings]\n  swapiness = 10\n"), @r"
        mine.toml:3:3: unknown setting 'swapiness': did you mean 'swappiness'?
            swapiness = 10
            ^^^^^^^^^
        ");
        insta::assert_snapshot!(message("[setings]\ngovernor = \"performance\"\n"), @r"
        mine.toml:1:2: there is no 'setings': did you mean 'settings'?
          [setings]
           ^^^^^^^
        ");
        insta::assert_snapshot!(message("[settings]\ngovernor = performance\n"), @r"
        mine.toml:2:12: string values must be quoted, expected literal string
          governor = performance
                     ^^^^^^^^^^^
        ");
        insta::assert_snapshot!(message("[settings]\nthp = [1]\n"), @r"
        mine.toml:2:7: the value of a setting must be a text in quotes, a whole number, true or false
          thp = [1]
                ^^^
        ");
        insta::assert_snapshot!(message("[settings]\nthp = \"never\"\nthp = \"always\"\n"), @r#"
        mine.toml:3:1: duplicate key
          thp = "always"
          ^^^
        "#);
        insta::assert_snapshot!(message("[boot]\nisolcpus = \"2, 3\"\n"), @r#"
        mine.toml:2:12: a boot argument must be a text without spaces, a whole number, or true
          isolcpus = "2, 3"
                     ^^^^^^
        "#);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\[settings\\]\n)?[ -~\né]{0,80}") {
            let _ = Profile::parse("x", &text).map_err(|error| error.to_string());
            let _ = Wish::parse(&text).map_err(|error| error.to_string());
        }
    }
}
