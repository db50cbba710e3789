//! Files that a statement covers: the page of a certificate, or the files of a bundle.

use sha2::{Digest, Sha256};

use crate::canonical::hex;

/// A file with its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedFile {
    /// Name of the file, without the folder of its bundle.
    pub name: String,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}

impl SignedFile {
    pub(crate) fn of(name: &str, content: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            sha256: hex(&Sha256::digest(content)),
        }
    }
}

/// A file that contains a statement.
pub(crate) struct Opened {
    pub(crate) statement: Vec<u8>,
    /// The other files in it; `None` if the file is the statement itself.
    pub(crate) files: Option<Vec<SignedFile>>,
}
