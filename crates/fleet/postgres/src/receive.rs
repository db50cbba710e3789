//! Writes deliveries into PostgreSQL, and reads them back.

use std::collections::BTreeMap;

use punctual_model::{FromJson, Histogram, ReadError, Recording, RecordingId, ToJson, run_groups};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::epochs::put_epoch;
use super::link::Link;
use super::rows::{bits, plain};
use super::texts::{self, ChangedText};
use punctual_store::backend::{encode_run, outcome_name, started_ns};
use punctual_store::{Delivery, LONGEST_TEXT, Received, StoreError, Summary, Total, text_hash};

/// A fast level, because every collector spends CPU time on compressing deliveries.
const LEVEL: i32 = 3;
/// Keys in the JSON of a recording: the facts, the samples (which stay on the machine), and the
/// audit (which is replaced by the hash of its text).
const HOST: &str = "host";
const SAMPLES: &str = "samples";
const AUDIT: &str = "audit";

/// Parts of a recording by key, as raw JSON.
type Parts = BTreeMap<String, Box<RawValue>>;

/// A delivery that cannot be converted to the format of the table.
#[derive(Debug, thiserror::Error)]
pub(super) enum EncodeError {
    /// The delivery is not a JSON object, or cannot be written as one.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Error of the compressor.
    #[error(transparent)]
    Compress(#[from] std::io::Error),
}

/// A delivery, prepared as far as possible without the database.
#[derive(Clone)]
pub(super) struct Incoming<'a> {
    delivery: &'a Delivery<'a>,
    summary: Summary,
    /// Hash of the facts.
    facts: String,
    /// Texts that several recordings share, by hash: the facts and the audit.
    texts: Vec<(String, String)>,
    body: Vec<u8>,
    run: Option<Vec<u8>>,
    own: Total,
}

impl<'a> Incoming<'a> {
    pub(super) fn from_delivery(delivery: &'a Delivery<'a>) -> Result<Self, EncodeError> {
        let recording = delivery.recording;
        let mut parts: Parts = serde_json::from_slice(delivery.body)?;
        let facts = parts
            .remove(HOST)
            .map_or_else(|| "null".to_owned(), |raw| raw.get().to_owned());
        parts.remove(SAMPLES);
        let hash = text_hash(&facts);
        let mut texts = vec![(hash.clone(), facts)];
        let is_shared = |raw: &&mut Box<RawValue>| {
            raw.get().starts_with('{') && raw.get().len() <= LONGEST_TEXT
        };
        if let Some(audit) = parts.get_mut(AUDIT).filter(is_shared) {
            let text = audit.get().to_owned();
            let hash = text_hash(&text);
            *audit = RawValue::from_string(format!("\"{hash}\""))?;
            texts.push((hash, text));
        }
        let body = zstd::bulk::compress(&serde_json::to_vec(&parts)?, LEVEL)?;
        let run = || encode_run(&recording.probe.program, &run_groups(recording));
        let mut own = Total::default();
        own.add(recording);
        Ok(Self {
            delivery,
            summary: Summary::from_recording(recording),
            facts: hash,
            texts,
            body,
            run: delivery.series.map(|_| run()),
            own,
        })
    }

