//! Texts that several deliveries refer to, kept once beside the facts: what compresses them.

use crate::facts;
use crate::{SqliteCollection, StoreError};

/// The longest text that is kept, in bytes: the facts and the audit of a machine with
/// thousands of CPUs.
pub const LONGEST_TEXT: usize = 16 << 20;

/// Texts by their hash.
pub trait TextStore {
    /// Keeps a text, once, and returns its [`text_hash`].
    ///
    /// # Errors
    /// What writing can fail with.
    fn keep_text(&self, text: &str) -> Result<String, StoreError>;

    /// The text with this hash; `None` where it is not here, as after a restore or where
    /// the store was cleaned up.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], and what reading can fail with.
    fn text(&self, hash: &str) -> Result<Option<String>, StoreError>;
}

/// The name of a text: 32 hexadecimal digits of its SHA-256.
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
