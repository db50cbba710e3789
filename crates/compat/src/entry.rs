//! The description of a tool: its entry.

use crate::shared::Machine;
use crate::{CompatError, Given, Parsed, ToolContext};

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
    /// Its long name, without the dashes; empty if there is only a letter.
    pub long: &'static str,
    /// Whether it takes a value.
    pub takes: Takes,
    /// Help text.
    pub help: &'static str,
}

impl OptionSpec {
    /// Names as a usage shows them: `-q --quiet`, `-i --interval=US`,
    /// `-t --threads[=NUM]`, `--json=FILE`, `-c=LIST`. Others do not compile.
    const fn named(names: &'static str, help: &'static str) -> Self {
        let bytes = names.as_bytes();
        let (short, start) = match bytes {
            [b'-', b'-', ..] => (None, 2),
            [b'-', letter, b' ', b'-', b'-', ..] => (Some(*letter as char), 5),
            [b'-', letter, b'=', ..] => (Some(*letter as char), 2),
            _ => panic!("an option begins with - or --"),
        };
        let mut end = start;
        while end < bytes.len() && !matches!(bytes[end], b'=' | b'[') {
            end += 1;
        }
        let (long, value) = names.split_at(start).1.split_at(end - start);
        let takes = match value.as_bytes() {
            [] => Takes::Nothing,
            [b'=', ..] => Takes::Required(value.split_at(1).1),
            [b'[', b'=', .., b']'] => {
                Takes::Optional(value.split_at(value.len() - 1).0.split_at(2).1)
            }
            _ => panic!("a value is =VALUE or [=VALUE]"),
        };
        Self {
            short,
            long,
            takes,
            help,
        }
    }
}

/// One option, and what it changes in a tool's settings `S`: a row of the tool's
/// table.
pub(crate) struct OptionRow<S> {
    spec: OptionSpec,
    set: Setter<S>,
}

/// Reads an option that was given into the settings.
pub(crate) type ReadInto<S> = fn(&mut S, &Given, &Machine) -> Result<(), CompatError>;

/// What an option does.
enum Setter<S> {
    /// Cannot be refused.
    Flag(fn(&mut S)),
    /// Reads a value or the machine.
    Read(ReadInto<S>),
    /// Nothing to the settings.
    Accept,
}

/// A setter that reads a value into a field: `put!(loops = |given| given.at_least(0)?)`.
macro_rules! put {
    ($($field:ident).+ = |$given:ident| $value:expr) => {
        |settings, $given, _| {
            settings.$($field).+ = $value;
            Ok(())
        }
    };
}

pub(crate) use put;

impl<S> OptionRow<S> {
    /// An option by its names (see [`OptionSpec::named`]), its help, and how it is read.
    pub(crate) const fn new(names: &'static str, help: &'static str, read: ReadInto<S>) -> Self {
        Self {
            spec: OptionSpec::named(names, help),
            set: Setter::Read(read),
        }
    }

    /// An option without a value that cannot be refused.
    pub(crate) const fn flag(names: &'static str, help: &'static str, set: fn(&mut S)) -> Self {
        Self {
            spec: OptionSpec::named(names, help),
            set: Setter::Flag(set),
        }
    }

    /// An option that changes no setting; a comment beside it, or its help, says why.
    pub(crate) const fn accepted(names: &'static str, help: &'static str) -> Self {
        Self {
            spec: OptionSpec::named(names, help),
            set: Setter::Accept,
        }
    }

    /// `-h`, `--help`, which is answered before any option is read.
    pub(crate) const HELP: Self = Self::accepted("-h --help", "print this");

    /// Reads an option of this row.
    ///
    /// # Errors
    /// Invalid values.
    pub(crate) fn read(
        &self,
        settings: &mut S,
        given: &Given,
        machine: &Machine,
    ) -> Result<(), CompatError> {
        match self.set {
            Setter::Flag(set) => set(settings),
            Setter::Read(read) => read(settings, given, machine)?,
            Setter::Accept => {}
        }
        Ok(())
    }
}

/// The options of a table, without their setters: those of a [`Tool`].
pub(crate) const fn specs<S, const N: usize>(rows: &[OptionRow<S>]) -> [OptionSpec; N] {
    assert!(rows.len() == N, "as many as there are rows");
    let mut specs = [rows[0].spec; N];
    let mut place = 1;
    while place < N {
        specs[place] = rows[place].spec;
        place += 1;
    }
    specs
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
