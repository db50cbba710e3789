//! Errors from starting the server, showing data, and accepting deliveries.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use punctual_model::{ReadError, SCHEMA_VERSION};

/// Errors from starting the server or creating a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Tokens would cross a network in plain text.
    #[error(
        "{0} is reachable from other machines, and tokens would be sent unencrypted: use --tls \
         CERT KEY, or --behind-proxy if a proxy provides TLS"
    )]
    PlainOutside(SocketAddr),
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("cannot use {path}: {reason}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The runtime cannot be started.
    #[error("cannot start the server: {0}")]
    Runtime(std::io::Error),
    /// No random numbers are available.
    #[error("cannot generate a token: {0}")]
    Random(std::io::Error),
    /// The name is not suitable for lists and URLs.
    #[error(
        "'{0}' is not a valid machine name: use 1 to 64 letters, digits, '.', '_' or '-', and \
         begin with a letter or digit"
    )]
    Name(String),
    /// The name occurs twice in a list of names.
    #[error("'{0}' is listed twice: remove one of the lines")]
    Twice(String),
    /// The name already has a token.
    #[error("'{0}' already has a token: revoke that token first with: punctual-server revoke {0}")]
    Taken(String),
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] punctual_store::StoreError),
}

/// An error from reading, judging or writing the series, events and samples that a server shows
/// next to its recordings. Its text includes all causes.
#[derive(Clone, Debug)]
pub struct SourceError(Arc<dyn Error + Send + Sync>);

impl SourceError {
    /// Converts an error or a sentence.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(error.into()))
    }
}

/// Includes all causes, because a page shows only this message.
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

/// Has no source, because the message already includes the causes.
impl Error for SourceError {}

impl From<punctual_store::StoreError> for SourceError {
    fn from(error: punctual_store::StoreError) -> Self {
        Self::new(error)
    }
}

/// Reasons to reject a delivery, as a sentence for the machine that delivers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// The body cannot be decompressed, is too large, or does not have the stated hash.
    #[error("{0}")]
    Body(String),
    /// The recording is not text.
    #[error("it is not UTF-8")]
    NotText,
    /// A newer version of punctual wrote the recording.
    #[error(
        "the recording has schema {0}, but this collector reads only schemas up to {SCHEMA_VERSION}: \
         upgrade punctual-server; the machine keeps the recording until then"
    )]
    Newer(u64),
    /// The recording cannot be parsed.
    #[error(transparent)]
    NotARecording(ReadError),
    /// The ID differs from the one in the path.
    #[error("its ID differs from the ID in the path")]
    OtherId,
    /// The recording is still running.
    #[error("it is not finished")]
    NotFinished,
    /// There are more threads than a recording can have.
    #[error("it has too many threads")]
    TooManyThreads,
    /// An interval belongs to a thread that does not exist.
    #[error("an interval belongs to a thread that does not exist")]
    NoThread,
    /// The intervals are not in the order of the store.
    #[error("its intervals are not ordered by time and thread")]
    OutOfOrder,
    /// A label or a name is too long.
    #[error(transparent)]
    LongText(#[from] punctual_model::TooLongText),
}

impl From<ReadError> for NotTaken {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Newer { found } => Self::Newer(found),
            error => Self::NotARecording(error),
        }
    }
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
