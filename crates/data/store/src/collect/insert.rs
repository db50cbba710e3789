//! Writes a delivery into SQLite.

use punctual_model::{Histogram, SeriesEpoch};
use rusqlite::{Connection, params};

use super::{Delivery, Total};
use crate::bits::Bits;
use crate::entry::{Entry, Summary, id_text, outcome_name, started_ns};
use crate::error::Context;
use crate::parts::{head_json, write_row};
use crate::{StoreError, facts, pack, plan};

/// Writes a complete recording.
pub(super) fn insert(
    connection: &Connection,
    delivery: &Delivery<'_>,
) -> rusqlite::Result<Summary> {
    let recording = delivery.recording;
    let summary = Summary {
        // Samples stay on the machine.
        samples: false,
        ..Summary::from_recording(recording)
    };
    let mut entry = Entry {
        summary,
        threads: recording.threads.len() as u64,
        rows: 0,
        chunks: 0,
        samples: 0,
        sample_bytes: 0,
    };
    entry.write(connection, None)?;
    let key = connection.last_insert_rowid();
    for row in &recording.series.rows {
        entry.rows += u64::from(write_row(connection, key, row)?);
    }
    entry.write(connection, Some(key))?;
    let head = facts::take_out(&head_json(recording, None));
    facts::insert(connection, key, recording)?;
    pack::write(connection, key, &head, &recording.threads)?;
    connection
        .prepare_cached(
            "INSERT INTO collected (recording, machine, sha256, received_ns)
             VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            key,
            delivery.machine,
            delivery.sha256,
            started_ns(delivery.received)
        ])?;
    Ok(entry.summary)
}

/// Adds the delivered recording to its series. If an epoch with the same number has another
/// definition (the machine was reinstalled), the new one gets the next number.
pub(super) fn join_series(
    connection: &Connection,
    context: &Context,
    delivery: &Delivery<'_>,
) -> Result<(), StoreError> {
    let Some(wanted) = delivery.series else {
        return Ok(());
    };
    let known = plan::epochs_of(connection, context, &wanted.name, Some(&wanted.machine))?;
    let known: Vec<SeriesEpoch> = (known.into_iter().map(|(_, epoch)| epoch))
        .filter(|known| known.machine == wanted.machine)
        .collect();
    let same = known
        .iter()
        .rfind(|known| known.definition == wanted.definition);
    let epoch = match same {
        Some(same) => same.clone(),
        None => {
            let last = known.iter().map(|known| known.epoch).max().unwrap_or(0);
            SeriesEpoch {
                epoch: wanted.epoch.max(last.saturating_add(1)),
                ..wanted.clone()
            }
        }
    };
    plan::join(connection, context, delivery.recording.id, &epoch)
}

/// Updates the overview line of the machine.
pub(super) fn count(
    connection: &Connection,
    delivery: &Delivery<'_>,
    summary: &Summary,
) -> rusqlite::Result<()> {
    let received = started_ns(delivery.received);
    connection
        .prepare_cached(
            "INSERT INTO machine (name, recordings, last_seen_ns, latest, latest_started_ns,
                 headline, outcome, completion, max_ns, p99_ns, fingerprint, due, missed, unknown)
             VALUES (?1, 0, ?2, '', -9223372036854775808, '', '', '', NULL, NULL, '', ?3, 0, 0)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            delivery.machine,
            received,
            Histogram::new().encode()
        ])?;
    let (due, missed, unknown): (Vec<u8>, Bits, Bits) = connection
        .prepare_cached("SELECT due, missed, unknown FROM machine WHERE name = ?1")?
        .query_row([delivery.machine], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let mut total = Total {
        recordings: 0,
        // A damaged sum restarts from zero, like a counter after a reset.
        due: Histogram::decode(&due).unwrap_or_default(),
        missed: missed.0,
        unknown: unknown.0,
    };
    total.add(delivery.recording);
    connection
        .prepare_cached(
            "UPDATE machine SET recordings = recordings + 1, last_seen_ns = max(last_seen_ns, ?2),
                 due = ?3, missed = ?4, unknown = ?5 WHERE name = ?1",
        )?
        .execute(params![
            delivery.machine,
            received,
            total.due.encode(),
            Bits(total.missed),
            Bits(total.unknown)
        ])?;
    connection
        .prepare_cached(
            "UPDATE machine SET latest = ?2, latest_started_ns = ?3, headline = ?4,
                 outcome = ?5, completion = ?6, max_ns = ?7, p99_ns = ?8, fingerprint = ?9
             WHERE name = ?1 AND latest_started_ns < ?3",
        )?
        .execute(params![
            delivery.machine,
            id_text(summary.id),
            started_ns(delivery.began()),
            summary.headline,
            outcome_name(summary.outcome),
            summary.completion.name(),
            summary.max_ns.map(|ns| Bits(ns.0)),
            summary.p99_ns.map(|ns| Bits(ns.0)),
            summary.fingerprint,
        ])?;
    Ok(())
}
