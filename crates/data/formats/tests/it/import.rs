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
