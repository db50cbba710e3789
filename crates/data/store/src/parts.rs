//! Parts of a recording as rows: head, progress, threads, intervals.

use punctual_model::{
    Accounting, Buckets, FromJson, Histogram, IntervalRow, Nanos, OpenPeriods, Recording,
    SamplesKept, Series, Suspension, ThreadRecord, ToJson, TopSample, from_json, to_json,
};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bits::{Bits, Crc};

/// Returns the recording as JSON without its threads and the rows of its series, which have
/// separate tables. `samples` describes the stored samples.
pub(crate) fn head_json(recording: &Recording, samples: Option<SamplesKept>) -> String {
    // Each field is named, so that a new field cannot be forgotten here. The threads and rows are
    // not cloned.
    let head = Recording {
        schema: recording.schema,
        id: recording.id,
        label: recording.label.clone(),
        origin: recording.origin.clone(),
        completion: recording.completion,
        probe: recording.probe.clone(),
        host: recording.host.clone(),
        tune: recording.tune.clone(),
        audit: recording.audit.clone(),
        load: recording.load.clone(),
        requirement: recording.requirement.clone(),
        verdict: recording.verdict.clone(),
        judgement: recording.judgement.clone(),
        sender_judgement: recording.sender_judgement.clone(),
        started: recording.started,
        duration_ns: recording.duration_ns,
        threads: Vec::new(),
        series: Series {
            rows: Vec::new(),
            ..recording.series
        },
        samples,
        tables: recording.tables.clone(),
        top_samples: recording.top_samples.clone(),
        explanation: recording.explanation.clone(),
        suspensions: recording.suspensions.clone(),
        interference: recording.interference.clone(),
        observer: recording.observer,
        warnings: recording.warnings.clone(),
    };
    head.to_json()
}

/// Updates the suspensions in a head.
pub(crate) fn head_with_suspensions(head: &str, suspensions: &[Suspension]) -> String {
    let parsed = Value::from_json(head.as_bytes());
    // Heads that `head_json` wrote always parse.
    parsed.map_or_else(
        |_| head.to_owned(),
        |mut head| {
            head["suspensions"] = suspensions.to_value();
            head.to_string()
        },
    )
}

/// Data that replaces parts of the head while a recording runs.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Progress {
    pub(crate) largest: Vec<TopSample>,
    pub(crate) warnings: Vec<String>,
    pub(crate) dropped: u64,
}

/// Returns how often to commit a run with rows of this length, which limits the loss if the program
/// is killed. Each commit uses the disk, so several short rows are committed at once.
pub fn commit_interval(row_length: Nanos) -> Nanos {
    row_length.clamp(Nanos::from_secs(1), Nanos::from_secs(10))
}

/// Lateness of the periods that a thread has missed so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Missed periods that have since ended with a wake-up, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_histogram: Option<Box<Histogram>>,
    /// Periods that have no wake-up yet. They are already included in the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenPeriods>,
}

/// Returns the checksum of a row with texts and a number.
fn crc_of(table: &str, recording: i64, texts: &[&str], number: u64) -> u32 {
    texts
        .iter()
        .fold(Crc::new(table, recording), |crc, text| crc.text(text))
        .number(number)
        .end()
}

pub(crate) fn write_head(
    connection: &Connection,
    recording: i64,
    json: &str,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO head (recording, json, crc) VALUES (?1, ?2, ?3)")?
        .execute(params![
            recording,
            json,
            crc_of("head", recording, &[json], 0)
        ])?;
    Ok(())
}

/// Reads the JSON of the head; `None` if it is missing or its checksum does not match.
pub(crate) fn read_head(
    connection: &Connection,
    recording: i64,
) -> rusqlite::Result<Option<String>> {
    let row: Option<(String, u32)> = connection
        .prepare_cached("SELECT json, crc FROM head WHERE recording = ?1")?
        .query_row([recording], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let fits = |row: &(String, u32)| row.1 == crc_of("head", recording, &[&row.0], 0);
    Ok(row.filter(fits).map(|(json, _)| json))
}

pub(crate) fn write_progress(
    connection: &Connection,
    recording: i64,
    progress: &Progress,
) -> rusqlite::Result<()> {
    let largest = progress.largest.to_json();
    let warnings = progress.warnings.to_json();
    let crc = crc_of(
        "progress",
        recording,
        &[&largest, &warnings],
        progress.dropped,
    );
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO progress (recording, largest, warnings, dropped, crc)
            VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            recording,
            largest,
            warnings,
            Bits(progress.dropped),
            crc
        ])?;
    Ok(())
}

