//! Data that a machine has to deliver, and the results of deliveries.

use jiff::Timestamp;
use punctual_model::{RecordingId, WakeWindow};
use rusqlite::{OptionalExtension, params};
use uuid::Uuid;

use crate::entry::{id_text, started_ns};
use crate::wake_windows::read_row;
use crate::{Store, StoreError};

/// A collector, with an identity that stays the same when its URL changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination(String);

/// Counts of pending and completed deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outbox {
    /// Number of recordings to be delivered.
    pub due: u64,
    /// Number of delivered recordings.
    pub delivered: u64,
    /// Number of refused recordings, which are not delivered again.
    pub refused: u64,
}

/// A finished recording that is not a block of an experiment and has no row in `delivery`.
const DUE: &str = "FROM recording WHERE completion <> 'running' AND experiment IS NULL AND key \
    NOT IN (SELECT recording FROM delivery WHERE destination = ?1)";

/// Returns the key under which the state of a destination is stored. No machine has such a name.
fn state_of(to: &Destination) -> String {
    format!("destination {}", to.0)
}

impl Store {
    /// Returns the destination with this URL. Creates the destination if there is none.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn destination(&self, url: &str) -> Result<Destination, StoreError> {
        self.link.write(|connection, context| {
            let known = || -> rusqlite::Result<String> {
                let found: Option<String> = connection
                    .prepare_cached("SELECT id FROM destination WHERE url = ?1")?
                    .query_row([url], |row| row.get(0))
                    .optional()?;
                if let Some(id) = found {
                    return Ok(id);
                }
                let id = Uuid::now_v7().simple().to_string();
                connection
                    .prepare_cached("INSERT INTO destination (id, url) VALUES (?1, ?2)")?
                    .execute([&id, url])?;
                Ok(id)
            };
            known().map(Destination).map_err(|error| context.on(error))
        })
    }

    /// Returns at most `most` recordings that are to be delivered, oldest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn due(&self, to: &Destination, most: usize) -> Result<Vec<RecordingId>, StoreError> {
        let sql = format!("SELECT id {DUE} ORDER BY started_ns, id LIMIT ?2");
        self.ids(&sql, to, most, 0)
    }

    /// Returns at most `most` delivered recordings, starting at index `from`. The last delivered
    /// comes first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn delivered(
        &self,
        to: &Destination,
        from: usize,
        most: usize,
    ) -> Result<Vec<RecordingId>, StoreError> {
        let sql = "SELECT id FROM delivery JOIN recording ON key = delivery.recording \
                   WHERE destination = ?1 AND reason IS NULL \
                   ORDER BY delivery.rowid DESC LIMIT ?2 OFFSET ?3";
        self.ids(sql, to, most, from)
    }

    fn ids(
        &self,
        sql: &str,
        to: &Destination,
        most: usize,
        from: usize,
    ) -> Result<Vec<RecordingId>, StoreError> {
        let number = |number| i64::try_from(number).unwrap_or(i64::MAX);
        let found: Vec<String> = self.read(|connection, context| {
            let read = || -> rusqlite::Result<Vec<String>> {
                let mut statement = connection.prepare_cached(sql)?;
                let read = |row: &rusqlite::Row<'_>| row.get(0);
                match statement.parameter_count() {
                    2 => statement
                        .query_map(params![to.0, number(most)], read)?
                        .collect(),
                    _ => statement
                        .query_map(params![to.0, number(most), number(from)], read)?
                        .collect(),
                }
            };
            read().map_err(|error: rusqlite::Error| -> StoreError { context.on(error) })
        })?;
        let ids = found.iter().filter_map(|id| Uuid::try_parse(id).ok());
        Ok(ids.map(RecordingId).collect())
    }

    /// Marks a recording as delivered, or as refused for the given reason. It is not delivered
    /// again.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn mark_delivered(
        &self,
        to: &Destination,
        id: RecordingId,
        refused: Option<&str>,
    ) -> Result<(), StoreError> {
        let now = started_ns(Timestamp::now());
        self.link.write(|connection, context| {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO delivery (destination, recording, reason, at_ns)
                     SELECT ?1, key, ?3, ?4 FROM recording WHERE id = ?2",
                )
                .and_then(|mut one| one.execute(params![to.0, id_text(id), refused, now]))
                .map(drop)
                .map_err(|error| context.on(error))
        })
    }

    /// Makes recordings due again, for use when the collector has lost them or the reason for a
    /// refusal no longer applies.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn redeliver(&self, to: &Destination, ids: &[RecordingId]) -> Result<(), StoreError> {
        self.link.write(|connection, context| {
            let forget = || -> rusqlite::Result<()> {
                let mut statement = connection.prepare_cached(
                    "DELETE FROM delivery WHERE destination = ?1 AND recording = \
                     (SELECT key FROM recording WHERE id = ?2)",
                )?;
                for id in ids {
                    statement.execute(params![to.0, id_text(*id)])?;
                }
                Ok(())
            };
            forget().map_err(|error| context.on(error))
        })
    }

    /// Returns the refused recordings with their reasons, oldest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn refused(&self, to: &Destination) -> Result<Vec<(RecordingId, String)>, StoreError> {
        let sql = "SELECT id, reason FROM delivery JOIN recording ON key = delivery.recording \
                   WHERE destination = ?1 AND reason IS NOT NULL ORDER BY key";
        let found: Vec<(String, String)> = self.read(|connection, context| {
            connection
                .prepare_cached(sql)
                .and_then(|mut all| {
                    all.query_map([&to.0], |row| Ok((row.get(0)?, row.get(1)?)))?
                        .collect()
                })
                .map_err(|error| -> StoreError { context.on(error) })
        })?;
        let known = found.into_iter();
        Ok(known
            .filter_map(|(id, reason)| Some((RecordingId(Uuid::try_parse(&id).ok()?), reason)))
            .collect())
    }

    /// Returns the delivery progress stored under `name`, in the caller's format; `None` if there
    /// is none.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn delivery_state(
        &self,
        to: &Destination,
        name: &str,
    ) -> Result<Option<String>, StoreError> {
        self.plan_state(&state_of(to), name)
    }

    /// Stores the delivery progress under `name`.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn set_delivery_state(
        &self,
        to: &Destination,
        name: &str,
        value: &str,
    ) -> Result<(), StoreError> {
        self.set_plan_state(&state_of(to), name, value)
    }

    /// Returns at most `most` wake-up windows after this position, in order of creation and with
    /// their positions. No window is skipped even if the clock was set back. A damaged window is
    /// returned as `None`.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn windows_behind(
        &self,
        place: i64,
        most: usize,
    ) -> Result<Vec<(i64, Option<WakeWindow>)>, StoreError> {
        self.read(|connection, context| {
            let sql = "SELECT machine, start_ns, length, body, crc, rowid FROM wake_window
                       WHERE rowid > ?1 ORDER BY rowid LIMIT ?2";
            let rows = connection.prepare_cached(sql).and_then(|mut all| {
                let most = i64::try_from(most).unwrap_or(i64::MAX);
                let read = |row: &rusqlite::Row<'_>| Ok((row.get(5)?, read_row(row)?));
                all.query_map(params![place, most], read)?.collect()
            });
            rows.map_err(|error| context.on(error))
        })
    }

    /// Returns the counts of pending and completed deliveries.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn outbox(&self, to: &Destination) -> Result<Outbox, StoreError> {
        self.read(|connection, context| {
            let count = |sql: &str| -> Result<u64, StoreError> {
                connection
                    .prepare_cached(sql)
                    .and_then(|mut one| one.query_row([&to.0], |row| row.get::<_, i64>(0)))
                    .map(i64::cast_unsigned)
                    .map_err(|error| context.on(error))
            };
            let of = "SELECT count(*) FROM delivery WHERE destination = ?1 AND reason IS";
            Ok(Outbox {
                due: count(&format!("SELECT count(*) {DUE}"))?,
                delivered: count(&format!("{of} NULL"))?,
                refused: count(&format!("{of} NOT NULL"))?,
            })
        })
    }
}