    /// Returns the same recording, delivered under another name.
    pub(super) fn with_delivery<'b>(&'b self, delivery: &'b Delivery<'b>) -> Incoming<'b> {
        Incoming {
            delivery,
            ..self.clone()
        }
    }

    /// Writes the delivery and updates the entry of its machine, within the caller's transaction.
    pub(super) fn receive(&self, link: &mut Link) -> Result<Received, postgres::Error> {
        for (hash, text) in &self.texts {
            texts::insert(link, hash, text)?;
        }
        let series = match self.delivery.series {
            Some(epoch) => Some(put_epoch(link, epoch)?),
            None => None,
        };
        if self.insert(link, series)? == 0 {
            let sql = "SELECT sha256 FROM recording WHERE id = $1";
            let there = link.row(sql, &[&self.summary.id.0])?;
            let there: Option<String> = there.map(|row| row.try_get(0)).transpose()?;
            if there.as_deref() != Some(self.delivery.sha256) {
                return Ok(Received::Conflict { aside: false });
            }
            if let Some(series) = series {
                self.join(link, series)?;
            }
            return Ok(Received::Known);
        }
        self.count(link)?;
        Ok(Received::New)
    }

    fn insert(&self, link: &mut Link, series: Option<i64>) -> Result<u64, postgres::Error> {
        let (one, delivery) = (&self.summary, self.delivery);
        let origin = one.origin.as_ref().map(|origin| origin.to_json());
        link.run(
            "INSERT INTO recording (id, machine, sha256, received_ns, facts, series, label, probe,
                 headline, started_ns, duration_ns, completion, outcome, recorded, missed, max_ns,
                 p99_ns, fingerprint, host, origin, crc, body, run)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
                 $18, $19, $20, $21, $22, $23) ON CONFLICT DO NOTHING",
            &[
                &one.id.0,
                &plain(delivery.machine),
                &delivery.sha256,
                &started_ns(delivery.received),
                &self.facts,
                &series,
                &one.label.as_deref().map(plain),
                &plain(&one.probe),
                &plain(&one.headline),
                &started_ns(one.started),
                &bits(one.duration_ns.0),
                &one.completion.name(),
                &outcome_name(one.outcome),
                &bits(one.recorded),
                &bits(one.missed),
                &one.max_ns.map(|ns| bits(ns.0)),
                &one.p99_ns.map(|ns| bits(ns.0)),
                &plain(&one.fingerprint),
                &one.host.as_deref().map(plain),
                &origin,
                &i64::from(crc32fast::hash(&self.body)),
                &self.body,
                &self.run,
            ],
        )
    }

    /// Adds a recording to its series if it was previously delivered without one.
    fn join(&self, link: &mut Link, series: i64) -> Result<(), postgres::Error> {
        let sql = "UPDATE recording SET series = $2, run = $3 WHERE id = $1 AND series IS NULL";
        link.run(sql, &[&self.summary.id.0, &series, &self.run])
            .map(drop)
    }

    /// Updates the overview line of the machine.
    fn count(&self, link: &mut Link) -> Result<(), postgres::Error> {
        let machine = plain(self.delivery.machine);
        let select = "SELECT due, missed, unknown FROM machine WHERE name = $1 FOR UPDATE";
        let before = match link.row(select, &[&machine])? {
            Some(row) => Some(row),
            None => {
                link.run(
                    "INSERT INTO machine (name, recordings, last_seen_ns, latest,
                         latest_started_ns, headline, outcome, completion, fingerprint, due,
                         missed, unknown)
                     VALUES ($1, 0, $2, $3, -9223372036854775808, '', '', '', '', $4, 0, 0)
                     ON CONFLICT DO NOTHING",
                    &[
                        &machine,
                        &started_ns(self.delivery.received),
                        &Uuid::nil(),
                        &Histogram::new().encode(),
                    ],
                )?;
                link.row(select, &[&machine])?
            }
        };
        let mut total = self.own.clone();
        if let Some(row) = before {
            let due: Vec<u8> = row.try_get(0)?;
            total.merge(&Total {
                recordings: 0,
                // A damaged sum restarts from zero, like a counter after a reset.
                due: Histogram::decode(&due).unwrap_or_default(),
                missed: row.try_get::<_, i64>(1)?.cast_unsigned(),
                unknown: row.try_get::<_, i64>(2)?.cast_unsigned(),
            });
        }
        link.run(
            "UPDATE machine SET recordings = recordings + 1,
                 last_seen_ns = greatest(last_seen_ns, $2), due = $3, missed = $4, unknown = $5
             WHERE name = $1",
            &[
                &machine,
                &started_ns(self.delivery.received),
                &total.due.encode(),
                &bits(total.missed),
                &bits(total.unknown),
            ],
        )?;
        let one = &self.summary;
        link.run(
            "UPDATE machine SET latest = $2, latest_started_ns = $3, headline = $4, outcome = $5,
                 completion = $6, max_ns = $7, p99_ns = $8, fingerprint = $9
             WHERE name = $1 AND latest_started_ns < $3",
            &[
                &machine,
                &one.id.0,
                &started_ns(self.delivery.began()),
                &plain(&one.headline),
                &outcome_name(one.outcome),
                &one.completion.name(),
                &one.max_ns.map(|ns| bits(ns.0)),
                &one.p99_ns.map(|ns| bits(ns.0)),
                &plain(&one.fingerprint),
            ],
        )?;
        Ok(())
    }
}

/// A stored recording that differs from what was written.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// Its checksum does not match.
    #[error("recording {0} was changed")]
    Changed(RecordingId),
    /// A part of the recording cannot be read.
    #[error("recording {id}: {source}")]
    Part {
        /// ID of the recording.
        id: RecordingId,
        /// Name of the part, and the reason.
        source: PartError,
    },
    /// No text has the hash of its audit.
    #[error("recording {0}: its audit is missing")]
    NoAudit(RecordingId),
    /// Its audit cannot be read.
    #[error(transparent)]
    Audit(#[from] StoreError),
}

/// Reason why a part of a recording cannot be read. Each variant names the part.
#[derive(Debug, thiserror::Error)]
pub(super) enum PartError {
    /// The compressed body.
    #[error(transparent)]
    Body(#[from] std::io::Error),
    /// The facts.
    #[error(transparent)]
    Facts(#[from] ChangedText),
    /// The JSON of a part.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The whole recording.
    #[error(transparent)]
    Recording(#[from] ReadError),
}

/// A recording in the format of the table.
pub(super) struct Packed {
    pub(super) crc: i64,
    pub(super) body: Vec<u8>,
    /// The facts: their hash, and their compressed text.
    pub(super) facts: (String, Vec<u8>),
}

impl Packed {
    /// Decodes the recording. `text` finds a text by its hash.
    pub(super) fn open(
        &self,
        id: RecordingId,
        text: &dyn Fn(&str) -> Result<Option<String>, StoreError>,
    ) -> Result<Recording, OpenError> {
        if self.crc != i64::from(crc32fast::hash(&self.body)) {
            return Err(OpenError::Changed(id));
        }
        let damaged = |source: PartError| OpenError::Part { id, source };
        let body = zstd::decode_all(&self.body[..]).map_err(|error| damaged(error.into()))?;
        let facts = texts::unpack(&self.facts.0, &self.facts.1);
        let facts = facts.map_err(|error| damaged(error.into()))?;
        let mut parts: Parts =
            serde_json::from_slice(&body).map_err(|error| damaged(error.into()))?;
        let facts: Box<RawValue> =
            serde_json::from_str(&facts).map_err(|error| damaged(error.into()))?;
        parts.insert(HOST.to_owned(), facts);
        let hash = parts.get(AUDIT).map(|raw| raw.get());
        if let Some(hash) = hash.and_then(|raw| String::from_json(raw.as_bytes()).ok()) {
            let audit = text(&hash)?.ok_or(OpenError::NoAudit(id))?;
            let audit = RawValue::from_string(audit).map_err(|error| damaged(error.into()))?;
            parts.insert(AUDIT.to_owned(), audit);
        }
        let json = serde_json::to_string(&parts).map_err(|error| damaged(error.into()))?;
        Recording::from_json(&json).map_err(|error| damaged(error.into()))
    }
}
