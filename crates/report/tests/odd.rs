//! Recordings as they are not usually: no form fails on them.
#![allow(clippy::unwrap_used)]

mod common;

use jiff::Timestamp;
use proptest::prelude::*;
use punctual_model::{Limit, Metric, Nanos, Recording, testing};
use punctual_report::ReportError;
use punctual_report::html::{self, HtmlOptions};
use punctual_report::plot::{self, PlotOptions};

fn with(latencies: &[i64]) -> Recording {
    let mut recording = testing::recording(1, 1);
    common::measure(&mut recording, 0, latencies);
    recording
}

fn check(recording: &Recording) {
    for (form, out) in common::all_texts(recording) {
        if form == "svg" || form == "junit" {
            common::parse_xml(&out);
        }
        for wrong in ["NaN", "inf,", "inf ", "-0\"", "e+"] {
            assert!(form != "svg" || !out.contains(wrong), "{wrong} in {out}");
        }
    }
}

fn no_threads() -> Recording {
    let mut recording = testing::recording(1, 1);
    recording.threads.clear();
    recording.series.rows.clear();
    recording.worst.clear();
    recording.interference.cpus.clear();
    recording.host.cpus.clear();
    recording.verdict = recording.requirement.judge(&[]);
    recording
}

fn odd_ones() -> Vec<(&'static str, Recording)> {
    const SECOND: i64 = 1_000_000_000;
    let mut list = vec![
        ("no threads", no_threads()),
        ("no samples", with(&[])),
        ("all early", with(&[-1, -500, -1_000_000])),
        ("one sample", with(&[4_200])),
        ("one of zero", with(&[0])),
        ("all equal", with(&[4_200; 1_000])),
        ("all zero", with(&[0; 1_000])),
        ("up to 1000 s", with(&[1, 1_000, 1_000 * SECOND - 1])),
        ("beyond the range", with(&[5, 1_000 * SECOND, i64::MAX])),
        ("beyond the range alone", with(&[2_000 * SECOND])),
        ("a second, far from zero", with(&[SECOND, SECOND + 1_000])),
    ];
    let mut many = testing::recording(1, 2);
    for _ in 0..30 {
        let copy = many.threads[0].histogram.clone();
        many.threads[0].histogram.merge(&copy);
    }
    list.push(("a trillion samples", many));
    let mut edges = testing::recording(2, 2);
    edges.started = Timestamp::MIN;
    edges.duration_ns = Nanos(u64::MAX);
    edges.series.interval_ns = Nanos(0);
    edges.series.rows[0].start_ns = Nanos(u64::MAX);
    edges.worst[0].time = Timestamp::MAX;
    edges.worst[1].thread = 99;
    edges.interference.duration_ns = Nanos(0);
    edges.observer.peak_memory_bytes = u64::MAX;
    list.push(("ends of the ranges", edges));
    let mut short = testing::recording(1, 1);
    short.duration_ns = Nanos(0);
    short.series.rows.clear();
    short.requirement.limits = vec![
        Limit {
            metric: Metric::Percentile(99.0),
            at_most: 0,
        },
        Limit {
            metric: Metric::Max,
            at_most: u64::MAX,
        },
    ];
    short.verdict = short.requirement.judge(&short.threads);
    list.push(("no duration, limits at the ends", short));
    list
}

#[test]
fn no_odd_recording_fails() {
    for (name, recording) in odd_ones() {
        eprintln!("{name}");
        check(&recording);
    }
}

#[test]
fn odd_recordings_have_a_png() {
    for (name, recording) in odd_ones() {
        for plot in common::plots(&recording).into_iter().take(3) {
            let png = plot.png(0.5).unwrap();
            assert_eq!(&png[1..4], b"PNG", "{name}");
            // Width and height stand at bytes 16 and 20 of a PNG.
            assert_eq!(png[16..24], [0, 0, 1, 144, 0, 0, 0, 230], "{name}");
        }
    }
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let recording = testing::recording(1, 1);
    let size = |width, height| PlotOptions {
        width,
        height,
        ..PlotOptions::default()
    };
    for (width, height) in [(0, 460), (319, 460), (800, 8001), (u32::MAX, u32::MAX)] {
        let error = plot::latency(&[&recording], &size(width, height)).unwrap_err();
        assert!(error.to_string().contains(&width.to_string()), "{error}");
    }
    for (width, height) in [(320, 240), (8000, 240), (320, 8000)] {
        let plot = plot::latency(&[&recording], &size(width, height)).unwrap();
        common::parse_xml(&plot.svg());
    }
    let plot = plot::latency(&[&recording], &size(8000, 240)).unwrap();
    for scale in [f32::NAN, f32::INFINITY, -1.0, 0.0, 2.5, 9.0] {
        assert!(
            matches!(plot.png(scale), Err(ReportError::Scale(_))),
            "{scale}"
        );
    }
    assert!(matches!(
        plot::latency(&[], &PlotOptions::default()),
        Err(ReportError::NoRecording)
    ));
    assert!(matches!(
        html::render(&[], &HtmlOptions::default()),
        Err(ReportError::NoRecording)
    ));
    assert!(matches!(
        punctual_report::junit::render(&[]),
        Err(ReportError::NoRecording)
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_samples_can_be_shown(
        first in prop::collection::vec(prop_oneof![-1_000i64..200_000, 0i64..i64::MAX / 2_000], 0..40),
        second in prop::collection::vec(prop_oneof![0i64..50, 0i64..2_000_000_000_000], 0..40),
        limit in any::<u64>(),
        missed in 0u64..1_000,
    ) {
        let mut recording = testing::recording(2, 2);
        recording.threads[1].accounting.missed = missed;
        recording.requirement.limits[0].at_most = limit;
        common::measure(&mut recording, 0, &first);
        common::measure(&mut recording, 1, &second);
        check(&recording);
    }
}
