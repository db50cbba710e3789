//! Hardware counters of jobs.

use punctual_culprit::{JobCounters, Late};
use punctual_model::{CounterReading, HardwareCounters};

use super::ObserveRequest;
use crate::explain::Explainer;

/// The counters of an observation's jobs, or the reason why there are none.
pub(super) struct CounterWatch(Result<JobCounters, String>);

impl CounterWatch {
    /// Begins to read counters, if jobs are followed and counters are wanted.
    pub(super) fn begin(request: &ObserveRequest, explainer: &mut Explainer) -> Option<Self> {
        if request.jobs.is_none() || request.no_counters {
            return None;
        }
        Some(Self(match explainer.programs() {
            Some(programs) => match programs.no_counters() {
                None => Ok(JobCounters::default()),
                Some(why) => Err(format!("no hardware counters: {why}")),
            },
            None => Err("hardware counters are read by BPF programs, which do not run".to_owned()),
        }))
    }

    pub(super) fn take(&mut self, reading: &CounterReading) {
        self.0
            .iter_mut()
            .for_each(|counters| counters.take(reading));
    }

    pub(super) fn lost(&mut self) {
        self.0.iter_mut().for_each(JobCounters::lost);
    }

    pub(super) fn forget(&mut self, tid: u32) {
        self.0.iter_mut().for_each(|counters| counters.forget(tid));
    }

    /// Compares a job with typical ones, and adds it to them if it is one.
    pub(super) fn job(&mut self, job: &Late, is_typical: bool) -> HardwareCounters {
        match &mut self.0 {
            Ok(counters) => counters.job(job.tid, (job.expected, job.actual), is_typical),
            Err(why) => HardwareCounters::Unknown(why.clone()),
        }
    }
}
