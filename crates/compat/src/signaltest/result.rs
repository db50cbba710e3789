//! What signaltest prints and writes when the run is over.

use punctual_files::Output;
use punctual_formats::{Additions, JsonThreads};
use punctual_model::Recording;
use punctual_session::Outcome;
use serde::Serialize;

use super::settings::Settings;
use super::view::line;
use crate::lines::{Figures, ThreadLine};
use crate::{CompatError, Stage, json, shared};

/// All of it, in the original's order. Says the exit status.
pub(super) fn write(
    settings: &Settings,
    outcome: &Outcome,
    mut lines: Vec<ThreadLine>,
    file: Option<Output>,
    stage: &mut Stage<'_>,
) -> Result<u8, CompatError> {
    let recording = &outcome.recording;
    let broke = outcome.broke.map(|broke| broke.thread.as_raw());
    for thread in &mut lines {
        thread.settle(recording);
        if Some(thread.tid) == broke {
            writeln!(stage.out, "Thread {} exceeded trace limit.", thread.place)?;
        }
        writeln!(stage.out, "{}", line(thread))?;
    }
    let status = stage.status(broke.is_some());
    if settings.json.is_some() {
        let body = body(recording, stage.additions(recording, None));
        let bytes = json::file(stage, &recording.host, status, &body)?;
        shared::put_json(file, &bytes, stage)?;
    }
    shared::tell_of_break("signaltest", settings.break_limit_us, outcome, stage);
    stage.tell_of(outcome);
    Ok(status)
}

#[derive(Serialize)]
struct Thread {
    #[serde(flatten)]
    figures: Figures,
    cpu: i64,
}

/// The JSON file after its head.
pub(super) fn body<'a>(
    recording: &'a Recording,
    additions: Option<Additions<'a>>,
) -> JsonThreads<'a, impl Serialize + use<>> {
    let threads = recording.threads.iter().map(|thread| Thread {
        figures: Figures::of(thread),
        cpu: thread.cpu.map_or(-1, i64::from),
    });
    JsonThreads::new(threads, additions)
}
