//! Sessions of the kernel's tracers, which show the causes of latency.
//!
//! **For:** finding tracefs ([`Tracefs`]); the flight recorder ([`Flight`]): a separate trace
//! instance that overwrites its oldest events and is read only after an outlier, with a decoder of
//! its pages ([`Page`], [`Decoder`]) and export for other tools ([`trace_dat`]); sessions of the
//! kernel's hardware latency detector ([`Hwlat`], the tracer `hwlat`) and of its noise tracers
//! ([`Osnoise`]: `timerlat`, `osnoise`): started in a separate instance, read and stopped, with all
//! settings restored exactly. The only crate that writes to tracefs.
//!
//! **Knows:** the files of tracefs and their order of writing, the pages of its ring buffer, the
//! fields of its events.
//!
//! **Must not know:** probes, recordings, terminals, the meaning of an event or a gap for latency.
//! It never changes other users' traces: only a [`Marker`], on the user's request, writes to the
//! top-level buffer.
//!
//! Kernel-wide settings, which are not part of an instance, are stored in the *name* of the
//! instance before they are changed. If a program is killed, [`Tracefs::clear_left_behind`]
//! restores them from this name.

mod bpf;
mod clock;
mod error;
mod event;
mod export;
mod files;
mod flight;
mod gap;
mod hwlat;
mod jobs;
mod late;
mod left_behind;
mod lint;
mod marker;
mod mount;
mod name;
mod osnoise;
mod ring;
// Other crates' tests use parts of the test support, which refers to this crate by name.
#[cfg(test)]
extern crate self as punctual_trace;

mod steal;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tracefs;
mod tracer;
mod watch;

pub use clock::ClockMap;
pub use error::{TraceError, WatchError};
pub use event::{Decoder, FieldPosition, Format};
pub use export::{Description, FormatText, LARGEST_TRACE, pack_pages, trace_dat, unpack_pages};
pub use files::{Files, RealFiles};
pub use flight::{
    Drained, EventChoice, Flight, Followed, HELD_BACK, InterruptionRecorder, NotAChoice,
    NotRecorded, Owner, Plan, RawPage, Scout, ScoutEvent, StopHandle, TraceSlice,
};
pub use gap::Gap;
pub use hwlat::{Ask, HWLAT, Hwlat};
pub use jobs::{CallCost, Descent, JobAsk, JobRecorder};
pub use late::LateStacks;
pub use lint::{LintAsk, LintTarget, LintWatch};
pub use marker::Marker;
pub use mount::Mount;
pub use osnoise::{NoiseAsk, OSNOISE, Osnoise, TIMERLAT, UserWait};
pub use punctual_model::EventLevel as Level;
pub use ring::{BadPage, Layout, Lost, Page, PageRecord, PageRecords};
pub use steal::StealRecorder;
pub use tracefs::Tracefs;
pub use watch::{GroupAsk, GroupFinder, GroupsOf, WaitNote, Waiting, WakeupWatch, WatchAsk};
