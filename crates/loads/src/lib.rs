//! What disturbs: one file per load, one line each in [`LOADS`].
//!
//! **For:** deliberate disturbance of the machine while a probe measures.
//!
//! **Knows:** processes and threads at normal priority, `rt` for their CPUs,
//! `host` for what they used and for the sizes of cache and memory.
//!
//! **Must not know:** what is measured, the store, the terminal.
//!
//! A load never outlives the run, also when the program is killed: threads die
//! with it, processes by a watcher (`process.rs`), and scratch files have no
//! name from the moment they are made. It never runs at real-time priority:
//! threads and processes inherit the policy of whoever starts them, and give up
//! a real-time one before they begin. (What the user names, with `command`,
//! `build` and `stress-ng`, could ask for one itself.) It takes a part of the
//! available memory and disk only, and stops when told to.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod apart;
mod build;
mod cache;
mod command;
mod cpu;
mod disk;
mod entry;
mod farm;
mod faults;
mod fork;
mod memory;
mod messages;
mod network;
mod process;
mod scratch;
mod space;
mod stress_ng;
mod syscalls;
mod timers;
mod workers;

pub use apart::serve;
pub use entry::{Ended, Load, LoadEntry, LoadError, LoadKind, LoadRequest, Running};

/// All loads. A new one is a file with its entry, and a line here.
pub const LOADS: &[LoadEntry] = &[
    cpu::ENTRY,
    cache::ENTRY,
    memory::ENTRY,
    faults::ENTRY,
    fork::ENTRY,
    messages::ENTRY,
    disk::ENTRY,
    network::ENTRY,
    timers::ENTRY,
    syscalls::ENTRY,
    build::ENTRY,
    farm::ENTRY,
    stress_ng::ENTRY,
    command::ENTRY,
];
