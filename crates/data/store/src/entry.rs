//! Rows of the table `recording`, which contain the data for lists and the state of the writer.

use jiff::Timestamp;
use punctual_model::{
    Completion, FromJson, Lease, Nanos, Origin, Outcome, Recording, RecordingId, RecordingLine,
    ToJson, Unknown,
};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use uuid::Uuid;

use crate::StoreError;
use crate::bits::{Bits, Crc};
use crate::error::Context;

/// One line in the list of recordings.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// ID of the recording.
    pub id: RecordingId,
    /// Name given by the user.
    pub label: Option<String>,
    /// Probe that made the measurement.
    pub probe: String,
    /// Summary of the measurement in one line.
    pub headline: String,
    /// Start time.
    pub started: Timestamp,
    /// Duration. If the recording is still running, the duration so far.
    pub duration_ns: Nanos,
    /// Whether the recording was completed.
    pub completion: Completion,
    /// Whether the requirement was met; [`Outcome::NotDecidable`] while the recording is running.
    pub outcome: Outcome,
    /// Number of samples of all threads.
    pub recorded: u64,
    /// Number of periods without a sample, of all threads.
    pub missed: u64,
    /// Largest latency of all threads; `None` without samples.
    pub max_ns: Option<Nanos>,
    /// 99th percentile of all samples; `None` without samples, or while the recording is running.
    pub p99_ns: Option<Nanos>,
    /// The machine's fingerprint.
    pub fingerprint: String,
    /// Host name; `None` if unknown, or if the program that wrote the row did not store it.
    pub host: Option<String>,
    /// Whether samples were stored.
    pub samples: bool,
    /// Origin of the recording; `None` if punctual measured it.
    pub origin: Option<Origin>,
    /// Process that is writing the recording, as long as it is running.
    pub lease: Option<Lease>,
}

/// A row of the table `recording`.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) summary: Summary,
    /// Number of measuring threads.
    pub(crate) threads: u64,
    /// Number of its rows in table `series`.
    pub(crate) rows: u64,
    /// Number of its rows in table `chunk`.
    pub(crate) chunks: u64,
    /// Number of samples in these chunks.
    pub(crate) samples: u64,
    /// Size of their compressed streams, in bytes.
    pub(crate) sample_bytes: u64,
}

/// A row of the table `recording` whose checksum does not match.
#[derive(Debug, thiserror::Error)]
#[error("recording {id}: its entry in the list was changed")]
pub(crate) struct ChangedLine {
    /// Content of the ID column.
    pub(crate) id: String,
}

/// Returns whether the table contains a recording that is missing from its index. Scans every row
/// (the `+` keeps SQLite from using the index).
fn is_hidden(connection: &Connection, id: RecordingId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM recording WHERE +id = ?1")?
        .exists([id_text(id)])
}

/// Values of the outcome column. They must not change, because the checksums of rows cover them.
const OUTCOMES: [(Outcome, &str); 7] = [
    (Outcome::Met, "held"),
    (Outcome::Exceeded, "missed"),
    (Outcome::NotDecidable, "unknown"),
    (Outcome::Held, "machine_held"),
    (Outcome::Broken, "machine_broken"),
    (Outcome::NotProven, "machine_not_proven"),
    (Outcome::NoRequirement, "no_requirement"),
];

const COMPLETIONS: [Completion; 5] = [
    Completion::Finished,
    Completion::Break,
    Completion::Stopped,
    Completion::Interrupted,
    Completion::Running,
];

/// Parses a value of the outcome column.
pub fn outcome_of(word: &str) -> Option<Outcome> {
    let found = OUTCOMES.iter().find(|(_, name)| *name == word);
    found.map(|(outcome, _)| *outcome)
}

/// Parses a value of the completion column.
pub fn completion_of(word: &str) -> Option<Completion> {
    COMPLETIONS.into_iter().find(|known| known.name() == word)
}

/// Returns the value of the outcome column.
pub fn outcome_name(outcome: Outcome) -> &'static str {
    OUTCOMES
        .iter()
        .find(|(known, _)| *known == outcome)
        .map_or("unknown", |(_, name)| name)
}

