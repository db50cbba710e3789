//! Variables and functions in the values of a profile of TuneD.
//!
//! TuneD replaces variables from the first to the last definition. A variable that is not defined
//! stays as text. Functions that need the machine, or run a program, are not computed.

use std::collections::BTreeMap;

use punctual_model::{CpuSet, mask, unmask};
use regex_lite::Regex;

/// Stands for the isolated CPUs as a list, which are those of `--cpus`. A file cannot contain these
/// characters, because the parser refuses control characters.
pub(super) const MEASURED: char = '\u{1}';
/// Stands for all other CPUs, as a list.
pub(super) const OTHERS: char = '\u{2}';
/// Stands for the isolated CPUs as a mask.
pub(super) const MEASURED_MASK: char = '\u{3}';
/// Stands for all other CPUs, as a mask.
pub(super) const OTHERS_MASK: char = '\u{4}';
/// Surrounds the number of the reason why a part of the text is unknown.
const UNKNOWN: char = '\u{5}';

/// The variable that names the isolated CPUs in TuneD's profiles.
pub(super) const ISOLATED: &str = "isolated_cores";

/// Maximum size of a value in bytes. Without a limit, variables that contain each other twice
/// would grow exponentially.
const LONGEST: usize = 1 << 12;

/// Maximum size of all values together.
const LARGEST_SUM: usize = 1 << 23;

/// The variables of a profile.
#[derive(Default)]
pub(super) struct Variables {
    values: BTreeMap<String, String>,
    /// The isolated CPUs, if the profile contains them as a list.
    pub(super) isolated: Option<CpuSet>,
    /// Reasons why parts of texts are unknown.
    reasons: Vec<String>,
    /// The size of all texts that were expanded.
    expanded: usize,
}

impl Variables {
    /// Defines a variable.
    ///
    /// # Errors
    /// Returns the reason if the value is not known.
    pub(super) fn define(&mut self, name: &str, value: &str) -> Result<(), String> {
        let value = self.expand(value);
        // A variable that contains undefined variables is an error only if it is used.
        let known = if value.contains(UNKNOWN) {
            self.known(&value).map(drop)
        } else {
            Ok(())
        };
        if name == ISOLATED {
            let is_undefined = value == format!("${{{ISOLATED}}}");
            if let Ok(cpus) = value.parse::<CpuSet>() {
                self.isolated = Some(cpus).filter(|cpus| !cpus.is_empty());
            }
            if known.is_err() || self.isolated.is_some() {
                self.values.insert(name.to_owned(), MEASURED.to_string());
            } else if !is_undefined {
                self.values.insert(name.to_owned(), value);
            }
            return known;
        }
        self.values.insert(name.to_owned(), value);
        known
    }

