//! `serve-partner`: one half of a probe in a subprocess, for internal
//! use.

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
        .context("the parent of this half of a probe has ended")?;
    Ok(Exit::Done)
}

/// The command that starts this program for it; `None` if it cannot be found (deleted
/// while it runs).
pub(super) fn program() -> Option<Vec<OsString>> {
    let program = std::env::current_exe().ok()?;
    Some(vec![program.into(), OsString::from(NAME)])
}
