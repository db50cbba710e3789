//! Errors of the resources that a run offers to a probe.

use std::error::Error;

/// An error of a resource's implementation, shown unchanged. Its type is defined by the
/// implementation and unknown to this crate. It cannot be created from a text alone.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ProviderError(#[source] Box<dyn Error + Send + Sync>);

impl ProviderError {
    /// Wraps a typed error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}
