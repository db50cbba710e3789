//! `probes`: the list of probes and their documentation.

use std::fmt::Write;

use anyhow::Result;
use clap::Parser;
use punctual_model::Delay;
use punctual_probes::{PROBES, ProbeEntry};

use super::{Run, Verb};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;

pub(super) const VERB: Verb = Verb::of::<Probes>("probes");

/// List the probes, or show the documentation of one
#[derive(Parser)]
struct Probes {
    /// Probe to show
    #[arg(value_name = "PROBE")]
    probe: Option<String>,
}

impl Run for Probes {
    fn run(self, _: &Context) -> Result<Exit> {
        let text = match &self.probe {
            Some(name) => {
                page(punctual_probes::probe(name).map_err(|error| UsageError(error.to_string()))?)
            }
            None => list(),
        };
        output::print(&text)?;
        Ok(Exit::Done)
    }
}

fn list() -> String {
    let mut text = String::new();
    for probe in PROBES {
        let _ = writeln!(
            text,
            "{:<12} {}\n{:<12} in {}; needs {}\n{:<12} in place of {}\n",
            probe.name, probe.summary, "", probe.unit, probe.privileges, "", probe.replaces
        );
    }
    text.push_str("punctual probes PROBE shows the documentation of one.\n");
    text
}

/// Start and end of a sample that is split into shares.
fn spanned(delay: Delay) -> String {
    let span = match delay {
        Delay::Timer => "from the time at which the thread was due to its own reading of the clock",
        Delay::Call => {
            "from before one thread's call to the other's reading of the clock; what keeps either \
             of the two counts"
        }
        Delay::Step => {
            "from the thread's reading of the clock before what it does to its reading after it"
        }
        Delay::Wakeup | Delay::Taken | Delay::Job => {
            "from when the thread could run to when it did"
        }
    };
    format!("yes, {span}")
}

/// The documentation page of a probe, as Markdown: what `docs/probes` holds.
fn page(probe: &ProbeEntry) -> String {
    let mut text = format!(
        "# punctual measure {}\n\nMeasures {}, in {}.\n\n{}\n\n",
        probe.name, probe.summary, probe.unit, probe.documentation
    );
    let _ = writeln!(
        text,
        "- Needs: {}\n- In place of: {}\n- Outliers explained (`--explain`): {}\n\n## Parameters\n\n\
         | | default | |\n|---|---|---|",
        probe.privileges,
        probe.replaces,
        match probe.explained {
            Ok(delay) => spanned(delay),
            Err(why) => format!("no. {why}"),
        }
    );
    for parameter in probe.parameters {
        let short = parameter
            .short
            .map_or(String::new(), |letter| format!("`-{letter}`, "));
        let default = parameter
            .default
            .map_or("none".to_owned(), |value| format!("`{value}`"));
        let _ = writeln!(
            text,
            "| {short}`--{}` | {default} | {} |",
            parameter.name,
            super::measure::help_of(parameter).replace('|', "\\|")
        );
    }
    text.push_str("\nThe options of every measurement: `punctual measure ");
    let _ = writeln!(text, "{} --help`.", probe.name);
    text
}
