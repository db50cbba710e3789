//! Reserves CPUs for one measurement, unless the user allows sharing.

use anyhow::Result;
use clap::Args;
use punctual_host::Host;
use punctual_model::CpuSet;
use punctual_session::CpuLocks;

use crate::output;

// Whether the measured CPUs may be shared with another measurement.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Sharing {
    /// Measure even if another measurement uses these CPUs
    #[arg(long)]
    pub(crate) share_cpus: bool,
}

impl Sharing {
    /// Reserves the CPUs to measure. Returns `None` if they may be shared.
    pub(crate) fn hold(self, cpus: Option<&CpuSet>, what: &str) -> Result<Option<CpuLocks>> {
        if self.share_cpus {
            return Ok(None);
        }
        let folders = crate::context::cpu_locks();
        let held = CpuLocks::hold_usual(&folders, cpus, &Host::live(), what)?;
        held.refusal().into_iter().for_each(output::note);
        Ok(Some(held))
    }
}
