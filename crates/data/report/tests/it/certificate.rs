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
    let parameters = &mut recording.probe.parameters;
    parameters.insert("dma_latency_us".to_owned(), 0.into());
    parameters.insert("deepest_idle_state".to_owned(), (-1).into());
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
        "disabled during the run: with an exit latency above 0 µs; all",
        &common::digest().sha256,
        "sha256sum recording-ID.json",
        &id,
        recording.host.hostname.get().unwrap(),
        recording.host.kernel.release.get().unwrap(),
    ] {
        assert!(text.contains(&without_spaces(part)), "{part}: {text}");
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn what_is_not_kept_comes_first() {
    let mut recording = testing::recording(1, 3);
    let [claim, ..] = &recording.verdict.claims[..] else {
        panic!("a claim");
    };
    let mut claims = vec![claim.clone(); 9];
    claims[8].outcome = punctual_model::Outcome::Exceeded;
    recording.verdict.claims = claims;
    recording.warnings = (0..9).map(|number| format!("warning {number}")).collect();
    let text = text_of(&recording);
    let place = |part: &str| text.find(&without_spaces(part));
    let (exceeded, met) = (place("✗ exceeded: max 150 µs"), place("✓ met: max 150 µs"));
    assert!(exceeded.is_some() && exceeded < met, "{text}");
    assert!(place("3 further limits").is_some(), "{text}");
    let page = html(&recording, &common::digest()).unwrap();
    assert!(
        page.contains("warning 8") && !page.contains("further"),
        "{page}"
    );
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
