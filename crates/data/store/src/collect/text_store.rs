//! Texts that several deliveries share, stored once in the table of facts.

use crate::facts;
use crate::{SqliteCollection, StoreError};

/// Maximum length of a text in bytes: the facts and the audit of a machine with thousands of CPUs.
pub const LONGEST_TEXT: usize = 16 << 20;

/// Texts by hash.
pub trait TextStore {
    /// Stores a text, unless it exists, and returns its [`text_hash`].
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn keep_text(&self, text: &str) -> Result<String, StoreError>;

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

    fn text(&self, hash: &str) -> Result<Option<String>, StoreError> {
        self.read(|connection, context| facts::read(connection, context, hash))
    }
}
