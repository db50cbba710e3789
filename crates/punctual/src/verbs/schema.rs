//! `schema`: the JSON Schema of a recording.

use anyhow::Result;
use clap::{ArgMatches, Command};

use super::Verb;
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new("schema").about("Print the JSON Schema of a recording")
}

fn run(_: &ArgMatches, _: &Context) -> Result<Exit> {
    let schema = serde_json::to_string_pretty(&punctual_model::recording_schema())?;
    output::print(&format!("{schema}\n"))?;
    Ok(Exit::Done)
}
