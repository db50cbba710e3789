//! In-app figures: a real-time application measures its own jobs and stores the results in memory
//! that `punctual app list` and `punctual app record` read while it runs.
//!
//! **For:** an application that counts its latencies at a cost of 10 ns per sample ([`Figures`],
//! [`Channel`]), and the tool that reads them ([`Reader`], [`find`]).
//!
//! **Knows:** sealed memory (`memfd_create(2)`), `/proc/PID/fd`, the bucket layout.
//!
//! **Must not know:** recordings, the store, the terminal, clocks. The application passes its times
//! in ns of CLOCK_MONOTONIC.
//!
//! There is no file on disk, no socket and no thread. Counters only grow, each channel has one writer,
//! and readers never write, so a reader cannot slow the application down. [`Reader`] treats the
//! memory as hostile input, because another process wrote it.

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod buckets;
mod channel;
mod error;
mod figures;
pub mod find;
mod identity;
pub mod layout;
#[cfg(not(all(test, loom)))]
mod memory;
#[cfg(all(test, loom))]
#[path = "loom/memory.rs"]
mod memory;
mod reader;

/// Atomics, which the tests with loom replace by its own.
mod atomic {
    #[cfg(all(test, loom))]
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
    #[cfg(not(all(test, loom)))]
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
}

pub use channel::{Channel, ChannelSpec, Kind};
pub use error::{Error, Unfit};
pub use figures::Figures;
pub use identity::Identity;
pub use layout::ABI_VERSION;
pub use reader::{ChannelHead, Counts, Reader, Ring, Snapshot, Source, TopEntry};
