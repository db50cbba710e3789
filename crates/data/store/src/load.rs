//! Loads a recording. For an unfinished one, loads the data measured so far.

use punctual_model::{
    Completion, Nanos, Recording, RecordingId, Sample, SamplesKept, ThreadRecord,
};
use rusqlite::Connection;

use crate::attachment_rows::outliers;
use crate::bits::Bits;
use crate::chunk::Packed;
use crate::entry::Entry;
use crate::error::Context;
use crate::parts::{Progress, commit_interval, read_head, read_progress, read_rows, read_threads};
use crate::{StoreError, facts, pack};

/// Loads a recording. The caller holds a transaction, so that all parts are consistent. Set
/// `presumed_dead` if the writer of the recording is known to be dead.
pub(crate) fn load(
    connection: &Connection,
    context: &Context,
    id: RecordingId,
    presumed_dead: bool,
) -> Result<Recording, StoreError> {
    let on = |error| context.on(error);
    let damaged = |what: &str| context.damaged_in(id, what);
    let (key, entry) = Entry::find(connection, id, context)?;
    if entry.threads > Recording::MAX_THREADS as u64 {
        return Err(damaged(&format!(
            "its header states {} threads, but the maximum is {}",
            entry.threads,
            Recording::MAX_THREADS
        )));
    }
    let (json, threads, is_complete) = head_and_threads(connection, context, key, id)?;
    let json = facts::put_back(connection, context, key, json)?;
    let mut recording =
        Recording::from_part_json(&json).map_err(|source| StoreError::Recording {
            path: context.path.clone(),
            id,
            source,
        })?;
    if recording.id != id {
        return Err(damaged("its header was changed"));
    }
    if threads.len() as u64 != entry.threads {
        return Err(damaged("its threads were changed"));
    }
    recording.series.rows = read_rows(connection, key, threads.len())
        .map_err(on)?
        .filter(|rows| rows.len() as u64 == entry.rows)
        .ok_or_else(|| damaged("its intervals were changed"))?;
    check_chunks(connection, context, key, &entry)?;
    recording.completion = match entry.summary.completion {
        Completion::Running if presumed_dead => Completion::Interrupted,
        other => other,
    };
    recording.threads = threads;
    if !is_complete {
        let progress = read_progress(connection, key)
            .map_err(on)?
            .ok_or_else(|| damaged("its progress was changed"))?;
        rebuild(&mut recording, &entry, progress);
        let outliers = outliers(connection, key, context)?
            .ok_or_else(|| damaged("its windows were changed"))?;
        if !outliers.is_empty() {
            let explanation = recording.explanation.get_or_insert_default();
            explanation.explained = outliers.len() as u64;
            explanation.seen = outliers.last().map_or(0, |last| last.number);
            explanation.outliers = outliers;
        }
    }
    recording.bring_up_to_date();
    Ok(recording)
}

/// Returns the head, the threads, and whether they were already packed, as happens at the end of a
/// recording. The threads of a running recording have no histograms.
fn head_and_threads(
    connection: &Connection,
    context: &Context,
    key: i64,
    id: RecordingId,
) -> Result<(String, Vec<ThreadRecord>, bool), StoreError> {
    let on = |error| context.on(error);
    let damaged = |what: &str| context.damaged_in(id, what);
    match pack::read(connection, key).map_err(on)? {
        Some(packed) => {
            let packed = packed.ok_or_else(|| damaged("its header and threads were changed"))?;
            Ok((packed.head, packed.threads, true))
        }
        None => {
            let head = read_head(connection, key).map_err(on)?;
            let head = head.ok_or_else(|| damaged("its header was changed"))?;
            let threads = read_threads(connection, key).map_err(on)?;
            let threads = threads.ok_or_else(|| damaged("its threads were changed"))?;
            Ok((head, threads, false))
        }
    }
}

/// Checks that the chunk index lists as many chunks as were written.
fn check_chunks(
    connection: &Connection,
    context: &Context,
    key: i64,
    entry: &Entry,
) -> Result<(), StoreError> {
    let (chunks, samples): (Bits, Bits) = connection
        .prepare_cached("SELECT count(*), ifnull(sum(count), 0) FROM chunk WHERE recording = ?1")
        .and_then(|mut statement| statement.query_row([key], |row| Ok((row.get(0)?, row.get(1)?))))
        .map_err(|error| context.on(error))?;
    if (chunks.0, samples.0) == (entry.chunks, entry.samples) {
        Ok(())
    } else {
        Err(context.damaged_in(entry.summary.id, "its samples were changed"))
    }
}

