//! `schema`: the JSON Schema of a recording, a comparison, or an audit.

use anyhow::Result;
use clap::{Arg, ArgMatches, Command};

use super::Verb;
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new("schema")
        .about("Print the JSON Schema of a recording, a comparison, or an audit")
        .arg(
            Arg::new("of")
                .value_name("OF")
                .value_parser(["recording", "comparison", "audit"])
                .default_value("recording")
                .help("What the JSON is of"),
        )
}

fn run(matches: &ArgMatches, _: &Context) -> Result<Exit> {
    let schema = match matches.get_one::<String>("of").map(String::as_str) {
        Some("audit") => punctual_model::audit_schema(),
        Some("comparison") => punctual_stats::comparison_schema(),
        _ => punctual_model::recording_schema(),
    };
    let schema = serde_json::to_string_pretty(&schema)?;
    output::print(&format!("{schema}\n"))?;
    Ok(Exit::Done)
}
