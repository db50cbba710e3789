//! `rt-dataset`: the RT Dataset 1.0 of OSADL, a JSON file for sharing latency data of PREEMPT_RT
//! systems, which OSADL's `plot-rtdataset.py` plots.
//!
//! This is based on the format's page and scripts (github.com/osadl/Latencyplot: README.md,
//! src/mk-rtdataset.py, src/plot-rtdataset.py, examples): `latency.cores` is an array of columns.
//! The first contains the lower edges of the latency classes, and each further one the samples of a
//! core. Classes follow one another without gaps. `granularity` is the text `microseconds`.
//! `maxima` shows what is beyond the last class. Our values:
//!
//! - The classes are rows of 1 µs. Samples at or above the last one are in no column, and the key
//!   `punctual` contains their number. From 1 ms on, a row contains the samples of its bucket (10
//!   µs wide up to 10 ms, and so on).
//! - `condition.cycles` is the number of samples of the thread with the most samples; in the
//!   original, it is the number of cycles requested from each thread of cyclictest.
//! - `condition.cyclictest` is the command line with which punctual made the measurement.
//!   `condition.load` is `idle` or the names of the loads, because their intensity in the terms of
//!   the format is unknown.
//! - An unknown text is `"unknown"`, because programs rely on these keys; `interval` is null.
//!   `patches` and `config` are omitted, and so is `clock` if unknown.
//! - With [`extra_key`](crate::ExportOptions::extra_key), the key `punctual` is added at the end.
//!   It contains values for which the format has no key.

use std::io::Write;

use jiff::Timestamp;
use punctual_model::{Nanos, Recording, Unknown};
use serde::{Serialize, Serializer};
use serde_json::ser::PrettyFormatter;

use crate::additions::Additions;
use crate::facts::{UNKNOWN, or_unknown};
use crate::micros::{Micros, rows};
use crate::{Export, Format, FormatError};

pub(crate) const FORMAT: Format = Format {
    name: "rt-dataset",
    summary: "OSADL's RT Dataset 1.0 (JSON), which plot-rtdataset.py draws",
    extension: "json",
    needs_samples: false,
    micro_rows: true,
    write,
};

fn write(export: &Export<'_>, out: &mut dyn Write) -> Result<(), FormatError> {
    let limit = rows(export.recording, export.options)?;
    write_dated(export, limit, Timestamp::now(), out)
}

/// Writes the file with `now` as the time of writing.
fn write_dated(
    export: &Export<'_>,
    limit: usize,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<(), FormatError> {
    // Indentation of four spaces, as in the original.
    let layout = PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, layout);
    Dataset::new(export, limit, now).serialize(&mut serializer)?;
    writeln!(out)?;
    Ok(())
}

/// The file, in the order of its keys.
#[derive(Serialize)]
struct Dataset<'a> {
    format: Name,
    timestamps: Timestamps,
    system: System<'a>,
    processor: Processor<'a>,
    kernel: Kernel<'a>,
    condition: Condition,
    latency: Latency,
    #[serde(skip_serializing_if = "Option::is_none")]
    punctual: Option<Additions<'a>>,
}

#[derive(Serialize)]
struct Name {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Timestamps {
    /// Time of the measurement.
    origin: String,
    /// Time of writing.
    dataset: String,
}

#[derive(Serialize)]
struct System<'a> {
    hostname: &'a str,
}

#[derive(Serialize)]
struct Processor<'a> {
    family: &'a str,
    vendor: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    /// Frequency in MHz, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<String>,
}

#[derive(Serialize)]
struct Kernel<'a> {
    version: &'a str,
    cmdline: &'a str,
}

#[derive(Serialize)]
struct Condition {
    load: String,
    cyclictest: String,
    cycles: u64,
    /// Whole microseconds.
    interval: Option<u64>,
}

#[derive(Serialize)]
struct Latency {
    granularity: &'static str,
    maxima: Vec<u64>,
    cores: Columns,
}

/// The lower edges of the classes, then a column for each thread. The rows are generated while they
/// are written, because a million rows for each of many CPUs would take gigabytes.
struct Columns {
    limit: u64,
    threads: Vec<Micros>,
}

impl<'a> Dataset<'a> {
    fn new(export: &Export<'a>, limit: usize, now: Timestamp) -> Self {
        let recording = export.recording;
        let host = &recording.host;
        let columns: Vec<Micros> = (recording.threads.iter())
            .map(|thread| Micros::new(&thread.histogram, limit))
            .collect();
        let micros = |ns: Option<Nanos>| ns.map_or(0, Nanos::whole_micros);
        Self {
            format: Name {
                name: "RT Dataset",
                version: "1.0",
            },
            timestamps: Timestamps {
                origin: if recording.knows(Unknown::Started) {
                    iso(recording.started)
                } else {
                    UNKNOWN.to_owned()
                },
                dataset: iso(now),
            },
            system: System {
                hostname: or_unknown(&host.hostname),
            },
            processor: Processor {
                family: or_unknown(&host.kernel.architecture),
                vendor: or_unknown(&host.processor.vendor),
                kind: or_unknown(&host.processor.model),
                clock: clock_mhz(recording),
            },
            kernel: Kernel {
                version: or_unknown(&host.kernel.release),
                cmdline: or_unknown(&host.kernel.command_line),
            },
            condition: Condition::from_recording(recording),
            latency: Latency {
                granularity: "microseconds",
                maxima: (recording.threads.iter())
                    .map(|thread| micros(thread.histogram.max()))
                    .collect(),
                cores: Columns {
                    limit: limit as u64,
                    threads: columns,
                },
            },
            punctual: (export.options.extra_key).then(|| Additions::new(recording, Some(limit))),
        }
    }
}