/// Returns the names of the outcomes that exceed or break a requirement, as a list of SQL literals.
pub fn bad_outcomes() -> String {
    let bad = OUTCOMES.iter().filter(|(outcome, _)| outcome.is_bad());
    let names: Vec<String> = bad.map(|(_, name)| format!("'{name}'")).collect();
    names.join(", ")
}

/// Formats an ID for its column: 32 hexadecimal digits.
pub(crate) fn id_text(id: RecordingId) -> String {
    id.0.simple().to_string()
}

/// Checks that the recording has not been deleted. It can be deleted if a sweep mistakes this
/// writer for dead.
pub(crate) fn still_there(
    connection: &Connection,
    context: &Context,
    key: i64,
    id: RecordingId,
) -> Result<(), StoreError> {
    let there = connection
        .prepare_cached("SELECT 1 FROM recording WHERE key = ?1 AND id = ?2")
        .and_then(|mut statement| statement.exists(params![key, id_text(id)]))
        .map_err(|error| context.on(error))?;
    if there {
        Ok(())
    } else {
        Err(context.no_such(id))
    }
}

/// Removes a recording and all its data.
pub(crate) fn remove(
    connection: &Connection,
    context: &Context,
    key: i64,
) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM recording WHERE key = ?1")
        .and_then(|mut statement| statement.execute([key]))
        .map(drop)
        .map_err(|error| context.on(error))
}

