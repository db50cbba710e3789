//! The result of a run.

use punctual_model::cause::LatenessProfile;
use punctual_model::{ApplicationChange, Recording};
use punctual_probes::Broke;
use punctual_store::StoreError;

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The recording.
    pub recording: Recording,
    /// Reason why the store does not have all of it.
    pub store_error: Option<StoreError>,
    /// Sample that ended the run by exceeding the break value.
    pub broke: Option<Broke>,
    /// The lateness profile. `None` if it was not requested, or if no job was late.
    pub profile: Option<LatenessProfile>,
    /// Changes of the watched application. The recording has a warning of each. Empty if it was
    /// observed without tracing.
    pub changes: Vec<ApplicationChange>,
}
