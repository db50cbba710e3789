//! The key of a machine, which signs its recordings.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual_files::{FileError, Output, folder, lock, trusted};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};

use crate::{KeyError, KnownKey, PublicKey};

/// Maximum size of a key file, in bytes.
const LARGEST: u64 = 4_096;

/// Keys that sign a statement.
pub struct Signer {
    /// The key of this machine.
    pub key: SigningKey,
    /// File with the SSH key of a person who signs also.
    pub ssh_key: Option<PathBuf>,
}

/// The private key of a machine.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// Reads the key in this file. Makes one if the file is missing; only its owner can read it.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written, if it is not a key, or if other users
    /// can read it.
    pub fn open(path: &Path) -> Result<Self, KeyError> {
        let Ok(found) = path.symlink_metadata() else {
            return match Self::write(path, Output::put_new) {
                // Another process has just made the key.
                Err(KeyError::File(error)) if error.kind() == ErrorKind::AlreadyExists => {
                    Self::read(path)
                }
                made => made,
            };
        };
        if found.permissions().mode() & 0o077 != 0 {
            return Err(KeyError::NotPrivate(path.to_owned()));
        }
        Self::read(path)
    }

    /// Replaces the key in this file by a new one. The public key of the old one is added to the
    /// list `earlier` under this name first, so that a reader still knows it. A missing key is made.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or if the file is not a key.
    pub fn rotate(path: &Path, earlier: &Path, name: &str) -> Result<Self, KeyError> {
        if path.symlink_metadata().is_err() {
            return Self::open(path);
        }
        let note = "punctual key --rotate";
        let lock = lock::ask(&path.with_extension("lock"), note)?;
        if matches!(lock, lock::LockRequest::Busy { .. }) {
            return Err(KeyError::Busy(path.to_owned()));
        }
        let old = Self::read(path)?.public();
        let mut known = KnownKey::read_if_any(earlier)?;
        if known.iter().all(|one| one.key != old) {
            known.push(KnownKey::new(old, name));
            Output::private(earlier)?.put(KnownKey::list(&known).as_bytes())?;
        }
        Self::write(path, Output::put)
    }

    fn read(path: &Path) -> Result<Self, KeyError> {
        let not_a_key = || KeyError::NotAKey(path.to_owned());
        let text = match trusted::text(path, LARGEST) {
            Err(FileError::NotText { .. } | FileError::TooLarge { .. }) => return Err(not_a_key()),
            text => text?,
        };
        let der = STANDARD.decode(text.trim()).map_err(|_| not_a_key())?;
        let pair = Ed25519KeyPair::from_pkcs8(&der).map_err(|_| not_a_key())?;
        Ok(Self(pair))
    }

    /// Makes a key, and writes its file, which appears when it is complete.
    fn write(
        path: &Path,
        put: fn(Output, &[u8]) -> Result<(), FileError>,
    ) -> Result<Self, KeyError> {
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let der = der.map_err(|_| KeyError::NoRandom)?;
        let pair = Ed25519KeyPair::from_pkcs8(der.as_ref());
        let pair = pair.map_err(|_| KeyError::NoRandom)?;
        if let Some(above) = path.parent() {
            folder::make(above, 0o700)?;
        }
        let text = format!("{}\n", STANDARD.encode(der.as_ref()));
        put(Output::private(path)?, text.as_bytes())?;
        Ok(Self(pair))
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey::new(bytes)
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
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
        for damaged in [b"no key".as_slice(), b"", b"\xff", &[b'a'; 5_000]] {
            std::fs::write(&path, damaged).unwrap();
            assert!(matches!(SigningKey::open(&path), Err(KeyError::NotAKey(_))));
            let rotated = SigningKey::rotate(&path, &folder.path().join("earlier"), "a");
            assert!(matches!(rotated, Err(KeyError::NotAKey(_))));
            assert_eq!(std::fs::read(&path).unwrap(), damaged);
        }
    }

    #[test]
    fn rotated_key_stays_known() {
        let folder = tempfile::tempdir().unwrap();
        let (path, earlier) = (folder.path().join("key"), folder.path().join("earlier"));
        let rotate = |name: &str| SigningKey::rotate(&path, &earlier, name).unwrap().public();
        // A missing key is made, and there is none to remember.
        let first = rotate("unused");
        assert!(!earlier.exists());
        let second = rotate("one");
        let third = rotate("two");
        assert_eq!(SigningKey::open(&path).unwrap().public(), third);
        let known = [KnownKey::new(first, "one"), KnownKey::new(second, "two")];
        assert_eq!(KnownKey::read(&earlier).unwrap(), known);
        // A kill after the list was written, and before the key was replaced, adds it only once.
        let list = KnownKey::list(&[&known[..], &[KnownKey::new(third, "three")]].concat());
        std::fs::write(&earlier, &list).unwrap();
        assert_ne!(rotate("three again"), third);
        assert_eq!(std::fs::read_to_string(&earlier).unwrap(), list);
        // Nothing is replaced while another process does it, or if the list is damaged.
        let key = std::fs::read(&path).unwrap();
        let lock = lock::ask(&path.with_extension("lock"), "").unwrap();
        let rotated = SigningKey::rotate(&path, &earlier, "four");
        assert!(matches!(rotated, Err(KeyError::Busy(_))));
        drop(lock);
        std::fs::write(&earlier, "no key").unwrap();
        let rotated = SigningKey::rotate(&path, &earlier, "four");
        assert!(matches!(rotated, Err(KeyError::Line { line: 1, .. })));
        assert_eq!(std::fs::read(&path).unwrap(), key);
    }

    #[test]
    fn key_that_others_can_read_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = SigningKey::open(&path).unwrap().public();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode));
        mode(0o640).unwrap();
        assert!(matches!(
            SigningKey::open(&path),
            Err(KeyError::NotPrivate(_))
        ));
        // The new key has the right mode.
        let new = SigningKey::rotate(&path, &folder.path().join("earlier"), "a");
        assert_ne!(new.unwrap().public(), key);
        assert!(SigningKey::open(&path).is_ok());
    }
}
