//! Retention: removes old data from recordings of a plan.

use jiff::Timestamp;
use punctual_model::{FromJson, RecordingId};
use rusqlite::{OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::entry::{Entry, started_ns, time};
use crate::reserve::{has_reserve, keep_reserve};
use crate::schema::pragma;
use crate::{Store, StoreError, pack};

/// Limits for recordings that belong to a series. A limit of `None` removes nothing. Histograms,
/// counters and facts are kept. Recordings that a user made by hand are never changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Removes samples of recordings that began before this time.
    pub samples: Option<Timestamp>,
    /// Removes trace events of recordings that began before this time.
    pub traces: Option<Timestamp>,
    /// Removes rows of recordings that began before this time.
    pub rows: Option<Timestamp>,
    /// Maximum size of the store in bytes. Above it, the oldest recordings lose data first: all
    /// samples before any traces, and all traces before any rows.
    pub size: Option<u64>,
    /// Recordings stored after this one lose data only because of the size limit.
    pub last: Option<Entered>,
    /// The present time. A recording counts as no older than the recordings that were stored before
    /// it. Recordings with a later start time are ignored.
    pub now: Option<Timestamp>,
}

/// Position of a recording in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entered(i64);

impl Entered {
    /// After all recordings.
    const LAST: Self = Self(i64::MAX);
}

/// Result of the removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aged {
    /// Number of recordings that lost their samples.
    pub samples: u64,
    /// Number of recordings that lost their trace events.
    pub traces: u64,
    /// Number of recordings that lost their rows.
    pub rows: u64,
    /// Whether the store still exceeds its maximum size; its remaining data is never removed.
    pub too_large: bool,
}

/// Part of a recording, in order of removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Samples,
    Traces,
    Rows,
}

impl Part {
    const ALL: [Self; 3] = [Self::Samples, Self::Traces, Self::Rows];

    const fn table(self) -> &'static str {
        match self {
            Self::Samples => "chunk",
            Self::Traces => "attachment",
            Self::Rows => "series",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Traces => "trace events",
            Self::Rows => "rows of the time series",
        }
    }

    const fn limit(self, limits: &RetentionLimits) -> Option<Timestamp> {
        match self {
            Self::Samples => limits.samples,
            Self::Traces => limits.traces,
            Self::Rows => limits.rows,
        }
    }
}

