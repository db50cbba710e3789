//! `hold-latency`: holds /dev/cpu_dma_latency open for `tune apply`.

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
                .help("The journal that tells of it: what the process is known by"),
        )
}

fn run(matches: &ArgMatches, _: &Context) -> Result<Exit> {
    let micros = matches.get_one::<i32>("latency-us").copied().unwrap_or(0);
    punctual_tune::hold_latency(micros)?;
    Ok(Exit::Done)
}
