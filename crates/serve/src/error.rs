//! Why the server cannot be started.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the server cannot be started, or a delivery cannot be made.
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
