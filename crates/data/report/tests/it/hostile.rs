//! Text from another machine is treated as data in each output format.

use crate::common;
use std::sync::LazyLock;

use proptest::prelude::*;
use punctual_model::{Cell, Chart, Recording, Share, Table, testing};
use punctual_report::plot::{self, PlotOptions};

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

/// Returns a recording with `text` in every free text.
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
    recording.top_samples[0].blame = Some(testing::blame(vec![Share::new(
        testing::interrupt(text),
        recording.top_samples[0].latency_ns,
        1,
    )]));
    let columns = [(text, text), ("cost_ns", text), ("rate", text)];
    let mut table = Table::new(text, text, &columns);
    table.push([Cell::from(text), 5_000.into(), 0.5.into()]);
    table.push([Cell::from(text), Cell::from(text)]);
    recording.tables = vec![table, Table::new(text, text, &columns)];
    recording
}

/// Returns all output formats, and the page with each of the other charts first.
fn forms(text: &str) -> Vec<(&'static str, String)> {
    let mut recording = with_text(text);
    let mut list = common::all_texts(&recording);
    recording.threads[1].from_cpu = Some(0);
    for chart in [Chart::Matrix, Chart::Bars] {
        recording.probe.chart = chart;
        list.push(("html", common::page(&recording)));
    }
    list
}

fn check(text: &str) {
    static BENIGN: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| forms("benign"));
    for ((form, out), (_, benign)) in forms(text).iter().zip(BENIGN.iter()) {
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
            "svg" => check_svg(out),
            "junit" => {
                let (names, _) = common::parse_xml(out);
                assert_eq!(names, common::parse_xml(benign).0, "{out}");
            }
            // The amount of markup is the same as with harmless text. The number of axis labels in
            // a plot depends on the text, so plots are checked separately.
            "html" => {
                let ((out, plots), (benign, _)) = (parted(out), parted(benign));
                // A table whose titles are all empty has no head.
                let same = out.matches('<').count() == benign.matches('<').count();
                assert!(same || text.is_empty(), "{out}");
                plots.into_iter().for_each(check_svg);
            }
            "markdown" => {
                assert!(!out.contains('<'), "{out}");
                assert_eq!(pipes(out), pipes(benign), "{out}");
            }
            _ => {}
        }
    }
}

fn check_svg(svg: &str) {
    let (names, _) = common::parse_xml(svg);
    let known = ["svg", "title", "path", "g", "circle", "text"];
    let ours = names.iter().all(|name| known.contains(&name.as_str()));
    assert!(ours, "{names:?}");
}

/// Splits a page into the page without its plots, and the plots.
fn parted(page: &str) -> (String, Vec<&str>) {
    let (mut rest, mut plots) = (String::new(), Vec::new());
    for part in page.split_inclusive("</svg>") {
        match part.split_once("<svg") {
            Some((before, _)) => {
                rest.push_str(before);
                plots.push(&part[before.len()..]);
            }
            None => rest.push_str(part),
        }
    }
    (rest, plots)
}

/// Returns the number of cell separators on each line.
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
        let recording = with_text(attack);
        let options = PlotOptions::default();
        for plot in [
            plot::latency(&[&recording], &options).unwrap(),
            plot::bars(&[&recording], &options).unwrap(),
            plot::timeline(&recording, &options).unwrap(),
        ] {
            assert_eq!(&plot.png(0.5).unwrap()[1..4], b"PNG");
        }
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
