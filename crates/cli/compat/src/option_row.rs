//! A row in the option table of a tool: an option and the setting that it changes.

use crate::machine::Machine;
use crate::{CompatError, Given, NextWord, OptionSpec, Parsed};

/// A row in a tool's table: one option, and the change that it makes to the settings `S` of the
/// tool.
pub(crate) struct OptionRow<S> {
    spec: OptionSpec,
    set: Setter<S>,
}

/// Reads an option that was given into the settings.
pub(crate) type ReadInto<S> = fn(&mut S, &Given, &Machine) -> Result<(), CompatError>;

/// The effect of an option.
enum Setter<S> {
    /// Sets a flag; cannot fail.
    Flag(fn(&mut S)),
    /// Reads a value, or facts about the machine.
    Read(ReadInto<S>),
    /// Changes no setting.
    Accept,
}

/// Creates a setter that reads a value into a field: `put!(loops = |given| given.at_least(0)?)`.
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
    /// Creates an option from its names (see [`OptionSpec::named`]), its help, and the function
    /// that reads it.
    pub(crate) const fn new(names: &'static str, help: &'static str, read: ReadInto<S>) -> Self {
        Self {
            spec: OptionSpec::named(names, help),
            set: Setter::Read(read),
        }
    }

    /// Creates an option without a value. Reading such an option cannot fail.
    pub(crate) const fn flag(names: &'static str, help: &'static str, set: fn(&mut S)) -> Self {
        Self {
            spec: OptionSpec::named(names, help),
            set: Setter::Flag(set),
        }
    }

    /// Creates an option with an optional value. A following word of the kind `next` is also used
    /// as its value.
    pub(crate) const fn or_next(
        names: &'static str,
        next: NextWord,
        help: &'static str,
        read: ReadInto<S>,
    ) -> Self {
        let mut row = Self::new(names, help, read);
        row.spec.next = next;
        row
    }

    /// Creates an option that does not change a setting. Its help or a comment next to it explains
    /// why.
    pub(crate) const fn accepted(names: &'static str, help: &'static str) -> Self {
        Self {
            spec: OptionSpec::named(names, help),
            set: Setter::Accept,
        }
    }

    /// `-h`, `--help`, which is handled before any option is read.
    pub(crate) const HELP: Self = Self::accepted("-h --help", "print this");

    /// Reads an option of this row.
    ///
    /// # Errors
    /// Returns an error for invalid values.
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

/// Returns the options of a table for a [`Tool`](crate::Tool), without their setters.
pub(crate) const fn specs<S, const N: usize>(rows: &[OptionRow<S>]) -> [OptionSpec; N] {
    assert!(rows.len() == N, "N must equal the number of rows");
    let mut specs = [rows[0].spec; N];
    let mut place = 1;
    while place < N {
        specs[place] = rows[place].spec;
        place += 1;
    }
    specs
}

impl Parsed {
    /// Reads the options into `settings` in the order they were given. They must have been parsed
    /// with `table`.
    ///
    /// # Errors
    /// Returns an error for invalid values.
    pub(crate) fn read_into<S>(
        &self,
        settings: &mut S,
        table: &[OptionRow<S>],
        machine: &Machine,
    ) -> Result<(), CompatError> {
        let mut given = self.given.iter();
        given.try_for_each(|given| table[given.index].read(settings, given, machine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::parse;

    #[test]
    fn each_row_sets_what_it_is_for() {
        #[derive(Debug, Default, PartialEq)]
        struct Settings {
            quiet: bool,
            cycles: u64,
        }
        const TABLE: &[OptionRow<Settings>] = &[
            OptionRow::flag("-q --quiet", "", |settings| settings.quiet = true),
            OptionRow::accepted("-n --nanosleep", ""),
            OptionRow::new(
                "-l --loops=LOOPS",
                "",
                put!(cycles = |given| given.at_least(1)?),
            ),
        ];
        const SPECS: &[OptionSpec] = &specs::<_, { TABLE.len() }>(TABLE);
        let machine = Machine {
            present: "0".parse().unwrap(),
            allowed: "0".parse().unwrap(),
        };
        let read = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let parsed = parse(&words, SPECS, false).unwrap();
            let mut settings = Settings::default();
            let result = parsed.read_into(&mut settings, TABLE, &machine);
            result.map(|()| settings)
        };
        let set = |quiet, cycles| Settings { quiet, cycles };
        assert_eq!(read("-n --nanosleep").unwrap(), set(false, 0));
        assert_eq!(read("-l 3 -q --loops=7").unwrap(), set(true, 7));
        let error = read("--loops 1 -l 0").unwrap_err().to_string();
        assert_eq!(error, "--loops: '0' is not a number of 1 or more");
    }
}
