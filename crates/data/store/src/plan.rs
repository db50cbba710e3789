//! Series of plans, with their epochs and runs.

use jiff::Timestamp;
use punctual_model::{RecordingId, SeriesEpoch, SeriesRun};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use crate::bits::Crc;
use crate::entry::{id_text, started_ns, time};
use crate::error::Context;
use crate::{Store, StoreError, runs, texts};

/// Number of runs read at once.
const RUNS_AT_ONCE: usize = 256;

const COLUMNS: &str = "key, machine, host, name, epoch, definition, begun_ns, crc";

fn crc_of(epoch: &SeriesEpoch) -> u32 {
    Crc::new("plan_series", 0)
        .text(&epoch.machine)
        .maybe_blob(epoch.host.as_deref().map(str::as_bytes))
        .text(&epoch.name)
        .number(epoch.epoch.into())
        .text(&epoch.definition)
        .number(started_ns(epoch.begun).cast_unsigned())
        .end()
}

/// Reads an epoch from a row, with its key. Returns `None` if the row is damaged.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<(i64, SeriesEpoch)>> {
    let epoch = SeriesEpoch {
        machine: row.get(1)?,
        host: row.get(2)?,
        name: row.get(3)?,
        epoch: row.get(4)?,
        definition: row.get(5)?,
        begun: time(row.get(6)?),
    };
    let fits = row.get::<_, u32>(7)? == crc_of(&epoch);
    Ok(fits.then_some((row.get(0)?, epoch)))
}

/// Returns all epochs with their keys, ordered by name, machine and number.
pub(crate) fn epochs(
    connection: &Connection,
    context: &Context,
) -> Result<Vec<(i64, SeriesEpoch)>, StoreError> {
    select(connection, context, ("", &[]))
}

/// Returns the epochs of one series only, because a collector has those of many. `machine` limits
/// them to epochs of the machine with this ID or host name, and epochs without a host name.
pub(crate) fn epochs_of(
    connection: &Connection,
    context: &Context,
    name: &str,
    machine: Option<&str>,
) -> Result<Vec<(i64, SeriesEpoch)>, StoreError> {
    const OF: &str = "WHERE name = ?1 AND (?2 IS NULL OR ?2 IN (machine, host) OR host IS NULL)";
    select(connection, context, (OF, &[&name, &machine]))
}

fn select(
    connection: &Connection,
    context: &Context,
    (which, values): (&str, &[&dyn ToSql]),
) -> Result<Vec<(i64, SeriesEpoch)>, StoreError> {
    let on = |error| context.on(error);
    let sql = format!("SELECT {COLUMNS} FROM plan_series {which} ORDER BY name, machine, epoch");
    let mut statement = connection.prepare_cached(&sql).map_err(on)?;
    let rows = statement
        .query_map(values, read)
        .and_then(Iterator::collect::<rusqlite::Result<Option<Vec<_>>>>)
        .map_err(on)?;
    rows.ok_or_else(|| context.damaged("a series was changed"))
}

/// Returns the key of an epoch. Writes the epoch if it does not exist.
pub(crate) fn put_epoch(
    connection: &Connection,
    context: &Context,
    epoch: &SeriesEpoch,
) -> Result<i64, StoreError> {
    let on = |error| context.on(error);
    let found = connection
        .prepare_cached(
            "SELECT key FROM plan_series WHERE name = ?1 AND machine = ?2 AND epoch = ?3",
        )
        .and_then(|mut statement| {
            let values = params![epoch.name, epoch.machine, epoch.epoch];
            statement.query_row(values, |row| row.get(0)).optional()
        })
        .map_err(on)?;
    if let Some(key) = found {
        return Ok(key);
    }
    texts::check(&context.path, "a series", epoch)?;
    connection
        .prepare_cached(
            "INSERT INTO plan_series (machine, host, name, epoch, definition, begun_ns, crc)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .and_then(|mut statement| {
            statement.insert(params![
                epoch.machine,
                epoch.host,
                epoch.name,
                epoch.epoch,
                epoch.definition,
                started_ns(epoch.begun),
                crc_of(epoch),
            ])
        })
        .map_err(on)
}

/// Gives the epochs of a machine that delivers another name. A damaged epoch is an error.
pub(crate) fn rename_machine(
    connection: &Connection,
    context: &Context,
    old: &str,
    new: &str,
) -> Result<(), StoreError> {
    let found = select(
        connection,
        context,
        ("WHERE ?1 IN (machine, host)", &[&old]),
    )?;
    for (key, epoch) in found {
        let epoch = SeriesEpoch {
            machine: new.to_owned(),
            host: Some(new.to_owned()),
            ..epoch
        };
        connection
            .prepare_cached(
                "UPDATE plan_series SET machine = ?2, host = ?2, crc = ?3 WHERE key = ?1",
            )
            .and_then(|mut statement| statement.execute(params![key, new, crc_of(&epoch)]))
            .map_err(|error| context.on(error))?;
    }
    Ok(())
}

impl Store {
    /// Returns the epochs of all series, ordered by name, machine and number.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or any error while reading.
    pub fn series(&self) -> Result<Vec<SeriesEpoch>, StoreError> {
        let all = self.read(epochs)?;
        Ok(all.into_iter().map(|(_, epoch)| epoch).collect())
    }

    /// Returns the epochs of one series. `machine` limits them to epochs of the machine with this
    /// ID or host name, and epochs without a host name.
    ///
    /// # Errors
    /// Same as [`series`](Self::series).
    pub fn series_named(
        &self,
        name: &str,
        machine: Option<&str>,
    ) -> Result<Vec<SeriesEpoch>, StoreError> {
        let of = self.read(|connection, context| epochs_of(connection, context, name, machine))?;
        Ok(of.into_iter().map(|(_, epoch)| epoch).collect())
    }

