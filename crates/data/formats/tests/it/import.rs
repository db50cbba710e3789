//! Imports of real files of other tools: each file is recognised and imported with its figures, and
//! invalid files are rejected with the location of the problem.

use std::fs;
use std::path::PathBuf;

use punctual_formats::{CountSamples, Head, IMPORTS, ImportError, SampleSink, Source, recognise};
use punctual_model::{Nanos, Recording};

fn fixture(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fs::read(folder.join(name)).unwrap()
}

fn read_with(
    name: &str,
    bytes: &[u8],
    sink: &mut dyn SampleSink,
) -> Result<Recording, ImportError> {
    let mut source = Source::new(name, bytes);
    let import = recognise(name, &source.head()?)?;
    (import.read)(&mut source, sink)
}

fn read(name: &str) -> Result<Recording, ImportError> {
    read_with(name, &fixture(name), &mut CountSamples::default())
}

fn fixtures() -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn or_dash(ns: Option<Nanos>) -> String {
    ns.map_or("-".to_owned(), |ns| ns.to_string())
}

/// Returns a summary of a recording in a few lines.
fn summary(recording: &Recording) -> String {
    let origin = recording.origin.as_ref().unwrap();
    let unknown: Vec<_> = origin.unknown.iter().map(|what| what.words()).collect();
    let mut text = format!(
        "  {}: {}; {}, unknown: {}\n",
        origin.format,
        recording.headline(),
        recording.duration_ns,
        unknown.join(", ")
    );
    for thread in &recording.threads {
        let histogram = &thread.histogram;
        text.push_str(&format!(
            "  {}: {} samples, {} in no row from {}, min {} mean {} max {}, p50 {} p99 {}\n",
            thread.title(),
            histogram.recorded(),
            histogram.unplaced(),
            or_dash(histogram.unplaced_from()),
            or_dash(histogram.min()),
            or_dash(histogram.mean()),
            or_dash(histogram.max()),
            or_dash(histogram.quantile(0.5)),
            or_dash(histogram.quantile(0.99)),
        ));
    }
    for warning in &recording.warnings {
        text.push_str(&format!("  ! {warning}\n"));
    }
    text
}

#[test]
fn fixtures_import_or_refusal_names_place() {
    let mut text = String::new();
    for name in fixtures() {
        let result = match read(&name) {
            Ok(recording) => summary(&recording),
            Err(error) => format!("  {error}\n"),
        };
        text.push_str(&format!("{name}\n{result}"));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn no_two_formats_take_the_same_file() {
    for name in fixtures() {
        let bytes = fixture(&name);
        let head = Head {
            bytes: &bytes[..bytes.len().min(Head::LENGTH)],
            whole: bytes.len() <= Head::LENGTH,
        };
        let found: Vec<_> = (IMPORTS.iter())
            .filter(|import| (import.recognise)(&head))
            .map(|import| import.name)
            .collect();
        assert!(found.len() <= 1, "{name}: {found:?}");
    }
}

/// Forms that editors, mail programs and other versions of the tools write.
#[test]
fn unusual_forms_have_their_figures() {
    for (name, samples, unplaced, max_us) in [
        ("cyclictest-in-markdown.txt", 10_000, 10_000, 66),
        ("cyclictest-own-H-one-thread.txt", 500, 10, 210),
        ("cyclictest-summary-first.txt", 1_000, 0, 11),
        ("perf-sched-latency-count.txt", 1_200, 1_200, 14_020),
        ("signaltest-howto.txt", 10_000, 10_000, 24),
        ("cyclictest-wrapped.txt", 1_308_391, 1_308_391, 1_958),
    ] {
        let all = read(name).unwrap().all_latencies();
        let figures = (all.recorded(), all.unplaced(), all.max());
        let max = Some(Nanos::from_micros(max_us));
        assert_eq!(figures, (samples, unplaced, max), "{name}");
    }
    let recording = read("xenomai-latency-h.txt").unwrap();
    let all = recording.all_latencies();
    assert_eq!((all.recorded(), all.unplaced()), (20_000, 0));
    assert_eq!(all.max(), Some(Nanos(6_910)));
    assert!(recording.warnings.is_empty(), "{:?}", recording.warnings);
}

#[test]
fn a_line_is_joined_wherever_it_was_wrapped() {
    let line = |thread: u32| {
        format!(
            "T: {thread} ( 1229) P:95 I:200 C:   1293 Min:      6 Act:  112 Avg:    7 Max:     112\n"
        )
    };
    for name in [" Min:", " Act:", " Avg:", " Max:"] {
        let wrapped = line(0).replace(name, &format!("\n{name}"));
        for text in [wrapped.clone() + &line(1), line(1) + &wrapped] {
            let read = read_with("x", text.as_bytes(), &mut CountSamples::default());
            let all = read
                .unwrap_or_else(|error| panic!("{name}: {error}"))
                .all_latencies();
            assert_eq!(all.recorded(), 2 * 1_293, "{text}");
            assert_eq!(all.max(), Some(Nanos::from_micros(112)), "{text}");
        }
    }
}

#[test]
fn an_incomplete_line_is_not_joined_with_another_thread() {
    let text = "T: 0 ( 1229) P:95 I:200 C:   1293 Min:      6 Act:  112\n\
                T: 1 ( 1230) P:95 I:200 C:   1293 Min:      6 Act:  112 Avg:    7 Max:     112\n";
    let error = read_with("x", text.as_bytes(), &mut CountSamples::default()).unwrap_err();
    assert!(error.to_string().contains("Act:"), "{error}");
}
