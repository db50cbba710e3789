//! Slots: the due times of a series, with their results.

use jiff::Timestamp;
use punctual_model::{Completion, RecordingId, SeriesEpoch, Slot, SlotCause, SlotState};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use uuid::Uuid;

use crate::bits::Crc;
use crate::entry::{id_text, started_ns, time};
use crate::error::Context;
use crate::plan::{join, put_epoch};
use crate::{Store, StoreError};

/// Filter for slots; by default, all match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotFilter {
    /// Only slots of the series with this name.
    pub series: Option<String>,
    /// Only slots of the machine with this host name.
    pub host: Option<String>,
    /// Only slots that are due at this time or later.
    pub since: Option<Timestamp>,
    /// Only slots in this state.
    pub state: Option<SlotState>,
    /// Maximum number of slots; the newest ones are listed.
    pub limit: Option<usize>,
}

fn crc_of(slot: &Slot) -> u32 {
    let id = slot.recording.map(id_text);
    Crc::new("slot", 0)
        .text(&slot.series)
        .number(slot.epoch.into())
        .number(started_ns(slot.due).cast_unsigned())
        .text(slot.cause.name())
        .text(slot.state.name())
        .maybe_blob(slot.reason.as_deref().map(str::as_bytes))
        .maybe_blob(id.as_deref().map(str::as_bytes))
        .end()
}

const SELECT: &str = "SELECT plan_series.machine, plan_series.name, plan_series.epoch, due_ns,
    cause, state, reason, recording, slot.crc
    FROM slot JOIN plan_series ON plan_series.key = slot.series";

/// Reads a slot from a row; `None` if the row is damaged.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<Slot>> {
    let (cause, state): (String, String) = (row.get(4)?, row.get(5)?);
    let recording: Option<String> = row.get(7)?;
    let parsed = (
        SlotCause::ALL.iter().find(|known| known.name() == cause),
        SlotState::ALL.iter().find(|known| known.name() == state),
        recording
            .map(|id| Uuid::try_parse(&id).map(RecordingId))
            .transpose(),
    );
    let (Some(cause), Some(state), Ok(recording)) = parsed else {
        return Ok(None);
    };
    let slot = Slot {
        machine: row.get(0)?,
        series: row.get(1)?,
        epoch: row.get(2)?,
        due: time(row.get(3)?),
        cause: *cause,
        state: *state,
        reason: row.get(6)?,
        recording,
    };
    let fits = row.get::<_, u32>(8)? == crc_of(&slot);
    Ok(fits.then_some(slot))
}

/// Returns the slots that `sql` selects.
fn select(
    connection: &Connection,
    context: &Context,
    sql: &str,
    values: Vec<Value>,
) -> Result<Vec<Slot>, StoreError> {
    let on = |error| context.on(error);
    let mut statement = connection.prepare_cached(sql).map_err(on)?;
    let rows = statement
        .query_map(params_from_iter(values), read)
        .and_then(Iterator::collect::<rusqlite::Result<Option<Vec<_>>>>)
        .map_err(on)?;
    rows.ok_or_else(|| context.damaged("a slot was changed"))
}

/// Writes a slot. Replaces its earlier state, unless `only_new` is set. Returns whether the slot
/// was written.
pub(crate) fn write(
    connection: &Connection,
    context: &Context,
    epoch: &SeriesEpoch,
    slot: &Slot,
    only_new: bool,
) -> Result<bool, StoreError> {
    let series = put_epoch(connection, context, epoch)?;
    let conflict = if only_new {
        "NOTHING"
    } else {
        "UPDATE SET cause = ?3, state = ?4, reason = ?5, recording = ?6, crc = ?7"
    };
    let sql = format!(
        "INSERT INTO slot (series, due_ns, cause, state, reason, recording, crc)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (series, due_ns) DO {conflict}"
    );
    let written = connection.prepare_cached(&sql).and_then(|mut statement| {
        statement.execute(params![
            series,
            started_ns(slot.due),
            slot.cause.name(),
            slot.state.name(),
            slot.reason,
            slot.recording.map(id_text),
            crc_of(slot),
        ])
    });
    written
        .map(|count| count > 0)
        .map_err(|error| context.on(error))
}

