//! `serve-load`: runs a load in a subprocess. This verb is for internal use.

use std::ffi::OsString;
use std::io;

use anyhow::{Context as _, Result};
use clap::Parser;
use punctual_loads::LoadRequest;
use punctual_model::CpuSet;

use crate::context::Context;
use crate::exit::Exit;
use crate::verb::{Run, Verb};

pub(crate) const VERB: Verb = Verb::new::<ServeLoad>(NAME);

const NAME: &str = "serve-load";

/// Run one load until SIGTERM; started by measure
#[derive(Parser)]
#[command(hide = true)]
struct ServeLoad {
    #[arg(value_name = "load")]
    load: String,
    #[arg(value_name = "cpus")]
    cpus: Option<CpuSet>,
}

impl Run for ServeLoad {
    fn run(self, _: &Context) -> Result<Exit> {
        let cpus = self.cpus.unwrap_or_default();
        punctual_loads::serve(&self.load, &cpus, &mut io::stdout())
            .context("cannot serve the load")?;
        Ok(Exit::Done)
    }
}

/// Makes a load run in a subprocess of this program.
pub(crate) fn in_subprocess(load: LoadRequest) -> LoadRequest {
    // If the file of this program cannot be found (because it was deleted while the program is
    // running), the threads of the load run in this process.
    match std::env::current_exe() {
        Ok(program) => load.subprocess(vec![program.into(), OsString::from(NAME)]),
        Err(_) => load,
    }
}
