//! Wake-up windows in PostgreSQL.

use std::collections::HashSet;

use jiff::Timestamp;
use punctual_model::WakeWindow;

use super::link::Link;
use super::rows::plain;
use punctual_store::StoreError;
use punctual_store::backend::{crc_of, pack_window, started_ns, unpack_window};

/// A fast level, because thousands of machines send a window every ten seconds.
const LEVEL: i32 = 1;

/// Windows as arrays, so that one statement writes them all.
#[derive(Default)]
pub(super) struct Columns {
    machines: Vec<String>,
    starts: Vec<i64>,
    lengths: Vec<i32>,
    crcs: Vec<i64>,
    bodies: Vec<Vec<u8>>,
}

impl Columns {
    pub(super) fn from_windows<'a>(
        windows: impl Iterator<Item = &'a WakeWindow>,
    ) -> Result<Self, StoreError> {
        let mut columns = Self::default();
        for window in windows {
            let machine = plain(&window.machine).into_owned();
            let (length, body) = pack_window(window, LEVEL)?;
            let start = started_ns(window.start);
            columns
                .crcs
                .push(crc_of(&machine, start, length, &body).into());
            columns.machines.push(machine);
            columns.starts.push(start);
            columns
                .lengths
                .push(i32::try_from(length).unwrap_or(i32::MAX));
            columns.bodies.push(body);
        }
        Ok(columns)
    }

    /// Returns the machine and the start time of each new window.
    pub(super) fn write(&self, link: &mut Link) -> Result<HashSet<(String, i64)>, postgres::Error> {
        let rows = link.rows(
            "INSERT INTO wake_window (machine, start_ns, length, crc, body)
             SELECT * FROM unnest($1::text[], $2::bigint[], $3::integer[], $4::bigint[],
                 $5::bytea[]) ON CONFLICT DO NOTHING RETURNING machine, start_ns",
            &[
                &self.machines,
                &self.starts,
                &self.lengths,
                &self.crcs,
                &self.bodies,
            ],
        )?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect()
    }
}

/// Number of windows that are renamed at once.
const AT_ONCE: i64 = 1_000;

/// Gives the windows of a machine another name, in the caller's transaction. A damaged window stays
/// damaged.
pub(super) fn rename_machine(link: &mut Link, old: &str, new: &str) -> Result<(), postgres::Error> {
    loop {
        let sql = "SELECT start_ns, length, crc, body FROM wake_window WHERE machine = $1 LIMIT $2";
        let rows = link.rows(sql, &[&old, &AT_ONCE])?;
        if rows.is_empty() {
            return Ok(());
        }
        let (mut starts, mut crcs) = (Vec::new(), Vec::new());
        for row in &rows {
            let (start, length): (i64, i32) = (row.try_get(0)?, row.try_get(1)?);
            let (crc, body): (i64, Vec<u8>) = (row.try_get(2)?, row.try_get(3)?);
            let length = length.cast_unsigned().into();
            let fits = crc == i64::from(crc_of(old, start, length, &body));
            let renamed = crc_of(new, start, length, &body);
            starts.push(start);
            crcs.push(i64::from(if fits { renamed } else { !renamed }));
        }
        link.run(
            "UPDATE wake_window SET machine = $2, crc = changed.crc
             FROM unnest($3::bigint[], $4::bigint[]) AS changed (start_ns, crc)
             WHERE wake_window.start_ns = changed.start_ns AND machine = $1",
            &[&old, &new, &starts, &crcs],
        )?;
    }
}

/// Returns the windows of a machine that began at `since` or later, oldest first. A damaged window
/// is returned as `None`.
pub(super) fn read(
    link: &mut Link,
    machine: &str,
    since: Timestamp,
    most: usize,
) -> Result<Vec<Option<WakeWindow>>, postgres::Error> {
    let rows = link.rows(
        "SELECT start_ns, length, crc, body FROM wake_window
         WHERE machine = $1 AND start_ns >= $2 ORDER BY start_ns LIMIT $3",
        &[
            &plain(machine),
            &started_ns(since),
            &i64::try_from(most).unwrap_or(i64::MAX),
        ],
    )?;
    let rows = rows.iter().map(|row| {
        let (start, length): (i64, i32) = (row.try_get(0)?, row.try_get(1)?);
        let (crc, body): (i64, Vec<u8>) = (row.try_get(2)?, row.try_get(3)?);
        let length = length.cast_unsigned().into();
        let fits = crc == i64::from(crc_of(&plain(machine), start, length, &body));
        let window = unpack_window(length, &body).filter(|_| fits);
        // The body contains the name that the machine had when it delivered the window.
        let machine = machine.to_owned();
        Ok(window.map(|window| WakeWindow { machine, ..window }))
    });
    rows.collect()
}
