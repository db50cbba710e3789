//! Errors from pushing.

/// Errors that end a delivery early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliverError {
    /// The URL cannot be used.
    #[error("'{0}' is not the URL of a collector: use https://HOST:PORT, or http:// on loopback")]
    Url(String),
    /// The trusted certificates cannot be read.
    #[error("cannot read trusted certificates: {0}; specify a PEM file with --ca FILE")]
    Roots(String),
    /// The collector does not accept the token.
    #[error("the collector refuses this token ({status}): {message}")]
    Token {
        /// The HTTP status.
        status: u16,
        /// The message of the collector.
        message: String,
    },
    /// The collector cannot be used until the configuration is changed, or a check has failed.
    #[error("{0}")]
    Unusable(String),
    /// There was no answer, or no space, for the given time.
    #[error("{0}; the remaining data will be delivered by the next call")]
    GaveUp(String),
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] punctual_store::StoreError),
}
