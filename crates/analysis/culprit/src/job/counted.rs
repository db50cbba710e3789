//! Threads whose jobs the kernel counts. There are no events of them meanwhile.

use punctual_model::{Histogram, Nanos, SignedNanos};

use super::call::Call;
use super::finder::JobFinder;
use super::seen::Job;

/// Number of waits of a thread that show whether it has one release wait or several, whether it
/// belongs to a pool, and whether siblings end its waits. Fewer waits cost little.
const ENOUGH: u64 = 1_024;

/// The jobs of a thread that the kernel has counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// CPU time of each job.
    pub execution: &'a Histogram,
    /// Number of jobs whose release or end is unknown.
    pub incomplete: u64,
    /// Number of waits of any kind.
    pub waits: u64,
}

impl JobFinder {
    /// Returns the threads about which enough is known for the kernel to count their jobs. A thread
    /// with SCHED_DEADLINE begins its jobs without a wake-up.
    pub fn countable(&self) -> impl Iterator<Item = u32> {
        let known = self.threads.iter().filter(|(_, thread)| {
            thread.seen.release.is_some()
                && thread.learning.is_none()
                && thread.seen.waits.count >= ENOUGH
                && thread.state.prio.0 >= 0
        });
        known.map(|(tid, _)| *tid)
    }

    /// Notes that the kernel counts the jobs of a thread from now on. The thread begins its release
    /// wait.
    pub fn taken(&mut self, tid: u32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.seen.incomplete += u64::from(thread.state.interrupt());
            (thread.busy_since, thread.last_wait, thread.waited) = (None, None, None);
            thread.seen.waits.interrupt();
            thread.is_counted = true;
        }
    }

    /// Notes that the kernel does not count the jobs of a thread any more. `open`: release of its job
    /// in progress, and the CPU time since then.
    pub fn returned(&mut self, tid: u32, at: Nanos, open: Option<(Nanos, Nanos)>) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            let light = self.stages.light;
            thread.is_counted = false;
            thread.state.continues(at, open, light);
            let release = open.map(|(release, _)| release);
            thread.busy_since = release;
            thread.last_release = Some(release.unwrap_or(at));
            (thread.elsewhere, thread.seen_in_full) = (0, false);
        }
    }

    /// Counts a job that the kernel has timed but not counted.
    pub fn add_listed(&mut self, job: &Job) {
        if let Some(thread) = self.threads.get_mut(&job.tid) {
            thread.seen.jobs += 1;
            let ran = i64::try_from(job.ran.0).unwrap_or(i64::MAX);
            thread.seen.execution.record(SignedNanos(ran));
        }
    }

    /// Adds what the kernel has counted for a thread.
    pub fn add_counted(&mut self, tid: u32, counted: Counted<'_>) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.seen.jobs += counted.execution.count();
            thread.seen.execution.merge(counted.execution);
            thread.seen.incomplete += counted.incomplete;
            thread.seen.counted_waits += counted.waits;
        }
    }

    /// Adds counted waits at a place, which are among those of [`add_counted`](Self::add_counted).
    pub fn add_counted_waits(&mut self, tid: u32, call: Call, (count, total): (u64, Nanos)) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            let place = thread.seen.counted_places.entry(call).or_default();
            place.0 += count;
            place.1 += total;
        }
    }
}

#[cfg(test)]
#[path = "counted_tests.rs"]
mod tests;
