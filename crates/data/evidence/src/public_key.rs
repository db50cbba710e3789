//! Public keys of machines, and the errors of keys.

use std::path::PathBuf;

use punctual_files::FileError;
use ring::signature::{ED25519, UnparsedPublicKey};
use sha2::{Digest, Sha256};

use crate::canonical::hex;

/// Reason why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not a key.
    #[error(
        "{} is not a signing key of punctual: move it away, and the next signature makes a new key",
        .0.display()
    )]
    NotAKey(PathBuf),
    /// Other users can read the private key.
    #[error(
        "{path} is not used: other users can read it. If one of them may have copied it, replace the \
         key with punctual key --rotate; otherwise run chmod 600 {path}",
        path = .0.display()
    )]
    NotPrivate(PathBuf),
    /// Another process replaces the key.
    #[error("{} is being replaced by another punctual key --rotate", .0.display())]
    Busy(PathBuf),
    /// A line of a list is not a key.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The list.
        path: PathBuf,
        /// Number of the line.
        line: usize,
        /// What is wrong.
        why: Box<KeyError>,
    },
    /// The kernel gave no random numbers.
    #[error("no random numbers for a key")]
    NoRandom,
    /// The text is not a public key.
    #[error("'{0}' is not a public key: pass 64 hexadecimal digits, as punctual key prints them")]
    NotPublic(String),
}

/// The public key of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    pub(crate) const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads hexadecimal digits.
    ///
    /// # Errors
    /// Returns an error if the text does not have 64 digits.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let digits = || KeyError::NotPublic(text.to_owned());
        let bytes: Option<Vec<u8>> = (text.as_bytes().chunks(2))
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        let bytes = bytes.filter(|_| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(digits)
    }

    /// Returns hexadecimal digits.
    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    /// Returns the fingerprint: the SHA-256 of the key. It is the ID of the key in an envelope.
    pub fn fingerprint(&self) -> String {
        hex(&Sha256::digest(self.0))
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0)
            .verify(message, signature)
            .is_ok()
    }
}
