//! `json`: punctual's own recordings, as written by `export --format json`.

use punctual_model::{Completion, IMPORTED_WITHOUT_SAMPLES, ReadError, Recording};

use super::{Head, Import, ImportError, Location, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "json",
    summary: "a recording that punctual exported, without its samples",
    documentation: "Reads the output of export --format json and measure --json. The recording \
        keeps its ID, so the file is refused if the store already contains this recording. The \
        file contains no samples, so the imported recording has none.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

fn recognise(head: &Head<'_>) -> bool {
    head.is_json_with(&["schema", "id", "completion", "probe"])
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let bytes = source.rest()?;
    let text = String::from_utf8(bytes)
        .map_err(|_| source.bad_at(Location::Whole, "it is not UTF-8 text"))?;
    let mut recording = Recording::from_json(&text).map_err(|error| {
        let place = match &error {
            ReadError::NotARecording(error) | ReadError::Older { error, .. }
                if error.line() > 0 =>
            {
                Location::Line(error.line() as u64)
            }
            _ => Location::Whole,
        };
        source.bad_at(place, error.to_string())
    })?;
    if recording.completion == Completion::Running {
        // The recording was still running when it was exported. Its later samples are in another
        // store.
        recording.completion = Completion::Interrupted;
    }
    let threads = recording.threads.len();
    let rows = &recording.series.rows;
    if let Some(row) = rows.iter().find(|row| row.thread as usize >= threads) {
        let reason = format!(
            "an interval belongs to thread {}, but there are {threads} threads",
            row.thread
        );
        return Err(source.bad_at(Location::Whole, reason));
    }
    if recording.samples.take().is_some() {
        recording.warnings.push(IMPORTED_WITHOUT_SAMPLES.to_owned());
    }
    recording.judge_anew();
    Ok(recording)
}
