//! A program: its verbs, and how its command line is read.

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::{Context as _, Result};
use clap::{ArgMatches, Args, Command};

use crate::candidate::Candidate;
use crate::context::{Context, Global};
use crate::exit::{self, Exit, UsageError};
use crate::verb::Verb;
use crate::{output, overview};

/// The program that runs.
static CURRENT: OnceLock<&Program> = OnceLock::new();

/// Texts of the manual pages of a program.
pub struct PageTexts {
    /// Command lines and their effects. The page of a command shows the examples that begin with its
    /// words. The main page shows the first examples.
    pub examples: &'static [(&'static str, &'static str)],
    /// Environment variables that affect every command.
    pub environment: &'static [(&'static str, &'static str)],
    /// Files that every command may read or write.
    pub files: &'static [(&'static str, &'static str)],
    /// Pages that the main page refers to.
    pub see_also: &'static [&'static str],
}

/// A program.
pub struct Program {
    /// The name of its file.
    pub name: &'static str,
    /// Its purpose in one line.
    pub about: &'static str,
    /// The meaning of its exit codes.
    pub exit_codes: &'static str,
    /// The verbs, in tables.
    pub verbs: &'static [&'static [Verb]],
    /// The verbs under their headings, in the order of the help. Other verbs are hidden.
    pub groups: &'static [(&'static str, &'static [&'static str])],
    /// Examples under the overview.
    pub examples: &'static str,
    /// If an error is about an old word, returns an error that names its replacement.
    pub explained: fn(&clap::Error, &[OsString], &mut Command) -> Option<clap::Error>,
    /// Texts of the manual pages.
    pub pages: PageTexts,
    /// Returns the candidate values of the argument with this ID in the command with these words;
    /// `None` if the program knows nothing about the argument.
    pub candidates: fn(&[&str], &str, &Context) -> Option<Vec<Candidate>>,
    /// Returns whether an error means that the command line was wrong.
    pub is_usage: fn(&(dyn Error + 'static)) -> bool,
    /// The version, which is that of the package.
    pub version: &'static str,
}

impl Program {
    /// Makes this the program that runs.
    pub fn start(&'static self) {
        CURRENT.get_or_init(|| self);
        output::set_program(self.name);
    }

    /// Returns the program that runs.
    ///
    /// # Errors
    /// Returns an error if no program was started.
    pub fn current() -> Result<&'static Self> {
        CURRENT.get().copied().context("no program was started")
    }

    /// Returns all verbs.
    pub fn verbs(&self) -> impl Iterator<Item = &'static Verb> {
        self.verbs.iter().copied().flatten()
    }

    /// Returns the whole command line.
    pub fn command(&self) -> Command {
        let command = self.base().subcommands(self.verbs().map(Verb::command));
        let template = overview::template(&command, self.groups, self.examples);
        command.help_template(template)
    }

    /// Returns the command line without the verbs that are started only by the program itself.
    pub(crate) fn shown_command(&self) -> Command {
        let shown = self.verbs().filter(|verb| !verb.is_internal());
        self.base().subcommands(shown.map(Verb::command))
    }

    fn base(&self) -> Command {
        let base = Command::new(self.name)
            .version(self.version)
            .about(self.about)
            .after_help(self.exit_codes)
            .subcommand_required(true)
            .arg_required_else_help(true)
            .infer_subcommands(false)
            .max_term_width(100);
        Global::augment_args(base)
    }

    /// Parses these words with the options of their verb only, because the options of all verbs take
    /// several MiB of memory and most of the startup time. If that fails, parses them with the
    /// options of all verbs, so that the error message can suggest alternatives.
    ///
    /// # Errors
    /// Returns an error for an invalid command line, and for a request for help.
    pub fn parse(&self, words: &[OsString]) -> Result<ArgMatches, clap::Error> {
        let words = &asked_once(words);
        let first = words.iter().skip(1).find(|word| !is_option(word));
        let verb = first.and_then(|word| self.verbs().find(|verb| word == verb.name));
        let alone = verb.map(|verb| {
            self.base()
                .subcommand(verb.command())
                .try_get_matches_from(words)
        });
        match alone {
            Some(Ok(matches)) => Ok(matches),
            Some(Err(_)) | None => {
                let mut command = self.command();
                let read = command.try_get_matches_from_mut(words);
                read.map_err(|error| (self.explained)(&error, words, &mut command).unwrap_or(error))
            }
        }
    }

    /// Returns the chosen verb and its part of the command line.
    ///
    /// # Errors
    /// Returns an error if the words contain no verb.
    pub fn chosen<'a>(&self, matches: &'a ArgMatches) -> Result<(&'static Verb, &'a ArgMatches)> {
        let (name, matches) = matches
            .subcommand()
            .ok_or_else(|| UsageError(format!("a verb is missing: see {} --help", self.name)))?;
        let verb = self.verbs().find(|verb| verb.name == name);
        verb.map(|verb| (verb, matches))
            .ok_or_else(|| UsageError(format!("unknown verb '{name}'")).into())
    }

    /// Runs the chosen verb. `prepare` is called before a verb that a user has started.
    ///
    /// # Errors
    /// Returns the error of the verb.
    pub fn run(&self, matches: &ArgMatches, prepare: fn(&Context)) -> Result<Exit> {
        let (verb, matches) = self.chosen(matches)?;
        let context = Context::new(matches)?;
        if !verb.is_internal() {
            prepare(&context);
        }
        let ended = (verb.run)(matches, &context);
        ended.or_else(|error| exit::after_output(error, context.take_done()))
    }

    /// Prints an error and returns the exit code.
    pub fn report(&self, error: &anyhow::Error) -> ExitCode {
        exit::report(error, self.is_usage).into()
    }
}

/// Returns the words without a `--help` that follows `help`, because clap would treat it as the
/// name of a verb.
fn asked_once(words: &[OsString]) -> Vec<OsString> {
    let is_help = |word: &&OsString| ["--help", "-h"].iter().any(|known| word == known);
    let mut kept = words.to_vec();
    if let Some(place) = words.iter().skip(1).position(|word| !is_option(word))
        && words[place + 1] == "help"
        && words[place + 2..].iter().any(|word| is_help(&word))
    {
        kept.retain(|word| !is_help(&word));
        if kept.len() == place + 2 {
            kept.push("help".into());
        }
    }
    kept
}

fn is_option(word: &OsString) -> bool {
    word.as_encoded_bytes().starts_with(b"-")
}
