//! Tasks of the project that cargo has no word for: `cargo xtask NAME`.
//!
//! **For:** `vm`, the tests that need a PREEMPT_RT kernel, in an emulated
//! machine.
//!
//! **Knows:** cargo, the emulator, where a distribution keeps its kernels.
//!
//! **Must not know:** the rooms; it builds and runs them as a user would.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the project")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run tests on a PREEMPT_RT kernel, in an emulated machine.
    Vm(vm::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Vm(options) => vm::run(&options),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
