//! A recording as one line of a list.

use jiff::Timestamp;
use serde::Serialize;

use crate::{Completion, Nanos, Origin, Outcome, Recording, RecordingId, Unknown};

/// One line of a list of recordings, in the terminal, on a page and as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordingLine {
    /// The recording.
    pub id: RecordingId,
    /// Its label; null if it has none.
    pub label: Option<String>,
    /// The probe that measured.
    pub probe: String,
    /// A summary of the measurement on one line.
    pub headline: String,
    /// Its start; null if an imported file does not contain it.
    pub started: Option<Timestamp>,
    /// Its length; null if an imported file does not contain it.
    pub duration_ns: Option<Nanos>,
    /// Whether it ended as planned.
    pub completion: Completion,
    /// Whether its requirement was met.
    pub outcome: Outcome,
    /// Samples of all threads.
    pub recorded: u64,
    /// Missed periods of all threads; null if an imported file does not contain them.
    pub missed: Option<u64>,
    /// The largest latency; null if there are no samples.
    pub max_ns: Option<Nanos>,
    /// The 99th percentile; null if there are no samples.
    pub p99_ns: Option<Nanos>,
    /// The name of the machine; null if it is unknown.
    pub host: Option<String>,
    /// The fingerprint of the machine.
    pub fingerprint: String,
    /// Whether the samples were kept.
    pub samples: bool,
    /// The source of an imported recording; null if punctual measured it.
    pub origin: Option<Origin>,
}

impl From<&Recording> for RecordingLine {
    fn from(recording: &Recording) -> Self {
        let all = recording.all_latencies();
        let accounting = recording.accounting();
        let known = |what| recording.knows(what);
        Self {
            id: recording.id,
            label: recording.label.clone(),
            probe: recording.probe.name.clone(),
            headline: recording.headline(),
            started: known(Unknown::Started).then_some(recording.started),
            duration_ns: known(Unknown::Duration).then_some(recording.duration_ns),
            completion: recording.completion,
            outcome: recording.verdict.outcome,
            recorded: accounting.recorded,
            missed: known(Unknown::Missed).then_some(accounting.missed),
            max_ns: all.max(),
            p99_ns: all.supported_quantile(0.99),
            host: recording.host.hostname.get().cloned(),
            fingerprint: recording.host.fingerprint.clone(),
            samples: recording.samples.is_some(),
            origin: recording.origin.clone(),
        }
    }
}
