//! `machine facts`: saves the state of a machine to a file, so that another machine can audit it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Parser};
use punctual_model::{CpuSet, ToJson};
use punctual_report::{document, text};
use punctual_stats::trend;

use crate::audit::{self, Counting};
use crate::context::Context;
use crate::exit::Exit;
use crate::options::extension;
use crate::output::{self, Output};
use crate::verb::Run;

/// Save this machine's state, or compare two recordings' states
#[derive(Parser)]
#[command(disable_help_subcommand = true)]
pub(super) enum Facts {
    /// Write all inputs of punctual doctor to one JSON file
    Capture(Capture),
    /// Show the machine facts that differ between two recordings
    Diff(Diff),
}

#[derive(Args)]
pub(super) struct Diff {
    /// First recording: an ID, the start or end of an ID, a label, `last` or `last~N`
    #[arg(value_name = "A")]
    a: String,
    /// Second recording
    #[arg(value_name = "B")]
    b: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Capture {
    /// File; - for stdout [default: -]
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "-",
        hide_default_value = true
    )]
    output: PathBuf,
    #[command(flatten)]
    counting: Counting,
}

impl Run for Facts {
    fn run(self, context: &Context) -> Result<Exit> {
        match self {
            Self::Capture(capture) => capture.run(),
            Self::Diff(diff) => diff.run(context),
        }
    }
}

impl Diff {
    fn run(self, context: &Context) -> Result<Exit> {
        let store = context.store_to_read()?;
        let load = |name: &str| anyhow::Ok(store.load(store.find(name)?)?);
        let differ = trend::facts_differ(&load(&self.a)?, &load(&self.b)?);
        if self.json {
            output::print(&output::json(&differ))?
        } else {
            let page = document::facts_differ(&differ);
            output::print(&text::render(&page, &context.style()))?;
        }
        Ok(Exit::Done)
    }
}

impl Capture {
    fn run(self) -> Result<Exit> {
        let Self { output, counting } = self;
        extension::check(&output, &["json"])?;
        let out = Output::open(&output)?;
        let facts = audit::facts(counting.length(), |_| anyhow::Ok(CpuSet::new()))?;
        let files = facts.files.len();
        let json = facts.to_json();
        out.put(format!("{}\n", punctual_model::escape_json(&json)).as_bytes())?;
        if output != Path::new("-") {
            output::note(&format!(
                "{files} readings written to {}: audit them with punctual doctor --facts {}",
                output.display(),
                output.display()
            ));
        }
        Ok(Exit::Done)
    }
}
