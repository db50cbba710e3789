//! Texts that several deliveries share, in PostgreSQL: in the table `facts`.

use super::PostgresCollection;
use super::link::Link;
use super::rows::plain;
use crate::StoreError;
use crate::collect::text_store::{TextStore, text_hash};

/// Texts are written rarely.
const LEVEL: i32 = 9;

/// Stores a text under its hash, in the caller's transaction.
pub(super) fn put(link: &mut Link, hash: &str, text: &str) -> Result<(), postgres::Error> {
    let there = "SELECT 1 FROM facts WHERE hash = $1";
    if link.row(there, &[&hash])?.is_some() {
        return Ok(());
    }
    let packed = zstd::bulk::compress(text.as_bytes(), LEVEL);
    let sql = "INSERT INTO facts (hash, body) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    // Compressing bytes in memory does not fail.
    link.run(sql, &[&hash, &packed.unwrap_or_default()])
        .map(drop)
}

/// The text does not match its hash, or cannot be unpacked.
#[derive(Debug, thiserror::Error)]
#[error("text {hash} was changed")]
pub(super) struct ChangedText {
    hash: String,
}

/// Unpacks the text of a row.
pub(super) fn unpack(hash: &str, body: &[u8]) -> Result<String, ChangedText> {
    let text = zstd::decode_all(body);
    let text = text.ok().and_then(|text| String::from_utf8(text).ok());
    text.filter(|text| text_hash(text) == hash)
        .ok_or_else(|| ChangedText {
            hash: hash.to_owned(),
        })
}

impl TextStore for PostgresCollection {
    fn keep_text(&self, text: &str) -> Result<String, StoreError> {
        let hash = text_hash(text);
        self.pool.with(|link| put(link, &hash, text))?;
        Ok(hash)
    }

    fn text(&self, hash: &str) -> Result<Option<String>, StoreError> {
        let body = self.pool.with(|link| {
            let row = link.row("SELECT body FROM facts WHERE hash = $1", &[&plain(hash)])?;
            row.map(|row| row.try_get::<_, Vec<u8>>(0)).transpose()
        })?;
        body.map(|body| {
            unpack(hash, &body).map_err(|changed| self.pool.failed(changed.to_string()))
        })
        .transpose()
    }
}
