//! Hands late waits and jobs to the explainer.

use punctual_culprit::Late;

use super::Observation;
use crate::explain::RawOutlier;
use crate::lifecycle::StoreWriter;

impl Observation<'_> {
    pub(super) fn explain(&mut self, late: &[Late], store: &mut StoreWriter<'_>) {
        let seen: Vec<RawOutlier> = late.iter().map(|late| self.sighting(late)).collect();
        let stored = (self.explainer).explain(seen, &self.start, store.writer());
        store.note(stored);
    }

    fn sighting(&self, late: &Late) -> RawOutlier {
        RawOutlier {
            thread: self.tracks.track_index(late.tid),
            tid: late.tid,
            cpu: Some(late.cpu),
            scheduling: self.tracks.scheduling(late),
            expected: late.expected,
            latency: late.latency(),
            delay: Some(late.delay),
            period: None,
            story_from: late.events_from,
        }
    }
}
