//! A load outside the control group of the measuring program.

use std::path::PathBuf;

use punctual_model::CpuSet;

/// Where to run a load that leaves the control group of the measuring program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// The `cgroup.procs` files of the groups to run in, one for each hierarchy.
    pub groups: Vec<PathBuf>,
    /// The CPUs to run on if the load names none; empty for all CPUs that these groups allow.
    pub cpus: CpuSet,
}
