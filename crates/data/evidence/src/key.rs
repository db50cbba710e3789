//! The key of a machine, which signs its recordings.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual_files::{Budget, FileError, Output, folder};
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sha2::{Digest, Sha256};

use crate::canonical::hex;

/// Maximum size of a key file, in bytes.
const LARGEST: u64 = 4_096;

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
    /// The kernel gave no random numbers.
    #[error("no random numbers for a key")]
    NoRandom,
    /// The text is not a public key.
    #[error(
        "'{0}' is not a public key: pass 64 hexadecimal digits, as punctual sign --public-key prints them"
    )]
    NotPublic(String),
}

/// Keys that sign a statement.
pub struct Signer {
    /// The key of this machine.
    pub key: SigningKey,
    /// File with the SSH key of a person who signs also.
    pub ssh_key: Option<PathBuf>,
}

/// Trusted keys.
#[derive(Clone, Debug, Default)]
pub struct Trusted {
    /// Keys of machines.
    pub keys: Vec<PublicKey>,
    /// File with the SSH keys of people (ssh-keygen(1), ALLOWED SIGNERS).
    pub ssh_signers: Option<PathBuf>,
}

/// The private key of a machine.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// Reads the key in this file. Makes one if the file is missing; only its owner can read it.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written, or is not a key.
    pub fn open(path: &Path) -> Result<Self, KeyError> {
        let not_a_key = || KeyError::NotAKey(path.to_owned());
        if path.symlink_metadata().is_ok() {
            let text = Budget::bytes(LARGEST).read(path)?;
            let der = STANDARD
                .decode(text.trim_ascii())
                .map_err(|_| not_a_key())?;
            let pair = Ed25519KeyPair::from_pkcs8(&der).map_err(|_| not_a_key())?;
            return Ok(Self(pair));
        }
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let der = der.map_err(|_| KeyError::NoRandom)?;
        let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).map_err(|_| not_a_key())?;
        if let Some(above) = path.parent() {
            folder::make(above, 0o700)?;
        }
        let text = format!("{}\n", STANDARD.encode(der.as_ref()));
        Output::private(path)?.put(text.as_bytes())?;
        Ok(Self(pair))
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }
}

/// The public key of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
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

    /// Returns a short name of the key: the SHA-256 of its bytes.
    pub(crate) fn id(&self) -> String {
        hex(&Sha256::digest(self.0))
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0)
            .verify(message, signature)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn key_is_made_once_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/signing.key");
        let key = SigningKey::open(&path).unwrap();
        assert_eq!(SigningKey::open(&path).unwrap().public(), key.public());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let public = key.public();
        assert_eq!(PublicKey::from_hex(&public.hex()).unwrap(), public);
        assert!(public.verifies(b"text", &key.sign(b"text")));
        assert!(!public.verifies(b"texts", &key.sign(b"text")));
        for bad in ["", "ab", "zz", &"g".repeat(64), &"+1".repeat(32)] {
            assert!(PublicKey::from_hex(bad).is_err(), "{bad}");
        }
        std::fs::write(&path, "no key").unwrap();
        assert!(matches!(SigningKey::open(&path), Err(KeyError::NotAKey(_))));
    }
}
