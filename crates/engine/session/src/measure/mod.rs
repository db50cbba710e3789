//! A measurement with a probe: checks before the run, the run, and its recording.

mod break_handler;
mod collector;
mod conditions;
mod cpu_locks;
mod outlier_command;
mod overhead;
mod periodic_tasks;
mod phase;
mod placement;
mod recording_builder;
mod rescue;
mod run;
mod session;
mod suspension;
mod trace_stop;

pub use cpu_locks::CpuLocks;
pub use session::{Session, can_be_explained};
