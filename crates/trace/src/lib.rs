//! The kernel's tracers, as far as they tell who took time.
//!
//! **For:** finding tracefs ([`Tracefs`]); the flight recorder ([`Flight`]): an
//! own trace instance that overwrites its oldest events, read only when
//! something happened, with our own decoder of its pages ([`Page`],
//! [`Decoder`]) and what other tools read of them ([`trace_dat`]); a session of
//! the kernel's own detector of hardware latency ([`Hwlat`], the tracer
//! `hwlat`), and of its tracers of noise ([`Osnoise`]: `timerlat`, `osnoise`):
//! started in an instance of its own, read, stopped, and its settings
//! put back exactly. The only crate that writes to tracefs.
//!
//! **Knows:** the files of tracefs, the order in which the kernel wants them
//! written, the pages of its ring buffer, the fields of its events.
//!
//! **Must not know:** probes, recordings, terminals, what an event or a gap
//! means for the reader. The trace of others: of the top-level buffer only a
//! [`Marker`] knows, which a user asks for.
//!
//! What other programs must find as it was, and cannot keep in an instance,
//! stands in the instance's *name*: it is there before anything is changed, and
//! what a killed program left is undone from it ([`Tracefs::clear_left_behind`]).

mod error;
mod event;
mod export;
mod files;
mod flight;
mod gap;
mod hwlat;
mod left_behind;
mod marker;
mod name;
mod osnoise;
mod ring;
// Some of what the tests use, others use as well, and it names this crate.
#[cfg(test)]
extern crate self as punctual_trace;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tracefs;
mod tracer;
mod watch;

pub use error::TraceError;
pub use event::{Decoder, Format, Level};
pub use export::{Description, FormatText, LARGEST_TRACE, pack_pages, trace_dat, unpack_pages};
pub use files::{Files, Mount, RealFiles};
pub use flight::{Brake, ClockMap, Cut, Flight, NotRecorded, Owner, Plan, RawPage, Scout, Told};
pub use gap::Gap;
pub use hwlat::{Ask, HWLAT, Hwlat};
pub use marker::Marker;
pub use osnoise::{NoiseAsk, OSNOISE, Osnoise, TIMERLAT, UserWait};
pub use ring::{BadPage, Layout, Lost, Page, Record, Records};
pub use tracefs::Tracefs;
pub use watch::{WaitNote, Waiting, WakeupWatch, WatchAsk, WatchError};
