//! Windows of all wake-ups, from continuous monitoring.

use std::cell::RefCell;

use jiff::Timestamp;
use punctual_model::{FromJson, ToJson, WakeWindow};
use rusqlite::{Connection, params};
use zstd::bulk::Compressor;

use crate::bits::{Bits, Crc};
use crate::entry::started_ns;
use crate::error::Context;
use crate::{Store, StoreError, texts};

/// Maximum size of a window as JSON, in bytes. It is enough for 2,000 buckets and some waits. A
/// larger window could not be read back.
pub const LONGEST_WAKE_WINDOW: u64 = 1 << 20;

/// A slower level, because a window has only a few kilobytes and is written once every few minutes.
const LEVEL: i32 = 9;

/// Packs a window for a table. Returns the length of its JSON, and the compressed JSON.
pub fn pack(window: &WakeWindow, level: i32) -> Result<(u64, Vec<u8>), StoreError> {
    let failed = |reason: String| StoreError::Compress { reason };
    let json = window.to_json();
    if json.len() as u64 > LONGEST_WAKE_WINDOW {
        return Err(StoreError::TooLong {
            kind: "window of wake-ups".to_owned(),
            bytes: json.len() as u64,
            most: LONGEST_WAKE_WINDOW,
        });
    }
    let body = PACKER.with_borrow_mut(|kept| {
        let packer = match kept {
            Some((known, packer)) if *known == level => packer,
            _ => &mut kept.insert((level, Compressor::new(level)?)).1,
        };
        packer.compress(json.as_bytes())
    });
    let body = body.map_err(|error| failed(error.to_string()))?;
    Ok((json.len() as u64, body))
}

thread_local! {
    /// Reused, because creating a compressor costs more than packing a window.
    static PACKER: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
}

/// Unpacks the result of [`pack`]; `None` if the data is damaged.
pub fn unpack(length: u64, body: &[u8]) -> Option<WakeWindow> {
    let json = zstd::bulk::decompress(body, length.min(LONGEST_WAKE_WINDOW) as usize).ok()?;
    WakeWindow::from_json(&json).ok()
}

/// Returns the checksum of a packed window and its key.
pub fn crc_of(machine: &str, start: i64, length: u64, body: &[u8]) -> u32 {
    Crc::new("wake_window", 0)
        .text(machine)
        .number(start.cast_unsigned())
        .number(length)
        .blob(body)
        .end()
}

/// Reads a window from a row with its machine, start, length, body and checksum. Returns `None` if
/// the row is damaged.
pub(crate) fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<WakeWindow>> {
    let (machine, start): (String, i64) = (row.get(0)?, row.get(1)?);
    let (Bits(length), body): (Bits, Vec<u8>) = (row.get(2)?, row.get(3)?);
    let crc: u32 = row.get(4)?;
    let fits = crc == crc_of(&machine, start, length, &body) && length <= LONGEST_WAKE_WINDOW;
    let window = unpack(length, &body).filter(|_| fits);
    // The body contains the name that the machine had when it delivered the window.
    Ok(window.map(|window| WakeWindow { machine, ..window }))
}

