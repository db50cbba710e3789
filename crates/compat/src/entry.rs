//! What a tool is: an entry that says all about it.

use crate::{CompatError, Parsed, Stage};

/// All there is to know of a tool that punctual stands in for.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name: what a link to punctual is called.
    pub name: &'static str,
    /// What it measures, in half a sentence.
    pub summary: &'static str,
    /// The probe that measures.
    pub probe: &'static str,
    /// Its options, in the order of its help.
    pub options: &'static [OptionSpec],
    /// Options of older versions that are refused with advice.
    pub removed: &'static [Removed],
    /// In what it differs from the original, beside what all tools do
    /// ([`COMMON`](crate::COMMON)).
    pub differences: &'static [Difference],
    /// Does what the original does, and says its exit status.
    pub run: fn(&Parsed, &mut Stage<'_>) -> Result<u8, CompatError>,
}

/// One option, as getopt_long(3) knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its letter, where it has one.
    pub short: Option<char>,
    /// Its long name, without the dashes; what the tool knows it by. Empty
    /// where there is only a letter.
    pub long: &'static str,
    /// Whether a value goes with it.
    pub takes: Takes,
    /// What it does, in a sentence for the help.
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

    /// What it is known by: its long name, else its letter.
    pub fn key(&self) -> String {
        match self.short {
            Some(letter) if self.long.is_empty() => letter.to_string(),
            _ => self.long.to_owned(),
        }
    }
}

/// Whether a value goes with an option, and what it is called in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No value.
    Nothing,
    /// Always one: `-i100`, `-i 100`, `--interval=100`, `--interval 100`.
    Required(&'static str),
    /// At most one: `-t5`, `--threads=5`. The next word does not belong to it
    /// by getopt's rules; some tools look at it all the same
    /// ([`Given::next`](crate::Given::next)).
    Optional(&'static str),
}

/// Options of older versions.
#[derive(Clone, Copy, Debug)]
pub struct Removed {
    /// Their letters.
    pub letters: &'static [char],
    /// Since when they are gone, and what to do instead.
    pub advice: &'static str,
}

/// In what a tool differs from the original on purpose.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// What is different.
    pub what: &'static str,
    /// Why.
    pub why: &'static str,
}
