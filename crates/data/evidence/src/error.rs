//! Why a file cannot be verified.

use crate::SshError;

/// Reason why a file is no statement that can be verified.
#[derive(Debug, thiserror::Error)]
pub enum NotVerified {
    /// The file is not an envelope.
    #[error("this is not a signed statement of punctual sign: {0}")]
    NotAnEnvelope(serde_json::Error),
    /// The envelope or its payload is of another kind.
    #[error("the envelope contains {found} instead of {expected}")]
    OtherKind {
        /// The kind in the file.
        found: String,
        /// The expected kind.
        expected: &'static str,
    },
    /// The signature does not belong to the payload.
    #[error("the signature does not match: the statement was changed, or its key was replaced")]
    Signature,
    /// The file can contain a statement, but does not.
    #[error("this {0} contains no signed statement of punctual")]
    NoStatement(&'static str),
    /// The update with the statement is not the one that punctual writes.
    #[error("the PDF was changed after its statement was attached")]
    Update,
    /// The bundle cannot be read.
    #[error("the bundle cannot be read: {0}")]
    Bundle(std::io::Error),
    /// Signatures of people cannot be verified.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// The payload cannot be read.
    #[error("the payload cannot be read: {0}")]
    Payload(String),
}
