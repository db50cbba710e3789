//! `show`: one recording.

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use punctual_report::{document, text};

use super::{Verb, select};
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new("show")
        .about("Show a recording")
        .arg(super::recording_argument())
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print JSON"),
        )
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let recording = select::one(matches, &context.store_to_read()?)?;
    output::print(&if matches.get_flag("json") {
        output::json(&recording)?
    } else {
        text::render(&document::recording(&recording), &context.style())
    })?;
    Ok(Exit::Done)
}
