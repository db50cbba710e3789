//! Errors of the resources that a run offers to a probe.

use std::error::Error;

/// An error from the implementation of a resource, which is shown unchanged. Its type is defined by
/// the implementation and is unknown to this crate. It cannot be created from text alone.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ProviderError(#[source] Box<dyn Error + Send + Sync>);

impl ProviderError {
    /// Wraps a typed error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}