/// Fills in the fields that are normally set at the end of a run, using the data that was written
/// while it ran.
fn rebuild(recording: &mut Recording, entry: &Entry, progress: Progress) {
    recording.duration_ns = entry.summary.duration_ns;
    recording.series.dropped = progress.dropped;
    if !progress.largest.is_empty() {
        recording.top_samples = progress.largest;
    }
    for warning in progress.warnings {
        if !recording.warnings.contains(&warning) {
            recording.warnings.push(warning);
        }
    }
    for (number, thread) in recording.threads.iter_mut().enumerate() {
        let rows = recording.series.rows.iter();
        let mut missed = 0u64;
        for row in rows.filter(|row| row.thread as usize == number) {
            thread.histogram.add_interval(row);
            missed = missed.saturating_add(row.missed);
        }
        balance(thread, missed);
    }
    if recording.samples.is_some() || entry.samples > 0 {
        let recorded = recording.accounting().recorded;
        recording.samples = Some(SamplesKept {
            count: entry.samples,
            dropped: recorded.saturating_sub(entry.samples),
            bytes: entry.sample_bytes,
        });
    }
    recording.verdict = recording.judge();
    let warning = what_is_missing(recording);
    recording.warnings.push(warning);
}

/// Adjusts the sample accounting to the histogram: samples that were counted but are in no interval
/// do not count as measured.
fn balance(thread: &mut ThreadRecord, missed_in_rows: u64) {
    let account = &mut thread.accounting;
    account.recorded = thread.histogram.recorded();
    account.early = thread.histogram.early();
    account.overflow = thread.histogram.overflow();
    account.missed = account.missed.max(missed_in_rows);
    account.expected = account
        .recorded
        .saturating_add(account.missed)
        .saturating_add(account.warm_up);
}

fn what_is_missing(recording: &Recording) -> String {
    let until = recording.duration_ns;
    let interval = match recording.series.interval_ns {
        Nanos::ZERO => String::new(),
        interval => format!(" (at most about {})", commit_interval(interval)),
    };
    match recording.completion {
        Completion::Running => format!(
            "still running: the measurements of the first {until} are shown; interference, the \
             observer's cost and the threads' own usage are known only at the end of the run"
        ),
        _ => format!(
            "interrupted: the program was killed or the machine stopped. The measurements of the \
             first {until} are shown; measurements after the last write are lost{interval}. \
             Interference, the observer's cost and the threads' own usage are unknown"
        ),
    }
}

/// Passes the samples of one thread to `take`, chunk by chunk in the order of measurement. Returns
/// their number.
pub(crate) fn each_chunk<E: From<StoreError>>(
    connection: &Connection,
    context: &Context,
    id: RecordingId,
    thread: u32,
    take: &mut dyn FnMut(&[Sample]) -> Result<(), E>,
) -> Result<u64, E> {
    let on = |error| E::from(context.on(error));
    let damaged = || E::from(context.damaged_in(id, "its samples were changed"));
    let (key, entry) = Entry::find(connection, id, context)?;
    if u64::from(thread) >= entry.threads {
        return Err(E::from(StoreError::NoSuchThread {
            id,
            thread,
            threads: entry.threads as usize,
        }));
    }
    check_chunks(connection, context, key, &entry)?;
    let mut statement = connection.prepare_cached(Packed::SELECT).map_err(on)?;
    let mut rows = statement
        .query(rusqlite::params![key, thread])
        .map_err(on)?;
    let (mut next, mut total) = (0, 0);
    while let Some(row) = rows.next().map_err(on)? {
        let (sequence, packed) = Packed::read(row, key).map_err(on)?.ok_or_else(damaged)?;
        let samples = packed.unpack().ok_or_else(damaged)?;
        if sequence != next {
            return Err(damaged());
        }
        next += 1;
        total += samples.len() as u64;
        take(&samples)?;
    }
    Ok(total)
}
