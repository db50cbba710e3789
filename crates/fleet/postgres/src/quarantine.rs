//! Refused deliveries in PostgreSQL.

use postgres::Row;
use punctual_model::RecordingId;

use super::link::Link;
use super::rows::{bits, plain, time_at};
use punctual_store::backend::started_ns;
use punctual_store::{Quarantined, Refused};

/// Adds a refused delivery with its compressed body, unless it already exists.
pub(super) fn add(
    link: &mut Link,
    refused: &Refused<'_>,
    body: &[u8],
) -> Result<(), postgres::Error> {
    link.run(
        "INSERT INTO quarantine (id, machine, sha256, received_ns, reason, bytes, body)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        &[
            &refused.id.0,
            &plain(refused.machine),
            &refused.sha256,
            &started_ns(refused.received),
            &plain(refused.reason),
            &bits(refused.body.len() as u64),
            &body,
        ],
    )
    .map(drop)
}

/// Returns at most `most` refused deliveries, newest first.
pub(super) fn newest(link: &mut Link, most: i64) -> Result<Vec<Quarantined>, postgres::Error> {
    let read = |row: &Row| {
        Ok(Quarantined {
            id: RecordingId(row.try_get(0)?),
            machine: row.try_get(1)?,
            sha256: row.try_get(2)?,
            received: time_at(row, 3)?,
            reason: row.try_get(4)?,
            bytes: row.try_get::<_, i64>(5)?.cast_unsigned(),
        })
    };
    let sql = "SELECT id, machine, sha256, received_ns, reason, bytes FROM quarantine
               ORDER BY key DESC LIMIT $1";
    link.rows(sql, &[&most])?.iter().map(read).collect()
}

/// Returns the number of refused deliveries of a machine, and the size of their bodies before
/// compression.
pub(super) fn size_of(link: &mut Link, machine: &str) -> Result<(u64, u64), postgres::Error> {
    let sql = "SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM quarantine
               WHERE machine = $1";
    let Some(row) = link.row(sql, &[&plain(machine)])? else {
        return Ok((0, 0));
    };
    let (count, bytes): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    Ok((count.cast_unsigned(), bytes.cast_unsigned()))
}

/// Returns the compressed body of a refused delivery; `None` if it no longer exists.
pub(super) fn body(link: &mut Link, one: &Quarantined) -> Result<Option<Vec<u8>>, postgres::Error> {
    let sql = "SELECT body FROM quarantine WHERE id = $1 AND machine = $2 AND sha256 = $3";
    let row = link.row(sql, &[&one.id.0, &plain(&one.machine), &one.sha256])?;
    row.map(|row| row.try_get(0)).transpose()
}
