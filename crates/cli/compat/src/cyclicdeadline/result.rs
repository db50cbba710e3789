//! Output and files of cyclicdeadline at the end of the run.

use std::collections::BTreeMap;

use punctual_formats::{HistogramColumn, HistogramText, JsonThreads};
use punctual_model::Recording;
use punctual_session::Outcome;
use serde::Serialize;

use super::Files;
use super::settings::CyclicdeadlineSettings;
use super::view::line;
use crate::lines::{Figures, ThreadLine, Unit};
use crate::{CompatError, ToolContext, json, shared};

/// Prints and writes all results in the order of the original. Returns the exit status.
pub(super) fn write(
    settings: &CyclicdeadlineSettings,
    outcome: &Outcome,
    mut lines: Vec<ThreadLine>,
    files: Files,
    context: &mut ToolContext<'_>,
) -> Result<u8, CompatError> {
    let recording = &outcome.recording;
    lines.iter_mut().for_each(|line| line.settle(recording));
    if settings.common.quiet && settings.histogram == 0 {
        for thread in &lines {
            writeln!(context.out, "{}", line(thread))?;
        }
    }
    if settings.histogram > 0 {
        let mut bytes = Vec::new();
        histogram(settings, recording, context).write(&mut bytes)?;
        match files.histogram {
            Some(file) => file.put(&bytes)?,
            None => context.out.write_all(&bytes)?,
        }
    }
    if let Some(broke) = outcome.broke {
        writeln!(context.out, "# Break thread: {}", broke.thread.as_raw())?;
        writeln!(
            context.out,
            "# Break value: {}",
            Unit::Micros.convert(broke.latency)
        )?;
    }
    let status = context.status(outcome.broke.is_some());
    if settings.common.json.is_some() {
        let body = body(settings, recording, context);
        let bytes = json::file(context, &recording.host, status, &body)?;
        shared::put_json(files.json, &bytes, context)?;
    }
    shared::report_break(
        "cyclicdeadline",
        settings.common.break_value,
        outcome,
        context,
    );
    context.report_outcome(outcome);
    Ok(status)
}

fn columns(settings: &CyclicdeadlineSettings, recording: &Recording) -> Vec<HistogramColumn> {
    let of = |thread| HistogramColumn::new(thread, Unit::Micros.one(), settings.histogram);
    recording.threads.iter().map(of).collect()
}

fn histogram(
    settings: &CyclicdeadlineSettings,
    recording: &Recording,
    context: &ToolContext<'_>,
) -> HistogramText {
    HistogramText {
        limit: settings.histogram,
        columns: columns(settings, recording),
        sparse_rows: context.behaviour.sparse_histogram,
        sum: false,
        smis: Vec::new(),
    }
}

#[derive(Serialize)]
struct Thread {
    /// Only with `--histogram`.
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<BTreeMap<u64, u64>>,
    #[serde(flatten)]
    figures: Figures,
}

/// Returns the part of the JSON file after the head.
fn body<'a>(
    settings: &CyclicdeadlineSettings,
    recording: &'a Recording,
    context: &ToolContext<'_>,
) -> JsonThreads<'a, Thread> {
    let with_histogram = settings.histogram > 0;
    let threads = recording.threads.iter().zip(columns(settings, recording));
    let threads = threads.map(|(thread, column)| Thread {
        histogram: with_histogram.then_some(column.rows),
        figures: Figures {
            min: thread.histogram.min().map_or(0, |min| min.whole_micros()),
            ..Figures::from_thread(thread)
        },
    });
    let additions = context.additions(recording, with_histogram.then_some(settings.histogram));
    JsonThreads::new(threads, additions).in_nanos(false)
}
