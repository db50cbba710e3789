//! Formats that are both written and read. Importing returns everything that the format can
//! represent, and writing the imported recording produces the same file again.

use std::collections::BTreeMap;

use proptest::prelude::*;
use punctual_formats::{CountSamples, Export, ExportOptions, NoSamples, Source, format, recognise};
use punctual_model::{Histogram, Nanos, Recording, SignedNanos, Unknown, testing};
use serde_json::Value;

use crate::common::written;

/// The formats that support both directions: the name for writing, and the name of the import that
/// recognises the file.
const BOTH: [(&str, &str); 3] = [
    ("cyclictest-hist", "cyclictest-hist"),
    ("cyclictest-json", "rt-tests-json"),
    ("rt-dataset", "rt-dataset"),
];

/// Returns options that add the key `punctual`, for values that have no key in these formats.
fn with_key() -> ExportOptions {
    ExportOptions {
        extra_key: true,
        ..ExportOptions::default()
    }
}

fn read(text: &str, import: &str) -> Recording {
    // The given unit makes the result independent of the smallest latency.
    let unit = Some(Nanos::from_micros(1));
    let mut source = Source::new("file", text.as_bytes()).with_unit(unit);
    let found = recognise("file", &source.head().unwrap()).unwrap();
    assert_eq!(found.name, import);
    (found.read)(&mut source, &mut CountSamples::default()).unwrap()
}

/// Returns the rows of 1 µs, as far as they are known.
fn rows(histogram: &Histogram) -> BTreeMap<u64, u64> {
    let mut rows = BTreeMap::new();
    for (lower, _, count) in histogram.rows() {
        *rows.entry(lower / 1_000).or_insert(0) += count;
    }
    rows
}

/// Realistic latencies: mostly microseconds, occasionally milliseconds.
fn latencies() -> impl Strategy<Value = Vec<i64>> {
    let latency = prop_oneof![
        20 => 0i64..200_000,
        2 => 0i64..5_000_000,
        1 => -5_000i64..0,
    ];
    prop::collection::vec(latency, 1..100)
}

fn recording_with(threads: &[Vec<i64>]) -> Recording {
    let mut recording = testing::recording(threads.len() as u32, 0);
    for (thread, values) in recording.threads.iter_mut().zip(threads) {
        thread.histogram = Histogram::new();
        for ns in values {
            thread.histogram.record(SignedNanos(*ns));
        }
        let account = &mut thread.accounting;
        account.recorded = thread.histogram.recorded();
        account.early = thread.histogram.early();
        account.expected = account.recorded + account.missed + account.warm_up;
    }
    recording
}

