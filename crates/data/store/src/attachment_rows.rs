//! Rows of data that belongs to a recording but is not part of its JSON, such as the trace events
//! around each explained outlier.

use punctual_model::{FromJson, Outlier};
use rusqlite::{Connection, OptionalExtension, params};

use crate::StoreError;
use crate::bits::{Bits, Crc};
use crate::error::Context;

/// Kind of the attachments that [`Writer::keep_window`](crate::Writer::keep_window) stores.
pub const WINDOW: &str = "window";

/// Maximum uncompressed size of an attachment. A session stores at most 4 MiB at once, but a few
/// bytes of zstd data may claim to contain any amount of data.
const LONGEST: u64 = 64 << 20;

/// Maximum size of a window as JSON: 4,000 events take about 1 MiB. In memory, a window takes
/// several times its JSON size.
const LONGEST_WINDOW: u64 = 16 << 20;

/// A fast level, because the compressing thread has other work to do.
const LEVEL: i32 = 3;

/// Description of an attachment, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Kind of the attachment, such as [`WINDOW`].
    pub kind: String,
    /// Number of the outlier.
    pub number: u64,
    /// Uncompressed size in bytes.
    pub bytes: u64,
}

/// Returns the maximum uncompressed size of an attachment of this kind, in bytes.
fn longest(kind: &str) -> u64 {
    match kind {
        WINDOW => LONGEST_WINDOW,
        _ => LONGEST,
    }
}

/// Unpacks an attachment of `length` bytes. Returns `None` if `packed` does not unpack to exactly
/// that length, or if the length exceeds the maximum for its kind.
pub fn unpack_attachment(kind: &str, length: u64, packed: &[u8]) -> Option<Vec<u8>> {
    if length > longest(kind) {
        return None;
    }
    let length = usize::try_from(length).ok()?;
    let body = zstd::bulk::decompress(packed, length).ok()?;
    (body.len() == length).then_some(body)
}

fn crc_of(recording: i64, kind: &str, number: u64, about: &str, length: u64, body: &[u8]) -> u32 {
    Crc::new("attachment", recording)
        .text(kind)
        .number(number)
        .text(about)
        .number(length)
        .blob(body)
        .end()
}

/// A row of the table.
pub(crate) struct Row {
    /// Description as JSON.
    pub(crate) about: String,
    length: u64,
    body: Vec<u8>,
    crc: i64,
}

impl Row {
    /// Builds the row of an attachment of the recording `key`.
    pub(crate) fn new(
        key: i64,
        kind: &str,
        number: u64,
        about: &str,
        body: &[u8],
    ) -> Result<Self, StoreError> {
        let length = body.len() as u64;
        if length > longest(kind) {
            return Err(StoreError::TooLong {
                kind: kind.to_owned(),
                bytes: length,
                most: longest(kind),
            });
        }
        let body = zstd::bulk::compress(body, LEVEL).map_err(|error| StoreError::Compress {
            reason: error.to_string(),
        })?;
        Ok(Self {
            about: about.to_owned(),
            length,
            crc: crc_of(key, kind, number, about, length, &body).into(),
            body,
        })
    }

    /// Writes the row. Replaces a row of the same kind and number.
    pub(crate) fn write(
        &self,
        connection: &Connection,
        key: i64,
        kind: &str,
        number: u64,
    ) -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO attachment
                    (recording, kind, number, about, length, body, crc)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                key,
                kind,
                Bits(number),
                self.about,
                Bits(self.length),
                self.body,
                self.crc
            ])
            .map(drop)
    }

    pub(crate) fn read(
        connection: &Connection,
        key: i64,
        kind: &str,
        number: u64,
        context: &Context,
    ) -> Result<Option<Self>, StoreError> {
        connection
            .prepare_cached(
                "SELECT about, length, body, crc FROM attachment
                WHERE recording = ?1 AND kind = ?2 AND number = ?3",
            )
            .and_then(|mut statement| {
                statement
                    .query_row(params![key, kind, Bits(number)], |row| {
                        let Bits(length) = row.get(1)?;
                        Ok(Self {
                            about: row.get(0)?,
                            length,
                            body: row.get(2)?,
                            crc: row.get(3)?,
                        })
                    })
                    .optional()
            })
            .map_err(|error| context.on(error))
    }

    /// Returns whether the row is unchanged since it was written.
    fn fits(&self, key: i64, kind: &str, number: u64) -> bool {
        let crc = crc_of(key, kind, number, &self.about, self.length, &self.body);
        self.crc == i64::from(crc)
    }

    /// Returns the content, or `None` if the row is damaged.
    pub(crate) fn unpack(&self, key: i64, kind: &str, number: u64) -> Option<Vec<u8>> {
        self.fits(key, kind, number)
            .then(|| unpack_attachment(kind, self.length, &self.body))?
    }
}

/// Lists the attachments of a recording, ordered by kind and number.
pub(crate) fn attached(connection: &Connection, key: i64) -> rusqlite::Result<Vec<Attached>> {
    connection
        .prepare_cached(
            "SELECT kind, number, length FROM attachment WHERE recording = ?1
            ORDER BY kind, number",
        )?
        .query_map([key], |row| {
            let (Bits(number), Bits(bytes)) = (row.get(1)?, row.get(2)?);
            Ok(Attached {
                kind: row.get(0)?,
                number,
                bytes,
            })
        })?
        .collect()
}

/// Removes all attachments with this number.
pub(crate) fn remove(connection: &Connection, key: i64, number: u64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM attachment WHERE recording = ?1 AND number = ?2")?
        .execute(params![key, Bits(number)])
        .map(drop)
}

/// Returns the analysis of each outlier with stored events, ordered by number. Returns `None` if a
/// row is damaged.
pub(crate) fn outliers(
    connection: &Connection,
    key: i64,
    context: &Context,
) -> Result<Option<Vec<Outlier>>, StoreError> {
    let numbers: Vec<Bits> = connection
        .prepare_cached(
            "SELECT number FROM attachment WHERE recording = ?1 AND kind = ?2 ORDER BY number",
        )
        .and_then(|mut statement| {
            statement
                .query_map(params![key, WINDOW], |row| row.get(0))?
                .collect()
        })
        .map_err(|error| context.on(error))?;
    let mut outliers = Vec::new();
    for Bits(number) in numbers {
        let Some(row) = Row::read(connection, key, WINDOW, number, context)? else {
            return Ok(None);
        };
        if !row.fits(key, WINDOW, number) {
            return Ok(None);
        }
        match Outlier::from_json(row.about.as_bytes()) {
            Ok(outlier) => outliers.push(outlier),
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(outliers))
}
