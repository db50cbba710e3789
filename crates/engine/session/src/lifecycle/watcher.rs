//! Live view of a measurement.

use std::time::Duration;

use punctual_model::{Histogram, IntervalRow, Jobs, Nanos, Outlier, Recording, Sample};

use super::view::Snapshot;

/// Follows a run.
pub trait Watcher {
    /// Called before the run begins; the recording is complete except for the measurements.
    fn begin(&mut self, recording: &Recording);
    /// Called several times per second, and once more when everything has been measured.
    fn progress(&mut self, snapshot: &Snapshot);
    /// Called when the run has ended.
    fn end(&mut self);

    /// Returns the interval of calls to [`progress`](Self::progress).
    fn every(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Returns whether a limit was reached that only the watcher checks. It is asked after each
    /// [`progress`](Self::progress) call. A run of a probe then ends as at a break.
    fn ends(&self) -> bool {
        false
    }

    /// Returns whether it wants [`samples`](Self::samples).
    fn wants_samples(&self) -> bool {
        false
    }

    /// Receives the exact samples of a thread after the warm-up, in order, before the
    /// [`progress`](Self::progress) call that counts them. Samples that did not fit into the ring
    /// are missing, and are counted in [`WorkerView::dropped`](crate::WorkerView::dropped).
    fn samples(&mut self, _thread: u32, _samples: &[Sample]) {}

    /// Returns whether it wants [`latencies`](Self::latencies) and [`outliers`](Self::outliers).
    fn wants_details(&self) -> bool {
        false
    }

    /// Receives the latencies of all workers so far, before each [`progress`](Self::progress) call.
    fn latencies(&mut self, _all: &Histogram) {}

    /// Receives the outliers that were explained since the last call, in order.
    fn outliers(&mut self, _new: &[Outlier]) {}

    /// Returns whether it wants [`jobs`](Self::jobs) now.
    fn wants_jobs(&self, _elapsed: Nanos) -> bool {
        false
    }

    /// Receives the jobs of an application so far: the rows of the time series, and what is known
    /// about each thread.
    fn jobs(&mut self, _elapsed: Nanos, _rows: Vec<IntervalRow>, _jobs: Jobs) {}
}
