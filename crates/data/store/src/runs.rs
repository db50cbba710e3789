//! Runs of a series in the form that a trend reads: small rows, separate from the recordings.

use punctual_model::{
    Buckets, Completion, FromJson, Recording, RecordingId, RunGroup, SeriesRun, ToJson, from_json,
    run_groups, to_json,
};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::bits::Crc;
use crate::entry::{COLUMNS, ChangedLine, Entry};
use crate::error::Context;
use crate::load::load;

/// Data that precedes the buckets in the body.
#[derive(Serialize, Deserialize)]
struct Head {
    program: String,
    groups: Vec<RunGroup>,
}

to_json!(Head);
from_json!(Head);

fn crc_of(recording: i64, body: &[u8]) -> u32 {
    Crc::new("run", recording).blob(body).end()
}

/// Encodes the length and the JSON of the head, then the length and the content of each group's
/// buckets.
pub fn encode(program: &str, groups: &[RunGroup]) -> Vec<u8> {
    let head = Head {
        program: program.to_owned(),
        groups: groups.to_vec(),
    };
    let mut body = Vec::new();
    let mut push = |part: &[u8]| {
        body.extend_from_slice(&(part.len() as u32).to_le_bytes());
        body.extend_from_slice(part);
    };
    push(head.to_json().as_bytes());
    for group in groups {
        push(group.latencies.encoded());
    }
    body
}

/// The inverse of [`encode`]; `None` if the data is damaged.
pub fn decode(mut body: &[u8]) -> Option<(String, Vec<RunGroup>)> {
    let mut take = || {
        let (length, rest) = body.split_first_chunk::<4>()?;
        let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        body = rest;
        Some(part)
    };
    let mut head = Head::from_json(take()?).ok()?;
    for group in &mut head.groups {
        group.latencies = Buckets::decode(take()?).ok()?;
    }
    body.is_empty().then_some((head.program, head.groups))
}

/// Writes the trend data of a recording, if it belongs to a series.
pub(crate) fn write_run(
    connection: &Connection,
    context: &Context,
    key: i64,
    recording: &Recording,
) -> Result<(), StoreError> {
    let on = |error| context.on(error);
    if !is_in_series(connection, key).map_err(on)? {
        return Ok(());
    }
    let body = encode(&recording.probe.program, &run_groups(recording));
    connection
        .prepare_cached("INSERT OR REPLACE INTO run (recording, body, crc) VALUES (?1, ?2, ?3)")
        .and_then(|mut statement| statement.execute(params![key, body, crc_of(key, &body)]))
        .map(drop)
        .map_err(on)
}

/// Same as [`write_run`], for a recording that is already complete.
pub(crate) fn write_if_in_series(
    connection: &Connection,
    context: &Context,
    key: i64,
    id: RecordingId,
) -> Result<(), StoreError> {
    if !is_in_series(connection, key).map_err(|error| context.on(error))? {
        return Ok(());
    }
    match load(connection, context, id, false) {
        Ok(recording) if recording.completion == Completion::Running => Ok(()),
        Ok(recording) => write_run(connection, context, key, &recording),
        // The recording is damaged; loading it will report that.
        Err(StoreError::Damaged { .. } | StoreError::Recording { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_in_series(connection: &Connection, key: i64) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM recording WHERE key = ?1 AND series IS NOT NULL")?
        .exists([key])
}

/// Reads the run of a recording; `None` if it was deleted in the meantime.
pub(crate) fn read(
    connection: &Connection,
    context: &Context,
    key: i64,
) -> Result<Option<SeriesRun>, StoreError> {
    let on = |error| context.on(error);
    // The delivering machine is preferred, because two machines of a fleet may have the same host
    // name.
    let sql = format!(
        "SELECT {COLUMNS}, facts, series, coalesce((SELECT machine FROM collected \
         WHERE recording = key), host) FROM recording WHERE key = ?1"
    );
    let row = connection
        .prepare_cached(&sql)
        .and_then(|mut statement| {
            let read = |row: &rusqlite::Row<'_>| {
                Ok((
                    Entry::read(row)?,
                    row.get(25)?,
                    row.get::<_, Option<i64>>(26)?,
                    row.get(27)?,
                ))
            };
            statement.query_row([key], read).optional()
        })
        .map_err(on)?;
    let Some((entry, facts, Some(series), host)) = row else {
        return Ok(None);
    };
    let changed = |ChangedLine { id }| {
        context.damaged(format!(
            "recording {id}: its entry in the list was \
            changed"
        ))
    };
    let summary = entry.map_err(changed)?.summary;
    let epoch = connection
        .prepare_cached("SELECT epoch FROM plan_series WHERE key = ?1")
        .and_then(|mut statement| statement.query_row([series], |row| row.get(0)))
        .map_err(on)?;
    let body = connection
        .prepare_cached("SELECT body, crc FROM run WHERE recording = ?1")
        .and_then(|mut statement| {
            statement
                .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
        .map_err(on)?;
    let damaged = || context.damaged_in(summary.id, "its trend figures were changed");
    let (body, crc): (Vec<u8>, u32) = body.ok_or_else(damaged)?;
    let decoded = decode(&body).filter(|_| crc == crc_of(key, &body));
    let (program, groups) = decoded.ok_or_else(damaged)?;
    Ok(Some(SeriesRun {
        recording: summary.id,
        epoch,
        host,
        started: summary.started,
        duration_ns: summary.duration_ns,
        completion: summary.completion,
        outcome: summary.outcome,
        facts,
        program,
        groups,
    }))
}
