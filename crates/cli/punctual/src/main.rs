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
mod tui;
mod verb;
mod verbs;

use std::ffi::OsString;
use std::process::ExitCode;

use signal_hook::consts::{SIGABRT, SIGQUIT};
use verbs::PROGRAM;

fn main() -> ExitCode {
    let _demotion = Demotion::begin();
    PROGRAM.start();
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if let Some(exit) = verbs::compat::called(&words) {
        return exit;
    }
    if words.len() == 1 && verbs::home::is_possible() {
        words.push(verbs::home::NAME.into());
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
    if matches.subcommand_name() != Some(verbs::EXEC) {
        punctual_rt::keep_inherited_policy();
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

/// No thread of this program exits as a real-time thread, which could block its CPU in the kernel.
/// Threads demote themselves when they end. This demotes those that still run at the end of the
/// program.
struct Demotion;

impl Demotion {
    fn begin() -> Self {
        // Verbs that handle SIGINT, SIGTERM and SIGHUP stop in the usual way. Refused only for a
        // number that is not a signal.
        let _ = punctual_rt::demote_at_signals(&[SIGQUIT, SIGABRT]);
        Self
    }
}

impl Drop for Demotion {
    fn drop(&mut self) {
        punctual_rt::demote_own_threads();
    }
}
