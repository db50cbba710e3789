//! What a comparison looks like, as text and as JSON.
#![allow(clippy::unwrap_used)]

use punctual_model::{Fact, Histogram, Nanos, Recording, RecordingId, SignedNanos, testing};
use punctual_report::text::{self, TextStyle};
use punctual_stats::{Comparison, Options, compare};
use serde_json::Value;

/// The same run on another kernel, each latency later by `shift`, a period missed
/// each second second.
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
    insta::assert_snapshot!(text::comparison(&compared(), &style(100)));
    insta::assert_snapshot!("narrow", text::comparison(&compared(), &style(60)));
    // What was measured differently comes first, and too little is unknown.
    let mut baseline = testing::recording(2, 5);
    let mut candidate = later(&baseline, 700);
    candidate.load.clear();
    candidate.label = Some("\x1b[31mred".to_owned());
    baseline
        .probe
        .parameters
        .insert("interval_ns".to_owned(), 200_000.into());
    let comparison = compare(&baseline, &candidate, &Options::default()).unwrap();
    let text = text::comparison(&comparison, &style(100));
    assert!(!text.contains('\x1b'), "{text}");
    insta::assert_snapshot!("measured_differently", text);
}

/// Numbers to four digits: the last ones are those of the machine's libm.
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
