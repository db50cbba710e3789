//! The view of a measurement while it runs.

use std::time::Duration;

use punctual_model::{Recording, Sample};

use crate::collect::Snapshot;

/// Follows a run.
pub trait Watcher {
    /// It is about to begin; the recording is complete but for what is
    /// measured.
    fn begin(&mut self, recording: &Recording);
    /// Several times a second, and once more when all has been measured.
    fn progress(&mut self, snapshot: &Snapshot);
    /// It is over.
    fn end(&mut self);

    /// How often [`progress`](Self::progress) is called.
    fn every(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Whether it wants [`samples`](Self::samples).
    fn wants_samples(&self) -> bool {
        false
    }

    /// Samples of a thread after the warm-up, in their order and exact, before
    /// the [`progress`](Self::progress) that counts them. Those that the
    /// hand-over had no room for are missing, and are counted in
    /// [`LaneView::dropped`](crate::LaneView::dropped).
    fn samples(&mut self, _thread: u32, _samples: &[Sample]) {}
}
