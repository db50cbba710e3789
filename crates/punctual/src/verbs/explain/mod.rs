//! `explain`: causes of outliers of a recording, or of late wake-ups of a running
//! application.

mod recorded;
mod threads;
pub(super) mod timelines;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::Verb;
use crate::context::Context;
use crate::exit::Exit;

pub(in crate::verbs) use recorded::{ExplainedJson, OutlierJson};

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new("explain")
        .about("Explain outliers of a recording, or late wake-ups of an application")
        .after_help(
            "With --pid or --comm each wake-up of the threads is watched, and each wait above the \
             threshold explained: from the wake-up to the CPU, or from a preemption or stop to \
             the continuation. The result is a recording, of the probe 'threads'.",
        )
        .arg(super::recording_argument())
        .arg(
            Arg::new("outlier")
                .long("outlier")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..))
                .help("Only this outlier [default: all causes, the list, the worst one]"),
        )
        .arg(
            Arg::new("all-events")
                .long("all-events")
                .action(ArgAction::SetTrue)
                .help("Show all kept events, also beyond a screen"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print JSON with all events; of an application the recording"),
        )
        .args(threads::options())
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    match threads::targets(matches)? {
        Some(targets) => threads::run(matches, context, targets),
        None => recorded::run(matches, context),
    }
}