impl Condition {
    fn from_recording(recording: &Recording) -> Self {
        let loads: Vec<&str> = recording.load.iter().map(|l| l.name.as_str()).collect();
        Self {
            load: match loads.as_slice() {
                [] if !recording.knows(Unknown::Load) => UNKNOWN.to_owned(),
                [] => "idle".to_owned(),
                loads => loads.join(", "),
            },
            cyclictest: recording.probe.command_line.join(" "),
            cycles: (recording.threads.iter())
                .map(|thread| thread.histogram.count())
                .max()
                .unwrap_or(0),
            interval: (recording.duration_parameter("interval_ns")).map(Nanos::whole_micros),
        }
    }
}

impl Serialize for Columns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let edges = std::iter::once(Column {
            limit: self.limit,
            rows: None,
        });
        let counts = self.threads.iter().map(|rows| Column {
            limit: self.limit,
            rows: Some(rows),
        });
        serializer.collect_seq(edges.chain(counts))
    }
}

/// One column: the classes themselves, or the samples of a thread in them.
struct Column<'a> {
    limit: u64,
    rows: Option<&'a Micros>,
}

impl Serialize for Column<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0..self.limit).map(|row| match self.rows {
            None => row,
            Some(micros) => micros.rows.get(&row).copied().unwrap_or(0),
        }))
    }
}

/// Returns the upper end of the frequency range, if it is known and is the same for all CPUs.
fn clock_mhz(recording: &Recording) -> Option<String> {
    let mut khz = (recording.host.cpus.iter()).map(|cpu| cpu.frequency_max_khz.get().copied());
    let first = khz.next()??;
    khz.all(|other| other == Some(first))
        .then(|| (first / 1_000).to_string())
}

/// Formats a time according to ISO 8601, in UTC, to the second.
fn iso(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}

#[cfg(test)]
mod tests {
    use punctual_model::{Fact, SignedNanos, testing};
    use serde_json::Value;

    use super::*;

    fn dataset(recording: &Recording, limit: usize) -> String {
        let now = "2026-11-04T10:00:00.9Z".parse().unwrap();
        let mut bytes = Vec::new();
        let export = Export {
            recording,
            samples: &crate::NoSamples,
            options: crate::ExportOptions {
                extra_key: true,
                ..crate::ExportOptions::default()
            },
        };
        write_dated(&export, limit, now, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_example_is_as_kept() {
        insta::assert_snapshot!(dataset(&testing::recording(2, 1), 6));
    }

    #[test]
    fn dataset_columns_have_the_plots_shape() {
        let mut recording = testing::recording(2, 3);
        recording.threads[1].histogram.record(SignedNanos(450_700));
        let file: Value = serde_json::from_str(&dataset(&recording, 400)).unwrap();
        let cores = file["latency"]["cores"].as_array().unwrap();
        assert_eq!(cores.len(), 3);
        let numbers = |column: &Value| -> Vec<u64> {
            let column = column.as_array().unwrap();
            column.iter().map(|n| n.as_u64().unwrap()).collect()
        };
        assert_eq!(numbers(&cores[0]), (0..400).collect::<Vec<u64>>());
        for (place, thread) in recording.threads.iter().enumerate() {
            let added = &file["punctual"]["thread"][place.to_string()];
            let overflow = added["overflow"].as_u64().unwrap();
            assert_eq!(overflow, place as u64);
            let sum: u64 = numbers(&cores[place + 1]).iter().sum();
            assert_eq!(sum + overflow, thread.histogram.count());
        }
        assert_eq!(file["latency"]["maxima"][1], 450);
        assert_eq!(file["condition"]["cycles"], 3_001);
    }

    #[test]
    fn unknown_facts_are_marked_or_omitted() {
        let mut recording = testing::recording(1, 0);
        recording.host.hostname = Fact::unknown("hostname", "not there");
        recording.host.cpus[0].frequency_max_khz = Fact::unknown("cpufreq", "not there");
        recording.probe.parameters.clear();
        recording.load.clear();
        let file: Value = serde_json::from_str(&dataset(&recording, 1)).unwrap();
        assert_eq!(file["system"]["hostname"], "unknown");
        assert_eq!(file["processor"].get("clock"), None);
        assert_eq!(file["condition"]["interval"], Value::Null);
        assert_eq!(file["condition"]["load"], "idle");
    }
}