impl Store {
    /// Removes data that exceeds the age limits, then data that exceeds the size limit, one
    /// recording at a time. It also works on a full disk, provided that it has been called before.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn age(&self, limits: &RetentionLimits) -> Result<Aged, StoreError> {
        let mut aged = Aged::default();
        for part in Part::ALL {
            if let Some(before) = part.limit(limits) {
                let last = limits.last.unwrap_or(Entered::LAST);
                let last = last.min(self.last_before(before, limits.now)?);
                while let Some(id) = self.first(part, before, last)? {
                    self.drop_part(id, part)?;
                    aged.count(part);
                }
            }
        }
        if let Some(size) = limits.size {
            'parts: for part in Part::ALL {
                while self.used()? > size {
                    match self.first(part, Timestamp::MAX, Entered::LAST)? {
                        Some(id) => self.drop_part(id, part)?,
                        None => continue 'parts,
                    }
                    aged.count(part);
                }
            }
            aged.too_large = self.used()? > size;
        }
        if aged != Aged::default() {
            self.link.give_space_back();
            let _ = self.link.run("PRAGMA wal_checkpoint(TRUNCATE)");
        }
        self.reserve();
        Ok(aged)
    }

    /// Returns the size of the pages in use, in bytes.
    pub(crate) fn used(&self) -> Result<u64, StoreError> {
        let read = |name| {
            let number = pragma(&self.link.connection, name);
            let number = number.map_err(|error| self.link.context.on(error))?;
            Ok::<_, StoreError>(u64::try_from(number).unwrap_or_default())
        };
        let pages = read("page_count")?.saturating_sub(read("freelist_count")?);
        Ok(pages.saturating_mul(read("page_size")?))
    }

    /// Returns the recording that was stored last, with its start time.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn last_entered(&self) -> Result<Option<(Entered, Timestamp)>, StoreError> {
        self.read(|connection, context| {
            let sql = "SELECT key, started_ns FROM recording ORDER BY key DESC LIMIT 1";
            let row: Option<(i64, i64)> = connection
                .prepare_cached(sql)
                .and_then(|mut one| {
                    one.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
                        .optional()
                })
                .map_err(|error| context.on(error))?;
            Ok(row.map(|(key, ns)| (Entered(key), time(ns))))
        })
    }

    /// Returns the last recording that was stored before every recording that began between
    /// `before` and `now`. Recordings stored after that cannot be older, even if the clock was
    /// wrong when they began.
    fn last_before(
        &self,
        before: Timestamp,
        now: Option<Timestamp>,
    ) -> Result<Entered, StoreError> {
        let span = [
            started_ns(before),
            started_ns(now.unwrap_or(Timestamp::MAX)),
        ];
        self.read(|connection, context| {
            let sql = "SELECT min(key) FROM recording WHERE started_ns BETWEEN ?1 AND ?2";
            let key: Option<i64> = connection
                .prepare_cached(sql)
                .and_then(|mut one| one.query_row(span, |row| row.get(0)))
                .map_err(|error| context.on(error))?;
            Ok(key.map_or(Entered::LAST, |key| Entered(key - 1)))
        })
    }

    /// Returns the first recording of a series that has this part, began before this time, and was
    /// stored no later than `last`.
    fn first(
        &self,
        part: Part,
        before: Timestamp,
        last: Entered,
    ) -> Result<Option<RecordingId>, StoreError> {
        let sql = format!(
            "SELECT id FROM recording WHERE series IS NOT NULL AND started_ns < ?1
             AND key <= ?2 AND completion != 'running'
             AND EXISTS (SELECT 1 FROM {0} WHERE {0}.recording = recording.key)
             ORDER BY key LIMIT 1",
            part.table()
        );
        self.read(|connection, context| {
            let id: Option<String> = connection
                .prepare_cached(&sql)
                .and_then(|mut one| {
                    one.query_row([started_ns(before), last.0], |row| row.get(0))
                        .optional()
                })
                .map_err(|error| context.on(error))?;
            id.map(|id| Uuid::try_parse(&id).map(RecordingId))
                .transpose()
                .map_err(|_| context.damaged("a recording has no ID"))
        })
    }

    /// Removes a part of a recording. On a full disk, uses the reserved space.
    fn drop_part(&self, id: RecordingId, part: Part) -> Result<(), StoreError> {
        let had_reserve = has_reserve(self.path());
        let dropped = self.link.write_on_a_full_disk(|connection, context| {
            let on = |error| context.on(error);
            let (key, mut entry) = Entry::find(connection, id, context)?;
            let sql = format!("DELETE FROM {} WHERE recording = ?1", part.table());
            connection.execute(&sql, params![key]).map_err(on)?;
            match part {
                Part::Samples => {
                    (entry.chunks, entry.samples, entry.sample_bytes) = (0, 0, 0);
                    entry.summary.samples = false;
                }
                Part::Traces => {}
                Part::Rows => entry.rows = 0,
            }
            entry.write(connection, Some(key)).map_err(on)?;
            let aged = |head: &str| aged_head(head, part);
            if pack::change_head(connection, key, &aged).map_err(on)? {
                Ok(())
            } else {
                Err(context.damaged_in(id, "its header was changed"))
            }
        });
        // It was used, and the next part may need it again.
        if had_reserve && !has_reserve(self.path()) {
            let _ = self.link.run("PRAGMA wal_checkpoint(TRUNCATE)");
            self.link.give_space_back();
            let _ = self.link.run("PRAGMA wal_checkpoint(TRUNCATE)");
            self.reserve();
        }
        dropped
    }

    /// Reserves space on the disk if enough is available.
    fn reserve(&self) {
        if !self.link.read_only {
            keep_reserve(self.path());
        }
    }
}

impl Aged {
    fn count(&mut self, part: Part) {
        let counter = match part {
            Part::Samples => &mut self.samples,
            Part::Traces => &mut self.traces,
            Part::Rows => &mut self.rows,
        };
        *counter += 1;
    }
}

/// Adds a warning about the removed part to a head.
fn aged_head(head: &str, part: Part) -> String {
    let Ok(mut parsed) = Value::from_json(head.as_bytes()) else {
        // The head is damaged; loading the recording will report it.
        return head.to_owned();
    };
    if part == Part::Samples {
        parsed["samples"] = Value::Null;
    }
    let warning = json!(format!("its {} have aged out", part.word()));
    if let Some(warnings) = parsed["warnings"].as_array_mut() {
        warnings.push(warning);
    }
    parsed.to_string()
}
