//! Writing and reading returns everything that the format can represent, for each format that
//! supports both directions.

use std::io;

use proptest::prelude::*;
use punctual_formats::{
    CountSamples, Export, ExportOptions, FormatError, NoSamples, SampleSink, Source, format,
    recognise,
};
use punctual_model::{
    Histogram, JudgedBy, Judgement, Nanos, Outcome, Recording, Sample, SignedNanos, ThreadRecord,
    Unknown, testing,
};

use crate::common::written;

fn read(file: impl AsRef<[u8]>) -> Recording {
    // The given unit makes the result independent of the smallest latency.
    let unit = Some(Nanos::from_micros(1));
    let mut source = Source::new("file", file.as_ref()).with_unit(unit);
    let import = recognise("file", &source.head().unwrap()).unwrap();
    (import.read)(&mut source, &mut CountSamples::default()).unwrap()
}

/// Returns a recording with these latencies, in ns.
fn recording(threads: &[Vec<i64>]) -> Recording {
    let mut recording = testing::recording(threads.len() as u32, 0);
    for (thread, latencies) in recording.threads.iter_mut().zip(threads) {
        thread.histogram = Histogram::new();
        for latency in latencies {
            thread.histogram.record(SignedNanos(*latency));
        }
        let histogram = &thread.histogram;
        let account = &mut thread.accounting;
        account.recorded = histogram.recorded();
        account.early = histogram.early();
        account.overflow = histogram.overflow();
        account.expected = account.recorded + account.missed + account.warm_up;
    }
    recording.verdict = recording.judge();
    recording
}

fn threads(most: i64) -> impl Strategy<Value = Vec<Vec<i64>>> {
    let latency = prop_oneof![8 => 0i64..200_000, 2 => 0..most, 1 => -5_000i64..0];
    prop::collection::vec(prop::collection::vec(latency, 0..60), 1..4)
}

fn options() -> impl Strategy<Value = ExportOptions> {
    (any::<bool>(), prop::option::of(1usize..3_000)).prop_map(|(sparse, rows)| ExportOptions {
        sparse_rows: sparse || rows.is_none(),
        extra_key: true,
        histogram_us: rows,
    })
}

fn whole_micros(ns: Option<Nanos>) -> u64 {
    ns.map_or(0, Nanos::whole_micros)
}

proptest! {
    /// Rows, overflows, minimum, mean and maximum are preserved, and writing the imported recording
    /// produces the same bytes.
    #[test]
    fn cyclictest_text(threads in threads(5_000_000), options in options()) {
        let before = recording(&threads);
        let bytes = written("cyclictest-hist", &before, options);
        let after = read(&bytes);
        prop_assert_eq!(after.threads.len(), before.threads.len());
        let limit = options.histogram_us.unwrap_or(5_100);
        for (a, b) in after.threads.iter().zip(&before.threads) {
            let (a, b) = (&a.histogram, &b.histogram);
            prop_assert_eq!(a.count(), b.count());
            prop_assert_eq!(a.micros(limit), b.micros(limit));
            prop_assert_eq!(whole_micros(a.min()), whole_micros(b.min()));
            prop_assert_eq!(whole_micros(a.max()), whole_micros(b.max()));
            prop_assert!(a.mean().unwrap_or_default() <= b.mean().unwrap_or_default());
        }
        // The rows above the highest one with samples are not in the text.
        let again = ExportOptions { histogram_us: None, sparse_rows: true, ..options };
        let text = written("cyclictest-hist", &before, ExportOptions { sparse_rows: true, ..options });
        let overflowed = |thread: &ThreadRecord| thread.histogram.unplaced_from() == Some(Nanos::ZERO);
        let no_row = |thread: &ThreadRecord| overflowed(thread) || thread.histogram.count() == 0;
        if after.threads.iter().any(overflowed) && after.threads.iter().all(no_row) {
// All samples overflowed, so there are no rows to write.

} else {
prop_assert_eq!(
                written("cyclictest-hist", &after, again),
                text
            )
}
    }

    /// Nanoseconds and the accounting, which are under the key `punctual`, are also preserved.
    #[test]
    fn cyclictest_json(threads in threads(5_000_000), options in options()) {
        let before = recording(&threads);
        let after = read(written("cyclictest-json", &before, options));
        prop_assert_eq!(after.threads.len(), before.threads.len());
        let limit = options.histogram_us.unwrap_or(5_100);
        for (a, b) in after.threads.iter().zip(&before.threads) {
            prop_assert_eq!((&a.label, a.cpu), (&b.label, b.cpu));
            let (read, known) = (a.accounting, b.accounting);
            prop_assert_eq!(
                (read.expected, read.recorded, read.missed, read.early, read.warm_up),
                (known.expected, known.recorded, known.missed, known.early, known.warm_up)
            );
            let (a, b) = (&a.histogram, &b.histogram);
            prop_assert_eq!(a.micros(limit), b.micros(limit));
            prop_assert_eq!((a.min(), a.max()), (b.min(), b.max()));
            prop_assert!(a.mean().unwrap_or_default().0.abs_diff(b.mean().unwrap_or_default().0) <= 6);
        }
        prop_assert_eq!(after.probe.command_line.join(" "), before.probe.command_line.join(" "));
        prop_assert!(after.knows(Unknown::Started) && after.knows(Unknown::Missed));
        prop_assert_eq!(after.started.as_second(), before.started.as_second());
        let (a, b) = (&after.host, &before.host);
        prop_assert_eq!(a.hostname.get(), b.hostname.get());
        prop_assert_eq!(a.kernel.release.get(), b.kernel.release.get());
        prop_assert_eq!(a.kernel.preempt_rt.get(), b.kernel.preempt_rt.get());
    }

    /// Our own format loses nothing.
    #[test]
    fn json(threads in threads(2_000_000_000_000)) {
        let before = recording(&threads);
        let bytes = written("json", &before, ExportOptions::default());
        prop_assert_eq!(read(&bytes), before);
    }

    /// Our own format preserves imported recordings.
    #[test]
    fn json_of_an_import(threads in threads(5_000_000), options in options()) {
        let before = read(written("cyclictest-hist", &recording(&threads), options));
        let bytes = written("json", &before, ExportOptions::default());
        prop_assert_eq!(read(&bytes), before);
    }
}

