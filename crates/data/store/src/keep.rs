//! What ages out of recordings of a plan.

use jiff::Timestamp;
use punctual_model::RecordingId;
use rusqlite::{OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::entry::{Entry, started_ns, time};
use crate::reserve::{give_up_reserve, keep_reserve};
use crate::schema::pragma;
use crate::{Store, StoreError, pack};

/// What ages out of recordings that belong to a series; `None`: nothing. Histograms,
/// figures and facts stay. Recordings that a user made by hand stay whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepLimits {
    /// Samples of recordings that began before.
    pub samples: Option<Timestamp>,
    /// Trace events of recordings that began before.
    pub traces: Option<Timestamp>,
    /// Rows of recordings that began before.
    pub rows: Option<Timestamp>,
    /// The size of the store in bytes; above it those that came first go first, samples of
    /// all before traces, and these before rows.
    pub size: Option<u64>,
    /// Recordings that came into the store after this one age out by size only.
    pub last: Option<Entered>,
    /// The present time. A recording counts as no older than the recordings that came into the
    /// store before it; those that began later than this time are ignored.
    pub now: Option<Timestamp>,
}

/// The place of a recording in the order of arrival in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entered(i64);

impl Entered {
    /// After all others.
    const LAST: Self = Self(i64::MAX);
}

/// What has aged out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aged {
    /// Recordings that lost their samples.
    pub samples: u64,
    /// Recordings that lost their trace events.
    pub traces: u64,
    /// Recordings that lost their rows.
    pub rows: u64,
    /// Whether the store is still larger than it may be: what is left does not age.
    pub too_large: bool,
}

/// A part of recordings, in the order in which they age.
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

    const fn limit(self, limits: &KeepLimits) -> Option<Timestamp> {
        match self {
            Self::Samples => limits.samples,
            Self::Traces => limits.traces,
            Self::Rows => limits.rows,
        }
    }
}

impl Store {
    /// Lets age out what is too old, then what is too much, one recording after the other.
    /// Works on a full disk as well, where it has been called before.
    ///
    /// # Errors
    /// What writing can fail with.
    pub fn age(&self, limits: &KeepLimits) -> Result<Aged, StoreError> {
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

    /// Bytes of pages that hold anything.
    pub(crate) fn used(&self) -> Result<u64, StoreError> {
        let read = |name| {
            let number = pragma(&self.link.connection, name);
            let number = number.map_err(|error| self.link.context.on(error))?;
            Ok::<_, StoreError>(u64::try_from(number).unwrap_or_default())
        };
        let pages = read("page_count")?.saturating_sub(read("freelist_count")?);
        Ok(pages.saturating_mul(read("page_size")?))
    }

    /// The recording that came into the store last, and when it began by its clock.
    ///
    /// # Errors
    /// What reading can fail with.
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

    /// The last recording that came before all that began between `before` and `now`. Later
    /// ones cannot be older, even if the clock was wrong when they began.
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

    /// The first recording of a series that has this part, began before and came no later
    /// than `last`.
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

    /// Removes a part of a recording; on a full disk with the room that was kept for it.
    fn drop_part(&self, id: RecordingId, part: Part) -> Result<(), StoreError> {
        match self.try_drop(id, part) {
            Err(StoreError::DiskFull { .. }) if give_up_reserve(self.path()) => {
                let result = self.try_drop(id, part);
                let _ = self.link.run("PRAGMA wal_checkpoint(TRUNCATE)");
                self.link.give_space_back();
                let _ = self.link.run("PRAGMA wal_checkpoint(TRUNCATE)");
                self.reserve();
                result
            }
            other => other,
        }
    }

    fn try_drop(&self, id: RecordingId, part: Part) -> Result<(), StoreError> {
        self.link.write(|connection, context| {
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
            match pack::change_head(connection, key, &aged).map_err(on)? {
                true => Ok(()),
                false => Err(context.damaged_in(id, "its head was changed")),
            }
        })
    }

    /// Keeps room on the disk, where there is any.
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

/// A head that says what was removed.
fn aged_head(head: &str, part: Part) -> String {
    let Ok(mut parsed) = serde_json::from_str::<Value>(head) else {
        // Who loads it sees why.
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
