//! Output and files of the tools that measure pairs, at the end of the run.

use punctual_files::Output;
use punctual_formats::{Additions, JsonThreads, mean_us};
use punctual_model::Recording;
use punctual_session::Outcome;
use serde::Serialize;

use super::Kind;
use super::rows::{self, Row};
use super::settings::PairSettings;
use crate::{CompatError, ToolContext, json, shared};

/// Prints and writes all results in the order of the originals. Returns the exit status.
pub(super) fn write(
    kind: &Kind,
    settings: &PairSettings,
    outcome: &Outcome,
    mut rows: Vec<Row>,
    file: Option<Output>,
    context: &mut ToolContext<'_>,
) -> Result<u8, CompatError> {
    let recording = &outcome.recording;
    for (place, row) in rows.iter_mut().enumerate() {
        row.settle(place, recording);
    }
    if settings.common.quiet {
        write!(context.out, "{}", rows::text(kind, &rows))?;
    }
    let status = context.status(outcome.broke.is_some());
    if settings.common.json.is_some() {
        let body = body(kind, &rows, recording, context.additions(recording, None));
        let bytes = json::file(context, &recording.host, status, &body)?;
        shared::put_json(file, &bytes, context)?;
    }
    shared::report_break(kind.name, settings.common.break_value, outcome, context);
    context.report_outcome(outcome);
    Ok(status)
}

#[derive(Serialize)]
struct Pair {
    sender: Sender,
    receiver: Receiver,
}

#[derive(Serialize)]
struct Sender {
    cpu: i64,
    priority: u8,
    samples: u64,
    interval: u64,
}

#[derive(Serialize)]
struct Receiver {
    cpu: i64,
    priority: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeoutcount: Option<u64>,
    min: i64,
    avg: f64,
    max: u64,
}

/// Returns the part of the JSON file after the head.
pub(super) fn body<'a>(
    kind: &Kind,
    rows: &[Row],
    recording: &'a Recording,
    additions: Option<Additions<'a>>,
) -> JsonThreads<'a, impl Serialize + use<>> {
    let pairs = rows.iter().zip(&recording.threads);
    let pairs = pairs.map(|(row, thread)| Pair {
        sender: Sender {
            cpu: row.sender.cpu,
            priority: row.sender.priority,
            samples: thread.histogram.count(),
            interval: row.interval_us,
        },
        receiver: Receiver {
            cpu: row.receiver.cpu,
            priority: row.receiver.priority,
            timeoutcount: kind.timeouts.then_some(row.timeouts),
            min: row.min.map_or(-1, |min| min as i64),
            avg: mean_us(&thread.histogram),
            max: row.max,
        },
    });
    JsonThreads::new(pairs, additions)
}
