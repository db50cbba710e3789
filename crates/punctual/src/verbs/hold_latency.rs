//! `hold-latency`: holds /dev/cpu_dma_latency open for `tune apply`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, value_parser};

use super::Verb;
use crate::context::Context;
use crate::exit::Exit;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new(punctual_tune::HOLD_VERB)
        .about("Hold the latency request of a tune until SIGTERM; started by tune apply")
        .hide(true)
        .arg(
            Arg::new("latency-us")
                .long("latency-us")
                .required(true)
                .value_parser(value_parser!(i32).range(0..)),
        )
        .arg(
            Arg::new("journal")
                .long("journal")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("Journal of the tune; the process is recorded beside it"),
        )
}

fn run(matches: &ArgMatches, _: &Context) -> Result<Exit> {
    let micros = matches.get_one::<i32>("latency-us").copied().unwrap_or(0);
    let journal = matches.get_one::<PathBuf>("journal").cloned();
    punctual_tune::hold_latency(micros, &journal.unwrap_or_default())?;
    Ok(Exit::Done)
}
