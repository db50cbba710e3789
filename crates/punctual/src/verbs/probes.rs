//! `probes`: what can be measured.

use std::fmt::Write;

use anyhow::Result;
use clap::{Arg, ArgMatches, Command};
use punctual_probes::{PROBES, ProbeEntry};

use super::Verb;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new("probes")
        .about("List what can be measured, or say all about one probe")
        .arg(
            Arg::new("probe")
                .value_name("PROBE")
                .help("The probe to say all about"),
        )
}

fn run(matches: &ArgMatches, _: &Context) -> Result<Exit> {
    let text = match matches.get_one::<String>("probe") {
        Some(name) => {
            page(punctual_probes::probe(name).map_err(|error| UsageError(error.to_string()))?)
        }
        None => list(),
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

fn list() -> String {
    let mut text = String::new();
    for probe in PROBES {
        let _ = writeln!(
            text,
            "{:<12} {}\n{:<12} needs: {}\n{:<12} replaces: {}",
            probe.name, probe.summary, "", probe.privileges, "", probe.replaces
        );
    }
    text
}

/// The documentation page of a probe, as Markdown.
fn page(probe: &ProbeEntry) -> String {
    let mut text = format!(
        "# {}: {}\n\n{}\n\nNeeds: {}.\nReplaces: {}.\n\n| parameter | default | |\n|---|---|---|\n",
        probe.name, probe.summary, probe.documentation, probe.privileges, probe.replaces
    );
    for parameter in probe.parameters {
        let _ = writeln!(
            text,
            "| `--{}` | {} | {} |",
            parameter.name,
            parameter.default.unwrap_or("none"),
            parameter.help
        );
    }
    text
}
