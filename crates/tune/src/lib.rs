//! Settings of the machine: changed with a journal, undone exactly.
//!
//! **For:** changing a setting ([`Journal::apply`]) so that it can be put back
//! whatever happens: the old value is on disk before the change is made, the
//! change is read back after it, and [`Journal::revert_all`] undoes all of them
//! in reverse order. What a killed program left behind is undone by
//! [`recover`]. The only room that writes to /proc and /sys.
//!
//! **Knows:** where each setting stands (one entry each in [`KNOBS`]), the
//! host (its root path, its boot, its processes).
//!
//! **Must not know:** which value is good (that is for others to say), probes,
//! recordings, terminals.
//!
//! Why this order: a journal that is written first may tell of a change that
//! was never made, and then there is nothing to put back. The other way round,
//! a change could be made that nobody knows of.

mod error;
mod journal;
mod knob;
mod layer;
mod lock;
mod place;
mod record;
mod recover;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod undo;

pub use error::{Failure, TuneError};
pub use journal::{Change, Journal};
pub use knob::{KNOBS, Knob, knob};
pub use place::default_path;
pub use recover::recover;
pub use undo::{How, Restored};
