//! `punctual-server`: collects the recordings of many machines, and shows them.
//!
//! **For:** the command line of what runs in one place for many machines. It also shows the store of
//! a single machine.
//!
//! **Knows:** the server, databases, object stores.
//!
//! **Must not know:** how anything is measured.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod collection;
mod config;
mod options;
mod trends;
mod verbs;

use std::ffi::OsString;
use std::process::ExitCode;

use punctual_command::exit;
use verbs::PROGRAM;

fn main() -> ExitCode {
    PROGRAM.start();
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches = match PROGRAM.parse(&words) {
        Ok(matches) => matches,
        Err(error) => return exit::of_command_line(&error),
    };
    match PROGRAM.run(&matches, |_| ()) {
        Ok(exit) => exit.into(),
        Err(error) => PROGRAM.report(&error),
    }
}