/// Gives the windows of a machine another name. A damaged window stays damaged.
pub(crate) fn rename_machine(
    connection: &Connection,
    context: &Context,
    old: &str,
    new: &str,
) -> Result<(), StoreError> {
    let rename = || -> rusqlite::Result<()> {
        let keys: Vec<i64> = connection
            .prepare_cached("SELECT key FROM wake_window WHERE machine = ?1")?
            .query_map([old], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let mut read = connection
            .prepare_cached("SELECT start_ns, length, body, crc FROM wake_window WHERE key = ?1")?;
        let mut write = connection
            .prepare_cached("UPDATE wake_window SET machine = ?2, crc = ?3 WHERE key = ?1")?;
        for key in keys {
            let crc = read.query_row([key], |row| {
                let (start, Bits(length)): (i64, Bits) = (row.get(0)?, row.get(1)?);
                let (body, crc): (Vec<u8>, u32) = (row.get(2)?, row.get(3)?);
                let fits = crc == crc_of(old, start, length, &body);
                let renamed = crc_of(new, start, length, &body);
                Ok(if fits { renamed } else { !renamed })
            })?;
            write.execute(params![key, new, crc])?;
        }
        Ok(())
    };
    rename().map_err(|error| context.on(error))
}

/// A window in the format of the table.
struct Packed {
    machine: String,
    start: i64,
    length: u64,
    body: Vec<u8>,
    crc: u32,
}

impl Packed {
    fn from_window(window: &WakeWindow) -> Result<Self, StoreError> {
        let (length, body) = pack(window, LEVEL)?;
        let start = started_ns(window.start);
        Ok(Self {
            machine: window.machine.clone(),
            start,
            length,
            crc: crc_of(&window.machine, start, length, &body),
            body,
        })
    }
}

impl Store {
    /// Stores a window unless one with the same machine and start already exists. Returns whether
    /// it is new.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn add_wake_window(&self, window: &WakeWindow) -> Result<bool, StoreError> {
        let new = self.add_wake_windows(&[vec![window.clone()]])?;
        Ok(new.iter().sum::<u64>() > 0)
    }

    /// Stores the windows of several deliveries in one transaction, like
    /// [`add_wake_window`](Self::add_wake_window). Returns the number of new windows for each
    /// delivery.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written. In that case, nothing is stored.
    pub(crate) fn add_wake_windows(
        &self,
        deliveries: &[Vec<WakeWindow>],
    ) -> Result<Vec<u64>, StoreError> {
        for window in deliveries.iter().flatten() {
            texts::check(self.path(), "a window of wake-ups", window)?;
        }
        let packed = |windows: &Vec<WakeWindow>| -> Result<Vec<Packed>, StoreError> {
            windows.iter().map(Packed::from_window).collect()
        };
        let packed: Vec<Vec<Packed>> = deliveries.iter().map(packed).collect::<Result<_, _>>()?;
        self.link.write(|connection, context| {
            let insert = || -> rusqlite::Result<Vec<u64>> {
                let mut statement = connection.prepare_cached(
                    "INSERT INTO wake_window (machine, start_ns, length, body, crc)
                     VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (start_ns, machine) DO NOTHING",
                )?;
                let mut all = |windows: &Vec<Packed>| {
                    windows.iter().try_fold(0, |new, one| {
                        let values =
                            params![one.machine, one.start, Bits(one.length), one.body, one.crc];
                        Ok(new + statement.execute(values)? as u64)
                    })
                };
                packed.iter().map(&mut all).collect()
            };
            insert().map_err(|error| context.on(error))
        })
    }

    /// Returns at most `most` windows of a machine that began at `since` or later, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or any error while reading.
    pub(crate) fn wake_windows_of(
        &self,
        machine: &str,
        since: Timestamp,
        most: usize,
    ) -> Result<Vec<WakeWindow>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let sql = "SELECT machine, start_ns, length, body, crc FROM wake_window
                   WHERE start_ns >= ?1 AND machine = ?2 ORDER BY start_ns LIMIT ?3";
        self.read(|connection, context| {
            let rows = connection.prepare_cached(sql).and_then(|mut all| {
                all.query_map(params![started_ns(since), machine, most], read_row)?
                    .collect::<rusqlite::Result<Option<Vec<_>>>>()
            });
            let rows = rows.map_err(|error| context.on(error))?;
            rows.ok_or_else(|| context.damaged("a window of wake-ups was changed"))
        })
    }

    /// Passes each window that began at `since` or later to `take`, oldest first. Returns their
    /// number.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], any error while reading, and any error that `take` returns.
    pub fn wake_windows<E: From<StoreError>>(
        &self,
        since: Option<Timestamp>,
        take: &mut dyn FnMut(WakeWindow) -> Result<(), E>,
    ) -> Result<usize, E> {
        let since = since.map_or(i64::MIN, started_ns);
        self.read(|connection, context| {
            let on = |error| E::from(context.on(error));
            let mut statement = connection
                .prepare_cached(
                    "SELECT machine, start_ns, length, body, crc FROM wake_window
                     WHERE start_ns >= ?1 ORDER BY start_ns, machine",
                )
                .map_err(on)?;
            let mut rows = statement.query([since]).map_err(on)?;
            let mut total = 0;
            while let Some(row) = rows.next().map_err(on)? {
                let damaged = || E::from(context.damaged("a window of wake-ups was changed"));
                take(read_row(row).map_err(on)?.ok_or_else(damaged)?)?;
                total += 1;
            }
            Ok(total)
        })
    }
}
