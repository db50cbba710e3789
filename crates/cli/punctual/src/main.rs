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
mod verb;
mod verbs;

use std::ffi::OsString;
use std::process::ExitCode;

use verbs::PROGRAM;

fn main() -> ExitCode {
    PROGRAM.start();
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
        Err(error) => return PROGRAM.report(&error),
    }
    let recover = |_: &context::Context| {
        context::recover_settings();
        context::recover_tracer();
    };
    match PROGRAM.run(&matches, recover) {
        Ok(exit) => exit.into(),
        Err(error) => PROGRAM.report(&error),
    }
}
