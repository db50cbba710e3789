//! Jobs, and the statistics of the jobs of a thread.

use std::collections::BTreeMap;

use punctual_model::{Comm, Histogram, KernelPriority, Nanos, ThreadState};

use super::call::Call;
use super::release::{FoundRelease, Releases, SeenWaits, Waits};

/// A completed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The thread.
    pub tid: u32,
    /// Name of the thread.
    pub comm: Comm,
    /// Priority of the thread at the last switch.
    pub prio: KernelPriority,
    /// The CPU on which it completed the job.
    pub cpu: u32,
    /// When the timer that ended its release wait was due, or when another event ended it.
    pub release: Nanos,
    /// Time at which the thread returned to its release wait.
    pub completion: Nanos,
    /// CPU time from release to completion.
    pub ran: Nanos,
    /// Time of the first event that explains the job. It is before the release if the thread was
    /// stopped by then.
    pub events_from: Nanos,
}

impl Job {
    /// Returns the time from release to completion.
    pub const fn response(&self) -> Nanos {
        self.completion.saturating_sub(self.release)
    }
}

/// A job in progress at the end of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenJobSeen {
    /// When the timer that ended its release wait was due, or when another event ended it.
    pub release: Nanos,
    /// State of the thread at the end.
    pub state: ThreadState,
    /// The system call that the thread was in at the end, with its beginning. `None` if there was
    /// none, or if it is unknown.
    pub call: Option<(Call, Nanos)>,
}

/// Statistics of the jobs of a thread.
#[derive(Clone, Debug, Default)]
pub struct JobSeen {
    /// Release wait of the thread; `None` if not found.
    pub release: Option<FoundRelease>,
    /// The second idle wait of the thread, if the threads of its process wait for events in turn.
    pub second_release: Option<FoundRelease>,
    /// Other idle waits of the thread, at most three, if it does not belong to a pool.
    pub also_idle: Vec<FoundRelease>,
    /// Places with comparable waits when the release wait was chosen, in descending order of
    /// waiting time. The release wait is one of them.
    pub candidates: Vec<SeenWaits>,
    /// Release waits that the thread has stopped using, oldest first; at most four.
    pub earlier: Vec<FoundRelease>,
    /// Time during which jobs were not counted. Either events that the search for a release wait
    /// needs were dropped, or the thread had stopped using its earlier release wait.
    pub not_counted: Nanos,
    /// Number of completed jobs.
    pub jobs: u64,
    /// Number of jobs that were released without waiting.
    pub at_once: u64,
    /// Number of these jobs that were released while the thread was stopped in its release wait.
    pub while_stopped: u64,
    /// Longest of these stops.
    pub longest_stop: Nanos,
    /// Number of jobs without an observed release or end.
    pub incomplete: u64,
    /// The job in progress at the end. It is also in `incomplete`.
    pub open: Option<OpenJobSeen>,
    /// Longest time in which the thread was busy with several jobs that the light stage could not
    /// tell apart, with its beginning.
    pub busy: Option<(Nanos, Nanos)>,
    pub(super) waits: Waits,
    /// Waits that the kernel has counted: all, and those at known places.
    pub(super) counted_waits: u64,
    pub(super) counted_places: BTreeMap<Call, (u64, Nanos)>,
    /// CPU time of each job.
    pub execution: Histogram,
}

impl JobSeen {
    /// Returns the number of waits of any kind.
    pub const fn waits(&self) -> u64 {
        self.waits.count + self.counted_waits
    }

    pub(super) fn releases(&self) -> Releases {
        let others = self.second_release.iter().chain(&self.also_idle);
        let mut others = others.map(|found| found.call);
        Releases {
            first: self.release.map(|found| found.call),
            others: std::array::from_fn(|_| others.next()),
        }
    }

    /// Returns the places where the thread waited, in descending order of total time.
    pub fn seen_waits(&self) -> Vec<SeenWaits> {
        let mut places = self.waits.seen_waits();
        for (call, (count, total)) in &self.counted_places {
            if let Some(place) = places.iter_mut().find(|place| place.call == *call) {
                place.count += count;
                place.total += *total;
            } else {
                places.push(SeenWaits {
                    call: *call,
                    count: *count,
                    total: *total,
                    period: None,
                });
            }
        }
        places.sort_by_key(|place| std::cmp::Reverse(place.total));
        places
    }
}