/// Returns a wall-clock time in nanoseconds since 1970. Times outside the years 1678 to 2262
/// saturate, but the head contains the exact time.
pub fn started_ns(started: Timestamp) -> i64 {
    started
        .as_nanosecond()
        .clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Converts a time column; see [`started_ns`].
pub fn time(ns: i64) -> Timestamp {
    // Every i64 of nanoseconds is a valid time for jiff.
    Timestamp::from_nanosecond(ns.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl Summary {
    /// Returns whether this value is known; see [`Recording::knows`].
    pub fn knows(&self, what: Unknown) -> bool {
        let origin = self.origin.as_ref();
        origin.is_none_or(|origin| !origin.unknown.contains(&what))
    }

    /// Returns the entry without the values that are unknown.
    pub fn into_line(self) -> RecordingLine {
        RecordingLine {
            started: self.knows(Unknown::Started).then_some(self.started),
            duration_ns: (self.knows(Unknown::Duration)).then_some(self.duration_ns),
            missed: self.knows(Unknown::Missed).then_some(self.missed),
            id: self.id,
            label: self.label,
            probe: self.probe,
            headline: self.headline,
            completion: self.completion,
            outcome: self.outcome,
            recorded: self.recorded,
            max_ns: self.max_ns,
            p99_ns: self.p99_ns,
            host: self.host,
            fingerprint: self.fingerprint,
            samples: self.samples,
            origin: self.origin,
        }
    }

    /// Builds the list entry of `recording`.
    pub fn from_recording(recording: &Recording) -> Self {
        let all = recording.all_latencies();
        let accounting = recording.accounting();
        Self {
            id: recording.id,
            label: recording.label.clone(),
            probe: recording.probe.name.clone(),
            headline: recording.headline(),
            started: recording.started,
            duration_ns: recording.duration_ns,
            completion: recording.completion,
            outcome: recording.verdict.outcome,
            recorded: accounting.recorded,
            missed: accounting.missed,
            max_ns: all.max(),
            p99_ns: all.supported_quantile(0.99),
            fingerprint: recording.host.fingerprint.clone(),
            host: recording.host.hostname.get().cloned(),
            samples: recording.samples.is_some(),
            origin: recording.origin.clone(),
            lease: None,
        }
    }
}

/// Columns, in the order that [`Entry::read`] expects.
pub(crate) const COLUMNS: &str = "id, label, probe, headline, started_ns, duration_ns, \
    completion, outcome, recorded, missed, max_ns, p99_ns, fingerprint, threads, rows, chunks, \
    samples, sample_bytes, writer_pid, writer_start, writer_boot, crc, has_samples, \
    origin, host";

impl Entry {
    fn crc(&self) -> u32 {
        let s = &self.summary;
        let lease = s.lease.as_ref();
        // The checksum covers the ID instead of the key.
        Crc::new("recording", 0)
            .text(&id_text(s.id))
            .maybe_blob(s.label.as_deref().map(str::as_bytes))
            .text(&s.probe)
            .text(&s.headline)
            .number(started_ns(s.started).cast_unsigned())
            .number(s.duration_ns.0)
            .text(s.completion.name())
            .text(outcome_name(s.outcome))
            .number(s.recorded)
            .number(s.missed)
            .maybe(s.max_ns.map(|ns| ns.0))
            .maybe(s.p99_ns.map(|ns| ns.0))
            .text(&s.fingerprint)
            .number(s.samples.into())
            .number(self.threads)
            .number(self.rows)
            .number(self.chunks)
            .number(self.samples)
            .number(self.sample_bytes)
            .maybe(lease.map(|lease| lease.pid.into()))
            .maybe(lease.map(|lease| lease.process_start))
            .maybe_blob(lease.map(|lease| lease.boot_id.as_bytes()))
            .maybe_blob(self.origin_json().as_deref().map(str::as_bytes))
            .maybe_blob(s.host.as_deref().map(str::as_bytes))
            .end()
    }

    fn origin_json(&self) -> Option<String> {
        let origin = self.summary.origin.as_ref()?;
        Some(origin.to_value().to_string())
    }

    /// Reads a row of [`COLUMNS`]. Returns [`ChangedLine`] if the checksum does not match.
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Result<Self, ChangedLine>> {
        let id: String = row.get(0)?;
        let maybe = |column: usize| -> rusqlite::Result<Option<u64>> {
            Ok(row.get::<_, Option<Bits>>(column)?.map(|bits| bits.0))
        };
        let number = |column: usize| row.get::<_, Bits>(column).map(|bits| bits.0);
        let completion: String = row.get(6)?;
        let outcome: String = row.get(7)?;
        let parsed = (
            // Rejects other spellings of the same ID, because the program would not have written
            // them.
            Uuid::try_parse(&id)
                .ok()
                .filter(|uuid| uuid.simple().to_string() == id),
            Timestamp::from_nanosecond(i128::from(row.get::<_, i64>(4)?)).ok(),
            COMPLETIONS.iter().find(|known| known.name() == completion),
            outcome_of(&outcome),
        );
        let (Some(uuid), Some(started), Some(completion), Some(outcome)) = parsed else {
            return Ok(Err(ChangedLine { id }));
        };
        let origin = match row.get::<_, Option<String>>(23)? {
            None => None,
            Some(json) => match Origin::from_json(json.as_bytes()) {
                Ok(origin) => Some(origin),
                Err(_) => return Ok(Err(ChangedLine { id })),
            },
        };
        let pid = maybe(18)?.and_then(|pid| u32::try_from(pid).ok());
        let lease = match (pid, maybe(19)?, row.get(20)?) {
            (Some(pid), Some(process_start), Some(boot_id)) => Some(Lease {
                pid,
                process_start,
                boot_id,
                namespaces: None,
            }),
            _ => None,
        };
        let entry = Self {
            summary: Summary {
                id: RecordingId(uuid),
                label: row.get(1)?,
                probe: row.get(2)?,
                headline: row.get(3)?,
                started,
                duration_ns: Nanos(number(5)?),
                completion: *completion,
                outcome,
                recorded: number(8)?,
                missed: number(9)?,
                max_ns: maybe(10)?.map(Nanos),
                p99_ns: maybe(11)?.map(Nanos),
                fingerprint: row.get(12)?,
                host: row.get(24)?,
                samples: row.get(22)?,
                origin,
                lease,
            },
            threads: number(13)?,
            rows: number(14)?,
            chunks: number(15)?,
            samples: number(16)?,
            sample_bytes: number(17)?,
        };
        let crc: i64 = row.get(21)?;
        Ok(if crc == i64::from(entry.crc()) {
            Ok(entry)
        } else {
            Err(ChangedLine { id })
        })
    }

    /// Reads the row of one recording, with its key.
    pub(crate) fn find(
        connection: &Connection,
        id: RecordingId,
        context: &Context,
    ) -> Result<(i64, Self), StoreError> {
        let sql = format!("SELECT {COLUMNS}, key FROM recording WHERE id = ?1");
        let found = connection
            .prepare_cached(&sql)
            .and_then(|mut statement| {
                statement
                    .query_row([id_text(id)], |row| Ok((row.get(25)?, Self::read(row)?)))
                    .optional()
            })
            .map_err(|error| context.on(error))?;
        match found {
            None if is_hidden(connection, id).map_err(|error| context.on(error))? => {
                Err(context.damaged_in(id, "it is missing from the index"))
            }
            None => Err(context.no_such(id)),
            Some((key, Ok(entry))) => Ok((key, entry)),
            Some((_, Err(_))) => Err(context.damaged_in(id, "its entry in the list was changed")),
        }
    }

    /// Writes the row, or inserts a new one if `key` is `None`. Returns the number of rows written,
    /// which is zero if another process has deleted the row.
    pub(crate) fn write(
        &self,
        connection: &Connection,
        key: Option<i64>,
    ) -> rusqlite::Result<usize> {
        let s = &self.summary;
        let lease = s.lease.as_ref();
        let sql = match key {
            None => {
                "INSERT INTO recording (key, id, label, probe, headline, started_ns, duration_ns,
                    completion, outcome, recorded, missed, max_ns, p99_ns, fingerprint,
                    has_samples, threads, rows, chunks, samples, sample_bytes, writer_pid,
                    writer_start, writer_boot, crc, origin, host)
                VALUES (:key, :id, :label, :probe, :headline, :started_ns, :duration_ns,
                    :completion, :outcome, :recorded, :missed, :max_ns, :p99_ns, :fingerprint,
                    :has_samples, :threads, :rows, :chunks, :samples, :sample_bytes, :writer_pid,
                    :writer_start, :writer_boot, :crc, :origin, :host)"
            }
            Some(_) => {
                "UPDATE recording SET label = :label, probe = :probe, headline = :headline,
                    started_ns = :started_ns, duration_ns = :duration_ns,
                    completion = :completion, outcome = :outcome, recorded = :recorded,
                    missed = :missed, max_ns = :max_ns, p99_ns = :p99_ns,
                    fingerprint = :fingerprint, has_samples = :has_samples, threads = :threads,
                    rows = :rows, chunks = :chunks, samples = :samples,
                    sample_bytes = :sample_bytes, writer_pid = :writer_pid,
                    writer_start = :writer_start, writer_boot = :writer_boot, crc = :crc,
                    origin = :origin, host = :host
                WHERE key = :key AND id = :id"
            }
        };
        connection.prepare_cached(sql)?.execute(named_params! {
            ":key": key,
            ":id": id_text(s.id),
            ":label": s.label,
            ":probe": s.probe,
            ":headline": s.headline,
            ":started_ns": started_ns(s.started),
            ":duration_ns": Bits(s.duration_ns.0),
            ":completion": s.completion.name(),
            ":outcome": outcome_name(s.outcome),
            ":recorded": Bits(s.recorded),
            ":missed": Bits(s.missed),
            ":max_ns": s.max_ns.map(|ns| Bits(ns.0)),
            ":p99_ns": s.p99_ns.map(|ns| Bits(ns.0)),
            ":fingerprint": s.fingerprint,
            ":has_samples": s.samples,
            ":threads": Bits(self.threads),
            ":rows": Bits(self.rows),
            ":chunks": Bits(self.chunks),
            ":samples": Bits(self.samples),
            ":sample_bytes": Bits(self.sample_bytes),
            ":writer_pid": lease.map(|lease| lease.pid),
            ":writer_start": lease.map(|lease| Bits(lease.process_start)),
            ":writer_boot": lease.map(|lease| &lease.boot_id),
            ":crc": self.crc(),
            ":origin": self.origin_json(),
            ":host": s.host,
        })
    }
}