/// Reads the progress of a running recording; `None` if the checksum does not match.
pub(crate) fn read_progress(
    connection: &Connection,
    recording: i64,
) -> rusqlite::Result<Option<Progress>> {
    let row = connection
        .prepare_cached(
            "SELECT largest, warnings, dropped, crc FROM progress WHERE recording = ?1",
        )?
        .query_row([recording], |row| {
            let (largest, warnings): (String, String) = (row.get(0)?, row.get(1)?);
            let (Bits(dropped), crc) = (row.get(2)?, row.get::<_, u32>(3)?);
            Ok((largest, warnings, dropped, crc))
        })
        .optional()?;
    let Some((largest, warnings, dropped, crc)) = row else {
        return Ok(None);
    };
    if crc != crc_of("progress", recording, &[&largest, &warnings], dropped) {
        return Ok(None);
    }
    let parsed = (
        Vec::<TopSample>::from_json(largest.as_bytes()).ok(),
        Vec::<String>::from_json(warnings.as_bytes()).ok(),
    );
    let (Some(largest), Some(warnings)) = parsed else {
        return Ok(None);
    };
    Ok(Some(Progress {
        largest,
        warnings,
        dropped,
    }))
}

/// Returns the description of a thread without its measurements; the histogram is empty.
pub(crate) fn thread_json(thread: &ThreadRecord) -> String {
    let thread = ThreadRecord {
        accounting: Accounting::default(),
        histogram: Histogram::new(),
        ..thread.clone()
    };
    thread.to_json()
}

/// Account of a thread while it runs.
#[derive(Serialize, Deserialize)]
struct Account {
    #[serde(flatten)]
    accounting: Accounting,
    /// Only used while the recording runs; later it is part of the thread's JSON.
    #[serde(flatten)]
    lateness: Lateness,
}

to_json!(Account);
from_json!(Account);

/// Writes a thread of a running recording, without its histogram.
pub(crate) fn write_thread(
    connection: &Connection,
    recording: i64,
    number: u32,
    thread: &ThreadRecord,
) -> rusqlite::Result<()> {
    let json = thread_json(thread);
    let accounting = thread.accounting.to_json();
    let crc = crc_of("thread", recording, &[&json], number.into());
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO thread
                (recording, thread, json, accounting, accounting_crc, crc)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            recording,
            number,
            json,
            accounting,
            crc_of("accounting", recording, &[&accounting], number.into()),
            crc,
        ])?;
    Ok(())
}

/// Replaces the account of a thread.
pub(crate) fn write_accounting(
    connection: &Connection,
    recording: i64,
    number: u32,
    accounting: &Accounting,
    lateness: &Lateness,
) -> rusqlite::Result<()> {
    let account = Account {
        accounting: *accounting,
        lateness: lateness.clone(),
    };
    let accounting = account.to_json();
    connection
        .prepare_cached(
            "UPDATE thread SET accounting = ?3, accounting_crc = ?4
            WHERE recording = ?1 AND thread = ?2",
        )?
        .execute(params![
            recording,
            number,
            accounting,
            crc_of("accounting", recording, &[&accounting], number.into()),
        ])?;
    Ok(())
}

/// Reads the threads of a running recording in order, without their histograms; `None` if a
/// checksum or a count does not match.
pub(crate) fn read_threads(
    connection: &Connection,
    recording: i64,
) -> rusqlite::Result<Option<Vec<ThreadRecord>>> {
    let mut statement = connection.prepare_cached(
        "SELECT thread, json, accounting, accounting_crc, crc FROM thread
        WHERE recording = ?1 ORDER BY thread",
    )?;
    let mut rows = statement.query([recording])?;
    let mut threads = Vec::new();
    while let Some(row) = rows.next()? {
        let number: u32 = row.get(0)?;
        let (json, accounting): (String, String) = (row.get(1)?, row.get(2)?);
        let fits = threads.len() == number as usize
            && threads.len() < Recording::MAX_THREADS
            && row.get::<_, u32>(3)?
                == crc_of("accounting", recording, &[&accounting], number.into())
            && row.get::<_, u32>(4)? == crc_of("thread", recording, &[&json], number.into());
        let parsed = (
            ThreadRecord::from_json(json.as_bytes()).ok(),
            Account::from_json(accounting.as_bytes()).ok(),
        );
        let (true, (Some(mut thread), Some(account))) = (fits, parsed) else {
            return Ok(None);
        };
        thread.accounting = account.accounting;
        let Lateness {
            missed_histogram,
            open,
        } = account.lateness;
        thread.missed_histogram = missed_histogram.or(thread.missed_histogram);
        thread.open = open.or(thread.open);
        threads.push(thread);
    }
    Ok(Some(threads))
}

