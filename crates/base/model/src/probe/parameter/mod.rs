//! Parameters of probes and loads, described by tables.
//!
//! A table of [`Parameter`] is the only definition of the parameters. The command line, its help,
//! the documentation pages and the checks all use it. [`Arguments`] holds the checked values. The
//! macro [`parameters!`](crate::parameters) creates the table, and a constant for each parameter
//! that reads its value.

mod typed;

pub use typed::{Typed, Value as ParameterValue};

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Nanos;

/// One parameter of a probe or a load.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name of the parameter, as it is written after `--` and in JSON (with `_` instead of `-`, and
    /// with `_ns` at the end for a duration).
    pub name: &'static str,
    /// Its short option, if it has one.
    pub short: Option<char>,
    /// The values that the parameter accepts.
    pub kind: ParameterKind,
    /// The default. `None` if the parameter is optional without a default.
    pub default: Option<&'static str>,
    /// One sentence for the help.
    pub help: &'static str,
    /// Whether only the options of an older tool set it. `punctual measure` has no such option.
    pub of_older_tools: bool,
}

impl Parameter {
    /// Name of the parameter for the time from one period to the next, in every probe that has such
    /// a parameter. A run derives its length and the density of its events from this time.
    pub const INTERVAL: &'static str = "interval";

    /// Name of the parameter for the number of periods after which a probe ends.
    pub const PERIODS: &'static str = "loops";

    /// Name of the parameter for the number of wake-ups after which a probe ends.
    pub const WAKEUPS: &'static str = "wakeups";
}

/// The values that a parameter accepts.
#[derive(Clone, Copy, Debug)]
pub enum ParameterKind {
    /// A duration between these limits (inclusive), in ns.
    Duration {
        /// The shortest.
        min: Nanos,
        /// The longest.
        max: Nanos,
    },
    /// A whole number between these limits (inclusive).
    Count {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// A word from this list, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
    /// A flag without a value.
    Flag,
    /// Any text that is not empty.
    Text,
}

/// The checked values of all parameters of one probe or load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments(BTreeMap<&'static str, Argument>);

#[derive(Clone, Debug, PartialEq)]
enum Argument {
    Duration(Nanos),
    Count(u64),
    Choice(&'static str),
    Flag(bool),
    Text(String),
}

/// An invalid value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// The text is not a value of this kind.
    #[error("{name}: {reason}")]
    Unreadable {
        /// The parameter.
        name: &'static str,
        /// Description of the error, with the value.
        reason: String,
    },
    /// The value is outside the limits.
    #[error("{name}: {value} is outside the range {min} to {max}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// The value.
        value: String,
        /// The smallest allowed.
        min: String,
        /// The largest allowed.
        max: String,
    },
    /// The parameter does not exist.
    #[error("unknown parameter '{name}': use one of {known}")]
    NoSuchParameter {
        /// The name that was given.
        name: String,
        /// The existing parameters.
        known: String,
    },
    /// A required parameter is missing.
    #[error("{name} must be given: {help}")]
    Required {
        /// The parameter.
        name: &'static str,
        /// Its help text.
        help: &'static str,
    },
}

impl Parameter {
    /// Returns whether the value is the period of a loop, which can also be given as a frequency.
    pub fn is_period(&self) -> bool {
        matches!(self.kind, ParameterKind::Duration { .. })
            && [Self::INTERVAL, "period"].contains(&self.name)
    }

    /// Returns the key in a recording: `interval_ns`, `wait`.
    pub fn key(&self) -> String {
        let name = self.name.replace('-', "_");
        match self.kind {
            ParameterKind::Duration { .. } => format!("{name}_ns"),
            _ => name,
        }
    }

    fn read(&self, text: &str) -> Result<Argument, ArgumentError> {
        let name = self.name;
        let unreadable = |reason: String| ArgumentError::Unreadable { name, reason };
        match self.kind {
            ParameterKind::Duration { min, max } => {
                let value = if self.is_period() {
                    Nanos::from_period(text)
                } else {
                    text.parse()
                };
                let value = value.map_err(|error| unreadable(error.to_string()))?;
                in_range(name, value, min, max).map(Argument::Duration)
            }
            ParameterKind::Count { min, max } => {
                let value: u64 = text
                    .parse()
                    .map_err(|_| unreadable(format!("'{text}' is not a whole number")))?;
                in_range(name, value, min, max).map(Argument::Count)
            }
            ParameterKind::Choice(choices) => choices
                .iter()
                .find(|(word, _)| *word == text)
                .map(|(word, _)| Argument::Choice(word))
                .ok_or_else(|| {
                    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                    unreadable(format!("'{text}' is not one of {}", words.join(", ")))
                }),
            ParameterKind::Flag => match text {
                "true" | "yes" | "on" | "" => Ok(Argument::Flag(true)),
                "false" | "no" | "off" => Ok(Argument::Flag(false)),
                _ => Err(unreadable(format!("'{text}' is neither yes nor no"))),
            },
            ParameterKind::Text if text.trim().is_empty() => {
                Err(unreadable("nothing was given".to_owned()))
            }
            ParameterKind::Text => Ok(Argument::Text(text.to_owned())),
        }
    }
}

fn in_range<T: PartialOrd + ToString>(
    name: &'static str,
    value: T,
    min: T,
    max: T,
) -> Result<T, ArgumentError> {
    if value < min || value > max {
        return Err(ArgumentError::OutOfRange {
            name,
            value: value.to_string(),
            min: min.to_string(),
            max: max.to_string(),
        });
    }
    Ok(value)
}

