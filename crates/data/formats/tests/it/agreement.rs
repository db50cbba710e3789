//! Tests that for any measurement and any texts, the figures in rt-tests' files agree with the
//! recording, and the files stay readable.

use proptest::prelude::*;
use punctual_formats::{Export, ExportOptions, FORMATS, NoSamples};
use punctual_model::{Histogram, Recording, SignedNanos, testing};
use serde_json::Value;

use crate::common::written;

/// Returns the result of `grep -v -e "^#" -e "^$"` and gnuplot on the text: rows of numbers.
fn plotted(text: &str) -> Vec<Vec<u64>> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| {
            line.split_whitespace()
                .map(|column| column.parse().unwrap())
                .collect()
        })
        .collect()
}

/// Returns the figures after `# TITLE:`.
fn summary(text: &str, title: &str) -> Vec<u64> {
    let head = format!("# {title}: ");
    let line = text.lines().find(|line| line.starts_with(&head)).unwrap();
    let figures = line[head.len()..].split(' ');
    figures.map(|figure| figure.parse().unwrap()).collect()
}

/// Realistic latencies: mostly microseconds, occasionally an arbitrary value.
fn latencies() -> impl Strategy<Value = Vec<i64>> {
    let latency = prop_oneof![
        8 => 0i64..200_000,
        2 => 0i64..5_000_000_000,
        1 => -5_000i64..0,
        1 => 900_000_000_000i64..3_000_000_000_000,
    ];
    prop::collection::vec(latency, 0..100)
}

fn options() -> impl Strategy<Value = ExportOptions> {
    (any::<bool>(), prop::option::of(1usize..3_000)).prop_map(|(sparse, rows)| ExportOptions {
        // All rows, including empty ones, are written only if their number is small.
        sparse_rows: sparse || rows.is_none(),
        extra_key: true,
        histogram_us: rows,
    })
}

fn recording_with(threads: &[Vec<i64>]) -> Recording {
    let mut recording = testing::recording(threads.len() as u32, 0);
    for (thread, values) in recording.threads.iter_mut().zip(threads) {
        thread.histogram = Histogram::new();
        for ns in values {
            thread.histogram.record(SignedNanos(*ns));
        }
        thread.accounting.recorded = thread.histogram.recorded();
    }
    recording
}

/// Texts that can break files: quotes, backslashes, newlines, control characters and the like.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        Just("\n".to_owned()),
        Just("\u{0}\u{7f}\u{1b}[2J".to_owned()),
        Just("größe µs 漢字 \u{2028}\u{202e}".to_owned()),
        Just("\"},{\"".to_owned()),
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn text_figures_agree(threads in prop::collection::vec(latencies(), 1..4), options in options()) {
        let recording = recording_with(&threads);
        let text = written("cyclictest-hist", &recording, options);
        let rows = plotted(&text);
        let overflows = summary(&text, "Histogram Overflows");
        prop_assert!(text.ends_with("\n\n"));
        if !options.sparse_rows {
            prop_assert_eq!(Some(rows.len()), options.histogram_us);
            let sums: Vec<u64> = (0..threads.len())
                .map(|place| rows.iter().map(|row| row[place + 1]).sum())
                .collect();
            prop_assert_eq!(summary(&text, "Total"), sums);
        }
        for row in &rows {
            prop_assert_eq!(row.len(), threads.len() + 1);
        }
        for (place, thread) in recording.threads.iter().enumerate() {
            let histogram = &thread.histogram;
            let in_rows: u64 = rows.iter().map(|row| row[place + 1]).sum();
            prop_assert_eq!(in_rows + overflows[place], histogram.count());
            let micros = |ns: Option<punctual_model::Nanos>| ns.map_or(0, |ns| ns.0 / 1_000);
            prop_assert_eq!(summary(&text, "Min Latencies")[place], micros(histogram.min()));
            prop_assert_eq!(summary(&text, "Max Latencies")[place], micros(histogram.max()));
            if options.histogram_us.is_none() && histogram.max().is_some_and(|max| max.0 < 1_000_000_000) {
                prop_assert_eq!(overflows[place], 0);
            }
        }
    }

    #[test]
    fn json_figures_agree(threads in prop::collection::vec(latencies(), 1..4), options in options()) {
        let recording = recording_with(&threads);
        let file: Value = serde_json::from_str(&written("cyclictest-json", &recording, options)).unwrap();
        prop_assert_eq!(&file["num_threads"], threads.len());
        for (place, thread) in recording.threads.iter().enumerate() {
            let histogram = &thread.histogram;
            let figures = &file["thread"][place.to_string()];
            let added = &file["punctual"]["thread"][place.to_string()];
            let rows = figures["histogram"].as_object().unwrap();
            let in_rows: u64 = rows.values().map(|count| count.as_u64().unwrap()).sum();
            prop_assert_eq!(&figures["cycles"], histogram.count());
            prop_assert_eq!(in_rows + added["overflow"].as_u64().unwrap(), histogram.count());
            prop_assert_eq!(histogram.count() + added["early"].as_u64().unwrap(), thread.accounting.recorded);
            let exact = histogram.sum().0 as f64 / 1_000.0 / histogram.count().max(1) as f64;
            let [min, avg, max] = ["min", "avg", "max"].map(|key| figures[key].as_f64().unwrap());
            prop_assert!(min <= avg && avg <= max, "{} {} {}", min, avg, max);
            prop_assert!((avg - exact.min(max)).abs() <= 0.005 + exact * 1e-12);
            prop_assert_eq!(added["max_ns"].as_u64(), histogram.max().map(|max| max.0));
        }
    }

    #[test]
    fn json_is_valid_whatever_the_texts(command in prop::collection::vec(hostile(), 0..4), host in hostile(), label in hostile()) {
        let mut recording = testing::recording(1, 0);
        recording.probe.command_line = command.clone();
        recording.host.hostname.value = Some(host.clone());
        recording.threads[0].label = Some(label.clone());
        let options = ExportOptions { extra_key: true, ..ExportOptions::default() };
        let text = written("cyclictest-json", &recording, options);
        let file: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&file["cmdline:"], &command.join(" "));
        prop_assert_eq!(&file["sysinfo"]["nodename"], &host);
        prop_assert_eq!(&file["punctual"]["thread"]["0"]["label"], &label);
        // The key must be on its own line, because some readers work line by line.
        let line = text.lines().nth(2).unwrap();
        prop_assert!(line.starts_with("  \"cmdline:\": \"") && line.ends_with("\","));
        prop_assert!(!text.contains('\0'));
    }
}

#[test]
fn example_rt_tests_files_match_snapshots() {
    let recording = testing::recording(2, 3);
    let options = ExportOptions {
        extra_key: true,
        ..ExportOptions::default()
    };
    insta::assert_snapshot!("json", written("cyclictest-json", &recording, options));
    insta::assert_snapshot!("hist", written("cyclictest-hist", &recording, options));
}

#[test]
fn format_is_written_or_refusal_explained() {
    let mut recording = testing::recording(2, 1);
    for entry in FORMATS {
        let export = Export {
            recording: &recording,
            samples: &NoSamples,
            options: ExportOptions::default(),
        };
        let result = (entry.write)(&export, &mut Vec::new());
        assert_eq!(result.is_err(), entry.needs_samples, "{}", entry.name);
    }
    // A recording without threads can still be written.
    recording.threads.clear();
    for entry in FORMATS.iter().filter(|entry| !entry.needs_samples) {
        assert!(!written(entry.name, &recording, ExportOptions::default()).is_empty());
    }
}
