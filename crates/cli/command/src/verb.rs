//! What all verbs have in common: a command line, a function, and the parsers of values.

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Command, CommandFactory, Parser};

use crate::context::Context;
use crate::exit::{Exit, UsageError};

/// A verb: its command line, and its function.
pub struct Verb {
    /// The word on the command line.
    pub name: &'static str,
    /// Returns the options of the verb, as a command with any name.
    pub options: fn() -> Command,
    /// Its function.
    pub run: fn(&ArgMatches, &Context) -> Result<Exit>,
}

/// The options of a verb as fields of a struct, and the function that runs the verb. The command
/// line of the verb is derived from the struct.
pub trait Run: Parser {
    /// Runs the verb.
    ///
    /// # Errors
    /// Returns an error if the verb fails.
    fn run(self, context: &Context) -> Result<Exit>;
}

impl Verb {
    /// Returns the verb with this name and these options.
    pub const fn new<O: Run>(name: &'static str) -> Self {
        Self {
            name,
            options: <O as CommandFactory>::command,
            run: |matches, context| O::from_arg_matches(matches)?.run(context),
        }
    }

    /// Returns the part of the command line that belongs to this verb.
    pub fn command(&self) -> Command {
        (self.options)().name(self.name)
    }

    /// Returns whether the verb is started only by the program itself.
    pub fn is_internal(&self) -> bool {
        self.command().is_hide_set()
    }
}

/// Returns the command line with which this program was started, for recordings.
pub fn command_line() -> Vec<String> {
    let words = std::env::args_os();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Reason why the value of an option is rejected. The parser shows it next to the value.
pub type Invalid = Box<dyn std::error::Error + Send + Sync>;

/// Returns a parser that accepts one of these names and returns its value.
pub fn named<T: Clone + Send + Sync + 'static>(
    values: Vec<(&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(values.iter().map(|(name, _)| *name));
    names.try_map(move |name| {
        let found = values.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, value)| value.clone())
            .ok_or_else(|| UsageError(format!("unknown name '{name}'")))
    })
}
