//! The verbs. Each verb has its own file and one line in [`VERBS`].

mod app;
mod check;
mod compare;
pub(crate) mod compat;
mod complete;
mod completions;
mod doctor;
mod exec;
mod experiment;
mod explain;
mod export;
#[cfg_attr(not(feature = "fleet"), path = "no_fleet.rs")]
mod fleet;
mod import;
mod improve;
mod list;

mod machine;
mod man;
mod measure;
mod monitor;
mod overview;
mod plot;
mod renamed;
mod report;
mod schema;
mod show;
mod store;
mod trend;
mod tune;
mod watch;

use std::ffi::{OsStr, OsString};

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command};

use crate::context::Global;
use crate::exit;
use crate::processes;
use crate::verb::Verb;

/// The verbs of every build. The help groups them as in [`overview`].
const VERBS: &[Verb] = &[
    check::VERB,
    measure::VERB,
    experiment::VERB,
    improve::VERB,
    watch::VERB,
    monitor::VERB,
    app::VERB,
    doctor::VERB,
    machine::VERB,
    list::VERB,
    show::VERB,
    explain::VERB,
    compare::VERB,
    trend::VERB,
    plot::VERB,
    report::VERB,
    export::VERB,
    import::VERB,
    store::VERB,
    tune::VERB,
    exec::VERB,
    compat::VERB,
    schema::VERB,
    completions::VERB,
    man::VERB,
    monitor::SERVE_SLOT,
    complete::VERB,
];

/// The verbs of the feature `fleet`.
const OF_FLEET: &[&str] = &["serve", "push"];

/// The verbs of this build.
pub(crate) fn verbs() -> impl Iterator<Item = &'static Verb> {
    VERBS.iter().chain(processes::VERBS).chain(fleet::VERBS)
}

/// Returns the whole command line.
pub(crate) fn command() -> Command {
    let command = base().subcommands(verbs().map(Verb::command));
    let template = overview::template(&command);
    command.help_template(template)
}

/// Parses these words with the options of their verb only, because the options of all verbs take
/// several MiB of memory and most of the startup time. If that fails, parses them with the options
/// of all verbs, so that the error message can suggest alternatives.
///
/// # Errors
/// Returns an error for an invalid command line, and for a request for help.
pub(crate) fn parse(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    let words = &asked_once(words);
    let first = words.iter().skip(1).find(|word| !is_option(word));
    let verb = first.and_then(|word| verbs().find(|verb| word == verb.name));
    let alone = verb.map(|verb| {
        base()
            .subcommand(verb.command())
            .try_get_matches_from(words)
    });
    match alone {
        Some(Ok(matches)) => Ok(matches),
        Some(Err(_)) => whole(words),
        None => match first.and_then(|word| left_out(word)) {
            Some(error) => Err(error),
            None => whole(words),
        },
    }
}

/// Reads these words with the options of all verbs.
fn whole(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    let mut command = command();
    let read = command.try_get_matches_from_mut(words);
    read.map_err(|error| renamed::explained(&error, words, &mut command).unwrap_or(error))
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

/// Returns the error for a verb that this build does not have.
fn left_out(word: &OsStr) -> Option<clap::Error> {
    let verb = OF_FLEET.iter().find(|verb| word == **verb)?;
    let text = format!(
        "this program was built without '{verb}': build it with the feature 'fleet', \
         which is on by default"
    );
    Some(command().error(ErrorKind::InvalidSubcommand, text))
}

fn is_option(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-")
}

/// Returns the command line without the verbs that are started only by the program itself.
fn shown_command() -> Command {
    let shown = verbs().filter(|verb| !verb.is_internal());
    base().subcommands(shown.map(Verb::command))
}

fn base() -> Command {
    let base = Command::new("punctual")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Real-time latency measurement, diagnosis and tuning for Linux")
        .after_help(exit::HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .infer_subcommands(false)
        .max_term_width(100);
    Global::augment_args(base)
}

/// Returns the chosen verb and its part of the command line.
pub(crate) fn chosen(matches: &ArgMatches) -> Result<(&'static Verb, &ArgMatches)> {
    let (name, matches) = matches
        .subcommand()
        .ok_or_else(|| exit::UsageError("a verb is missing: see punctual --help".to_owned()))?;
    verbs()
        .find(|verb| verb.name == name)
        .map(|verb| (verb, matches))
        .ok_or_else(|| exit::UsageError(format!("unknown verb '{name}'")).into())
}

/// The verb that passes its scheduling policy on to another program.
pub(crate) const EXEC: &str = exec::VERB.name;

#[cfg(test)]
mod help_tests;
#[cfg(test)]
mod rule_tests;
