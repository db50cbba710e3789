//! The verbs: one file each, one line each in [`VERBS`].

mod bundle;
mod check;
mod clocks;
mod compare;
pub(crate) mod compat;
mod complete;
mod completions;
mod delete;
mod doctor;
mod echo;
mod exec;
mod experiment;
mod explain;
mod export;
mod facts;
mod hold_latency;
mod import;
mod improve;
mod irqs;
mod kernel;
mod list;
mod man;
mod measure;
mod plot;
mod probes;
mod report;
mod schema;
mod select;
mod serve_load;
mod serve_partner;
mod show;
mod threads;
mod topology;
mod trace;
mod tune;
mod watch;
mod watching;

use anyhow::Result;
use clap::builder::ValueParser;
use clap::{Arg, ArgMatches, Command, value_parser};
use std::path::PathBuf;

use crate::context::Context;
use crate::exit::{self, Exit};

/// A verb: its command line, and its function.
pub(crate) struct Verb {
    /// Its part of the command line; its name is the verb.
    pub(crate) command: fn() -> Command,
    /// Its function.
    pub(crate) run: fn(&ArgMatches, &Context) -> Result<Exit>,
}

impl Verb {
    /// Whether the program starts it internally.
    pub(crate) fn is_internal(&self) -> bool {
        (self.command)().is_hide_set()
    }
}

/// All verbs, in the order of the help.
pub(crate) const VERBS: &[Verb] = &[
    check::VERB,
    measure::VERB,
    experiment::VERB,
    improve::VERB,
    watch::VERB,
    doctor::VERB,
    facts::VERB,
    kernel::VERB,
    list::VERB,
    show::VERB,
    explain::VERB,
    compare::VERB,
    plot::VERB,
    report::VERB,
    export::VERB,
    import::VERB,
    bundle::VERB,
    trace::VERB,
    delete::VERB,
    tune::VERB,
    probes::VERB,
    exec::VERB,
    threads::VERB,
    irqs::VERB,
    topology::VERB,
    topology::PLACE,
    clocks::VERB,
    echo::VERB,
    compat::VERB,
    schema::VERB,
    completions::VERB,
    man::VERB,
    serve_load::VERB,
    serve_partner::VERB,
    hold_latency::VERB,
    complete::VERB,
];

/// The heading of the options that each verb takes.
const EVERYWHERE: &str = "Global options";

/// The whole command line.
pub(crate) fn command() -> Command {
    base().subcommands(VERBS.iter().map(|verb| (verb.command)()))
}

/// The command line without the verbs that the program starts itself.
fn shown_command() -> Command {
    let shown = VERBS.iter().filter(|verb| !verb.is_internal());
    base().subcommands(shown.map(|verb| (verb.command)()))
}

fn base() -> Command {
    Command::new("punctual")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Real-time latency measurement, diagnosis and tuning for Linux")
        .after_help(exit::HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .infer_subcommands(false)
        .max_term_width(100)
        .arg(
            Arg::new("store")
                .long("store")
                .global(true)
                .help_heading(EVERYWHERE)
                .value_name("PATH")
                .value_parser(value_parser!(PathBuf))
                .help("File for recordings, or `none` to keep none [env: PUNCTUAL_STORE] [default: $XDG_DATA_HOME/punctual/punctual.db, for root /var/lib/punctual/punctual.db]"),
        )
        .arg(
            Arg::new("color")
                .long("color")
                .global(true)
                .help_heading(EVERYWHERE)
                .hide_possible_values(true)
                .value_name("WHEN")
                .value_parser(["auto", "always", "never"])
                .help("Colours in text: auto, always or never"),
        )
}

/// The verb that was chosen, with its part of the command line.
pub(crate) fn chosen(matches: &ArgMatches) -> Result<(&'static Verb, &ArgMatches)> {
    let (name, matches) = matches
        .subcommand()
        .ok_or_else(|| exit::UsageError("a verb is missing: see punctual --help".to_owned()))?;
    VERBS
        .iter()
        .find(|verb| (verb.command)().get_name() == name)
        .map(|verb| (verb, matches))
        .ok_or_else(|| exit::UsageError(format!("unknown verb '{name}'")).into())
}

/// Reads a value by its `FromStr`, with its own message.
fn parsed<T>() -> ValueParser
where
    T: std::str::FromStr + Clone + Send + Sync + 'static,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    ValueParser::new(|text: &str| text.parse::<T>())
}

/// `-o FILE`.
fn output_option(help: &'static str) -> Arg {
    Arg::new("output")
        .short('o')
        .long("output")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help(help)
}

/// One or more recordings.
fn recordings_argument() -> Arg {
    Arg::new("recordings")
        .value_name("ID")
        .num_args(1..)
        .required(true)
        .help("Recordings: an ID, its start or end, `last` or `last~N`")
}

/// One recording.
fn recording_argument() -> Arg {
    Arg::new("recording")
        .value_name("ID")
        .default_value("last")
        .help("Recording: an ID, its start or end, `last` or `last~N`")
}

#[cfg(test)]
mod help_tests;
