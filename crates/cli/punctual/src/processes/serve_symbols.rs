//! `serve-symbols`: reads the functions of another user's program without privileges. This verb is
//! for internal use.

use std::ffi::OsString;
use std::io;

use anyhow::{Context as _, Result};
use clap::Parser;

use crate::context::Context;
use crate::exit::Exit;
use crate::verb::{Run, Verb};

pub(crate) const VERB: Verb = Verb::new::<ServeSymbols>(NAME);

const NAME: &str = "serve-symbols";

/// Read the functions of the program file on stdin, as another user; started by lint
#[derive(Parser)]
#[command(hide = true)]
struct ServeSymbols {
    user: u32,
    group: u32,
    /// Bytes that may be read
    read: u64,
    /// Bytes of functions that may be kept
    kept: u64,
    /// Also read how to find callers
    #[arg(long)]
    callers: bool,
}

impl Run for ServeSymbols {
    fn run(self, _: &Context) -> Result<Exit> {
        close_inherited()?;
        let (owner, limits) = ((self.user, self.group), (self.read, self.kept));
        punctual_host::serve_symbols(owner, limits, self.callers, &mut io::stdout())
            .context("the reader of the functions has ended")?;
        Ok(Exit::Done)
    }
}

/// Closes all file descriptors that this program has inherited, except the first three.
fn close_inherited() -> Result<()> {
    let folder = "/proc/self/fd/";
    let entries = std::fs::read_dir(folder).context(folder)?;
    let numbers: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    // `inherited` returns an error for the descriptors that this program has opened itself.
    let inherited = numbers.into_iter().map(punctual_rt::inherited);
    inherited.filter_map(Result::ok).for_each(drop);
    Ok(())
}

/// Returns the command that starts this program as a reader of symbols. Returns `None` if the file
/// of the program cannot be found, because it was deleted while the program is running.
pub(crate) fn program() -> Option<Vec<OsString>> {
    let program = std::env::current_exe().ok()?;
    Some(vec![program.into(), OsString::from(NAME)])
}