    /// Returns the text with all variables and functions replaced. Parts that are not known contain
    /// a reference to the reason.
    pub(super) fn expand(&mut self, text: &str) -> String {
        let mut done = String::new();
        // The texts of the open `${`, each up to the next inner one.
        let mut open: Vec<String> = Vec::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let is_inside = !open.is_empty();
            let target = open.last_mut().unwrap_or(&mut done);
            if target.len() > LONGEST || self.expanded > LARGEST_SUM {
                let limits = format!("{LONGEST} bytes, or all values more than {LARGEST_SUM}");
                return self.unknown(format!("the value has more than {limits}"));
            }
            if let Some(after) = rest.strip_prefix("\\${") {
                // The escaped text is not replaced. Its brace would otherwise close another one.
                let end = after.find('}').map_or(after.len(), |place| place + 1);
                target.push_str("${");
                target.push_str(&after[..end]);
                rest = &after[end..];
            } else if let Some(after) = rest.strip_prefix("${") {
                open.push(String::new());
                rest = after;
            } else if next == '}' && is_inside {
                let inner = open.pop().unwrap_or_default();
                let value = self.replaced(&inner);
                self.expanded = self.expanded.saturating_add(value.len());
                open.last_mut().unwrap_or(&mut done).push_str(&value);
                rest = &rest[1..];
            } else {
                target.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        if !open.is_empty() {
            return self.unknown("a '${' has no '}'".to_owned());
        }
        done
    }

    fn replaced(&mut self, inner: &str) -> String {
        let Some(call) = inner.strip_prefix("f:") else {
            return match self.values.get(inner) {
                Some(value) => value.clone(),
                None => format!("${{{inner}}}"),
            };
        };
        let mut arguments = arguments(call).into_iter();
        let name = arguments.next().unwrap_or_default();
        let arguments: Vec<String> = arguments.collect();
        // A function of an unknown value is unknown for the same reason.
        if let Some(unknown) = arguments.iter().find(|text| text.contains(UNKNOWN)) {
            let Err(reason) = self.known(unknown) else {
                return String::new();
            };
            return self.unknown(reason);
        }
        match self.computed(&name, &arguments) {
            Ok(value) => value,
            Err(reason) => self.unknown(reason),
        }
    }

    fn unknown(&mut self, reason: String) -> String {
        let place = self.reasons.iter().position(|known| *known == reason);
        let place = place.unwrap_or_else(|| {
            self.reasons.push(reason);
            self.reasons.len() - 1
        });
        format!("{UNKNOWN}{place}{UNKNOWN}")
    }

    /// Returns an expanded text if all of it is known.
    ///
    /// # Errors
    /// Returns the reason if a part of it is not.
    pub(super) fn known<'a>(&self, text: &'a str) -> Result<&'a str, String> {
        if let Some(place) = text.split(UNKNOWN).nth(1) {
            let reason = place
                .parse()
                .ok()
                .and_then(|at: usize| self.reasons.get(at));
            return Err(reason.cloned().unwrap_or_else(|| "unknown".to_owned()));
        }
        let undefined = text
            .split_once("${")
            .and_then(|(_, rest)| rest.split_once('}'));
        match undefined {
            Some((name, _)) => Err(format!("the variable {name} is not defined")),
            None => Ok(text),
        }
    }

    /// Computes a function whose value depends only on its arguments.
    fn computed(&self, name: &str, arguments: &[String]) -> Result<String, String> {
        let joined = arguments.join(",");
        let text = joined.trim();
        let needs_machine = || format!("the value of {name} is known only on the machine");
        let stands_for = |list: char, mask: char| {
            let is = |c: char| text.chars().eq([c]);
            is(list) || is(mask)
        };
        let measured = stands_for(MEASURED, MEASURED_MASK);
        let others = stands_for(OTHERS, OTHERS_MASK);
        let cpus = || {
            self.known(text)?;
            text.parse::<CpuSet>()
                .map_err(|error| format!("{name} of '{text}': {error}"))
        };
        match (name, measured, others) {
            ("strip", ..) => Ok(arguments.concat().trim().to_owned()),
            (
                "cpulist_unpack" | "cpulist_pack" | "cpulist_online" | "cpulist_present"
                | "cpulist2devs" | "hex2cpulist",
                true,
                _,
            )
            | ("cpulist_invert", _, true) => Ok(MEASURED.to_string()),
            (
                "cpulist_unpack" | "cpulist_pack" | "cpulist_online" | "cpulist_present"
                | "hex2cpulist",
                _,
                true,
            )
            | ("cpulist_invert", true, _) => Ok(OTHERS.to_string()),
            ("cpulist2hex", true, _) | ("cpulist2hex_invert", _, true) => {
                Ok(MEASURED_MASK.to_string())
            }
            ("cpulist2hex", _, true) | ("cpulist2hex_invert", true, _) => {
                Ok(OTHERS_MASK.to_string())
            }
            ("cpulist_unpack" | "cpulist_pack", ..) => cpus().map(|cpus| cpus.to_string()),
            ("cpulist2hex", ..) => cpus().map(|cpus| mask(&cpus)),
            ("hex2cpulist", ..) => unmask(text.trim_start_matches("0x"))
                .map(|cpus| cpus.to_string())
                .ok_or_else(|| format!("'{text}' is not a mask of CPUs")),
            ("regex_search_ternary", ..) => self.ternary(arguments),
            (
                "cpulist_online" | "cpulist_present" | "cpulist_invert" | "cpulist2hex_invert",
                ..,
            ) => Err(needs_machine()),
            _ => Err(format!("the function {name} is not run")),
        }
    }

    fn ternary(&self, arguments: &[String]) -> Result<String, String> {
        let [text, pattern, yes, no] = arguments else {
            return Err("regex_search_ternary needs four arguments".to_owned());
        };
        let mut text = text.clone();
        if text.contains([MEASURED, OTHERS, MEASURED_MASK, OTHERS_MASK]) {
            let cpus = self
                .isolated
                .as_ref()
                .filter(|_| text.chars().eq([MEASURED]));
            let cpus = cpus.ok_or_else(|| "the isolated CPUs are not known".to_owned())?;
            text = cpus.to_string();
        }
        let regex = Regex::new(pattern)
            .map_err(|_| format!("the regular expression '{pattern}' is not supported"))?;
        Ok(if regex.is_match(&text) { yes } else { no }.clone())
    }
}

/// Splits a call at each ':' that is not escaped.
fn arguments(call: &str) -> Vec<String> {
    let mut arguments = vec![String::new()];
    let mut rest = call.chars().peekable();
    while let Some(c) = rest.next() {
        if c == ':' {
            arguments.push(String::new());
        } else if let Some(last) = arguments.last_mut() {
            if c == '\\' && rest.peek() == Some(&':') {
                rest.next();
                last.push(':');
            } else {
                last.push(c);
            }
        }
    }
    arguments
}
