//! A recording as one line of a list.

use jiff::Timestamp;
use serde::Serialize;

use crate::{Completion, Nanos, Origin, Outcome, RecordingId};

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
