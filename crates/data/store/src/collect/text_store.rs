//! Texts that several deliveries share, stored once in the table of facts.

use std::collections::BTreeMap;

use crate::facts;
use crate::slots::{put_state, state};
use crate::{SqliteCollection, StoreError};

/// Maximum length of a text in bytes: the facts and the audit of a machine with thousands of CPUs.
pub const LONGEST_TEXT: usize = 16 << 20;

/// Maximum number of dictionaries of a machine between two compactions of the store.
pub const MOST_DICTIONARIES: u64 = 256;
/// Maximum total size of the dictionaries of a machine between two compactions of the store, in
/// bytes.
pub const MOST_DICTIONARY_BYTES: u64 = 256 << 20;

/// Name of the plan state that lists the dictionaries of a machine.
pub(crate) const DICTIONARIES: &str = "kept dictionaries";

/// Returns whether a dictionary of `bytes` fits the quota of a machine that has `count`
/// dictionaries with a total size of `kept` bytes.
pub fn fits(count: u64, kept: u64, bytes: usize) -> bool {
    count < MOST_DICTIONARIES && kept.saturating_add(bytes as u64) <= MOST_DICTIONARY_BYTES
}

/// Texts by hash.
pub trait TextStore {
    /// Stores a text unless it already exists, and returns its [`text_hash`].
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn keep_text(&self, text: &str) -> Result<String, StoreError>;

    /// Stores a dictionary of a machine unless it already exists, and returns its [`text_hash`].
    /// Returns `None` if the machine already has [`MOST_DICTIONARIES`] dictionaries, or
    /// dictionaries with a total size of [`MOST_DICTIONARY_BYTES`].
    ///
    /// # Errors
    /// Returns an error if the store cannot be read or written.
    fn keep_dictionary(&self, machine: &str, text: &str) -> Result<Option<String>, StoreError>;

    /// Returns the text with this hash; `None` if it does not exist, for example after a restore or
    /// a cleanup of the store.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or any error while reading.
    fn text(&self, hash: &str) -> Result<Option<String>, StoreError>;
}

/// Returns the name of a text: 32 hexadecimal digits of its SHA-256.
pub fn text_hash(text: &str) -> String {
    facts::hash_of(text)
}

impl TextStore for SqliteCollection {
    fn keep_text(&self, text: &str) -> Result<String, StoreError> {
        let hash = text_hash(text);
        self.write(|connection, context| {
            facts::put_json(connection, &hash, text).map_err(|error| context.on(error))
        })?;
        Ok(hash)
    }

    fn keep_dictionary(&self, machine: &str, text: &str) -> Result<Option<String>, StoreError> {
        let hash = text_hash(text);
        let kept = self.write(|connection, context| {
            let known = state(connection, machine, DICTIONARIES);
            let known = known
                .map_err(|error| context.on(error))?
                .unwrap_or_default();
            let known = Dictionaries::read(&known);
            if !known.0.contains_key(&hash) {
                if !fits(known.0.len() as u64, known.0.values().sum(), text.len()) {
                    return Ok(false);
                }
                let all = known.with_text(&hash, text.len());
                put_state(connection, machine, DICTIONARIES, &all)
                    .map_err(|error| context.on(error))?;
            }
            facts::put_json(connection, &hash, text).map_err(|error| context.on(error))?;
            Ok(true)
        })?;
        Ok(kept.then_some(hash))
    }

    fn text(&self, hash: &str) -> Result<Option<String>, StoreError> {
        self.read(|connection, context| facts::read(connection, context, hash))
    }
}

/// The list of a machine's dictionaries as one text. Each line has the hash of a dictionary and its
/// size in bytes.
struct Dictionaries(BTreeMap<String, u64>);

impl Dictionaries {
    fn read(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| {
            let (hash, bytes) = line.split_once(' ')?;
            Some((hash.to_owned(), bytes.parse().ok()?))
        });
        Self(lines.collect())
    }

    fn with_text(mut self, hash: &str, bytes: usize) -> String {
        self.0.insert(hash.to_owned(), bytes as u64);
        let lines = (self.0.iter()).map(|(hash, bytes)| format!("{hash} {bytes}\n"));
        lines.collect()
    }
}
