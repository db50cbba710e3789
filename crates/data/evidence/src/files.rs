//! Files that a statement covers: the page of a certificate, or the files of a bundle.

use sha2::{Digest, Sha256};

use crate::canonical::hex;

/// End of the name of a store.
pub(crate) const STORE: &str = ".db";

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
    /// Files of a bundle that may contain recordings or statements.
    pub(crate) members: Vec<Member>,
}

/// A file of a bundle that may contain recordings or statements.
pub(crate) struct Member {
    pub(crate) name: String,
    /// Its content; `None` if the files of the bundle are too large.
    pub(crate) content: Option<Vec<u8>>,
}

impl Member {
    /// Returns whether a file may contain recordings or statements, by its name.
    pub(crate) fn is_one(name: &str) -> bool {
        [".json", ".pdf", STORE]
            .iter()
            .any(|end| name.ends_with(end))
    }
}
