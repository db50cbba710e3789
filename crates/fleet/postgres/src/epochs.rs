//! Epochs of series in PostgreSQL.

use postgres::Row;
use punctual_model::SeriesEpoch;

use super::link::Link;
use super::rows::{plain, time_at};
use punctual_store::backend::started_ns;

/// Columns that [`epoch`] reads.
pub(super) const EPOCHS: &str =
    "SELECT machine, host, name, epoch, definition, begun_ns FROM plan_series";

/// Returns the key of an epoch. Writes the epoch if it does not exist. If an epoch with the same
/// number has another definition (the machine was reinstalled), the new one gets the next number.
pub(super) fn put_epoch(link: &mut Link, epoch: &SeriesEpoch) -> Result<i64, postgres::Error> {
    let (machine, name) = (plain(&epoch.machine), plain(&epoch.name));
    let definition = plain(&epoch.definition);
    let find = "SELECT key FROM plan_series WHERE name = $1 AND machine = $2 AND definition = $3
                ORDER BY epoch DESC LIMIT 1";
    if let Some(row) = link.row(find, &[&name, &machine, &definition])? {
        return row.try_get(0);
    }
    let wanted = i64::from(epoch.epoch);
    loop {
        let row = link.row(
            "INSERT INTO plan_series (machine, host, name, epoch, definition, begun_ns)
             SELECT $1, $2, $3, greatest($4, 1 + coalesce((SELECT max(epoch) FROM plan_series
                 WHERE name = $3 AND machine = $1), 0)), $5, $6
             ON CONFLICT DO NOTHING RETURNING key",
            &[
                &machine,
                &epoch.host.as_deref().map(plain),
                &name,
                &wanted,
                &definition,
                &started_ns(epoch.begun),
            ],
        )?;
        if let Some(row) = row {
            return row.try_get(0);
        }
        // Another collector has just written an epoch, which may be the same one.
        if let Some(row) = link.row(find, &[&name, &machine, &definition])? {
            return row.try_get(0);
        }
    }
}

/// Returns the number of an epoch.
pub(super) fn epoch_of(row: &Row, at: usize) -> Result<u32, postgres::Error> {
    Ok(u32::try_from(row.try_get::<_, i64>(at)?).unwrap_or(u32::MAX))
}

/// Reads an epoch from a row that begins with its columns.
pub(super) fn epoch(row: &Row) -> Result<SeriesEpoch, postgres::Error> {
    Ok(SeriesEpoch {
        machine: row.try_get(0)?,
        host: row.try_get(1)?,
        name: row.try_get(2)?,
        epoch: epoch_of(row, 3)?,
        definition: row.try_get(4)?,
        begun: time_at(row, 5)?,
    })
}
