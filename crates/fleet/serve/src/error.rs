//! Why the server cannot be started, cannot show something, or refuses a delivery; why a
//! machine cannot deliver.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Why the server cannot be started, or a name gets no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Tokens would cross a network as plain text.
    #[error(
        "{0} is reachable from other machines, and tokens would be sent as plain text: give --tls CERT KEY, or --behind-proxy if a proxy provides TLS"
    )]
    PlainOutside(SocketAddr),
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("cannot use {path}: {reason}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The runtime cannot be started.
    #[error("cannot start the server: {0}")]
    Runtime(std::io::Error),
    /// No random numbers.
    #[error("cannot draw a token: {0}")]
    Random(std::io::Error),
    /// A name that cannot be shown in a list or a URL.
    #[error(
        "'{0}' is not a name of a machine: use 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
    )]
    Name(String),
    /// The name has a token.
    #[error("'{0}' has a token already: revoke it first with: punctual serve revoke {0}")]
    Taken(String),
    /// The store.
    #[error(transparent)]
    Store(#[from] punctual_store::StoreError),
}

/// What ended a delivery before all was delivered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliverError {
    /// The URL cannot be used.
    #[error("'{0}' is not the URL of a collector: use https://HOST:PORT, or http:// on loopback")]
    Url(String),
    /// The trusted certificates cannot be read.
    #[error("cannot read trusted certificates: {0}; give a PEM file with --ca FILE")]
    Roots(String),
    /// The collector does not accept the token.
    #[error("the collector refuses this token ({status}): {message}")]
    Token {
        /// The HTTP status.
        status: u16,
        /// What it says.
        message: String,
    },
    /// No answer, or no room, for as long as was to be tried.
    #[error("{0}; what is left is due at the next call")]
    GaveUp(String),
    /// The store.
    #[error(transparent)]
    Store(#[from] punctual_store::StoreError),
}

/// Why series and evidence, which a server shows beside its collection, cannot be read,
/// judged or written: an error of whoever has them, with its causes.
#[derive(Clone, Debug)]
pub struct SourceError(Arc<dyn Error + Send + Sync>);

impl SourceError {
    /// From an error, or from a sentence.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(error.into()))
    }
}

/// With all causes: what a page shows is all that its reader learns.
impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// The causes are in the message: it has no source that could be shown twice.
impl Error for SourceError {}

impl From<punctual_store::StoreError> for SourceError {
    fn from(error: punctual_store::StoreError) -> Self {
        Self::new(error)
    }
}

/// Why a delivery is not taken; each is a sentence for the machine that delivers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// The body does not unpack, is too large, or is not what it is named.
    #[error("{0}")]
    Body(String),
    /// The recording is not text.
    #[error("it is not UTF-8")]
    NotText,
    /// It does not read.
    #[error(transparent)]
    NotARecording(#[from] punctual_model::ReadError),
    /// It has another ID than the path.
    #[error("its ID is not the one of the path")]
    OtherId,
    /// It is still running.
    #[error("it is not finished")]
    NotFinished,
    /// More threads than a recording can have.
    #[error("it has too many threads")]
    TooManyThreads,
    /// An interval of a thread that is not there.
    #[error("an interval is of no thread")]
    NoThread,
    /// Intervals that a store would list otherwise.
    #[error("its intervals are not in the order of time and thread")]
    OutOfOrder,
    /// A label or a name that is longer than its limit.
    #[error(transparent)]
    LongText(#[from] punctual_model::TooLongText),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_says_all_causes() {
        let cause = std::io::Error::other("no disk");
        let listen = ServeError::Listen {
            address: SocketAddr::from(([127, 0, 0, 1], 80)),
            source: cause,
        };
        let error = SourceError::new(listen);
        assert_eq!(
            error.to_string(),
            "cannot listen on 127.0.0.1:80: no disk: no disk"
        );
        assert_eq!(
            SourceError::new("no such series").to_string(),
            "no such series"
        );
    }
}
