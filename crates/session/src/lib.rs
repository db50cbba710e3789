//! One measurement from start to finish: host facts, load, probe, recording.
//!
//! **For:** the order of things in a run ([`Session::prepare`], then
//! [`Session::run`]), what is asked of it ([`Request`]), and the housekeeping
//! while it runs: draining the lanes, cutting the time series, writing to the
//! store, telling a [`Watcher`].
//!
//! **Knows:** probes, loads, tune, trace, culprit, host, store, `rt`.
//!
//! **Must not know:** the terminal, other tools' formats, how a report looks.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod at_break;
mod collect;
mod draft;
mod error;
mod explain;
mod export;
mod guards;
mod housekeeping;
mod keep;
mod lease;
mod lent;
mod memory;
mod noise;
mod observe;
mod phase;
mod quota;
mod request;
mod resources;
mod rights;
mod rise;
mod run;
mod settings;
mod suspension;
mod time;
mod tracemark;
mod tracer;
mod wakeups;
mod watcher;

pub use collect::{LaneView, Snapshot};
pub use error::SessionError;
pub use export::export_trace;
pub use keep::{Keep, LaterStore};
pub use lease::{lease, may_live};
pub use lent::recover_tracer;
pub use observe::{ObserveRequest, Targets, observe};
pub use punctual_trace::Level;
pub use request::{ExplainRequest, PhaseError, PhaseRequest, Request, RunLength, Tracemark};
pub use rights::real_time_refused;
pub use run::{Outcome, Session, can_be_explained};
pub use wakeups::{WakeupRequest, WakeupSession};
pub use watcher::Watcher;
