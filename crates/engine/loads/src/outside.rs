//! A load outside the control group of the measuring program.

use std::path::PathBuf;

use punctual_model::CpuSet;

/// Target of a load that leaves its control group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// The files `cgroup.procs` of the groups to run in, one for each hierarchy.
    pub groups: Vec<PathBuf>,
    /// The CPUs to run on if the load names none; empty for all that these groups allow.
    pub cpus: CpuSet,
}
