//! Public keys that a reader knows, and their lists.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use punctual_files::Budget;

use crate::{KeyError, PublicKey};

/// Maximum size of a list of keys, in bytes.
const LARGEST: u64 = 16 << 20;

/// A known public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// The key.
    pub key: PublicKey,
    /// Name of its owner, such as that of a machine. Empty if unknown.
    pub name: String,
}

/// Trusted keys.
#[derive(Clone, Debug, Default)]
pub struct Trusted {
    /// Keys of machines.
    pub keys: Vec<KnownKey>,
    /// File with the SSH keys of people (ssh-keygen(1), ALLOWED SIGNERS).
    pub ssh_signers: Option<PathBuf>,
}

impl KnownKey {
    /// Creates a known key. Line breaks in its name become spaces.
    pub fn new(key: PublicKey, name: &str) -> Self {
        let words: Vec<&str> = name.split_whitespace().collect();
        Self {
            key,
            name: words.join(" "),
        }
    }

    /// Reads a list: in each line a key, and behind it a name. Lines that begin with # are comments.
    ///
    /// # Errors
    /// Returns an error if the list cannot be read, or if a line contains no key.
    pub fn read(path: &Path) -> Result<Vec<Self>, KeyError> {
        Self::parse(&Budget::bytes(LARGEST).read_text(path)?, path)
    }

    /// Reads a list like [`read`](Self::read). A missing list is empty.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn read_if_any(path: &Path) -> Result<Vec<Self>, KeyError> {
        match Self::read(path) {
            Err(KeyError::File(error)) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Vec<Self>, KeyError> {
        let lines = (1..).zip(text.lines().map(str::trim));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let known = lines.map(|(number, line)| {
            let (key, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let key = PublicKey::from_hex(key).map_err(|why| KeyError::Line {
                path: path.to_owned(),
                line: number,
                why: Box::new(why),
            })?;
            Ok(Self::new(key, name))
        });
        known.collect()
    }

    /// Returns a list that [`read`](Self::read) reads.
    pub fn list(known: &[Self]) -> String {
        known.iter().fold(String::new(), |mut text, one| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{} {}", one.key.hex(), one.name);
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        assert!(KnownKey::read(&path).is_err());
        assert_eq!(KnownKey::read_if_any(&path).unwrap(), []);
        let key = |digit: &str| PublicKey::from_hex(&digit.repeat(64)).unwrap();
        let known = [
            KnownKey::new(key("a"), "board-17\nuntil  Sunday"),
            KnownKey::new(key("b"), ""),
        ];
        assert_eq!(known[0].name, "board-17 until Sunday");
        let list = format!("# keys\n\n{}", KnownKey::list(&known));
        std::fs::write(&path, list).unwrap();
        assert_eq!(KnownKey::read(&path).unwrap(), known);
        std::fs::write(&path, format!("# keys\n{} a\nabc b\n", "a".repeat(64))).unwrap();
        let error = KnownKey::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("keys, line 3: 'abc' is not a public key"),
            "{error}"
        );
    }
}