impl Store {
    /// Adds a slot unless one with the same series, epoch and due time already exists. Returns
    /// whether it is new.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn add_slot(&self, epoch: &SeriesEpoch, slot: &Slot) -> Result<bool, StoreError> {
        self.link
            .write(|connection, context| write(connection, context, epoch, slot, true))
    }

    /// Same as [`add_slot`](Self::add_slot), but also stores `value` under `name` for this machine
    /// in the same transaction. With two transactions, a program that is killed between them would
    /// repeat the slot.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn add_slot_and_state(
        &self,
        epoch: &SeriesEpoch,
        slot: Option<&Slot>,
        (name, value): (&str, &str),
    ) -> Result<(), StoreError> {
        self.link.write(|connection, context| {
            if let Some(slot) = slot {
                write(connection, context, epoch, slot, true)?;
            }
            put_state(connection, &epoch.machine, name, value).map_err(|error| context.on(error))
        })
    }

    /// Stores `value` under `name` for a machine.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn set_plan_state(&self, machine: &str, name: &str, value: &str) -> Result<(), StoreError> {
        self.link.write(|connection, context| {
            put_state(connection, machine, name, value).map_err(|error| context.on(error))
        })
    }

    /// Returns the value stored under `name` for a machine.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn plan_state(&self, machine: &str, name: &str) -> Result<Option<String>, StoreError> {
        self.read(|connection, context| {
            state(connection, machine, name).map_err(|error| context.on(error))
        })
    }

    /// Adds several slots in one transaction, like [`add_slot`](Self::add_slot). Returns the number
    /// of new ones.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn add_slots(&self, epoch: &SeriesEpoch, slots: &[Slot]) -> Result<usize, StoreError> {
        self.link.write(|connection, context| {
            slots.iter().try_fold(0, |new, slot| {
                let is_new = write(connection, context, epoch, slot, true)?;
                Ok(new + usize::from(is_new))
            })
        })
    }

    /// Updates the result of a slot. If its recording exists, adds it to the series.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn set_slot(&self, epoch: &SeriesEpoch, slot: &Slot) -> Result<(), StoreError> {
        self.link.write(|connection, context| {
            write(connection, context, epoch, slot, false)?;
            match slot.recording {
                Some(id) => match join(connection, context, id, epoch) {
                    // The recording has not begun yet, or was deleted.
                    Err(StoreError::NoSuch { .. }) => Ok(()),
                    other => other,
                },
                None => Ok(()),
            }
        })
    }

    /// Returns the matching slots, newest first.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or any error while reading.
    pub fn slots(&self, filter: &SlotFilter) -> Result<Vec<Slot>, StoreError> {
        let conditions = [
            (
                "plan_series.name = ?",
                filter.series.clone().map(Value::Text),
            ),
            (
                "due_ns >= ?",
                filter.since.map(|since| Value::Integer(started_ns(since))),
            ),
            (
                "? IN (plan_series.machine, plan_series.host)",
                filter.host.clone().map(Value::Text),
            ),
            (
                "state = ?",
                filter
                    .state
                    .map(|state| Value::Text(state.name().to_owned())),
            ),
        ];
        let given = conditions
            .into_iter()
            .filter_map(|(condition, value)| Some((condition, value?)));
        let (conditions, mut values): (Vec<&str>, Vec<Value>) = given.unzip();
        let mut sql = if conditions.is_empty() {
            SELECT.to_owned()
        } else {
            format!("{SELECT} WHERE {}", conditions.join(" AND "))
        };
        sql.push_str(" ORDER BY due_ns DESC, plan_series.name, slot.key LIMIT ?");
        let limit = filter.limit.and_then(|limit| i64::try_from(limit).ok());
        values.push(Value::Integer(limit.unwrap_or(-1)));
        self.read(|connection, context| select(connection, context, &sql, values))
    }

    /// Returns the due time of the newest scheduled slot of an epoch; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or any error while reading.
    pub fn last_due(&self, epoch: &SeriesEpoch) -> Result<Option<Timestamp>, StoreError> {
        self.read(|connection, context| {
            let found: Option<i64> = connection
                .prepare_cached(
                    "SELECT due_ns FROM slot JOIN plan_series ON plan_series.key = slot.series
                     WHERE name = ?1 AND machine = ?2 AND epoch = ?3 AND cause IN ('at', 'every', 'sample')
                     ORDER BY due_ns DESC LIMIT 1",
                )
                .and_then(|mut statement| {
                    let values = params![epoch.name, epoch.machine, epoch.epoch];
                    statement.query_row(values, |row| row.get(0)).optional()
                })
                .map_err(|error| context.on(error))?;
            Ok(found.map(time))
        })
    }

    /// Ends the slots of this machine that a killed program left running, according to the
    /// completion of their recordings. Returns them in their new state. Must be called after a
    /// [sweep](Self::sweep), and only by the program that runs the plan.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read or written.
    pub fn recover_slots(&self, machine: &str) -> Result<Vec<Slot>, StoreError> {
        let running = SlotFilter {
            state: Some(SlotState::Running),
            ..SlotFilter::default()
        };
        let mut recovered = Vec::new();
        let own = |slot: &Slot| slot.machine == machine;
        for mut slot in self.slots(&running)?.into_iter().filter(own) {
            let completion = match slot.recording {
                Some(id) => self.completion_of(id)?,
                None => None,
            };
            (slot.state, slot.reason) = match completion {
                Some(Completion::Finished | Completion::Break) => (SlotState::Recorded, None),
                Some(Completion::Stopped) => (
                    SlotState::Interrupted,
                    Some("the service was stopped".to_owned()),
                ),
                // The writer is alive, so another program is still measuring this recording.
                Some(Completion::Running) => continue,
                Some(Completion::Interrupted) => (SlotState::Interrupted, Some(KILLED.to_owned())),
                None => {
                    slot.recording = None;
                    (SlotState::Interrupted, Some(KILLED.to_owned()))
                }
            };
            let epochs = self.series()?;
            let own = epochs.iter().find(|epoch| {
                epoch.name == slot.series && epoch.machine == machine && epoch.epoch == slot.epoch
            });
            if let Some(epoch) = own {
                self.set_slot(epoch, &slot)?;
                recovered.push(slot);
            }
        }
        Ok(recovered)
    }

    fn completion_of(&self, id: RecordingId) -> Result<Option<Completion>, StoreError> {
        self.read(
            |connection, context| match crate::entry::Entry::find(connection, id, context) {
                Ok((_, entry)) => Ok(Some(entry.summary.completion)),
                Err(StoreError::NoSuch { .. }) => Ok(None),
                Err(error) => Err(error),
            },
        )
    }
}

/// Reason for a slot whose program ended during the measurement.
const KILLED: &str = "the program was killed, or the machine stopped";

pub(crate) fn state(
    connection: &Connection,
    machine: &str,
    name: &str,
) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT value FROM plan_state WHERE machine = ?1 AND name = ?2")?
        .query_row([machine, name], |row| row.get(0))
        .optional()
}

pub(crate) fn put_state(
    connection: &Connection,
    machine: &str,
    name: &str,
    value: &str,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO plan_state (machine, name, value) VALUES (?1, ?2, ?3)
             ON CONFLICT (machine, name) DO UPDATE SET value = ?3",
        )?
        .execute([machine, name, value])
        .map(drop)
}
