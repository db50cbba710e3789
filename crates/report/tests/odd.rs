//! Recordings as they are not usually: no form fails on them.
#![allow(clippy::unwrap_used)]

mod common;

use common::samples;
use jiff::Timestamp;
use proptest::prelude::*;
use punctual_model::{Cell, Limit, Metric, Nanos, Recording, Table, testing};
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

/// As [`common::measure`], for JSON that says anything.
fn hostile_counts() -> Recording {
    let max = u64::MAX;
    let json = format!(
        r#"{{"count": {max}, "sum_ns": {max}, "min_ns": null, "max_ns": null, "early": {max},
            "overflow": 0, "buckets": [[5000, {}], [70000, 1]]}}"#,
        max - 1
    );
    let mut recording = testing::recording(2, 2);
    for thread in &mut recording.threads {
        thread.histogram = serde_json::from_str(&json).unwrap();
        thread.accounting.expected = max;
        thread.accounting.recorded = max;
        thread.accounting.missed = max;
        thread.usage.page_faults_minor = max;
        thread.usage.page_faults_major = max;
    }
    for row in &mut recording.series.rows {
        (row.count, row.early, row.missed) = (max, 0, max);
    }
    for cpu in &mut recording.interference.cpus {
        cpu.interrupts[0].count = max;
    }
    recording.verdict = recording.judge();
    recording
}

/// Pairs and labels as they are not usually.
fn odd_probes() -> Vec<(&'static str, Recording)> {
    let mut pairs = samples::wakeup(3, 200);
    pairs.threads[0].from_cpu = None;
    pairs.threads[1].cpu = None;
    pairs.threads[2].from_cpu = Some(u32::MAX);
    pairs.threads[3].histogram.clear();
    pairs.threads[5].cpu = pairs.threads[4].cpu;
    let mut same = samples::labels(3);
    for thread in &mut same.threads {
        thread.label = Some(String::new());
    }
    let mut tables = samples::tables_only(1);
    let wide = vec![
        Cell::Count(u64::MAX),
        Cell::Number(f64::MAX),
        Cell::Bool(true),
    ];
    tables.tables[0].rows = vec![vec![], wide.clone(), vec![Cell::Number(f64::NAN)]];
    tables.tables.push(Table::new("", "", &[]));
    tables.tables[1].rows = vec![wide];
    tables.tables.push(Table::new("", "", &[("", "")]));
    vec![
        ("odd pairs", pairs),
        ("one pair", samples::wakeup(1, 1)),
        ("pairs of 20 CPUs", samples::wakeup(20, 2)),
        ("64 labels", samples::labels(64)),
        ("labels that are empty", same),
        ("only tables", samples::tables_only(64)),
        ("odd tables", tables),
    ]
}

fn odd_ones() -> Vec<(&'static str, Recording)> {
    const SECOND: i64 = 1_000_000_000;
    let mut list = vec![
        ("the largest counts", hostile_counts()),
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
    short.verdict = short.judge();
    list.push(("no duration, limits at the ends", short));
    list
}

#[test]
fn no_odd_probe_fails() {
    for (name, recording) in odd_probes() {
        eprintln!("{name}");
        if recording.threads.len() < 100 {
            check(&recording);
        }
        for plot in [
            plot::matrix(&recording, &PlotOptions::default()).unwrap(),
            plot::bars(&[&recording, &recording], &PlotOptions::default()).unwrap(),
        ] {
            common::parse_xml(&plot.svg());
            assert_eq!(&plot.png(0.5).unwrap()[1..4], b"PNG", "{name}");
        }
    }
}

#[test]
fn what_the_heat_map_leaves_out_is_told() {
    let (_, pairs) = odd_probes().remove(0);
    let svg = plot::matrix(&pairs, &PlotOptions::default()).unwrap().svg();
    for note in [
        ">grey: not measured<",
        ">threads of one pair merged; 2 threads are no pair<",
    ] {
        assert!(svg.contains(note), "{svg}");
    }
}

#[test]
fn without_latencies_there_is_no_plot_and_no_table_of_them() {
    let recording = samples::tables_only(2);
    let error = plot::default_for(&recording, &PlotOptions::default()).unwrap_err();
    assert!(error.to_string().contains("56789abc"), "{error}");
    for (form, out) in common::all_texts(&recording) {
        if form == "svg" {
            continue;
        }
        for word in [
            "<svg",
            "Latency",
            "p99",
            "account",
            "expected",
            "confidence",
            "nothing",
        ] {
            assert!(!out.contains(word), "{word} in {form}: {out}");
        }
        assert!(form == "list" || out.contains("nvme0q1"), "{form}: {out}");
    }
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

#[test]
fn threads_that_measure_something_else_have_no_sum() {
    let mut recording = testing::recording(2, 2);
    let lines = |recording: &Recording| {
        let text = common::all_texts(recording)
            .into_iter()
            .find(|(form, _)| *form == "markdown")
            .unwrap()
            .1;
        text.lines()
            .filter(|line| line.starts_with("| all |"))
            .count()
    };
    assert_eq!(lines(&recording), 1);
    recording.probe.alike = false;
    recording.verdict = recording.judge();
    assert_eq!(lines(&recording), 0);
    assert!(
        recording
            .verdict
            .confidence()
            .unwrap()
            .contains(" on CPU 1")
    );
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