fn crc_of_row(recording: i64, row: &IntervalRow, buckets: &[u8]) -> u32 {
    Crc::new("series", recording)
        .number(row.thread.into())
        .number(row.start_ns.0)
        .number(row.count)
        .number(row.early)
        .number(row.missed)
        .maybe(row.min_ns.map(|ns| ns.0))
        .maybe(row.max_ns.map(|ns| ns.0))
        .number(row.sum_ns.0)
        .blob(buckets)
        .end()
}

/// Writes an interval, or updates it as it grows. Returns whether it is new. An unchanged interval
/// costs only a lookup.
pub(crate) fn write_row(
    connection: &Connection,
    recording: i64,
    row: &IntervalRow,
) -> rusqlite::Result<bool> {
    let buckets = row.histogram.encoded();
    let crc = crc_of_row(recording, row, buckets);
    let there: Option<(i64, u32)> = connection
        .prepare_cached(
            "SELECT key, crc FROM series WHERE recording = ?1 AND thread = ?2 AND start_ns = ?3",
        )?
        .query_row(params![recording, row.thread, Bits(row.start_ns.0)], |r| {
            Ok((r.get(0)?, r.get(1)?))
        })
        .optional()?;
    if there.is_some_and(|(_, before)| before == crc) {
        return Ok(false);
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO series (key, recording, thread, start_ns, count, early,
                missed, min_ns, max_ns, sum_ns, buckets, crc)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            there.map(|(key, _)| key),
            recording,
            row.thread,
            Bits(row.start_ns.0),
            Bits(row.count),
            Bits(row.early),
            Bits(row.missed),
            row.min_ns.map(|ns| Bits(ns.0)),
            row.max_ns.map(|ns| Bits(ns.0)),
            Bits(row.sum_ns.0),
            buckets,
            crc,
        ])?;
    Ok(there.is_none())
}

/// Reads the intervals of a recording by start and thread; `None` if anything does not match.
pub(crate) fn read_rows(
    connection: &Connection,
    recording: i64,
    threads: usize,
) -> rusqlite::Result<Option<Vec<IntervalRow>>> {
    let mut statement = connection.prepare_cached(
        "SELECT thread, start_ns, count, early, missed, min_ns, max_ns, sum_ns, buckets, crc
        FROM series WHERE recording = ?1",
    )?;
    let mut rows = statement.query([recording])?;
    let mut intervals = Vec::new();
    while let Some(row) = rows.next()? {
        let number = |column: usize| row.get::<_, Bits>(column).map(|bits| bits.0);
        let maybe = |column: usize| -> rusqlite::Result<Option<Nanos>> {
            Ok(row
                .get::<_, Option<Bits>>(column)?
                .map(|bits| Nanos(bits.0)))
        };
        let buckets = row.get_ref(8)?.as_blob()?;
        let Ok(histogram) = Buckets::decode(buckets) else {
            return Ok(None);
        };
        let interval = IntervalRow {
            thread: row.get(0)?,
            start_ns: Nanos(number(1)?),
            count: number(2)?,
            early: number(3)?,
            missed: number(4)?,
            min_ns: maybe(5)?,
            max_ns: maybe(6)?,
            sum_ns: Nanos(number(7)?),
            histogram,
        };
        if row.get::<_, u32>(9)? != crc_of_row(recording, &interval, buckets)
            || interval.thread as usize >= threads
        {
            return Ok(None);
        }
        intervals.push(interval);
    }
    let place = |row: &IntervalRow| (row.start_ns, row.thread);
    intervals.sort_by_key(place);
    // A damaged index can return one row twice and omit another.
    let each_once = intervals
        .windows(2)
        .all(|pair| place(&pair[0]) < place(&pair[1]));
    Ok(each_once.then_some(intervals))
}
