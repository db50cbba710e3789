//! Slots in PostgreSQL.

use std::collections::BTreeMap;

use postgres::Row;
use punctual_model::{RecordingId, SeriesEpoch, Slot, SlotCause, SlotState};

use super::epochs::{epoch_of, put_epoch};
use super::link::Link;
use super::rows::{plain, time_at};
use punctual_store::backend::started_ns;

/// Reads a slot from a row. Returns `None` if it contains values that only a later version of the
/// program knows.
pub(super) fn read(row: &Row) -> Result<Option<Slot>, postgres::Error> {
    let (cause, state): (String, String) = (row.try_get(4)?, row.try_get(5)?);
    let cause = SlotCause::ALL.iter().find(|known| known.name() == cause);
    let state = SlotState::ALL.iter().find(|known| known.name() == state);
    let (Some(cause), Some(state)) = (cause, state) else {
        return Ok(None);
    };
    Ok(Some(Slot {
        machine: row.try_get(0)?,
        series: row.try_get(1)?,
        epoch: epoch_of(row, 2)?,
        due: time_at(row, 3)?,
        cause: *cause,
        state: *state,
        reason: row.try_get(6)?,
        recording: row.try_get::<_, Option<uuid::Uuid>>(7)?.map(RecordingId),
    }))
}

/// Writes slots, replacing their earlier states, in the caller's transaction. Uses one statement
/// for all slots; if a slot occurs several times, its last state is written.
pub(super) fn write(link: &mut Link, slots: &[(SeriesEpoch, Slot)]) -> Result<(), postgres::Error> {
    let mut last: BTreeMap<(i64, i64), &Slot> = BTreeMap::new();
    let mut key: Option<(&SeriesEpoch, i64)> = None;
    for (epoch, slot) in slots {
        let series = match key {
            Some((known, series)) if known == epoch => series,
            _ => put_epoch(link, epoch)?,
        };
        key = Some((epoch, series));
        last.insert((series, started_ns(slot.due)), slot);
    }
    let (series, due): (Vec<i64>, Vec<i64>) = last.keys().copied().unzip();
    let all = last.values();
    let causes: Vec<&str> = all.clone().map(|slot| slot.cause.name()).collect();
    let states: Vec<&str> = all.clone().map(|slot| slot.state.name()).collect();
    let reasons: Vec<_> = (all.clone().map(|slot| slot.reason.as_deref().map(plain))).collect();
    let recordings: Vec<_> = all.map(|slot| slot.recording.map(|id| id.0)).collect();
    link.run(
        "INSERT INTO slot (series, due_ns, cause, state, reason, recording)
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[],
             $6::uuid[]) ON CONFLICT (series, due_ns) DO UPDATE
         SET cause = excluded.cause, state = excluded.state, reason = excluded.reason,
             recording = excluded.recording",
        &[&series, &due, &causes, &states, &reasons, &recordings],
    )
    .map(drop)
}
