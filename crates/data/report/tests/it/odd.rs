//! Unusual recordings. No output format may fail on any of them.

use crate::common::{self, samples};
use jiff::Timestamp;
use proptest::prelude::*;
use punctual_model::{Cell, Limit, Metric, Nanos, Recording, Table, testing};
use punctual_report::ReportError;
use punctual_report::html::{self, HtmlOptions};
use punctual_report::plot::{self, Kind, PlotOptions};

fn recording_with(latencies: &[i64]) -> Recording {
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
    recording.top_samples.clear();
    recording.interference.cpus.clear();
    recording.host.cpus.clear();
    recording.verdict = recording.requirement.judge(&[]);
    recording
}

/// Same as [`common::measure`], for JSON with arbitrary counts.
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

/// Returns recordings with unusual pairs and labels.
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

pub(crate) fn odd_ones() -> Vec<(&'static str, Recording)> {
    const SECOND: i64 = 1_000_000_000;
    let mut list = vec![
        ("the largest counts", hostile_counts()),
        ("no threads", no_threads()),
        ("no samples", recording_with(&[])),
        ("all early", recording_with(&[-1, -500, -1_000_000])),
        ("one sample", recording_with(&[4_200])),
        ("one of zero", recording_with(&[0])),
        ("all equal", recording_with(&[4_200; 1_000])),
        ("all zero", recording_with(&[0; 1_000])),
        (
            "up to 1000 s",
            recording_with(&[1, 1_000, 1_000 * SECOND - 1]),
        ),
        (
            "beyond the range",
            recording_with(&[5, 1_000 * SECOND, i64::MAX]),
        ),
        ("beyond the range alone", recording_with(&[2_000 * SECOND])),
        (
            "a second, far from zero",
            recording_with(&[SECOND, SECOND + 1_000]),
        ),
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
    edges.top_samples[0].time = Timestamp::MAX;
    edges.top_samples[1].thread = 99;
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
        let options = PlotOptions::default();
        let matrix = (Kind::Matrix.shows(&recording, None))
            .then(|| plot::matrix(&recording, &options).unwrap());
        let bars = (Kind::Bars.shows(&recording, None))
            .then(|| plot::bars(&[&recording, &recording], &options).unwrap());
        for plot in matrix.into_iter().chain(bars) {
            common::parse_xml(&plot.svg());
            assert_eq!(&plot.png(0.5).unwrap()[1..4], b"PNG", "{name}");
        }
    }
}

