//! `cyclictest-json`: the output of rt-tests' `cyclictest --json`, file version 1, as of rt-tests
//! 2.10 with `-h`.
//!
//! The keys, their order (including the misspelt `"cmdline:"` and `"rt_test_version:"`), the
//! indentation and the two decimals of `avg` match the original. This is based on rt-tests'
//! `src/lib/rt-utils.c` (`rt_write_json`), `src/cyclictest/cyclictest.c` (`write_stats`) and
//! `src/lib/histogram.c`, and on its output. Differences:
//!
//! - It is valid JSON for any command line; the original does not escape anything.
//! - `cycles` counts the samples described by the rows, `min`, `max` and `avg`. Early samples are
//!   excluded; they are counted under the key `punctual`. Microseconds are whole and rounded down,
//!   as in the original. `avg` is computed from the exact sum, so it is up to 1 µs above the
//!   original's mean of rounded-down values, but never above `max`. Without samples, all of these
//!   are 0.
//! - From 1 ms on, a histogram row contains the samples of its bucket (10 µs wide up to 10 ms, and
//!   so on).
//! - The times are in UTC. `return_code` is the exit code of the measurement: 0, 1 (not finished),
//!   3 (requirement broken or break value crossed), 4 (requirement not proven) or 130 (stopped).
//! - A fact that could not be read is `"unknown"`, or null for `realtime`. `node` is the NUMA node
//!   if the machine has only one, otherwise -1, as in the original for a thread that is not bound
//!   to a node.
//! - With [`extra_key`](crate::ExportOptions::extra_key), the key `punctual` is added at the end.
//!   It contains values for which the format has no key (missed, early, overflow and warm-up
//!   counts, percentiles in ns, the ID of the recording). Readers that reject unknown keys need a
//!   file without it.

use std::io::Write;
use std::time::Duration;

use punctual_model::{Completion, Nanos, Recording, ThreadRecord, Unknown};
use serde::{Serialize, Serializer};

use crate::additions::Additions;
use crate::facts::UNKNOWN;
use crate::micros::{Micros, mean_us, rows};
use crate::rt_tests::{JsonHead, JsonThreads, write_rt_tests_json};
use crate::{Export, Format, FormatError};

pub(crate) const FORMAT: Format = Format {
    name: "cyclictest-json",
    summary: "the JSON output of cyclictest --json (rt-tests), file version 1",
    extension: "json",
    needs_samples: false,
    micro_rows: true,
    write,
};

fn write(export: &Export<'_>, out: &mut dyn Write) -> Result<(), FormatError> {
    let recording = export.recording;
    let limit = rows(recording, export.options)?;
    let command_line = recording.probe.command_line.join(" ");
    let duration = (recording.knows(Unknown::Duration)).then_some(recording.duration_ns.into());
    let head = JsonHead {
        command_line: &command_line,
        start_time: date(recording, Some(Duration::ZERO)),
        end_time: date(recording, duration),
        return_code: return_code(recording),
        host: &recording.host,
    };
    write_rt_tests_json(&head, &body(export, limit), out)
}

#[derive(Serialize)]
struct Thread {
    #[serde(serialize_with = "filled_rows")]
    histogram: Micros,
    cycles: u64,
    min: u64,
    max: u64,
    avg: f64,
    cpu: i64,
    node: i64,
}

fn filled_rows<S: Serializer>(micros: &Micros, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(&micros.rows)
}

/// Returns the part of the file that follows its head.
fn body<'a>(export: &Export<'a>, limit: usize) -> JsonThreads<'a, Thread> {
    let recording = export.recording;
    let node = match recording.host.processor.numa_nodes.get() {
        Some(nodes) if nodes.len() == 1 => nodes.first().map_or(-1, i64::from),
        _ => -1,
    };
    let threads = recording.threads.iter();
    JsonThreads::new(
        threads.map(|thread| Thread::new(thread, node, limit)),
        (export.options.extra_key).then(|| Additions::new(recording, Some(limit))),
    )
    .in_nanos(false)
}

impl Thread {
    fn new(thread: &ThreadRecord, node: i64, limit: usize) -> Self {
        let histogram = &thread.histogram;
        let micros = |ns: Option<Nanos>| ns.map_or(0, Nanos::whole_micros);
        Self {
            histogram: Micros::new(histogram, limit),
            cycles: histogram.count(),
            min: micros(histogram.min()),
            max: micros(histogram.max()),
            avg: mean_us(histogram),
            cpu: thread.cpu.map_or(-1, i64::from),
            node,
        }
    }
}

/// Formats a time of the measurement as in RFC 2822, in UTC; `unknown` if another tool did not
/// record it.
fn date(recording: &Recording, after: Option<Duration>) -> String {
    let (Some(after), true) = (after, recording.knows(Unknown::Started)) else {
        return UNKNOWN.to_owned();
    };
    let moment = recording.started;
    // The addition fails only if the recording was tampered with, so that its end is after the year
    // 9999.
    let moment = moment.saturating_add(after).unwrap_or(moment);
    moment.strftime("%a, %d %b %Y %H:%M:%S %z").to_string()
}

/// Returns the exit code of the measurement, as far as it can be told from the recording.
fn return_code(recording: &Recording) -> i32 {
    match (recording.completion, recording.verdict.outcome) {
        (Completion::Stopped, _) => 130,
        (Completion::Break, _) => 3,
        (Completion::Interrupted | Completion::Running, _) => 1,
        (Completion::Finished, outcome) if outcome.is_bad() => 3,
        (Completion::Finished, outcome) if outcome.is_open() => 4,
        (Completion::Finished, _) => 0,
    }
}
