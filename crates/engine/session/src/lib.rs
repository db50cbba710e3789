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

mod application;
mod control_group;
mod error;
mod events;
mod explain;
mod in_app;
mod kernel_trace;
mod lifecycle;
mod lint;
mod machine;
mod measure;
mod observe;
mod request;
mod switches;
mod targets;
mod trace_file;

pub use application::ApplicationRequest;
pub use control_group::JoinError;
pub use error::SessionError;
pub use events::{
    ActivitySession, ChainSession, InterruptionCounter, WakeupRequest, WakeupSession,
};
pub use explain::export_trace;
pub use in_app::{
    Application, ChannelLimits, ChannelState, InAppRequest, applications, record_application,
};
pub use kernel_trace::{
    KernelTrace, KernelTraceError, KernelTraceRequest, SavedHistogram, TracerGroup,
};
pub use lifecycle::{LaterStore, Outcome, RecordingSink, Snapshot, Watcher, WorkerView};
pub use lint::{LintRequest, lint};
pub use machine::{Membership, real_time_refused, recover_tracer};
pub use measure::{CpuLocks, Session, can_be_explained};
pub use observe::{
    JobDetail, JobRequest, ObserveRequest, Release, ReleaseError, ReleaseKind, observe,
    observe_unprivileged,
};
pub use punctual_trace::{EventChoice, Level, NoiseStop, TextAsk, TextEvents};
pub use request::{
    ExplainRequest, LimitRequest, MachineRequest, OnOutlier, PhaseError, PhaseRequest,
    RecordingRequest, Request, RunLength, SeriesRequest, ThreadRequest, Tracemark,
};
pub use targets::{Program, Subject, TargetError, Targets};
pub use trace_file::{
    ExplainedTrace, GuestTraceError, GuestTraces, TraceRequest, explain_guest, explain_trace,
    explain_trace_jobs, trace_chains, trace_threads,
};
