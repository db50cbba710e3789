//! The request for a check-up, and the errors of a check-up.

use std::ffi::OsString;
use std::path::PathBuf;

use punctual_loads::LoadRequest;
use punctual_model::{CpuSet, LoopRequirement, Nanos};
use punctual_probes::ProbeError;
use punctual_session::SessionError;

/// Minimum time of a condition. In a shorter time, there would be too few blocks for a verdict.
pub(crate) const LEAST: Nanos = Nanos::from_secs(10);

/// The request for a check-up.
#[derive(Clone, Debug)]
pub struct CheckRequest {
    /// The requirements of the loop.
    pub requirement: LoopRequirement,
    /// The CPUs to measure; `None` for all CPUs that this process may use.
    pub cpus: Option<CpuSet>,
    /// The priority of the loop; `None` for 95 or the highest available priority.
    pub priority: Option<u8>,
    /// Time without load; zero to skip this condition.
    pub idle: Nanos,
    /// Time under load.
    pub loaded: Nanos,
    /// The background loads; empty to skip the condition under load.
    pub loads: Vec<LoadRequest>,
    /// Whether the loop starts at a fixed phase, as it does if a load has one.
    pub in_phase: bool,
    /// Time of the hardware probe; zero to skip this probe.
    pub hardware: Nanos,
    /// Maximum time of the last condition, if that is measured until the result is decided.
    pub until_proven: Option<Nanos>,
    /// See [`punctual_session::MachineRequest::journal`].
    pub journal: Option<PathBuf>,
    /// See [`punctual_session::Request::partner`].
    pub partner: Option<Vec<OsString>>,
    /// A name for the recordings; `None` for `check`.
    pub label: Option<String>,
    /// The command line as the program received it.
    pub command_line: Vec<String>,
}

/// The reason why a check-up is impossible.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A probe parameter is out of range.
    #[error("{0}")]
    Parameter(String),
    /// There is nothing to measure.
    #[error("nothing to measure: include a time without load, or name a load")]
    Nothing,
    /// The probe is not available.
    #[error(transparent)]
    Probe(ProbeError),
    /// An error of a measurement.
    #[error(transparent)]
    Session(#[from] SessionError),
}