/// Samples in memory.
#[derive(Default)]
struct CollectedSamples(Vec<Vec<Sample>>);

impl SampleSink for CollectedSamples {
    fn take(&mut self, thread: u32, samples: &[Sample]) -> io::Result<()> {
        let thread = thread as usize;
        self.0.resize_with(self.0.len().max(thread + 1), Vec::new);
        self.0[thread].extend_from_slice(samples);
        Ok(())
    }
}

/// Returns the samples as printed by cyclictest -v: thread, cycle, µs.
fn verbose(rows: &[(u32, u64, i64)]) -> String {
    let mut text = "Max CPUs = 2\nThread 0 Interval: 1000\n".to_owned();
    for (thread, cycle, latency) in rows {
        text.push_str(&format!("{thread:8}:{cycle:8}:{latency:8}\n"));
    }
    text
}

fn sample(expected: u64, latency_us: i64) -> Sample {
    Sample {
        expected: Nanos(expected),
        latency: SignedNanos(latency_us * 1_000),
    }
}

proptest! {
    #[test]
    fn verbose_samples_come_in_one_by_one(
        latencies in prop::collection::vec((0u32..3, -20i64..2_000_000), 1..400),
    ) {
        let mut next = [0; 3];
        let rows: Vec<(u32, u64, i64)> = latencies
            .into_iter()
            .map(|(thread, latency)| {
                next[thread as usize] += 1;
                (thread, next[thread as usize] - 1, latency)
            })
            .collect();
        let text = verbose(&rows);
        let unit = Some(Nanos::from_micros(1));
        let mut source = Source::new("file", text.as_bytes()).with_unit(unit);
        let import = recognise("file", &source.head().unwrap()).unwrap();
        let mut kept = CollectedSamples::default();
        let recording = (import.read)(&mut source, &mut kept).unwrap();
        for (place, thread) in recording.threads.iter().enumerate() {
            let number = thread.label.clone().unwrap().replace("thread ", "");
            let of: Vec<Sample> = rows
                .iter()
                .filter(|row| row.0.to_string() == number)
                .map(|row| sample(row.1, row.2))
                .collect();
            prop_assert_eq!(&kept.0[place], &of);
            prop_assert_eq!(thread.histogram.recorded(), of.len() as u64);
        }
    }

    #[test]
    fn raw_samples_come_in_one_by_one(
        latencies in prop::collection::vec((0u32..3, 0u64..2_000_000), 1..400),
    ) {
        let mut bytes = Vec::new();
        let mut expected = vec![Vec::new(); 3];
        for (nth, (thread, latency)) in (0u64..).zip(&latencies) {
            let (seconds, nanos) = (10_000 + nth, nth * 1_000);
            bytes.extend_from_slice(&thread.to_le_bytes());
            for number in [seconds, nanos, *latency] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            let woken = seconds * 1_000_000_000 + nanos;
            expected[*thread as usize].push(sample(woken - latency * 1_000, *latency as i64));
        }
        let mut source = Source::new("file", bytes.as_slice());
        let import = recognise("file", &source.head().unwrap()).unwrap();
        prop_assert_eq!(import.name, "jitterdebugger-samples");
        let mut kept = CollectedSamples::default();
        let recording = (import.read)(&mut source, &mut kept).unwrap();
        for (place, thread) in recording.threads.iter().enumerate() {
            let number: usize = thread.label.clone().unwrap().replace("thread ", "").parse().unwrap();
            prop_assert_eq!(&kept.0[place], &expected[number]);
        }
    }

    /// No input makes a reader panic.
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for import in punctual_formats::IMPORTS {
            let mut source = Source::new("file", bytes.as_slice());
            let _ = (import.read)(&mut source, &mut CountSamples::default());
        }
    }

    /// A real file that is truncated or has some bytes changed is either read or rejected.
    #[test]
    fn damaged_files_do_not_panic(
        which in 0usize..FILES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        end in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = FILES[which].to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        for import in punctual_formats::IMPORTS {
            let mut source = Source::new("file", bytes.as_slice());
            let read = (import.read)(&mut source, &mut CountSamples::default());
            if let Ok(recording) = read {
                // Any valid import can be stored.
                let json = serde_json::to_string(&recording).unwrap();
                prop_assert!(Recording::from_json(&json).is_ok());
            }
        }
    }
}

