//! What a store has beside the recordings of its collection: events of outliers, samples.

use std::fmt;
use std::sync::Arc;

use punctual_model::Recording;
use punctual_report::OutlierTimeline;

use crate::SourceError;

/// Finds it.
pub trait Evidence: Send + Sync {
    /// An explained outlier with its events; `None`: they are not kept here.
    ///
    /// # Errors
    /// What reading can fail with.
    fn timeline(
        &self,
        recording: &Recording,
        number: u64,
    ) -> Result<Option<OutlierTimeline>, SourceError>;

    /// All that is kept of a recording, as a `.tar.zst`.
    ///
    /// # Errors
    /// What reading and packing can fail with.
    fn bundle(&self, recording: &Recording) -> Result<Vec<u8>, SourceError>;
}

/// Where evidence comes from, if from anywhere.
#[derive(Clone, Default)]
pub struct EvidenceSource(pub Option<Arc<dyn Evidence>>);

impl fmt::Debug for EvidenceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = if self.0.is_some() { "given" } else { "none" };
        f.debug_tuple("EvidenceSource").field(&known).finish()
    }
}