#[test]
fn heat_map_omissions_are_reported() {
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
fn missing_latencies_omit_plot_and_table() {
    let recording = samples::tables_only(2);
    let error = plot::default_for(&recording, &PlotOptions::default()).unwrap_err();
    assert!(error.to_string().contains("56789abc"), "{error}");
    for (form, out) in common::all_texts(&recording) {
        if form == "svg" {
            continue;
        }
        if form == "certificate" {
            assert!(!out.contains("<svg") && !out.contains("p99"), "{out}");
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
        let has_tables = !["list", "tap", "lava", "kcidb"].contains(&form);
        assert!(!has_tables || out.contains("nvme0q1"), "{form}: {out}");
    }
}

#[test]
fn empty_plot_is_refused_naming_others() {
    let options = PlotOptions::default();
    let timer = testing::recording(2, 3);
    let error = plot::matrix(&timer, &options).unwrap_err().to_string();
    assert_eq!(
        error,
        "recording 56789abc has no pairs of CPUs, so a matrix plot would be empty: \
         choose one of latency, percentiles, timeline, bars"
    );
    let mut imported = testing::recording(1, 1);
    imported.series.rows.clear();
    imported.top_samples.clear();
    let error = plot::timeline(&imported, &options).unwrap_err().to_string();
    assert!(error.contains("no time series"), "{error}");
    assert!(
        error.ends_with("choose one of latency, percentiles, bars"),
        "{error}"
    );
    let tables = samples::tables_only(2);
    for refused in [
        plot::timeline(&tables, &options),
        plot::latency(&[&tables], &options),
        plot::percentiles(&[&tables, &tables], &options),
        plot::bars(&[&recording_with(&[]), &recording_with(&[-5])], &options),
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("has no latencies to plot"), "{error}");
    }
    // With several recordings, one without samples is named in the legend.
    let both = plot::latency(&[&recording_with(&[5_000]), &recording_with(&[])], &options).unwrap();
    assert!(both.svg().contains("  no samples<"));
}

/// Returns the texts of a plot in the colour of limits, with the approximate area of each: left,
/// top, right, bottom.
fn limit_names(svg: &str) -> Vec<(String, [f64; 4])> {
    let value = |tag: &str, name: &str| -> f64 {
        let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    svg.lines()
        .filter(|line| line.starts_with("<text") && line.contains("#a00028"))
        .map(|line| {
            let (tag, text) = line.split_once('>').unwrap();
            let text = text.split('<').next().unwrap().to_owned();
            let (x, y) = (value(tag, "x"), value(tag, "y"));
            let width = text.chars().count() as f64 * 6.0;
            let left = if tag.contains("\"end\"") {
                x - width
            } else {
                x
            };
            (text, [left, y - 9.0, left + width, y + 2.0])
        })
        .collect()
}

#[test]
fn limit_names_do_not_overlap() {
    let recording = samples::close_limits();
    let options = PlotOptions::default();
    for plot in [
        plot::latency(&[&recording], &options).unwrap(),
        plot::percentiles(&[&recording], &options).unwrap(),
        plot::timeline(&recording, &options).unwrap(),
        plot::bars(&[&recording], &options).unwrap(),
    ] {
        let names = limit_names(&plot.svg());
        assert_eq!(names.len(), 5, "{names:?}");
        for (index, (one, a)) in names.iter().enumerate() {
            for (other, b) in &names[index + 1..] {
                let meet = a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
                assert!(!meet, "{one} {a:?} covers {other} {b:?}");
            }
        }
    }
}

#[test]
fn distant_maximum_makes_axis_logarithmic() {
    let scale = |recording: &Recording| {
        let plot = plot::latency(&[recording], &PlotOptions::default()).unwrap();
        plot.svg().contains("log scale")
    };
    assert!(scale(&samples::stalled()));
    let mut far = vec![20_000; 5_000];
    far.push(50_000_000);
    assert!(scale(&recording_with(&far)));
    // A p99 of 30 µs and a maximum of 200 µs are legible on a linear axis.
    let mut usual = vec![20_000; 5_000];
    usual.extend([30_000; 100]);
    usual.push(200_000);
    assert!(!scale(&recording_with(&usual)));
}

#[test]
fn the_legend_names_every_cpu() {
    let options = PlotOptions::default();
    for cpus in [13, 32, 40] {
        let recording = testing::recording(cpus, 2);
        for plot in [
            plot::latency(&[&recording], &options).unwrap(),
            plot::percentiles(&[&recording], &options).unwrap(),
        ] {
            let svg = plot.svg();
            for cpu in 0..cpus {
                let name = format!(">CPU {cpu}  max ");
                assert_eq!(svg.matches(&name).count(), 1, "{name} of {cpus}");
            }
        }
    }
    // If there is not enough space for each maximum, the CPUs are listed.
    let recording = testing::recording(300, 1);
    let svg = plot::latency(&[&recording], &options).unwrap().svg();
    assert!(svg.contains(">296 other CPUs  max ≤ "), "{svg}");
    assert!(svg.contains("-299<"), "{svg}");
}

#[test]
fn axis_ends_at_requested_value() {
    let mut recording = recording_with(&[10_000, 20_000, 30_000, 700_000, 900_000]);
    recording.requirement.limits[0].at_most = 100_000;
    let until = |x_max: u64| PlotOptions {
        x_max: Some(Nanos(x_max)),
        ..PlotOptions::default()
    };
    for scale in [plot::Scale::Linear, plot::Scale::Log] {
        let options = PlotOptions {
            latency_scale: scale,
            ..until(50_000)
        };
        let svg = plot::latency(&[&recording], &options).unwrap().svg();
        assert!(
            svg.contains("2 samples beyond 50.0 µs not drawn, max 900 µs →"),
            "{svg}"
        );
        assert!(svg.contains("limit 100 µs, beyond this axis →"), "{svg}");
        assert!(svg.contains(">50<") && !svg.contains(">100<"), "{svg}");
    }
    let svg = plot::bars(&[&recording], &until(50_000)).unwrap().svg();
    assert!(svg.contains("1 maximum beyond this axis →"), "{svg}");

    let timer = testing::recording(1, 60);
    let svg = plot::timeline(&timer, &until(10_000_000_000))
        .unwrap()
        .svg();
    assert!(svg.contains(">10<") && !svg.contains(">60<"), "{svg}");
    assert!(svg.contains("61.0 s were measured →"), "{svg}");

    let error = plot::latency(&[&recording], &until(5_000)).unwrap_err();
    assert!(error.to_string().contains("10.0 µs"), "{error}");
    assert!(plot::timeline(&timer, &until(0)).is_err());
    let error = plot::percentiles(&[&timer], &until(5_000)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("only valid for latency, timeline and bars"),
        "{error}"
    );
}

#[test]
fn a_timeline_shows_where_phases_begin() {
    let options = PlotOptions::default();
    let recording = samples::phases();
    let svg = plot::timeline(&recording, &options).unwrap().svg();
    assert_eq!(svg.matches(">idle<").count(), 2, "{svg}");
    assert_eq!(svg.matches(">cpu+disk<").count(), 1);
    // Two boundaries with one line each.
    assert_eq!(svg.matches("stroke-dasharray=\"2 3\"").count(), 2);
    // Threads that merely look like phases were measured at the same time.
    let mut beside = samples::phases();
    for row in &mut beside.series.rows {
        row.start_ns = Nanos::from_secs(row.start_ns.0 / 1_000_000_000 % 4);
    }
    let svg = plot::timeline(&beside, &options).unwrap().svg();
    assert!(!svg.contains(">idle<") && !svg.contains("2 3"));
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
            // Width and height are at bytes 16 and 20 of a PNG.
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
        punctual_report::junit::render(&[], punctual_report::junit::CiForm::Junit),
        Err(ReportError::NoRecording)
    ));
}

#[test]
fn threads_measuring_differently_have_no_sum() {
    let mut recording = testing::recording(2, 2);
    let lines = |recording: &Recording| {
        let texts = common::all_texts(recording);
        let with = |wanted: &str, begin: &str| {
            let (_, text) = texts.iter().find(|(form, _)| *form == wanted).unwrap();
            text.lines().filter(|line| line.starts_with(begin)).count()
        };
        // In text for terminals, these are the table and the histogram.
        (with("markdown", "| all |"), with("text 80", "all "))
    };
    assert_eq!(lines(&recording), (1, 2));
    recording.probe.alike = false;
    recording.verdict = recording.judge();
    assert_eq!(lines(&recording), (0, 0));
    let bound = recording.verdict.bound.unwrap();
    assert_eq!(bound.thread.as_deref(), Some("CPU 1"));
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
