//! A certificate has one page for every recording.

use lopdf::Document;
use punctual_model::{Outcome, Recording, testing};
use punctual_report::certificate::{html, pdf};

use crate::{common, odd};

/// Returns the text of the only page, without spaces, because lines are broken at any of them.
fn text_of(recording: &Recording) -> String {
    let bytes = pdf(recording, &common::digest()).unwrap();
    let document = Document::load_mem(&bytes).unwrap();
    assert_eq!(document.get_pages().len(), 1);
    without_spaces(&document.extract_text(&[1]).unwrap())
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn certificate_states_what_the_recording_proves() {
    let mut recording = testing::recording(2, 3);
    recording.verdict.outcome = Outcome::NotProven;
    recording.verdict.sentence = "neither is proven".to_owned();
    recording.warnings = vec!["the clock jumped".to_owned()];
    let text = text_of(&recording);
    let axis = without_spaces("samples per");
    assert!(text.contains(&axis), "no plot: {text}");
    let page = html(&recording, &common::digest()).unwrap();
    let id = recording.id.to_string();
    for part in [
        "not proven",
        "neither is proven",
        "the clock jumped",
        "made without an audit",
        &common::digest().sha256,
        &common::digest().command,
        &id,
        recording.host.hostname.get().unwrap(),
        recording.host.kernel.release.get().unwrap(),
    ] {
        assert!(text.contains(&without_spaces(part)), "{part}: {text}");
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn any_recording_fills_one_page() {
    for (name, mut recording) in odd::odd_ones() {
        eprintln!("{name}");
        text_of(&recording);
        let long = "isolcpus=1-63 漢字 ".repeat(2_000);
        recording.warnings = vec![long.clone(); 500];
        recording.host.kernel.command_line.value = Some(long.clone());
        recording.verdict.sentence = long;
        let text = text_of(&recording);
        assert!(text.contains("furtherwarnings"), "{text}");
        assert!(text.contains(&common::digest().sha256), "{text}");
    }
}

#[test]
fn every_plot_can_be_a_pdf() {
    for (name, recording) in odd::odd_ones() {
        for plot in common::plots(&recording) {
            let document = Document::load_mem(&plot.pdf().unwrap()).unwrap();
            assert_eq!(document.get_pages().len(), 1, "{name}");
        }
    }
}
