//! `show`: shows one recording.

use anyhow::Result;
use clap::Parser;
use punctual_report::{document, text};

use crate::context::Context;
use crate::exit::Exit;
use crate::options::select::OneRecording;
use crate::output;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Show>("show");

/// Show the result of a recording
#[derive(Parser)]
struct Show {
    #[command(flatten)]
    selected: OneRecording,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Run for Show {
    fn run(self, context: &Context) -> Result<Exit> {
        let recording = self.selected.load(&context.store_to_read()?)?;
        output::print(&if self.json {
            output::json(&recording.in_words())
        } else {
            text::render(&document::recording(&recording), &context.style())
        })?;
        Ok(Exit::Done)
    }
}
