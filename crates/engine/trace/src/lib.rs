//! Runs sessions of the kernel's tracers, which show the causes of latency.
//!
//! **For:** finding tracefs ([`Tracefs`]); the flight recorder ([`Flight`]): a separate trace
//! instance that overwrites its oldest events and is read only after an outlier, with a decoder for
//! its pages ([`Page`], [`Decoder`]) and export for other tools ([`trace_dat`]); sessions of the
//! kernel's hardware latency detector ([`Hwlat`], the tracer `hwlat`) and of its noise tracers
//! ([`Osnoise`]: `timerlat`, `osnoise`): these are started in a separate instance, read and
//! stopped, and all settings are restored exactly. This is the only crate that writes to tracefs.
//!
//! **Knows:** the files of tracefs and the order in which they must be written, the pages of its
//! ring buffer, and the fields of its events.
//!
//! **Must not know:** probes, recordings, terminals, or what an event or a gap means for latency.
//! This crate never changes the traces of other users. Only a [`Marker`] writes to the top-level
//! buffer, and only if the user requests it.
//!
//! Kernel-wide settings, which are not part of an instance, are stored in the *name* of the
//! instance before they are changed. If a program is killed, [`Tracefs::clear_left_behind`]
//! restores them from this name.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod activity;
mod bpf;
mod chain_events;
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
mod profile;
mod ring;
// The test support refers to this crate by name, because tests of other crates use parts of it.
#[cfg(test)]
extern crate self as punctual_trace;

#[cfg(test)]
mod sleeper;
mod stage;
mod steal;
mod stops;
mod switches;
#[allow(clippy::disallowed_methods, reason = "files of tests")]
pub mod testing;
mod text_trace;
mod tracefs;
mod tracer;
mod watch;

pub use activity::{ActivityNames, ActivityWatch};
pub use chain_events::ChainEvents;
pub use clock::ClockMap;
pub use error::{TraceError, WatchError};
pub use event::{Decoder, FieldPosition, Format};
pub use export::{Description, FormatText, LARGEST_TRACE, pack_pages, trace_dat, unpack_pages};
pub use files::{Files, RealFiles};
pub use flight::{
    Drained, EventChoice, Flight, Followed, HELD_BACK, InterruptionRecorder, ListedJob, NotAChoice,
    NotRecorded, Owner, Plan, RawPage, ReleaseCall, Scout, ScoutEvent, StackPart, StopHandle,
    Streamed, TraceSlice, WaitRecord,
};
pub use gap::Gap;
pub use hwlat::{Ask, HWLAT, Hwlat};
pub use jobs::{
    CallCost, CountAsk, CountedJobs, CountedWaits, CounterEvents, Descent, JobAsk, JobRecorder,
};
pub use late::LateStacks;
pub use lint::{FailedCalls, LintAsk, LintTarget, LintWatch};
pub use marker::Marker;
pub use mount::Mount;
pub use osnoise::{NoiseAsk, NoiseStop, OSNOISE, Osnoise, TIMERLAT, TraceSwitch, UserWait};
pub use profile::{Doing, RawStack, StackSample, StackSampler, Waker};
pub use punctual_model::EventLevel as Level;
pub use ring::{BadPage, Layout, Lost, Page, PageRecord, PageRecords};
pub use stage::Stage;
pub use steal::StealRecorder;
pub use stops::{RuntimeStops, StopPlaces};
pub use switches::{SchedulerCounts, ThreadSwitch, ThreadSwitches};
pub use text_trace::{NoEvents, NotOneEvent, TextAsk, TextEvents, TextTrace};
pub use tracefs::Tracefs;
pub use watch::{GroupAsk, GroupFinder, GroupsOf, WaitNote, Waiting, WakeupWatch, WatchAsk};
