//! Output and files of oslat at the end of the run.

use punctual_files::Output;
use punctual_formats::{Additions, Decimals, JsonThreads};
use punctual_model::Recording;
use punctual_session::Outcome;
use serde::Serialize;

use super::settings::OslatSettings;
use super::summary::{Core, Summary, bucket};
use crate::lines::Unit;
use crate::{CompatError, ToolContext, json, shared};

/// Prints and writes all results in the order of the original. Returns the exit status.
pub(super) fn write(
    settings: &OslatSettings,
    outcome: &Outcome,
    file: Option<Output>,
    context: &mut ToolContext<'_>,
) -> Result<u8, CompatError> {
    let recording = &outcome.recording;
    context.report_outcome(outcome);
    if let Some(broke) = outcome.broke {
        return Err(broken(
            settings,
            recording,
            Unit::Micros.convert(broke.latency),
            context,
        ));
    }
    let summary = Summary::new(recording, settings);
    write!(context.out, "{}", summary.text(settings))?;
    if settings.common.json.is_some() {
        let body = body(&summary, settings, context.additions(recording, None));
        let bytes = json::file(context, &recording.host, 0, &body)?;
        shared::put_json(file, &bytes, context)?;
    }
    Ok(0)
}

/// Prints the message of the original. The original then ends without a summary.
fn broken(
    settings: &OslatSettings,
    recording: &Recording,
    micros: i64,
    context: &ToolContext<'_>,
) -> CompatError {
    let longest = |thread: &&punctual_model::ThreadRecord| thread.histogram.max();
    let cpu = recording.threads.iter().max_by_key(longest);
    let cpu = cpu.and_then(|thread| thread.cpu).unwrap_or(0);
    let name = context.command_line.first().map_or("oslat", String::as_str);
    CompatError::Exit {
        message: format!(
            "{name}: Trace threshold ({} us) triggered on cpu {cpu} with {micros} us!",
            settings.threshold_us
        ),
        status: 1,
    }
}

#[derive(Serialize)]
struct Thread {
    cpu: u64,
    freq: u64,
    min: u64,
    avg: Decimals,
    max: u64,
    duration: Decimals,
    #[serde(serialize_with = "in_order")]
    histogram: Vec<(String, u64)>,
}

/// Serializes an object with keys in the order of the buckets.
fn in_order<S: serde::Serializer>(
    buckets: &[(String, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(buckets.iter().map(|(name, turns)| (name, turns)))
}

/// Returns the part of the JSON file after the head.
pub(super) fn body<'a>(
    summary: &Summary,
    settings: &OslatSettings,
    additions: Option<Additions<'a>>,
) -> JsonThreads<'a, impl Serialize + use<>> {
    let unit = if settings.precise() { 1 } else { 1_000 };
    let thread = |core: &Core| {
        let filled = core.buckets.iter().enumerate();
        let filled = filled.filter(|(_, turns)| **turns > 0);
        Thread {
            cpu: core.cpu,
            freq: core.mhz,
            min: core.min / unit,
            avg: Decimals(core.average, 6),
            max: core.max / unit,
            duration: Decimals(core.spun_s, 3),
            histogram: filled
                .map(|(place, turns)| (bucket(place, summary.bias_ns, settings), *turns))
                .collect(),
        }
    };
    let threads = summary.cores.iter().map(thread);
    JsonThreads::new(threads, additions)
}
