//! Stores recordings and finds them again.
//!
//! **For:** one SQLite file that stores a recording while it is being made, shows it afterwards, and keeps it for years. A program that is killed loses at most its
//! last interval, two programs may write at the same time, and damage to a file is detected.
//!
//! **Knows:** SQLite, the parts of a recording, how samples are compressed.
//!
//! **Must not know:** /proc (if no lock shows whether a writer is alive, the caller is asked; see
//! [`Lease`]), terminals, measuring threads. A commit waits for the disk, so it must run on a
//! thread of normal priority.
//!
//! # Durability
//! The file is in WAL mode. [`Store::begin`] and [`Writer::finish`] flush their transaction to the
//! disk (`synchronous = FULL`). [`Writer::commit`] does not (`NORMAL`), because an fsync every
//! second would disturb the machine that is being measured.
//!
//! | | killed program | power cut |
//! |---|---|---|
//! | a finished recording | kept | kept |
//! | a running recording | kept up to the last commit | kept up to what the kernel has written out: usually all but the last half minute (`vm.dirty_expire_centisecs`), and every thousand pages at a checkpoint |
//!
//! The file is never left half-written: each transaction is complete or absent. SQLite does not
//! checksum its pages, so each row has a CRC-32 and each recording the number of its rows. A
//! mismatch is reported as an error and never shown as a result.
//!
//! # Permissions
//! The file and its companion files are created with mode 0600. While a recording is being made,
//! its writer holds a lock on a separate file in the folder `STORE.leases`.
//!
//! # Layers
//! Row modules (`parts`, `pack`, `facts`, `runs`, `load` and others) only use a connection and
//! plain data. [`Store`] and [`Writer`] build on them. Modules that add methods to these two types,
//! and collections, build on both.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod annotations;
mod attachment;
mod attachment_rows;
pub mod backend;
mod bits;
pub mod bundle;
mod care;
mod chunk;
mod collect;
mod default_path;
mod entry;
mod error;
mod experiment;
mod facts;
mod filter;
mod lease;
#[cfg(test)]
mod limit_tests;
mod load;
mod merge;
mod open;
mod pack;
mod parts;
mod plan;
mod planes;
mod reserve;
mod retention;
mod runs;
mod schema;
mod select;
mod sidecar;
mod slots;
mod step_limit;
mod steps;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod texts;
mod upgrade;
mod wake_windows;
mod writer;

pub use attachment_rows::{Attached, WINDOW, unpack_attachment};
pub use care::StoreStats;
pub use chunk::unpack as unpack_chunk;
pub use collect::{
    AuditLine, Collection, Copied, Delivery, Destination, LONGEST_TEXT, Latest, Listed, MOST_ASIDE,
    MOST_ASIDE_BYTES, MOST_DICTIONARIES, MOST_DICTIONARY_BYTES, Machine, MachineDay, MachineNames,
    Outbox, Provenance, Quarantined, Received, Refused, Role, SeriesStore, SqliteCollection,
    TextStore, Token, Total, Wanted, copy, is_database, text_hash,
};
pub use default_path::default_path;
pub use entry::Summary;
pub use error::{RenameRefusal, StoreError};
pub use experiment::ExperimentLease;
pub use filter::Filter;
pub use merge::Merged;
pub use parts::{Lateness, commit_interval};
pub use punctual_model::Lease;
pub use retention::{Aged, Entered, RetentionLimits};
pub use slots::SlotFilter;
pub use store::Store;
pub use texts::LeftOut;
pub use upgrade::Upgrade;
pub use wake_windows::LONGEST_WAKE_WINDOW;
pub use writer::{Batch, Writer};
