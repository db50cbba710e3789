//! Text from another machine is data, in each form.
#![allow(clippy::unwrap_used)]

mod common;

use proptest::prelude::*;
use punctual_model::{Blame, Recording, Share, ShareKind, testing};

const ATTACKS: [&str; 8] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "]]> <!-- --> <![CDATA[",
    "\x1b]0;title\x07\x1b[2J\u{9b}31m",
    "a\u{0}b\u{8}c\u{fffe}d\u{ffff}\u{202e}e",
    "| a | `b` **c** [d](javascript:e) &lt; &#60;",
    "$x^2$ \\$ \\frac{1}{2} %n\r\nnext line",
];

/// A recording in which each free text is `text`.
fn with_text(text: &str) -> Recording {
    let mut recording = testing::recording(2, 3);
    let own = || text.to_owned();
    recording.label = Some(own());
    recording.probe.name = own();
    recording.probe.program = own();
    recording.probe.command_line = vec![own(), own()];
    recording.probe.parameters.insert(own(), own().into());
    recording.warnings = vec![own()];
    recording.load[0].name = own();
    recording.load[0].parameters.insert(own(), own().into());
    recording.load[0].ended_early = Some(own());
    recording.threads[0].label = Some(own());
    recording.host.fingerprint = own();
    recording.host.hostname.value = Some(own());
    recording.host.hostname.source = own();
    recording.host.kernel.release.value = Some(own());
    recording.host.kernel.command_line.value = Some(own());
    recording.host.processor.model.value = Some(own());
    recording.host.processor.nohz_full.unknown = Some(own());
    recording.host.cpus[0].governor.value = Some(own());
    recording.interference.unknown = vec![own()];
    recording.interference.cpus[0].interrupts[0].name = own();
    recording.interference.cpus[0].interrupts[0].id = own();
    recording.verdict.sentence = own();
    recording.worst[0].blame = Some(Blame {
        culprit: own(),
        sentence: own(),
        events_lost: 0,
        shares: vec![Share {
            kind: ShareKind::Interrupt,
            who: own(),
            ns: recording.worst[0].latency_ns,
        }],
    });
    recording
}

fn check(text: &str) {
    let benign = common::all_texts(&with_text("benign"));
    for ((form, out), (_, benign)) in common::all_texts(&with_text(text)).iter().zip(&benign) {
        for c in out.chars() {
            let allowed = c == '\n' || !c.is_control();
            assert!(allowed, "{form} holds {c:?}");
            let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            assert!(
                !turns && c != '\u{fffe}' && c != '\u{ffff}',
                "{form} holds {c:?}"
            );
        }
        match *form {
            "svg" => {
                let (names, _) = common::parse_xml(out);
                let known = ["svg", "title", "path", "g", "circle", "text"];
                assert!(
                    names.iter().all(|name| known.contains(&name.as_str())),
                    "{names:?}"
                );
            }
            "junit" => {
                let (names, _) = common::parse_xml(out);
                assert_eq!(names, common::parse_xml(benign).0, "{out}");
            }
            // Markup is ours alone: as much of it as with harmless text.
            "html" => assert_eq!(out.matches('<').count(), benign.matches('<').count()),
            "markdown" => {
                assert!(!out.contains('<'), "{out}");
                assert_eq!(pipes(out), pipes(benign), "{out}");
            }
            _ => {}
        }
    }
}

/// Bars that part cells, line by line.
fn pipes(markdown: &str) -> Vec<usize> {
    let count = |line: &str| {
        line.replace("\\\\", "")
            .replace("\\|", "")
            .matches('|')
            .count()
    };
    markdown.lines().map(count).collect()
}

#[test]
fn known_attacks_are_text() {
    for attack in ATTACKS {
        check(attack);
    }
}

#[test]
fn a_png_takes_any_text() {
    for attack in ATTACKS {
        let plot = &common::plots(&with_text(attack))[0];
        assert_eq!(&plot.png(0.5).unwrap()[1..4], b"PNG");
    }
}

#[test]
fn what_was_written_is_what_is_read() {
    let recording = with_text("<b>&amp;\"'");
    let svg = common::plots(&recording)[0].svg();
    let (_, text) = common::parse_xml(&svg);
    assert!(text.contains("<b>&amp;\"'  max"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_text_is_text(text in "\\PC{0,20}|.{0,40}|[\\x00-\\x7f]{0,30}") {
        check(&text);
    }
}
