//! An error of what a run offers to a probe.

use std::error::Error;

/// An error of whoever implements a resource, shown as it is. Its type, which this
/// crate does not know, is that of the source; a text alone is no error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ProviderError(#[source] Box<dyn Error + Send + Sync>);

impl ProviderError {
    /// From a typed error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}
