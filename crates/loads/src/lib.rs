//! What disturbs: one file per load, one line each in [`LOADS`].
//!
//! **For:** deliberate disturbance of the machine while a probe measures.
//!
//! **Knows:** processes and threads at normal priority, `host` for what they
//! used.
//!
//! **Must not know:** what is measured, the store, the terminal.
//!
//! A load never outlives the run, also when the program is killed, and never
//! runs at real-time priority.

mod command;
mod entry;

pub use entry::{Load, LoadEntry, LoadError, LoadRequest, Running};

/// All loads. A new one is a file with its entry, and a line here.
pub const LOADS: &[LoadEntry] = &[command::ENTRY];
