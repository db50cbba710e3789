//! Searches the event stream for waits for a CPU, or for jobs.

use punctual_culprit::{Late, LateWakeUps, Wait};
use punctual_host::Host;
use punctual_model::{Nanos, TraceEvent};

use punctual_trace::Followed;

use super::ObserveRequest;
use super::jobs::JobWatch;

/// Searches the scout's stream for one kind of span.
pub(super) enum Finder {
    Waits(LateWakeUps),
    Jobs(Box<JobWatch>),
}

impl Finder {
    pub(super) fn new(request: &ObserveRequest, host: &Host) -> Self {
        match &request.jobs {
            Some(jobs) => Self::Jobs(Box::new(JobWatch::new(host, jobs))),
            None => Self::Waits(LateWakeUps::new(request.explain.threshold)),
        }
    }

    /// Returns the waits or jobs that ended with this event.
    pub(super) fn take(&mut self, event: &TraceEvent, watched: &dyn Fn(u32) -> bool) -> Vec<Late> {
        match self {
            Self::Waits(waits) => match waits.take(event, watched) {
                Some(Wait::InTime(found) | Wait::TooLong(found)) => vec![found],
                None => Vec::new(),
            },
            Self::Jobs(jobs) => jobs.take(event, watched),
        }
    }

    pub(super) fn blind_until(&mut self, time: Nanos) {
        match self {
            Self::Waits(waits) => waits.blind_until(time),
            Self::Jobs(jobs) => jobs.blind_until(time),
        }
    }

    /// Returns the job watch, if jobs are followed.
    pub(super) fn jobs(&mut self) -> Option<&mut JobWatch> {
        match self {
            Self::Waits(_) => None,
            Self::Jobs(jobs) => Some(jobs),
        }
    }

    pub(super) fn without_end(&mut self) -> u64 {
        match self {
            Self::Waits(waits) => waits.take_without_end().len() as u64,
            Self::Jobs(_) => 0,
        }
    }

    /// Returns the threads and waits to follow from now on.
    pub(super) fn followed(&self, tids: Vec<u32>, has_ended: &dyn Fn(u32) -> bool) -> Followed {
        match self {
            Self::Waits(_) => Followed {
                tids,
                ..Followed::default()
            },
            Self::Jobs(jobs) => jobs.followed(tids, has_ended),
        }
    }

    pub(super) fn forget(&mut self, tid: u32) {
        if let Self::Jobs(jobs) = self {
            jobs.forget(tid);
        }
    }
}
