//! Who looks on while a measurement runs.

use punctual_model::Recording;

use crate::collect::Snapshot;

/// Is told how a run goes.
pub trait Watcher {
    /// It is about to begin; the recording is complete but for what is
    /// measured.
    fn begin(&mut self, recording: &Recording);
    /// Several times a second.
    fn progress(&mut self, snapshot: &Snapshot);
    /// It is over.
    fn end(&mut self);
}