    /// Passes each run of a series, of one host or of all, to `take`, in order of start time. Unfinished
    /// runs are skipped. Reads a few hundred at a time to limit memory. Returns their number.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], any error while reading, and any error that `take` returns.
    pub fn runs_of<E: From<StoreError>>(
        &self,
        series: &str,
        host: Option<&str>,
        since: Option<Timestamp>,
        take: &mut dyn FnMut(SeriesRun) -> Result<(), E>,
    ) -> Result<usize, E> {
        let since = since.map_or(i64::MIN, started_ns);
        let keys = self.read(|connection, context| {
            connection
                .prepare_cached(
                    "SELECT recording.key FROM recording
                     JOIN plan_series ON plan_series.key = recording.series
                     WHERE plan_series.name = ?1 AND started_ns >= ?2 AND completion != 'running'
                     AND (?3 IS NULL OR ?3 = coalesce(
                          (SELECT machine FROM collected WHERE recording = recording.key),
                          recording.host))
                     ORDER BY started_ns, id",
                )
                .and_then(|mut statement| {
                    statement
                        .query_map(params![series, since, host], |row| row.get(0))
                        .and_then(Iterator::collect::<rusqlite::Result<Vec<i64>>>)
                })
                .map_err(|error| context.on(error))
        })?;
        let mut total = 0;
        for keys in keys.chunks(RUNS_AT_ONCE) {
            let runs = self.read(
                |connection, context| -> Result<Vec<SeriesRun>, StoreError> {
                    let read = keys.iter().map(|key| runs::read(connection, context, *key));
                    read.filter_map(Result::transpose).collect()
                },
            )?;
            total += runs.len();
            runs.into_iter().try_for_each(&mut *take)?;
        }
        Ok(total)
    }

    /// Returns the name of the series that a recording belongs to; `None` if it belongs to none.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn series_of(&self, id: RecordingId) -> Result<Option<String>, StoreError> {
        self.read(|connection, context| {
            connection
                .prepare_cached(
                    "SELECT plan_series.name FROM recording
                     JOIN plan_series ON plan_series.key = recording.series
                     WHERE recording.id = ?1",
                )
                .and_then(|mut statement| {
                    let id = id_text(id);
                    statement.query_row([id], |row| row.get(0)).optional()
                })
                .map_err(|error| context.on(error))
        })
    }

    /// Returns the epoch of the series that a recording belongs to; `None` if it belongs to none.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or any error while reading.
    pub fn epoch_of(&self, id: RecordingId) -> Result<Option<SeriesEpoch>, StoreError> {
        self.read(|connection, context| {
            let key: Option<i64> = connection
                .prepare_cached("SELECT series FROM recording WHERE id = ?1")
                .and_then(|mut statement| {
                    let id = id_text(id);
                    statement.query_row([id], |row| row.get(0)).optional()
                })
                .map(Option::flatten)
                .map_err(|error| context.on(error))?;
            let Some(key) = key else {
                return Ok(None);
            };
            let all = epochs(connection, context)?;
            Ok(all.into_iter().find(|one| one.0 == key).map(|one| one.1))
        })
    }

    /// Returns the current epoch of a series of this machine. If there is none, or if `definition`
    /// differs from that of the last epoch, a new epoch begins `now`.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or any error while writing.
    pub fn put_series(
        &self,
        machine: &str,
        host: Option<&str>,
        name: &str,
        definition: &str,
        now: Timestamp,
    ) -> Result<SeriesEpoch, StoreError> {
        // Usually nothing has changed, so nothing is written.
        let current = |connection: &Connection, context: &Context| {
            let all = epochs_of(connection, context, name, Some(machine))?.into_iter();
            let own = all.map(|(_, epoch)| epoch);
            let own = own.filter(|epoch| epoch.machine == machine);
            Ok::<_, StoreError>(own.max_by_key(|epoch| epoch.epoch))
        };
        let same = |epoch: &SeriesEpoch| epoch.definition == definition;
        if let Some(epoch) = self.read(current)?.filter(same) {
            return Ok(epoch);
        }
        self.link.write(|connection, context| {
            let last = current(connection, context)?;
            if let Some(epoch) = last.clone().filter(same) {
                return Ok(epoch);
            }
            let epoch = SeriesEpoch {
                machine: machine.to_owned(),
                host: host.map(str::to_owned),
                name: name.to_owned(),
                epoch: last.map_or(1, |last| last.epoch.saturating_add(1)),
                definition: definition.to_owned(),
                begun: now,
            };
            put_epoch(connection, context, &epoch)?;
            Ok(epoch)
        })
    }

    /// Adds a recording to an epoch of a series.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], or any error while writing.
    pub fn join_series(&self, id: RecordingId, epoch: &SeriesEpoch) -> Result<(), StoreError> {
        self.link
            .write(|connection, context| join(connection, context, id, epoch))
    }
}

pub(crate) fn join(
    connection: &Connection,
    context: &Context,
    id: RecordingId,
    epoch: &SeriesEpoch,
) -> Result<(), StoreError> {
    let on = |error| context.on(error);
    let series = put_epoch(connection, context, epoch)?;
    let key: Option<i64> = connection
        .prepare_cached("UPDATE recording SET series = ?2 WHERE id = ?1 RETURNING key")
        .and_then(|mut statement| {
            let values = params![id_text(id), series];
            statement.query_row(values, |row| row.get(0)).optional()
        })
        .map_err(on)?;
    let key = key.ok_or_else(|| context.no_such(id))?;
    runs::write_if_in_series(connection, context, key, id)
}
