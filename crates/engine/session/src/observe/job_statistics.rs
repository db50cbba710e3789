//! The statistics of the jobs of an observation.

use punctual_culprit::Late;
use punctual_model::{JobWindows, Jobs, ThreadJobs};

use super::Observation;
use super::finder::Finder;
use super::window_cost::taken;
use crate::lifecycle::{StoreWriter, monotonic};

impl Observation<'_> {
    /// Returns the final statistics of the jobs, including those of threads whose release wait has
    /// only now been found.
    pub(super) fn jobs(&mut self, store: &mut StoreWriter<'_>) -> Option<Jobs> {
        let Finder::Jobs(watch) = &mut self.finder else {
            return None;
        };
        let last = watch.finish();
        let late: Vec<Late> = last
            .into_iter()
            .filter(|found| self.record(found, true))
            .collect();
        self.explain(&late, store);
        let mut jobs = self.jobs_so_far()?;
        let windows = self.windows.as_mut().zip(self.explainer.programs());
        jobs.windows = windows.map(|(windows, programs)| {
            let taken = taken(programs, windows.cost());
            windows.finish(monotonic(), taken)
        });
        Some(jobs)
    }

    /// Returns the statistics of the jobs so far.
    pub(super) fn jobs_so_far(&self) -> Option<Jobs> {
        let Finder::Jobs(watch) = &self.finder else {
            return None;
        };
        let by_observer = self.explainer.by_observer();
        let end = monotonic();
        let mut jobs = watch.jobs((by_observer, self.start.monotonic, end), |tid| {
            self.tracks.track_index(tid)
        });
        // A thread without events also has no release wait.
        for tid in self.watched.first.keys() {
            let thread = self.tracks.track_index(*tid);
            if !jobs.threads.iter().any(|one| one.thread == thread) {
                jobs.threads.push(ThreadJobs {
                    thread,
                    ..ThreadJobs::default()
                });
            }
        }
        jobs.threads.sort_by_key(|one| one.thread);
        jobs.windows = self.windows.as_ref().map(|_| JobWindows::default());
        Some(jobs)
    }
}
