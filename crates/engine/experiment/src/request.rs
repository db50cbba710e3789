//! What is asked of a check-up, and why there can be none.

use std::ffi::OsString;
use std::path::PathBuf;

use punctual_loads::LoadRequest;
use punctual_model::{CpuSet, LoopRequirement, Nanos};
use punctual_probes::ProbeError;
use punctual_session::SessionError;

/// A condition that was measured for less is not judged: it has too few blocks.
pub(crate) const LEAST: Nanos = Nanos::from_secs(10);

/// What is asked of a check-up.
#[derive(Clone, Debug)]
pub struct CheckRequest {
    /// What the loop needs.
    pub requirement: LoopRequirement,
    /// The CPUs to measure; `None`: all that this process may use.
    pub cpus: Option<CpuSet>,
    /// The loop's priority; `None`: 95, or the highest that may be had.
    pub priority: Option<u8>,
    /// How long without load; zero leaves it out.
    pub idle: Nanos,
    /// How long under load.
    pub loaded: Nanos,
    /// What disturbs under load; empty leaves that condition out.
    pub loads: Vec<LoadRequest>,
    /// How long the hardware probe; zero leaves it out.
    pub hardware: Nanos,
    /// Measure the last condition until it is decided, so long at most.
    pub until_proven: Option<Nanos>,
    /// As in [`punctual_session::Request::journal`].
    pub journal: Option<PathBuf>,
    /// As in [`punctual_session::Request::partner`].
    pub partner: Option<Vec<OsString>>,
    /// A name for the recordings; `None`: `check`.
    pub label: Option<String>,
    /// The command line, as the program got it.
    pub command_line: Vec<String>,
}

/// Why there can be no check-up.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A parameter of a probe is out of its range.
    #[error("{0}")]
    Parameter(String),
    /// There is nothing to measure.
    #[error("nothing to measure: allow a time without load, or name a load")]
    Nothing,
    /// A probe that is not there.
    #[error(transparent)]
    Probe(ProbeError),
    /// A measurement.
    #[error(transparent)]
    Session(#[from] SessionError),
}
