//! A load outside of the control group that the measuring program is in.

use std::path::PathBuf;

use punctual_model::CpuSet;

/// Where a load runs that leaves a control group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// The files `cgroup.procs` of the groups to run in, one for each hierarchy.
    pub groups: Vec<PathBuf>,
    /// The CPUs to run on, where the load names none; empty: all that these groups allow.
    pub cpus: CpuSet,
}
