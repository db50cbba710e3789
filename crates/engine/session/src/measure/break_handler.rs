//! Stops recording at the break, before anything else happens.

use std::io;
use std::sync::{Arc, OnceLock};

use punctual_probes::{Broke, OnBreak};
use punctual_trace::StopHandle;

use super::trace_stop::TraceStop;

/// Called at the break by the thread that measured the sample. Stops our own flight recorder,
/// because the events of the outlier would soon be overwritten if the thread that reads them gets
/// no CPU time. Marks the user's own trace.
#[derive(Debug)]
pub(crate) struct BreakHandler {
    pub(crate) recorder: Option<Arc<StopHandle>>,
    pub(crate) mark: Option<TraceStop>,
    failure: OnceLock<io::Error>,
}

impl BreakHandler {
    pub(crate) fn new(recorder: Option<Arc<StopHandle>>, mark: Option<TraceStop>) -> Self {
        Self {
            recorder,
            mark,
            failure: OnceLock::new(),
        }
    }

    /// Returns warnings for the reader of the recording.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let recorder = self.failure.get().map(|error| {
            format!(
                "the event recorder could not be stopped at the break ({error}): the events \
                 before the break may have been overwritten"
            )
        });
        let mark = self.mark.as_ref().and_then(TraceStop::warning);
        recorder.into_iter().chain(mark)
    }
}

impl OnBreak for BreakHandler {
    fn broke(&self, broke: Broke) {
        if let Some(recorder) = &self.recorder
            && let Err(error) = recorder.stop()
        {
            let _ = self.failure.set(error);
        }
        if let Some(mark) = &self.mark {
            mark.broke(broke);
        }
    }
}
