//! `firefox`: late samples as a timeline, in the Trace Event Format of Chromium.
//!
//! The Firefox Profiler (<https://profiler.firefox.com>) and Perfetto open it. Each measuring thread is
//! a track. An explained outlier is a slice from the time at which the thread was due to the time at
//! which it ran, named by its sentence, with the shares of its causes as arguments. Without
//! explanations, the largest samples are the slices. The times are those of CLOCK_MONOTONIC, or of the
//! clock of another tool's trace, relative to the first slice.

use std::io::Write;

use punctual_model::{Nanos, Outlier, Recording, Share, TopSample, escape_json, sanitize};
use serde_json::{Map, Value, json};

use crate::{Export, Format, FormatError};

pub(crate) const FORMAT: Format = Format {
    name: "firefox",
    summary: "outliers with the shares of their causes as a timeline, for profiler.firefox.com",
    extension: "json",
    needs_samples: false,
    micro_rows: false,
    write,
};

/// The number of the only process.
const PROCESS: u32 = 1;

/// A late sample.
struct Slice {
    thread: u32,
    due: Nanos,
    latency: Nanos,
    name: String,
    about: Map<String, Value>,
}

fn write(export: &Export<'_>, out: &mut dyn Write) -> Result<(), FormatError> {
    let recording = export.recording;
    let mut slices = slices(recording);
    slices.sort_by_key(|slice| (slice.due, slice.thread));
    let first = slices.first().map_or(Nanos::ZERO, |slice| slice.due);
    let process = json!({"name": sanitize(&recording.headline())});
    let mut events =
        vec![json!({"ph": "M", "pid": PROCESS, "tid": 0, "name": "process_name", "args": process})];
    for (thread, record) in (0..).zip(&recording.threads) {
        let name = match (&record.label, export.cpu_of(thread)) {
            (Some(label), _) => sanitize(label).into_owned(),
            (None, Some(cpu)) => format!("thread {thread} on CPU {cpu}"),
            (None, None) => format!("thread {thread}"),
        };
        events.push(json!({
            "ph": "M", "pid": PROCESS, "tid": thread + 1, "name": "thread_name",
            "args": {"name": name},
        }));
    }
    events.extend(slices.into_iter().map(|slice| {
        json!({
            "ph": "X", "pid": PROCESS, "tid": slice.thread + 1, "cat": "outlier", "name": slice.name,
            "ts": micros(slice.due - first), "dur": micros(slice.latency), "args": slice.about,
        })
    }));
    let document = json!({"displayTimeUnit": "ns", "traceEvents": events});
    writeln!(out, "{}", escape_json(&format!("{document:#}")))?;
    Ok(())
}

/// Returns the explained outliers, or the largest samples if there are none.
fn slices(recording: &Recording) -> Vec<Slice> {
    let explanation = recording.explanation.as_ref();
    let outliers = explanation.map_or(&[][..], |explanation| &explanation.outliers);
    if outliers.is_empty() {
        return recording.top_samples.iter().map(of_sample).collect();
    }
    let is_trace = explanation.is_some_and(|explanation| explanation.trace.is_some());
    let of_outlier = |outlier| of_outlier(outlier, is_trace);
    outliers.iter().map(of_outlier).collect()
}

/// `is_trace`: whether another tool recorded the trace, which does not contain the time of day.
fn of_outlier(outlier: &Outlier, is_trace: bool) -> Slice {
    let mut about = Map::new();
    about.insert("outlier".to_owned(), outlier.number.into());
    let time = if is_trace {
        let ns = outlier.monotonic_ns.0;
        format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    } else {
        outlier.time.to_string()
    };
    about.insert("time".to_owned(), time.into());
    about.insert("latency".to_owned(), outlier.latency_ns.to_string().into());
    for (number, share) in (1..).zip(&outlier.blame.shares) {
        about.insert(format!("cause {number}"), words(share).into());
    }
    Slice {
        thread: outlier.thread,
        due: outlier.monotonic_ns,
        latency: outlier.latency_ns,
        name: sanitize(&outlier.blame.sentence()).into_owned(),
        about,
    }
}

fn words(share: &Share) -> String {
    let words = format!("{} {}", share.ns, share.cause.source.label());
    sanitize(&words).into_owned()
}

fn of_sample(sample: &TopSample) -> Slice {
    let mut about = Map::new();
    about.insert("time".to_owned(), sample.time.to_string().into());
    Slice {
        thread: sample.thread,
        due: sample.monotonic_ns,
        latency: sample.latency_ns,
        name: format!("{} late", sample.latency_ns),
        about,
    }
}

/// The unit of the format.
fn micros(time: Nanos) -> f64 {
    time.0 as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use punctual_model::{Recording, testing};
    use serde_json::Value;

    use crate::testing::written;

    fn events(recording: &Recording) -> Vec<Value> {
        let document: Value = written("firefox", recording).parse().unwrap();
        document["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn largest_samples_are_slices_of_their_threads() {
        let recording = testing::recording(2, 3);
        let all = events(&recording);
        let names = all.iter().filter(|one| one["ph"] == "M").count();
        let slices: Vec<_> = all.iter().filter(|one| one["ph"] == "X").collect();
        assert_eq!((names, slices.len()), (3, recording.top_samples.len()));
        assert!(!slices.is_empty());
        let largest = recording.top_samples[0].latency_ns.0 as f64 / 1_000.0;
        assert!(slices.iter().any(|one| one["dur"] == largest), "{slices:?}");
        assert_eq!(slices[0]["ts"], 0.0);
        assert!(
            slices
                .iter()
                .all(|one| [1, 2].map(Value::from).contains(&one["tid"]))
        );
    }

    #[test]
    fn hostile_name_is_text() {
        let mut recording = testing::recording(1, 1);
        recording.probe.name = "a\"\u{1b}[2J\u{202e}".to_owned();
        recording.top_samples.clear();
        let text = written("firefox", &recording);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
        assert_eq!(events(&recording).len(), 2);
    }
}
