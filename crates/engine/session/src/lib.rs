//! Performs one measurement from start to finish: host facts, load, probe, recording.
//!
//! **For:** the sequence of a run ([`Session::prepare`], then [`Session::run`]), its parameters
//! ([`Request`]), and the housekeeping while it runs: draining the workers, building the time series,
//! writing to the store, reporting to a [`Watcher`].
//!
//! **Knows:** probes, loads, tune, trace, culprit, checks, host, store, `rt`.
//!
//! **Must not know:** the terminal, other tools' formats, the appearance of a report.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod activities;
mod audit;
mod break_handler;
mod collect;
mod cpu_locks;
mod error;
mod explain;
mod export;
mod guards;
mod guest_trace;
mod in_app;
mod interruptions;
mod lease;
mod lifecycle;
mod lint;
mod membership;
mod memory;
mod no_programs;
mod noise;
mod observe;
mod outcome;
mod outlier_command;
mod overhead;
mod periodic_tasks;
mod phase;
mod quota;
mod recording_builder;
mod recording_sink;
mod request;
mod resources;
mod rights;
mod run;
mod session;
mod settings;
mod suspension;
mod target_error;
mod targets;
mod time;
mod trace_file;
mod trace_stop;
mod tracer;
mod tracer_handle;
mod wakeups;
mod watcher;

pub use activities::ActivitySession;
pub use collect::{Snapshot, WorkerView};
pub use cpu_locks::CpuLocks;
pub use error::SessionError;
pub use export::export_trace;
pub use guest_trace::{GuestTraceError, GuestTraces, explain_guest};
pub use in_app::{Application, ChannelState, InAppRequest, applications, record_application};
pub use interruptions::InterruptionCounter;
pub use lease::{lease, may_live};
pub use lint::{LintRequest, lint};
pub use membership::Membership;
pub use observe::{
    JobDetail, JobRequest, ObserveRequest, Release, ReleaseError, ReleaseKind, observe,
};
pub use outcome::Outcome;
pub use outlier_command::OnOutlier;
pub use punctual_trace::{EventChoice, Level};
pub use recording_sink::{LaterStore, RecordingSink};
pub use request::{ExplainRequest, PhaseError, PhaseRequest, Request, RunLength, Tracemark};
pub use rights::real_time_refused;
pub use session::{Session, can_be_explained};
pub use target_error::TargetError;
pub use targets::Targets;
pub use trace_file::{ExplainedTrace, TraceRequest, explain_trace};
pub use tracer_handle::recover_tracer;
pub use wakeups::{WakeupRequest, WakeupSession};
pub use watcher::Watcher;