impl Arguments {
    /// Checks the `given` pairs of name and text against the table and fills in the defaults.
    ///
    /// # Errors
    /// Fails for an unknown name, or a value that the parameter does not accept.
    pub fn check<'a>(
        parameters: &'static [Parameter],
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ArgumentError> {
        let mut values = BTreeMap::new();
        for (name, text) in given {
            let parameter = parameters
                .iter()
                .find(|parameter| parameter.name == name)
                .ok_or_else(|| ArgumentError::NoSuchParameter {
                    name: name.to_owned(),
                    known: parameters
                        .iter()
                        .filter(|known| !known.of_older_tools)
                        .map(|known| known.name)
                        .collect::<Vec<_>>()
                        .join(", "),
                })?;
            values.insert(parameter.name, parameter.read(text)?);
        }
        for parameter in parameters {
            if let (false, Some(default)) = (values.contains_key(parameter.name), parameter.default)
            {
                values.insert(parameter.name, parameter.read(default)?);
            }
        }
        Ok(Self(values))
    }

    /// Returns the value of a duration parameter.
    pub fn duration(&self, name: &str) -> Option<Nanos> {
        match self.0.get(name)? {
            Argument::Duration(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the value of a count parameter.
    pub fn count(&self, name: &str) -> Option<u64> {
        match self.0.get(name)? {
            Argument::Count(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the time from one period to the next, if the probe has one.
    pub fn interval(&self) -> Option<Nanos> {
        self.duration(Parameter::INTERVAL)
    }

    /// Returns the number of periods or wake-ups after which the run ends, if requested.
    pub fn periods(&self) -> Option<u64> {
        (self.count(Parameter::PERIODS)).or_else(|| self.count(Parameter::WAKEUPS))
    }

    /// Returns the value of a choice parameter.
    pub fn choice(&self, name: &str) -> Option<&'static str> {
        match self.0.get(name)? {
            Argument::Choice(word) => Some(word),
            _ => None,
        }
    }

    /// Returns whether a flag parameter is set.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Argument::Flag(true)))
    }

    /// Returns the value of a text parameter.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            Argument::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns all values as stored in a recording: durations are integers under keys that end in
    /// `_ns`.
    pub fn to_json(&self, parameters: &[Parameter]) -> BTreeMap<String, Value> {
        parameters
            .iter()
            .filter_map(|parameter| {
                let value = match self.0.get(parameter.name)? {
                    Argument::Duration(value) => value.0.into(),
                    Argument::Count(value) => (*value).into(),
                    Argument::Choice(word) => (*word).into(),
                    Argument::Flag(set) => (*set).into(),
                    Argument::Text(text) => text.clone().into(),
                };
                Some((parameter.key(), value))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: std::ops::RangeInclusive<Nanos> = Nanos::from_micros(10)..=Nanos::from_secs(10);

    crate::parameters! {
        INTERVAL: Nanos = Typed::duration("interval", "", RANGE).short('i').or("1ms");
        LOOPS: Option<u64> = Typed::count("loops", "", 1..=9);
        WAIT: &'static str = Typed::choice("wait-mode", "", &[("sleep", ""), ("signal", "")]).or("sleep");
        ALIGNED: bool = Typed::flag("aligned", "");
        FILE: Option<String> = Typed::text("file", "");
    }
    use PARAMETERS as TABLE;

    #[test]
    fn defaults_fill_what_was_not_given() {
        let arguments = Arguments::check(TABLE, [("aligned", "")]).unwrap();
        assert_eq!(INTERVAL.parameter.short, Some('i'));
        assert_eq!(INTERVAL.value_in(&arguments), Nanos::from_millis(1));
        assert_eq!(LOOPS.value_in(&arguments), None);
        assert_eq!(WAIT.value_in(&arguments), "sleep");
        assert!(ALIGNED.value_in(&arguments));
        assert_eq!(FILE.value_in(&arguments), None);
        assert_eq!(
            serde_json::to_value(arguments.to_json(TABLE)).unwrap(),
            serde_json::json!({"interval_ns": 1_000_000, "wait_mode": "sleep", "aligned": true})
        );
    }

    #[test]
    fn what_was_given_has_its_type() {
        let given = [("interval", "2ms"), ("loops", "3"), ("file", "a b")];
        let arguments = Arguments::check(TABLE, given).unwrap();
        assert_eq!(INTERVAL.value_in(&arguments), Nanos::from_millis(2));
        assert_eq!(LOOPS.value_in(&arguments), Some(3));
        assert!(!ALIGNED.value_in(&arguments));
        assert_eq!(FILE.value_in(&arguments).as_deref(), Some("a b"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |name: &'static str, text: &'static str| {
            Arguments::check(TABLE, [(name, text)])
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("interval", "0s"),
            "interval: 0 ns is outside the range 10.0 µs to 10.0 s"
        );
        assert_eq!(error("loops", "ten"), "loops: 'ten' is not a whole number");
        assert_eq!(
            error("loops", "10"),
            "loops: 10 is outside the range 1 to 9"
        );
        assert_eq!(
            error("wait-mode", "spin"),
            "wait-mode: 'spin' is not one of sleep, signal"
        );
        assert_eq!(
            error("aligned", "maybe"),
            "aligned: 'maybe' is neither yes nor no"
        );
        assert!(error("color", "red").contains("unknown parameter 'color'"));
    }
}