/// Checks the values that every format must preserve.
fn holds(before: &Recording, after: &Recording, limit: Option<usize>) -> Result<(), TestCaseError> {
    prop_assert_eq!(after.threads.len(), before.threads.len());
    for (old, new) in before.threads.iter().zip(&after.threads) {
        let (old, new) = (&old.histogram, &new.histogram);
        prop_assert_eq!(new.count(), old.count());
        let micros = |ns: Option<Nanos>| ns.map(Nanos::whole_micros);
        prop_assert_eq!(micros(new.min()), micros(old.min()));
        prop_assert_eq!(micros(new.max()), micros(old.max()));
        let limit = limit.map_or(u64::MAX, |limit| limit as u64);
        let mut expected = rows(old);
        let beyond = expected.split_off(&limit);
        prop_assert_eq!(rows(new), expected);
        prop_assert_eq!(
            new.unplaced(),
            old.unplaced() + beyond.values().sum::<u64>()
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_written_comes_back(
        threads in prop::collection::vec(latencies(), 1..4),
        limit in prop::option::of(1usize..400),
    ) {
        let recording = recording_with(&threads);
        let options = ExportOptions { histogram_us: limit, ..with_key() };
        for (name, import) in BOTH {
            let text = written(name, &recording, options);
            let back = read(&text, import);
            holds(&recording, &back, limit)?;
            // Asks for the number of rows that was imported, because a text that omits empty rows
            // does not contain the original number.
            let known = back.threads.iter().filter_map(|t| t.histogram.unplaced_from()).min();
            let known = known.map(|ns| ns.whole_micros() as usize);
            if known == Some(0) {
                // All samples were above the rows, so the text has no rows, and no rows can be
                // written again.
                continue;
            }
            let again = limit.map(|limit| known.map_or(limit, |known| known.min(limit)));
            let options = ExportOptions { histogram_us: again.filter(|n| *n > 0), ..options };
            let twice = read(&written(name, &back, options), import);
            holds(&back, &twice, None)?;
        }
    }

    #[test]
    fn what_punctual_adds_comes_back(threads in prop::collection::vec(latencies(), 1..4)) {
        let mut recording = recording_with(&threads);
        recording.threads[0].cpu = Some(7);
        recording.threads[0].label = Some("the first".to_owned());
        for (name, import) in &BOTH[1..] {
            let back = read(&written(name, &recording, with_key()), import);
            prop_assert!(back.knows(Unknown::Missed));
            for (old, new) in recording.threads.iter().zip(&back.threads) {
                prop_assert_eq!(new.cpu, old.cpu);
                prop_assert_eq!(&new.label, &old.label);
                prop_assert_eq!(new.accounting, old.accounting);
                prop_assert_eq!(new.histogram.min(), old.histogram.min());
                prop_assert_eq!(new.histogram.max(), old.histogram.max());
                prop_assert_eq!(new.histogram.mean(), old.histogram.mean());
            }
            prop_assert_eq!(back.started.as_second(), recording.started.as_second());
            prop_assert_eq!(&back.host.hostname.value, &recording.host.hostname.value);
            // Nothing is lost on a second round trip.
            let once = written(name, &recording, with_key());
            let mut back = back;
            back.id = recording.id;
            let again = written(name, &back, with_key());
            prop_assert_eq!(without_what_differs(&again), without_what_differs(&once));
        }
    }
}

/// Returns the file without the values that differ after a round trip: its own date, percentiles
/// (computed from finer buckets before, and from rows of 1 µs afterwards), values that depend on
/// how the run ended, the parameters of loads, and facts that have no key.
fn without_what_differs(text: &str) -> Value {
    const DIFFER: [&str; 6] = ["dataset", "load", "version", "return_code", "node", "clock"];
    fn strip(value: &mut Value) {
        if let Value::Object(map) = value {
            map.retain(|key, _| {
                let percentile = key.starts_with('p') && key.ends_with("_ns");
                !percentile && !DIFFER.contains(&key.as_str())
            });
            map.values_mut().for_each(strip);
        }
    }
    let mut value = serde_json::from_str(text).unwrap();
    strip(&mut value);
    value
}

/// Figures of another tool are exported as they were imported.
#[test]
fn real_files_survive_import_and_export() {
    let h200 = include_str!("../fixtures/cyclictest-2.10-h200.txt");
    let back = read(h200, "cyclictest-hist");
    let sparse = ExportOptions {
        sparse_rows: true,
        ..ExportOptions::default()
    };
    let again = written("cyclictest-hist", &back, sparse);
    // The rows must match. The lines below them, with the cycle numbers of the overflows, are not
    // compared.
    let (rows, _) = h200.split_once("# Thread 0").unwrap();
    assert!(again.starts_with(rows), "{again}");
    let dataset = include_str!("../fixtures/rt-dataset-two-cores.json");
    let back = read(dataset, "rt-dataset");
    let again: Value = serde_json::from_str(&written("rt-dataset", &back, with_key())).unwrap();
    let before: Value = serde_json::from_str(dataset).unwrap();
    for key in ["format", "system", "latency"] {
        assert_eq!(again[key], before[key], "{key}");
    }
    for key in ["load", "interval", "cyclictest"] {
        assert_eq!(again["condition"][key], before["condition"][key], "{key}");
    }
    assert_eq!(again["punctual"]["thread"]["1"]["missed"], Value::Null);
}

#[test]
fn a_minimum_beyond_a_millisecond_comes_back() {
    let recording = recording_with(&[vec![1_001_000], vec![2_191_500, 4_000_000]]);
    for (name, import) in &BOTH[1..] {
        let back = read(&written(name, &recording, with_key()), import);
        for (old, new) in recording.threads.iter().zip(&back.threads) {
            assert_eq!(new.histogram.min(), old.histogram.min(), "{name}");
        }
    }
}

#[test]
fn no_rows_are_made_up() {
    let back = read(
        include_str!("../fixtures/cyclictest-2.4-h400.txt"),
        "cyclictest-hist",
    );
    let options = ExportOptions {
        histogram_us: Some(401),
        ..ExportOptions::default()
    };
    let export = Export {
        recording: &back,
        samples: &NoSamples,
        options,
    };
    let error = (format("rt-dataset").unwrap().write)(&export, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("ends at 400 µs"), "{error}");
    let text = written("rt-dataset", &back, ExportOptions::default());
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["latency"]["cores"][0].as_array().unwrap().len(), 400);
}