const FILES: &[&[u8]] = &[
    include_bytes!("../fixtures/cyclictest-2.10-h200.txt"),
    include_bytes!("../fixtures/cyclictest-2.4-H20.txt"),
    include_bytes!("../fixtures/cyclictest-2.10-h200.json"),
    include_bytes!("../fixtures/oslat-2.4.json"),
    include_bytes!("../fixtures/pmq-2.4.json"),
    include_bytes!("../fixtures/cyclictest-2.4-break.txt"),
    include_bytes!("../fixtures/pmqtest-2.4-lines.txt"),
    include_bytes!("../fixtures/signaltest-2.4-lines.txt"),
];

/// Real files that are imported and exported again.
#[test]
fn what_cyclictest_wrote_is_written_again() {
    let rows = |text: &str| -> String {
        text.lines()
            .skip_while(|line| *line != "# Histogram")
            .map(|line| format!("{}\n", line.trim_end()))
            .collect()
    };
    let new = include_str!("../fixtures/cyclictest-2.10-h200.txt");
    let recording = read(new);
    let sparse = ExportOptions {
        sparse_rows: true,
        ..ExportOptions::default()
    };
    let again = written("cyclictest-hist", &recording, sparse);
    assert_eq!(rows(&again), rows(new));
    let old = include_str!("../fixtures/cyclictest-2.4-h400.txt");
    let recording = read(old);
    let again = written("cyclictest-hist", &recording, ExportOptions::default());
    assert_eq!(rows(&again), rows(old));
}

#[test]
fn what_cannot_be_written_is_refused() {
    let refused = |bytes: &[u8], rows: Option<usize>| {
        let recording = read(bytes);
        let export = Export {
            recording: &recording,
            samples: &NoSamples,
            options: ExportOptions {
                histogram_us: rows,
                ..ExportOptions::default()
            },
        };
        (format("cyclictest-hist").unwrap().write)(&export, &mut Vec::new()).unwrap_err()
    };
    let lines = include_bytes!("../fixtures/cyclictest-2.4-break.txt");
    let error = refused(lines, None);
    assert!(matches!(error, FormatError::NoRows { .. }), "{error}");
    let rows = include_bytes!("../fixtures/cyclictest-2.10-h200.txt");
    let error = refused(rows, Some(300));
    assert!(matches!(error, FormatError::RowsUnknown { .. }), "{error}");
    let wide = include_bytes!("../fixtures/rtla-6.1-timerlat-hist.txt");
    let error = refused(wide, None);
    assert!(matches!(error, FormatError::WideRows { .. }), "{error}");
}

/// One changed word in a file must not change the verdict.
#[test]
fn forged_verdict_of_a_file_decides_nothing() {
    let honest = recording(&[vec![1_000, 2_000, 900_000]]);
    let mut forged = honest.clone();
    forged.be_judged(Judgement {
        by: JudgedBy::Check,
        experiment: None,
        outcome: Outcome::Held,
        sentence: "held: at most 3".to_owned(),
        asked: None,
        claims: Vec::new(),
    });
    for limit in &mut forged.verdict.limits {
        limit.held = Some(true);
    }
    let after = read(written("json", &forged, ExportOptions::default()));
    assert_eq!(after.verdict, honest.verdict);
    assert_eq!(after.judgement, None);
    assert!(after.sender_judgement.is_some());
}
