//! Head and threads of a completed recording, compressed together, because most of the data is
//! common to all threads.

use punctual_model::{Accounting, FromJson, Histogram, Recording, ThreadRecord, ToJson};
use rusqlite::{Connection, OptionalExtension, params};

use crate::bits::{Bits, Crc};
use crate::parts::{read_head, thread_json, write_head};
use crate::planes::{self, Planes};

/// Maximum size of a head with its threads: with 8,192 CPUs, they take about 40 MiB.
const LONGEST: u64 = 256 << 20;

/// Level 9 would save another 2%.
const LEVEL: i32 = 3;

/// Unpacked content.
pub(crate) struct Unpacked {
    /// Head as JSON.
    pub(crate) head: String,
    /// Threads in order.
    pub(crate) threads: Vec<ThreadRecord>,
}

fn crc_of(recording: i64, length: u64, body: &[u8]) -> u32 {
    let crc = Crc::new("pack", recording).number(length);
    crc.blob(body).end()
}

/// Encodes the head, the threads and their accounts, then the planes of their histograms. The
/// length precedes each part.
fn encode(head: &str, threads: &[ThreadRecord]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut push = |part: &[u8]| {
        body.extend_from_slice(&(part.len() as u32).to_le_bytes());
        body.extend_from_slice(part);
    };
    push(head.as_bytes());
    let each: Vec<String> = threads.iter().map(thread_json).collect();
    push(format!("[{}]", each.join(",")).as_bytes());
    let accounts: Vec<&Accounting> = threads.iter().map(|thread| &thread.accounting).collect();
    push(accounts.to_json().as_bytes());
    let encoded: Vec<Vec<u8>> = threads
        .iter()
        .map(|thread| thread.histogram.encode())
        .collect();
    // Cannot fail: `encode` wrote these numbers.
    if let Some(planes) = planes::split(encoded.iter().map(Vec::as_slice)) {
        for plane in [planes.lengths, planes.distances, planes.low, planes.high] {
            push(&plane);
        }
    }
    body
}

fn decode(mut body: &[u8]) -> Option<Unpacked> {
    let mut take = || {
        let (length, rest) = body.split_first_chunk::<4>()?;
        let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        body = rest;
        Some(part)
    };
    let head = str::from_utf8(take()?).ok()?.to_owned();
    let mut threads = Vec::<ThreadRecord>::from_json(take()?).ok()?;
    let accounts = Vec::<Accounting>::from_json(take()?).ok()?;
    let histograms = planes::join(&Planes {
        lengths: take()?.to_owned(),
        distances: take()?.to_owned(),
        low: take()?.to_owned(),
        high: take()?.to_owned(),
    })?;
    let counts = [accounts.len(), histograms.len()];
    if counts != [threads.len(); 2] || threads.len() > Recording::MAX_THREADS {
        return None;
    }
    let parts = accounts.into_iter().zip(histograms);
    for (thread, (account, histogram)) in threads.iter_mut().zip(parts) {
        thread.accounting = account;
        thread.histogram = Histogram::decode(&histogram).ok()?;
    }
    body.is_empty().then_some(Unpacked { head, threads })
}

/// Writes the head and the threads. Replaces the rows of the running recording.
pub(crate) fn write(
    connection: &Connection,
    key: i64,
    head: &str,
    threads: &[ThreadRecord],
) -> rusqlite::Result<()> {
    let plain = encode(head, threads);
    let body = zstd::bulk::compress(&plain, LEVEL)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let length = plain.len() as u64;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO pack (recording, length, body, crc) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![key, Bits(length), body, crc_of(key, length, &body)])?;
    for table in ["head", "thread"] {
        let sql = format!("DELETE FROM {table} WHERE recording = ?1");
        connection.prepare_cached(&sql)?.execute([key])?;
    }
    Ok(())
}

/// Reads the packed content of a recording. Returns `None` if its head and threads are still stored
/// as rows, and `Some(None)` if the packed content is damaged.
pub(crate) fn read(
    connection: &Connection,
    key: i64,
) -> rusqlite::Result<Option<Option<Unpacked>>> {
    let row = connection
        .prepare_cached("SELECT length, body, crc FROM pack WHERE recording = ?1")?
        .query_row([key], |row| {
            Ok((
                row.get::<_, Bits>(0)?.0,
                row.get::<_, Vec<u8>>(1)?,
                row.get::<_, u32>(2)?,
            ))
        })
        .optional()?;
    let Some((length, body, crc)) = row else {
        return Ok(None);
    };
    if crc != crc_of(key, length, &body) || length > LONGEST {
        return Ok(Some(None));
    }
    let plain = zstd::bulk::decompress(&body, usize::try_from(length).unwrap_or(usize::MAX));
    Ok(Some(plain.ok().and_then(|plain| decode(&plain))))
}

/// Changes the head of a completed recording, packed or not. Returns whether it could be read.
pub(crate) fn change_head(
    connection: &Connection,
    key: i64,
    change: &dyn Fn(&str) -> String,
) -> rusqlite::Result<bool> {
    match read(connection, key)? {
        Some(None) => Ok(false),
        Some(Some(packed)) => {
            write(connection, key, &change(&packed.head), &packed.threads)?;
            Ok(true)
        }
        None => match read_head(connection, key)? {
            Some(head) => write_head(connection, key, &change(&head)).map(|()| true),
            None => Ok(false),
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic in a test is the report")]
mod tests {
    use super::*;
    use crate::parts::head_json;

    #[test]
    fn packed_threads_take_fifth_of_rows() {
        let recording = punctual_model::testing::recording(64, 1);
        let plain = encode(&head_json(&recording, None), &recording.threads);
        let body = zstd::bulk::compress(&plain, LEVEL).unwrap();
        assert!(
            body.len() * 5 < plain.len(),
            "{} of {}",
            body.len(),
            plain.len()
        );
        let unpacked = decode(&plain).unwrap();
        assert_eq!(unpacked.threads, recording.threads);
        for end in 0..plain.len().min(200) {
            assert!(decode(&plain[..end]).is_none(), "{end}");
        }
    }
}
