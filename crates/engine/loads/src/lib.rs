//! Loads. Each load has one file in this crate and one entry in [`LOADS`].
//!
//! **For:** deliberate disturbance of the machine while a probe measures.
//!
//! **Knows:** processes and threads at normal priority, `rt` for their CPUs,
//! `host` for their CPU time and for the sizes of cache and memory.
//!
//! **Must not know:** the probes, the store, the terminal.
//!
//! A load never outlives the run, even if the program is killed: its threads die with the process,
//! a watcher kills its processes (`process.rs`), and its scratch files are unlinked on creation. A
//! load never runs at real-time priority: if its threads and processes inherit a real-time policy
//! from their parent, they leave it before they start work. (Programs that the user runs with
//! `command`, `build` and `stress-ng` could set such a policy themselves.) A load uses only a part
//! of the available memory and disk space, and stops on request.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod build;
mod cache;
mod command;
mod cpu;
mod disk;
mod entry;
mod farm;
mod faults;
mod fork;
mod gpu;
mod memory;
mod messages;
mod network;
mod outside;
mod process;
mod request;
mod scratch;
mod space;
mod stress_ng;
mod subprocess;
mod syscalls;
mod timers;
mod workers;

pub use entry::{Ended, Load, LoadEntry, LoadError, LoadKind};
pub use outside::Outside;
pub use request::{LoadRequest, Running, serve};

/// All loads. To add one, create a file with its entry, and list the entry here.
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
    gpu::ENTRY,
    farm::ENTRY,
    stress_ng::ENTRY,
    command::ENTRY,
];
