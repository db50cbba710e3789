//! `serve-partner`: one half of a probe in a process of its own, for the program
//! itself.

use std::ffi::OsString;
use std::io;

use anyhow::{Context as _, Result};
use clap::{Arg, ArgMatches, Command};

use super::Verb;
use crate::context::Context;
use crate::exit::Exit;

pub(super) const VERB: Verb = Verb { command, run };

const NAME: &str = "serve-partner";

fn command() -> Command {
    Command::new(NAME)
        .about("Run one half of a probe until stopped; started by measure")
        .hide(true)
        .arg(Arg::new("errand").required(true))
}

fn run(matches: &ArgMatches, _: &Context) -> Result<Exit> {
    let errand = matches
        .get_one::<String>("errand")
        .map_or("", String::as_str);
    let input = io::BufReader::new(io::stdin());
    punctual_probes::serve_partner(errand, input, &mut io::stdout())
        .context("nobody listens to this half of a probe")?;
    Ok(Exit::Done)
}

/// How this program is started for it; `None` where it cannot be found again (it
/// was deleted while it runs).
pub(super) fn program() -> Option<Vec<OsString>> {
    let program = std::env::current_exe().ok()?;
    Some(vec![program.into(), OsString::from(NAME)])
}
