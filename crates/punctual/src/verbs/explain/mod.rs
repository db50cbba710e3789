//! `explain`: who took the time: of a recording that is kept, or of an
//! application that runs.

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
        .about("Say who took the time of late reactions: of a recording, or of a running application")
        .after_help(
            "With --pid or --comm each wake-up of the threads is watched, and each wait longer than \
             the threshold explained: from the wake-up to the CPU, or from being preempted or \
             stopped to going on. The result is a recording, of the probe 'threads'.",
        )
        .arg(super::recording_argument())
        .arg(
            Arg::new("outlier")
                .long("outlier")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..))
                .help("This outlier alone [default: the causes of all, a list of them, and the worst one]"),
        )
        .arg(
            Arg::new("all-events")
                .long("all-events")
                .action(ArgAction::SetTrue)
                .help("Each event that is kept, not only those that fit a screen"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("As JSON, with all events; of an application the recording"),
        )
        .args(threads::options())
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    match threads::targets(matches)? {
        Some(targets) => threads::run(matches, context, targets),
        None => recorded::run(matches, context),
    }
}
