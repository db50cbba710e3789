//! `punctual`: measures real-time latency, explains it, and tunes
//! machines.
//!
//! **For:** the command line. Each verb has one file under `verbs`. This file parses the command
//! line, runs the verb, reports errors, and ends with the exit code.
//!
//! **Knows:** all crates.
//!
//! **Must not know:** how anything is measured, kept or drawn.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod audit;
mod context;
mod exit;
mod live;
mod options;
mod output;
mod processes;
mod recordings;
mod running;
mod settings;
mod unit_path;
mod verb;
mod verbs;

use std::ffi::OsString;
use std::process::ExitCode;

use context::Context;
use exit::Exit;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(exit) = verbs::compat::called(&words) {
        return exit;
    }
    let matches = match verbs::parse(&words) {
        Ok(matches) => matches,
        Err(error) => return exit::of_command_line(&error),
    };
    match verbs::compat::chosen(&matches) {
        Ok(Some(exit)) => return exit,
        Ok(None) => {}
        Err(error) => return exit::report(&error).into(),
    }
    let run = || -> anyhow::Result<Exit> {
        let (verb, matches) = verbs::chosen(&matches)?;
        let context = Context::new(matches)?;
        if !verb.is_internal() {
            context.recover_settings();
            context.recover_tracer();
        }
        (verb.run)(matches, &context)
    };
    match run() {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error).into(),
    }
}
