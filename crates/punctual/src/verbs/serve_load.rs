//! `serve-load`: a load in a subprocess, for internal use.

use std::ffi::OsString;
use std::io;

use anyhow::{Context as _, Result};
use clap::{Arg, ArgMatches, Command};
use punctual_loads::LoadRequest;

use super::Verb;
use crate::context::Context;
use crate::exit::Exit;

pub(super) const VERB: Verb = Verb { command, run };

const NAME: &str = "serve-load";

fn command() -> Command {
    Command::new(NAME)
        .about("Run one load until SIGTERM; started by measure")
        .hide(true)
        .arg(Arg::new("load").required(true))
}

fn run(matches: &ArgMatches, _: &Context) -> Result<Exit> {
    let load = matches.get_one::<String>("load").map_or("", String::as_str);
    punctual_loads::serve(load, &mut io::stdout()).context("cannot serve the load")?;
    Ok(Exit::Done)
}

/// Makes a load run in a subprocess of this program.
pub(super) fn in_subprocess(load: LoadRequest) -> LoadRequest {
    // Where this program cannot be found again (it was deleted while it runs),
    // the load's threads run here.
    match std::env::current_exe() {
        Ok(program) => load.subprocess(vec![program.into(), OsString::from(NAME)]),
        Err(_) => load,
    }
}
