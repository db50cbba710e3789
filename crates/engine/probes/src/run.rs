//! What the runs of all probes have in common.

use punctual_model::{Nanos, Scheduling};
use punctual_rt::ThreadBuilder;

use crate::Plan;
use crate::policy::measuring_thread;

/// Returns the end of a run that begins at `start`. A run without a length has no end.
pub(crate) fn end_of(start: Nanos, duration: Option<Nanos>) -> Nanos {
    duration.map_or(Nanos(u64::MAX), |duration| start + duration)
}

/// What a run takes from its plan.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) cpus: Vec<u32>,
    pub(crate) scheduling: Scheduling,
    /// Length including the warm-up; `None` to run until stopped.
    pub(crate) duration: Option<Nanos>,
    pub(crate) warm_up: Nanos,
}

impl Terms {
    pub(crate) fn from_plan(plan: &Plan) -> Self {
        Self {
            cpus: plan.cpus.iter().collect(),
            scheduling: plan.scheduling,
            duration: plan.duration,
            warm_up: plan.warm_up_of(plan.duration),
        }
    }

    /// Prepares the measuring thread of a CPU.
    pub(crate) fn thread(&self, name: &str, cpu: u32) -> ThreadBuilder {
        measuring_thread(&format!("{name}/{cpu}"), &[cpu], self.scheduling)
    }

    /// Returns the offset between the threads of the CPUs that spreads them over the interval.
    pub(crate) fn spread(&self, interval: Nanos) -> u64 {
        interval.0 / self.cpus.len().max(1) as u64
    }
}
