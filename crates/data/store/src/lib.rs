//! Recordings kept and found again.
//!
//! **For:** one SQLite file, or for a fleet PostgreSQL, that takes a recording while it is made, shows it
//! when it is done, and keeps it for years. A program that is killed loses at
//! most its last interval, two programs may write at once, and a file that was
//! damaged is told from one that was not.
//!
//! **Knows:** SQLite, PostgreSQL, the parts of a recording, how samples are compressed.
//!
//! **Must not know:** /proc (where no lock tells whether a writer still lives, the
//! caller is asked, see [`Lease`]), terminals, measuring threads: a commit waits for
//! the disk, so it belongs to a thread of normal priority.
//!
//! # What survives what
//! The file is in WAL mode. [`Store::begin`] and [`Writer::finish`] force their
//! transaction to the disk (`synchronous = FULL`). [`Writer::commit`] does not
//! (`NORMAL`): an fsync every second would disturb the machine that is being
//! measured.
//!
//! | | killed program | power cut |
//! |---|---|---|
//! | a recording that was finished | kept | kept |
//! | one that runs | kept up to the last commit | kept up to what the kernel has written out: usually all but the last half minute (`vm.dirty_expire_centisecs`), and each thousand pages at a checkpoint |
//!
//! In no case is the file left half-written: a transaction is there whole or
//! not at all. SQLite does not checksum its pages, so each row carries a CRC-32
//! and each recording the number of its rows; what does not fit is an error,
//! never a figure.
//!
//! # Who may read it
//! The file is made with mode 0600, as are those beside it. While a recording is made
//! its writer holds a lock on a file of its own in the folder `STORE.leases`.
//!
//! # Layers
//! Modules of rows (`parts`, `pack`, `facts`, `runs`, `load` and the like) know a
//! connection and plain data. [`Store`] and [`Writer`] are above them; modules that add
//! methods to these two, and collections, are above both.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod attachment;
mod attachment_rows;
mod beside;
mod bits;
mod budget;
mod care;
mod chunk;
mod collect;
mod entry;
mod error;
mod experiment;
mod facts;
mod filter;
mod keep;
mod lease;
#[cfg(test)]
mod limit_tests;
mod load;
mod marks;
mod merge;
mod open;
mod pack;
mod parts;
mod place;
mod plan;
mod planes;
mod reserve;
mod runs;
mod schema;
mod select;
mod slots;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod wake_windows;
mod writer;

pub use attachment_rows::{Attached, WINDOW, unpack_attachment};
pub use care::StoreStats;
pub use chunk::unpack as unpack_chunk;
#[cfg(feature = "postgres")]
pub use collect::PostgresCollection;
pub use collect::{
    AuditLine, Collection, Copied, Delivery, Destination, LONGEST_TEXT, Latest, Listed, Machine,
    Outbox, Provenance, Quarantined, Received, Refused, Role, SeriesStore, SqliteCollection,
    TextStore, Token, Total, Wanted, copy, is_database, text_hash,
};
pub use entry::{Lease, Summary};
pub use error::StoreError;
pub use experiment::ExperimentLease;
pub use filter::Filter;
pub use keep::{Aged, Entered, KeepLimits};
pub use merge::Merged;
pub use parts::{Lateness, commit_interval};
pub use place::default_path;
pub use slots::SlotFilter;
pub use store::Store;
pub use wake_windows::LONGEST_WAKE_WINDOW;
pub use writer::{Batch, Writer};
