//! What these tools print and write when the run is over.

use std::collections::BTreeMap;

use punctual_formats::Additions;
use punctual_model::{Nanos, Recording};
use punctual_session::Outcome;
use serde::Serialize;

use super::Kind;
use super::rows::{self, Row};
use super::settings::Settings;
use crate::output::Later;
use crate::{CompatError, Stage, json, shared};

/// All of it, in the originals' order. Says the exit status.
pub(super) fn write(
    kind: &Kind,
    settings: &Settings,
    outcome: &Outcome,
    mut rows: Vec<Row>,
    file: Option<Later>,
    stage: &mut Stage<'_>,
) -> Result<u8, CompatError> {
    let recording = &outcome.recording;
    for (place, row) in rows.iter_mut().enumerate() {
        row.settle(place, recording);
    }
    if settings.quiet {
        write!(stage.out, "{}", rows::text(kind, &rows))?;
    }
    let status = stage.status(outcome.broke.is_some());
    if settings.json.is_some() {
        let body = Body::of(kind, &rows, recording);
        let bytes = json::file(stage, &recording.host, status, &body)?;
        shared::put_json(file, &bytes, stage)?;
    }
    shared::tell_of_break(kind.name, settings.break_limit_us, outcome, stage);
    stage.tell_of(outcome);
    Ok(status)
}

/// The JSON file after its head, in the order of its keys.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    num_threads: usize,
    thread: BTreeMap<usize, Pair>,
    punctual: Additions<'a>,
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

impl<'a> Body<'a> {
    pub(super) fn of(kind: &Kind, rows: &[Row], recording: &'a Recording) -> Self {
        let pairs = rows.iter().zip(&recording.threads).enumerate();
        Self {
            num_threads: rows.len(),
            thread: pairs
                .map(|(place, (row, thread))| {
                    let histogram = &thread.histogram;
                    let sum_us = histogram.sum().0 as f64 / Nanos::from_micros(1).0 as f64;
                    let pair = Pair {
                        sender: Sender {
                            cpu: row.sender.cpu,
                            priority: row.sender.priority,
                            samples: histogram.count(),
                            interval: row.interval_us,
                        },
                        receiver: Receiver {
                            cpu: row.receiver.cpu,
                            priority: row.receiver.priority,
                            timeoutcount: kind.timeouts.then_some(row.timeouts),
                            min: row.min.map_or(-1, |min| min as i64),
                            avg: match histogram.count() {
                                0 => 0.0,
                                count => sum_us / count as f64,
                            },
                            max: row.max,
                        },
                    };
                    (place, pair)
                })
                .collect(),
            punctual: Additions::of(recording, None),
        }
    }
}
