//! The kernel's tracers, as far as they tell who took time.
//!
//! **For:** finding tracefs ([`Tracefs`]), and a session of the kernel's own
//! detector of hardware latency ([`Hwlat`], the tracer `hwlat`): started in a
//! trace instance of its own, read, stopped, and its settings put back exactly.
//! The only room that writes to tracefs.
//!
//! **Knows:** the files of tracefs, the order in which the kernel wants them
//! written, the lines that it prints.
//!
//! **Must not know:** probes, recordings, terminals, what a gap means for the
//! reader. The trace of others: of the top-level buffer only a [`Marker`] knows,
//! which a user asks for.
//!
//! What other programs must find as it was, and cannot keep in an instance,
//! stands in the instance's *name*: it is there before anything is changed, and
//! what a killed program left is undone from it ([`Tracefs::clear_left_behind`]).

mod error;
mod files;
mod gap;
mod hwlat;
mod marker;
mod name;
mod restore;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tracefs;
mod watch;

pub use error::TraceError;
pub use files::{Files, RealFiles};
pub use gap::Gap;
pub use hwlat::{Ask, HWLAT, Hwlat};
pub use marker::Marker;
pub use tracefs::Tracefs;
pub use watch::{WakeupWatch, WatchAsk, WatchError};
