//! `machine topology`: shows the topology of CPUs, caches and memory.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use punctual_host::Host;
use punctual_report::{document, plot, text};

use crate::context::Context;
use crate::exit::Exit;
use crate::options::extension;
use crate::output::{self, Output};
use crate::verb::Run;

/// Show sockets, cores, caches, memory nodes and isolated CPUs
#[derive(Parser)]
pub(super) struct ShowTopology {
    /// Draw the topology: .svg
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Run for ShowTopology {
    fn run(self, context: &Context) -> Result<Exit> {
        let all = Host::live().topology()?;
        if let Some(path) = &self.output {
            extension::check(path, &["svg"])?;
            Output::open(path)?.put(plot::topology(&all).as_bytes())?;
            return Ok(Exit::Done);
        }
        let out = if self.json {
            output::json(&all)
        } else {
            text::render(&document::topology(&all), &context.style())
        };
        output::print(&out)?;
        Ok(Exit::Done)
    }
}
