//! Comparisons as text and as JSON.

use punctual_model::{Fact, Histogram, Nanos, Recording, RecordingId, SignedNanos, testing};
use punctual_report::document;
use punctual_report::text::{self, TextStyle};
use punctual_stats::{Comparison, Options, compare, compare_runs};
use serde_json::Value;

/// Returns the same run on another kernel, with each latency increased by `shift` and a period
/// missed every other second.
fn later(recording: &Recording, shift: u64) -> Recording {
    let mut other = recording.clone();
    other.id = RecordingId(uuid_of(2));
    other.label = Some("other kernel".to_owned());
    other.host.kernel.release = Fact::known("6.18.2-amd64".to_owned(), "");
    other.host.kernel.command_line = Fact::known(
        "quiet isolcpus=2-3 <&> threadirqs nohz_full=2-3 audit=0 mitigations=off".to_owned(),
        "",
    );
    other.host.cpus[0].governor = Fact::known("powersave".to_owned(), "");
    for thread in &mut other.threads {
        thread.histogram = Histogram::new();
    }
    for (place, row) in other.series.rows.iter_mut().enumerate() {
        let mut histogram = Histogram::new();
        for (lower, _, count) in row.histogram.iter() {
            (0..count).for_each(|_| histogram.record(SignedNanos((lower + shift) as i64)));
        }
        row.histogram = histogram.buckets();
        row.missed = u64::from(place % 4 == 0);
        let thread = &mut other.threads[row.thread as usize];
        thread.accounting.missed += row.missed;
        thread.histogram.merge(&histogram);
    }
    other
}

fn uuid_of(number: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(0x019a_4d1c_7b3a_7000_8000_0000_0000_0000 | number)
}

fn comparison(comparison: &Comparison, style: &TextStyle) -> String {
    text::render(&document::comparison(comparison), style)
}

fn compared() -> Comparison {
    let baseline = testing::recording(2, 60);
    let options = Options {
        threshold: Some(Nanos(20_000)),
        ..Options::default()
    };
    compare(&baseline, &later(&baseline, 700), &options).unwrap()
}

#[test]
fn as_text() {
    let style = |width| TextStyle {
        colour: false,
        width,
    };
    let both = compared();
    insta::assert_snapshot!(comparison(&both, &style(100)));
    insta::assert_snapshot!("narrow", comparison(&both, &style(60)));
    for width in 60..130 {
        let text = comparison(&both, &style(width));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{width} columns:\n{text}");
    }
    // Differences in how the runs were measured come first. With too few samples, the result is
    // unknown.
    let mut baseline = testing::recording(2, 5);
    let mut candidate = later(&baseline, 700);
    candidate.load.clear();
    candidate.label = Some("\x1b[31mred".to_owned());
    baseline
        .probe
        .parameters
        .insert("interval_ns".to_owned(), 200_000.into());
    let other = compare(&baseline, &candidate, &Options::default()).unwrap();
    let text = comparison(&other, &style(100));
    assert!(!text.contains('\x1b'), "{text}");
    insta::assert_snapshot!("measured_differently", text);
}

/// The runs of each side are listed together, and a note that there are too few runs comes first.
#[test]
fn of_several_runs() {
    let baseline = testing::recording(1, 3);
    let runs = |shift: u64| -> Vec<Recording> {
        let run = |nth: u64| {
            let mut run = later(&baseline, shift + 10 * nth);
            run.id = RecordingId(uuid_of(u128::from(16 * shift + nth)));
            run.started += jiff::SignedDuration::from_mins((shift / 700 + 2 * nth) as i64);
            run.tune = Some("control".to_owned());
            run
        };
        (0..4).map(run).collect()
    };
    let (a, b) = (runs(0), runs(700));
    let text = |few: usize| {
        let a: Vec<&Recording> = a.iter().take(few).collect();
        let b: Vec<&Recording> = b.iter().take(few).collect();
        let compared = compare_runs(&a, &b, &Options::default()).unwrap();
        let style = TextStyle {
            colour: false,
            width: 100,
        };
        comparison(&compared, &style)
    };
    let four = text(4);
    assert!(four.starts_with("candidate: p50 higher by"), "{four}");
    for words in [
        "4 runs (",
        "tune in force: control",
        "70 arrangements",
        "<0.001",
    ] {
        let words_of: Vec<&str> = four.split_whitespace().collect();
        let there = words_of.join(" ").contains(words);
        // The smallest possible p is 2 of 70.
        assert_eq!(there, words != "<0.001", "{words}:\n{four}");
    }
    let three = text(3);
    assert!(three.starts_with("too few runs: with 3 and 3"), "{three}");
    assert!(three.contains("inconclusive"), "{three}");
}

/// Rounds numbers to four digits, because the last ones depend on the machine's libm.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let exact = number.as_f64().unwrap_or(0.0);
            format!("{exact:.3e}").into()
        }
        Value::Array(each) => each.into_iter().map(rounded).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, rounded(value)));
            fields.collect()
        }
        other => other,
    }
}

#[test]
fn as_json() {
    let comparison = serde_json::to_value(compared()).unwrap();
    insta::assert_json_snapshot!(rounded(comparison));
}
