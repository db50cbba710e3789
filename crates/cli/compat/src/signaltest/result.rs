//! Output and files of signaltest at the end of the run.

use punctual_files::Output;
use punctual_formats::{Additions, JsonThreads};
use punctual_model::Recording;
use punctual_session::Outcome;
use serde::Serialize;

use super::settings::SignaltestSettings;
use super::view::line;
use crate::lines::{Figures, ThreadLine};
use crate::{CompatError, ToolContext, json, shared};

/// Prints and writes all results in the order of the original. Returns the exit status.
pub(super) fn write(
    settings: &SignaltestSettings,
    outcome: &Outcome,
    mut lines: Vec<ThreadLine>,
    file: Option<Output>,
    context: &mut ToolContext<'_>,
) -> Result<u8, CompatError> {
    let recording = &outcome.recording;
    let broke = outcome.broke.map(|broke| broke.thread.as_raw());
    for thread in &mut lines {
        thread.settle(recording);
        if Some(thread.tid) == broke {
            writeln!(context.out, "Thread {} exceeded trace limit.", thread.index)?;
        }
        writeln!(context.out, "{}", line(thread))?;
    }
    let status = context.status(broke.is_some());
    if settings.common.json.is_some() {
        let body = body(recording, context.additions(recording, None));
        let bytes = json::file(context, &recording.host, status, &body)?;
        shared::put_json(file, &bytes, context)?;
    }
    shared::report_break("signaltest", settings.common.break_value, outcome, context);
    context.report_outcome(outcome);
    Ok(status)
}

#[derive(Serialize)]
struct Thread {
    #[serde(flatten)]
    figures: Figures,
    cpu: i64,
}

/// Returns the part of the JSON file after the head.
pub(super) fn body<'a>(
    recording: &'a Recording,
    additions: Option<Additions<'a>>,
) -> JsonThreads<'a, impl Serialize + use<>> {
    let threads = recording.threads.iter().map(|thread| Thread {
        figures: Figures::from_thread(thread),
        cpu: thread.cpu.map_or(-1, i64::from),
    });
    JsonThreads::new(threads, additions)
}
