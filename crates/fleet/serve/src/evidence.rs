//! Evidence that a store has in addition to recordings: events of outliers, samples.

use std::fmt;
use std::sync::Arc;

use punctual_model::Recording;
use punctual_report::OutlierTimeline;

use crate::SourceError;

/// Finds evidence.
pub trait Evidence: Send + Sync {
    /// Returns an explained outlier with its events, or `None` if this store does not have them.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    fn timeline(
        &self,
        recording: &Recording,
        number: u64,
    ) -> Result<Option<OutlierTimeline>, SourceError>;

    /// Returns all data of a recording, as a `.tar.zst`.
    ///
    /// # Errors
    /// Returns an error if reading or packing fails.
    fn bundle(&self, recording: &Recording) -> Result<Vec<u8>, SourceError>;
}

/// The source of evidence, if there is one.
#[derive(Clone, Default)]
pub struct EvidenceSource(pub Option<Arc<dyn Evidence>>);

impl fmt::Debug for EvidenceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = if self.0.is_some() { "given" } else { "none" };
        f.debug_tuple("EvidenceSource").field(&known).finish()
    }
}
