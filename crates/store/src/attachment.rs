//! What belongs to a recording and is no part of its JSON: the trace events
//! around each explained outlier, and what else goes with it.

use punctual_model::{Outlier, RecordingId, Window};
use rusqlite::{Connection, OptionalExtension, params};

use crate::bits::{Bits, Crc};
use crate::entry::{Entry, still_there};
use crate::error::Context;
use crate::{Store, StoreError, Writer};

/// The kind of what [`Writer::keep_window`] keeps.
pub const WINDOW: &str = "window";

/// The longest attachment, uncompressed. A session keeps at most 4 MiB at once; a few
/// bytes of zstd may claim to be anything.
const LONGEST: u64 = 64 << 20;

/// The longest window, as JSON: 4,000 events take about 1 MiB. Read, it takes
/// several times its length.
const LONGEST_WINDOW: u64 = 16 << 20;

/// Compressed on a thread that has other work to do: fast.
const LEVEL: i32 = 3;

/// What is attached to a recording, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// What kind of thing it is: [`WINDOW`].
    pub kind: String,
    /// Which of them: the number of the outlier.
    pub number: u64,
    /// How long it is, in bytes.
    pub bytes: u64,
}

/// The most bytes that an attachment of this kind may have, uncompressed.
fn longest(kind: &str) -> u64 {
    match kind {
        WINDOW => LONGEST_WINDOW,
        _ => LONGEST,
    }
}

/// The attachment of `length` bytes that `packed` holds; `None` where it holds
/// anything else, or is longer than any of its kind.
pub fn unpack_attachment(kind: &str, length: u64, packed: &[u8]) -> Option<Vec<u8>> {
    if length > longest(kind) {
        return None;
    }
    let length = usize::try_from(length).ok()?;
    let body = zstd::bulk::decompress(packed, length).ok()?;
    (body.len() == length).then_some(body)
}

fn crc_of(recording: i64, kind: &str, number: u64, about: &str, length: u64, body: &[u8]) -> u32 {
    Crc::of("attachment", recording)
        .text(kind)
        .number(number)
        .text(about)
        .number(length)
        .blob(body)
        .end()
}

impl Writer {
    /// Keeps the events around an explained outlier. Survives kill -9 from here
    /// on. One of the same number is replaced. A long window is
    /// [shortened](Window::shortened).
    ///
    /// # Errors
    /// What writing can fail with.
    pub fn keep_window(&mut self, outlier: &Outlier, window: &Window) -> Result<(), StoreError> {
        let json = |error: serde_json::Error| StoreError::Compress {
            reason: error.to_string(),
        };
        let about = serde_json::to_string(outlier).map_err(json)?;
        let window = window.clone().shortened();
        let body = serde_json::to_vec(&window).map_err(json)?;
        self.attach(WINDOW, outlier.number, &about, &body)
    }

    /// Takes all that is attached under an outlier's number out again: a worse
    /// one took its place.
    ///
    /// # Errors
    /// What writing can fail with.
    pub fn forget_outlier(&mut self, number: u64) -> Result<(), StoreError> {
        let key = self.key;
        self.link.write(|connection, context| {
            connection
                .prepare_cached("DELETE FROM attachment WHERE recording = ?1 AND number = ?2")
                .and_then(|mut statement| statement.execute(params![key, Bits(number)]))
                .map(drop)
                .map_err(|error| context.on(error))
        })
    }

    /// Attaches something; `about` is JSON. One of the same kind and number is
    /// replaced.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`] where somebody deleted the recording, and what
    /// writing can fail with.
    pub fn attach(
        &mut self,
        kind: &str,
        number: u64,
        about: &str,
        body: &[u8],
    ) -> Result<(), StoreError> {
        let length = body.len() as u64;
        if length > longest(kind) {
            return Err(StoreError::TooLong {
                kind: kind.to_owned(),
                bytes: length,
                most: longest(kind),
            });
        }
        let packed = zstd::bulk::compress(body, LEVEL).map_err(|error| StoreError::Compress {
            reason: error.to_string(),
        })?;
        let (key, id) = (self.key, self.id());
        let crc = crc_of(key, kind, number, about, length, &packed);
        self.link.write(|connection, context| {
            still_there(connection, context, key, id)?;
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO attachment
                        (recording, kind, number, about, length, body, crc)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )
                .and_then(|mut statement| {
                    statement.execute(params![
                        key,
                        kind,
                        Bits(number),
                        about,
                        Bits(length),
                        packed,
                        crc
                    ])
                })
                .map(drop)
                .map_err(|error| context.on(error))
        })
    }
}

impl Store {
    /// What is attached to a recording, by kind and number.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], and what reading can fail with.
    pub fn attachments(&self, id: RecordingId) -> Result<Vec<Attached>, StoreError> {
        self.read(|connection, context| {
            let (key, _) = Entry::find(connection, id, context)?;
            let list = || -> rusqlite::Result<Vec<Attached>> {
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
            };
            list().map_err(|error| context.on(error))
        })
    }

    /// One of them: what is said about it, and its content.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], [`StoreError::Damaged`], and what reading can
    /// fail with.
    pub fn attachment(
        &self,
        id: RecordingId,
        kind: &str,
        number: u64,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        self.read(|connection, context| {
            let (key, _) = Entry::find(connection, id, context)?;
            let damaged = || context.damaged_in(id, &format!("its {kind} {number} was changed"));
            let Some(row) = Row::read(connection, key, kind, number, context)? else {
                return Ok(None);
            };
            let unpacked = row.unpack(key, kind, number).ok_or_else(damaged)?;
            Ok(Some((row.about, unpacked)))
        })
    }

    /// The events around an explained outlier, with what was found out about
    /// it; `None`: they are not kept.
    ///
    /// # Errors
    /// As [`attachment`](Self::attachment).
    pub fn window(
        &self,
        id: RecordingId,
        number: u64,
    ) -> Result<Option<(Outlier, Window)>, StoreError> {
        let Some((about, body)) = self.attachment(id, WINDOW, number)? else {
            return Ok(None);
        };
        let read = |error: serde_json::Error| {
            let what = format!("its window {number} cannot be read: {error}");
            self.link.context.damaged_in(id, &what)
        };
        let outlier = serde_json::from_str(&about).map_err(read)?;
        let window: Window = serde_json::from_slice(&body).map_err(read)?;
        // What reads it takes time with its events: no more of them than are kept.
        Ok(Some((outlier, window.shortened())))
    }
}

/// A row as it lies in the table.
struct Row {
    about: String,
    length: u64,
    body: Vec<u8>,
    crc: i64,
}

impl Row {
    fn read(
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

    /// Whether the row is what was written.
    fn fits(&self, key: i64, kind: &str, number: u64) -> bool {
        let crc = crc_of(key, kind, number, &self.about, self.length, &self.body);
        self.crc == i64::from(crc)
    }

    fn unpack(&self, key: i64, kind: &str, number: u64) -> Option<Vec<u8>> {
        self.fits(key, kind, number)
            .then(|| unpack_attachment(kind, self.length, &self.body))?
    }
}

/// What was found out about each outlier of a recording whose events are kept,
/// by number; `None` where a row was changed.
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
        match serde_json::from_str(&row.about) {
            Ok(outlier) => outliers.push(outlier),
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(outliers))
}
