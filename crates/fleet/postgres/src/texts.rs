//! Texts that several deliveries share, stored in the table `facts` in PostgreSQL.

use super::link::Link;
use super::rows::{bits, plain};
use crate::PostgresCollection;
use punctual_store::backend::fits;
use punctual_store::{StoreError, TextStore, text_hash};

/// A slower level, because texts are rarely written.
const LEVEL: i32 = 9;

/// Stores a text under its hash, in the caller's transaction.
pub(super) fn insert(link: &mut Link, hash: &str, text: &str) -> Result<(), postgres::Error> {
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

/// Unpacks the text in a row.
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
        self.pool.with_link(|link| insert(link, &hash, text))?;
        Ok(hash)
    }

    fn keep_dictionary(&self, machine: &str, text: &str) -> Result<Option<String>, StoreError> {
        let (hash, machine) = (text_hash(text), plain(machine));
        let kept = self.pool.with_link(|link| {
            link.transaction(|link| {
                let sql = "SELECT count(*), coalesce(sum(bytes), 0)::bigint,
                               coalesce(bool_or(hash = $2), false)
                           FROM dictionary WHERE machine = $1";
                let Some(row) = link.row(sql, &[&machine, &hash])? else {
                    return Ok(false);
                };
                let (count, bytes): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
                if !row.try_get::<_, bool>(2)? {
                    if !fits(count.cast_unsigned(), bytes.cast_unsigned(), text.len()) {
                        return Ok(false);
                    }
                    let sql = "INSERT INTO dictionary (machine, hash, bytes) VALUES ($1, $2, $3)
                               ON CONFLICT DO NOTHING";
                    let length = bits(text.len() as u64);
                    link.run(sql, &[&machine, &hash, &length])?;
                }
                insert(link, &hash, text)?;
                Ok(true)
            })
        })?;
        Ok(kept.then_some(hash))
    }

    fn text(&self, hash: &str) -> Result<Option<String>, StoreError> {
        let body = self.pool.with_link(|link| {
            let row = link.row("SELECT body FROM facts WHERE hash = $1", &[&plain(hash)])?;
            row.map(|row| row.try_get::<_, Vec<u8>>(0)).transpose()
        })?;
        body.map(|body| {
            unpack(hash, &body).map_err(|changed| self.pool.failed(changed.to_string()))
        })
        .transpose()
    }
}
