//! `serve-partner`: runs one half of a probe in a subprocess. This verb is for internal use.

use std::ffi::OsString;
use std::io;

use anyhow::{Context as _, Result};
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::context::Context;
use crate::exit::Exit;
use crate::verb::{Run, Verb};

pub(crate) const VERB: Verb = Verb::new::<ServePartner>(NAME);

const NAME: &str = "serve-partner";

/// Run one half of a probe until stopped; started by measure
#[derive(Parser)]
#[command(hide = true)]
struct ServePartner {
    #[arg(value_name = "errand")]
    errand: String,
}

impl Run for ServePartner {
    fn run(self, _: &Context) -> Result<Exit> {
        punctual_rt::demote_at_signals(&[SIGINT, SIGTERM, SIGHUP])?;
        let input = io::BufReader::new(io::stdin());
        punctual_probes::serve_partner(&self.errand, input, &mut io::stdout())
            .context("the process that started this half of the probe has ended")?;
        Ok(Exit::Done)
    }
}

/// Returns the command that starts this program as a partner. Returns `None` if the file of the
/// program cannot be found, because it was deleted while the program is running.
pub(crate) fn program() -> Option<Vec<OsString>> {
    let program = std::env::current_exe().ok()?;
    Some(vec![program.into(), OsString::from(NAME)])
}
