//! Tests that run the commands as a user would.
//!
//! The other test programs in this folder need a quiet machine or another kernel, or the gate
//! requires a minimum number of their tests to pass.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod app;
mod bad_input;
mod bundle;
mod checking;
mod clients;
mod common;
mod comparing;
mod compat;
mod container;
mod doctor;
mod documents;
mod every_probe;
mod everyday;
mod exits;
mod experimenting;
mod explain_guest;
mod explain_trace;
mod firefox;
mod hostile;
mod importing;
mod interactive;
mod looking_back;
#[path = "../../../../engine/tracefile/tests/it/made.rs"]
mod made;
mod measuring;
mod model_context;
mod monitoring;
mod on_outlier;
mod outputs;
mod perf_times;
mod perfetto;
mod schemas;
mod series;
mod signing;
mod subjects;
mod trace_chains;
mod tuning;
mod unprivileged;
mod watching;
