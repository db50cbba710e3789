//! The description of a tool: its entry.

use crate::{CompatError, Parsed, ToolContext};

/// The description of a tool that punctual replaces.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name, also of the link to punctual.
    pub name: &'static str,
    /// What it measures, as a phrase.
    pub summary: &'static str,
    /// The probe that measures.
    pub probe: &'static str,
    /// Its options, in the order of its help.
    pub options: &'static [OptionSpec],
    /// Options of older versions that are refused with advice.
    pub removed: &'static [Removed],
    /// Differences from the original in addition to those of all tools
    /// ([`COMMON`](crate::COMMON)).
    pub differences: &'static [Difference],
    /// Runs the tool and returns its exit status.
    pub run: fn(&Parsed, &mut ToolContext<'_>) -> Result<u8, CompatError>,
}

/// One option of getopt_long(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its letter, if any.
    pub short: Option<char>,
    /// Its long name, without the dashes; the key in the tool's code. Empty
    /// if there is only a letter.
    pub long: &'static str,
    /// Whether it takes a value.
    pub takes: Takes,
    /// Help text.
    pub help: &'static str,
}

impl OptionSpec {
    /// An option by its letter, its long name, its value and its help.
    pub const fn new(
        short: Option<char>,
        long: &'static str,
        takes: Takes,
        help: &'static str,
    ) -> Self {
        Self {
            short,
            long,
            takes,
            help,
        }
    }

    /// Its key: its long name, else its letter.
    pub fn key(&self) -> String {
        match self.short {
            Some(letter) if self.long.is_empty() => letter.to_string(),
            _ => self.long.to_owned(),
        }
    }
}

/// Whether an option takes a value, and the value's name in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No value.
    Nothing,
    /// Always one: `-i100`, `-i 100`, `--interval=100`, `--interval 100`.
    Required(&'static str),
    /// At most one: `-t5`, `--threads=5`. The next word does not belong to it
    /// by getopt's rules; some tools read it nevertheless
    /// ([`Given::next`](crate::Given::next)).
    Optional(&'static str),
}

/// Options of older versions.
#[derive(Clone, Copy, Debug)]
pub struct Removed {
    /// Their letters.
    pub letters: &'static [char],
    /// The version that removed them, and what to do instead.
    pub advice: &'static str,
}

/// An intended difference from the original.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// The difference.
    pub what: &'static str,
    /// The reason.
    pub why: &'static str,
}
