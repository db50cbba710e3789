//! Snapshots of each output format. A changed snapshot is a change that users see, so read it
//! before accepting it.

use crate::common::{self, list, markdown_of, samples, summary};
use punctual_model::{
    Blame, CauseSummary, Completion, Explanation, Limit, Metric, Nanos, Outcome, Recording,
    RecordingId, RecordingLine, SamplesKept, Share, Suspension, SuspensionKind, cause, testing,
};
use punctual_report::document::{self, ListRow};
use punctual_report::html::{self, HtmlOptions};
use punctual_report::junit::{self, CiForm};
use punctual_report::plot::{self, PlotOptions};
use punctual_report::text::{self, TextStyle};
use uuid::Uuid;

fn style(width: usize) -> TextStyle {
    TextStyle {
        colour: false,
        width,
    }
}

/// Returns a run with many problems.
fn troubled() -> Recording {
    let mut recording = testing::recording(3, 5);
    recording.completion = Completion::Stopped;
    recording.warnings = vec![
        "measured as SCHED_OTHER: fifo was refused; grant CAP_SYS_NICE or raise RLIMIT_RTPRIO"
            .to_owned(),
    ];
    recording.load[0].ended_early = Some("exit status 2 after 3.10 s".to_owned());
    recording.samples = Some(SamplesKept {
        count: 14_990,
        dropped: 10,
        bytes: 20_000,
    });
    recording.threads[1].accounting.expected += 1;
    common::measure(&mut recording, 2, &[-20, -5, 1_000, 2_000, 250_000]);
    recording.requirement.limits = vec![
        Limit {
            metric: Metric::Max,
            at_most: 200_000,
        },
        Limit {
            metric: Metric::Percentile(99.9),
            at_most: 900_000,
        },
        Limit {
            metric: Metric::Missed,
            at_most: 3,
        },
    ];
    recording.verdict = recording.judge();
    recording.top_samples[0].blame = Some(Blame {
        events_lost: 2,
        ..testing::blame(vec![Share::new(
            testing::interrupt("nvme0q1"),
            Nanos(121_000),
            1,
        )])
    });
    recording
}

#[test]
fn text_at_80_columns() {
    insta::assert_snapshot!(summary(&testing::recording(2, 60), &style(80)));
}

#[test]
fn text_at_120_columns() {
    insta::assert_snapshot!(summary(&testing::recording(2, 60), &style(120)));
}

#[test]
fn text_of_a_troubled_run() {
    insta::assert_snapshot!(summary(&troubled(), &style(80)));
}

/// The short form of a usual run, and of one with everything that it can show.
#[test]
fn short_form_fits_a_screen() {
    let mut recording = troubled();
    let cause = |softirq| CauseSummary {
        source: cause::Source::Softirq(softirq),
        count: 40,
        culprit_in: 40 - u64::from(softirq),
        late_only_by: Some(1),
        total_ns: Nanos(4_000_000),
        max_ns: Nanos(121_000),
        max_outlier: 3,
        words: None,
    };
    recording.explanation = Some(Explanation {
        seen: 40,
        explained: 40,
        causes: (0..6).map(cause).collect(),
        ..Explanation::default()
    });
    recording.warnings = vec!["a warning of the usual length, about the machine".to_owned(); 5];
    let short = text::render(&document::summary(&recording), &style(80));
    insta::assert_snapshot!(short);
    assert!(short.lines().count() <= 34, "{short}");
    for recording in [testing::recording(2, 60), testing::recording(64, 3)] {
        let short = text::render(&document::summary(&recording), &style(80));
        assert!(short.lines().count() <= 24, "{short}");
    }
}

#[test]
fn text_fits_its_width() {
    let mut recordings: Vec<Recording> = [1, 2, 64].map(|cpus| testing::recording(cpus, 3)).into();
    recordings.extend([troubled(), samples::clocks(), samples::wakeup(12, 20)]);
    for recording in &recordings {
        for width in [60, 80, 100, 120] {
            let short = text::render(&document::summary(recording), &style(width));
            for text in [summary(recording, &style(width)), short] {
                for line in text.lines() {
                    assert!(line.chars().count() <= width, "{width}: {line}\n{text}");
                }
            }
        }
    }
}

#[test]
fn colour_changes_nothing_but_the_colour() {
    let plain = summary(&troubled(), &style(80));
    let coloured = TextStyle {
        colour: true,
        width: 80,
    };
    let mut stripped = summary(&troubled(), &coloured);
    assert!(stripped.contains("\x1b[1;31m"));
    for code in ["1", "2", "32", "33", "1;31", "0"] {
        stripped = stripped.replace(&format!("\x1b[{code}m"), "");
    }
    let trimmed: Vec<&str> = stripped.lines().map(str::trim_end).collect();
    assert_eq!(trimmed, plain.lines().collect::<Vec<_>>());
}

#[test]
fn list_of_recordings() {
    let first = RecordingLine::from(&testing::recording(2, 60));
    let second = RecordingLine {
        id: RecordingId(Uuid::from_u128(0x0bad_cafe)),
        headline: "timer, interval 200 µs, fifo 95, CPUs 2-3,8-15".to_owned(),
        duration_ns: Some(Nanos::from_secs(19_980)),
        recorded: 1_198_800_000,
        missed: Some(0),
        max_ns: Some(Nanos(41_200)),
        completion: Completion::Interrupted,
        outcome: Outcome::NoRequirement,
        label: None,
        ..first.clone()
    };
    let third = RecordingLine {
        outcome: Outcome::Exceeded,
        completion: Completion::Break,
        max_ns: None,
        ..first.clone()
    };
    let rows = [first, second, third].map(ListRow::from);
    insta::assert_snapshot!("list at 80 columns", list(&rows, &style(80)));
    insta::assert_snapshot!("list at 140 columns", list(&rows, &style(140)));
    for width in [60, 100] {
        insta::assert_snapshot!(
            format!("list at {width} columns"),
            list(&rows, &style(width))
        );
    }
    let mut of_two = rows.clone();
    of_two[1].line.host = Some("board-with-a-long-name".to_owned());
    of_two[2].line.label = Some("a label of several words, longer than most".to_owned());
    insta::assert_snapshot!(
        "list of two machines at 120 columns",
        list(&of_two, &style(120))
    );
    for width in 60..200 {
        for rows in [&rows, &of_two] {
            let text = list(rows, &style(width));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width} columns:\n{text}");
            assert!(
                width < 80 || text.contains("label"),
                "{width} columns:\n{text}"
            );
        }
        assert!(!list(&rows, &style(width)).contains("host"));
    }
    assert_eq!(list(&[], &style(80)), "no recordings\n");
}

#[test]
fn markdown_of_a_run() {
    insta::assert_snapshot!(markdown_of(&troubled()));
}

#[test]
fn user_stop_is_reported_and_sample_marked() {
    let mut recording = testing::recording(2, 3);
    // The second sample is later than the stop.
    recording.top_samples.truncate(2);
    let largest = &mut recording.top_samples[0];
    largest.latency_ns = Nanos::from_millis(1_010);
    recording.suspensions = vec![Suspension {
        kind: SuspensionKind::StoppedBySignal,
        started: largest.time,
        from_monotonic_ns: largest.monotonic_ns,
        until_monotonic_ns: largest.monotonic_ns + largest.latency_ns,
        length_ns: largest.latency_ns,
    }];
    for shown in [summary(&recording, &style(80)), markdown_of(&recording)] {
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let told = "stopped by a signal (Ctrl-Z) for about 1.01 s at ";
        assert!(words.contains(told), "{shown}");
        assert_eq!(words.matches(", suspended").count(), 1, "{shown}");
    }
}

#[test]
fn junit_of_two_runs() {
    let good = testing::recording(1, 3);
    let mut free = testing::recording(1, 3);
    free.requirement.limits.clear();
    free.verdict = free.judge();
    let mut empty = testing::recording(1, 3);
    common::measure(&mut empty, 0, &[]);
    let xml = junit::render(&[&good, &troubled(), &free, &empty], CiForm::Junit).unwrap();
    common::parse_xml(&xml);
    let held = r#"<testsuite name="timer, interval 1.00 ms, fifo 95, CPU 0 (56789abc)" tests="1" skipped="0" errors="0" failures="0""#;
    assert_eq!(xml.matches(held).count(), 1);
    assert!(xml.contains(r#"failures="1""#) && xml.contains(r#"type="requirement not decidable""#));
    insta::assert_snapshot!(without(&xml, "<system-out>", "</system-out>", "…"));
}

#[test]
fn html_of_a_run() {
    let page = html::render(&[troubled()], &HtmlOptions::default()).unwrap();
    for elsewhere in ["<script", "src=", "@import", "url("] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    let page = without(&page, "<svg", "</svg>", "[plot]");
    let page = without(&page, "<style>", "</style>", "[style]");
    insta::assert_snapshot!(page.replace("><", ">\n<"));
}

#[test]
fn html_of_two_runs_begins_with_both() {
    let page = html::render(
        &[testing::recording(1, 3), troubled()],
        &HtmlOptions {
            title: Some("Before & after".to_owned()),
            ..HtmlOptions::default()
        },
    )
    .unwrap();
    assert!(page.contains("<title>Before &amp; after</title>"));
    assert_eq!(page.matches("<svg").count(), 2 + 2 * 3);
}

#[test]
fn golden_svg_of_the_latency_plot() {
    let recording = testing::recording(2, 60);
    let svg = plot::latency(&[&recording], &PlotOptions::default())
        .unwrap()
        .svg();
    insta::assert_snapshot!(svg);
}

#[test]
fn golden_svg_of_the_timeline() {
    let svg = plot::timeline(&troubled(), &PlotOptions::default())
        .unwrap()
        .svg();
    insta::assert_snapshot!(svg);
}

#[test]
fn golden_svg_of_the_percentiles() {
    let recording = troubled();
    let svg = plot::percentiles(&[&recording], &PlotOptions::default())
        .unwrap()
        .svg();
    insta::assert_snapshot!(svg);
}

#[test]
fn golden_svg_of_the_matrix() {
    let recording = samples::wakeup(4, 2_000);
    let svg = plot::default_for(&recording, &PlotOptions::default())
        .unwrap()
        .svg();
    for pair in ["from CPU", "to CPU", "median [µs]", ">2.37<"] {
        assert!(svg.contains(pair), "{pair}");
    }
    insta::assert_snapshot!(svg);
}

#[test]
fn golden_svg_of_the_bars() {
    let svg = plot::default_for(&samples::clocks(), &PlotOptions::default())
        .unwrap()
        .svg();
    assert!(svg.contains(">MONOTONIC_RAW  24 ns<"), "{svg}");
    insta::assert_snapshot!(svg);
}

#[test]
fn probe_decides_the_default_plot() {
    let options = PlotOptions::default();
    let timer = testing::recording(2, 3);
    assert_eq!(
        plot::default_for(&timer, &options).unwrap().svg(),
        plot::latency(&[&timer], &options).unwrap().svg()
    );
    let wakeup = samples::wakeup(2, 200);
    let one = PlotOptions {
        thread: Some(1),
        ..options.clone()
    };
    assert_eq!(
        plot::default_for(&wakeup, &one).unwrap().svg(),
        plot::latency(&[&wakeup], &one).unwrap().svg()
    );
    // With one thread selected, the heat map has one pair of its two CPUs.
    let svg = plot::matrix(&wakeup, &one).unwrap().svg();
    assert!(svg.contains("CPU 0 to CPU 1 · ") && svg.contains("grey: not measured"));
}

#[test]
fn bars_of_several_recordings_meet_by_label() {
    let before = samples::inversion(1.0);
    let mut after = samples::inversion(0.5);
    after.label = Some("after".to_owned());
    after.threads.reverse();
    after.threads[0].label = Some("another way".to_owned());
    let svg = plot::bars(&[&before, &after], &PlotOptions::default())
        .unwrap()
        .svg();
    for name in [
        "plain mutex",
        "priority inheritance",
        "another way",
        "after",
    ] {
        assert_eq!(svg.matches(&format!(">{name}<")).count(), 1, "{name}");
    }
}

#[test]
fn bars_without_room_are_told() {
    let recording = samples::labels(64);
    let svg = plot::bars(&[&recording], &PlotOptions::default())
        .unwrap()
        .svg();
    assert!(
        svg.contains(">the 27 of 64 with the largest maximum<"),
        "{svg}"
    );
    // A page has space for all.
    let page = html::render(&[recording], &HtmlOptions::default()).unwrap();
    assert!(!page.contains("of 64 with the largest maximum"));
    assert!(page.contains(">way 63 of doing it  "));
}

#[test]
fn text_of_the_clocks() {
    insta::assert_snapshot!(summary(&samples::clocks(), &style(80)));
}

#[test]
fn text_of_tables_alone() {
    let text = summary(&samples::tables_only(8), &style(80));
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    insta::assert_snapshot!(text);
}

#[test]
fn markdown_of_the_clocks() {
    let markdown = markdown_of(&samples::clocks());
    let (head, _) = markdown.split_once("## Run").unwrap();
    insta::assert_snapshot!(head);
}

#[test]
fn html_of_the_clocks() {
    let page = html::render(&[samples::clocks()], &HtmlOptions::default()).unwrap();
    let page = without(&page, "<svg", "</svg>", "[plot]");
    let page = without(&page, "<style>", "</style>", "[style]");
    let (head, _) = page.split_once("<h2>Run</h2>").unwrap();
    insta::assert_snapshot!(head.replace("><", ">\n<"));
}

#[test]
fn text_shows_largest_of_many_threads() {
    let text = summary(&samples::wakeup(12, 20), &style(80));
    assert!(text.contains("of 144 threads, the 20 with the largest maxima:"));
    assert_eq!(text.matches("\nCPU ").count(), 20);
    assert!(text.contains("\nall "));
}

#[test]
fn rows_beyond_the_fortieth_are_counted() {
    let mut recording = samples::tables_only(1);
    let row = recording.tables[0].rows[1].clone();
    recording.tables[0].rows = vec![row; 43];
    let text = summary(&recording, &style(80));
    assert_eq!(text.matches("24 nvme0q1").count(), 40);
    assert!(text.contains("\nand 3 further rows\n"), "{text}");
}

#[test]
fn plots_stay_small_with_64_cpus() {
    let matrix = plot::matrix(&samples::wakeup(64, 2), &PlotOptions::default()).unwrap();
    assert!(matrix.svg().len() < 200_000, "{}", matrix.svg().len());

    let recording = testing::recording(64, 20);
    for plot in common::plots(&recording) {
        let svg = plot.svg();
        assert!(svg.len() < 200_000, "{}", svg.len());
        assert!(!svg.contains("font-face"));
    }
}

#[test]
fn of_many_cpus_the_largest_are_named() {
    let mut recording = testing::recording(20, 5);
    common::measure(&mut recording, 13, &[1_000, 777_000]);
    let svg = plot::latency(&[&recording], &PlotOptions::default())
        .unwrap()
        .svg();
    assert!(svg.contains(">CPU 13  max 777 µs<"), "{svg}");
    assert!(svg.contains(">16 other CPUs  max ≤ 150 µs<"), "{svg}");
    // The other bars are small and grey.
    let other = "font-size=\"11\" fill=\"#555555\">CPU 0  max";
    assert!(svg.contains(other), "{svg}");
}

#[test]
fn a_thread_can_be_picked() {
    let recording = testing::recording(3, 5);
    let options = PlotOptions {
        thread: Some(2),
        ..PlotOptions::default()
    };
    let svg = plot::timeline(&recording, &options).unwrap().svg();
    assert!(svg.contains("CPU 2 · bench-7"), "{svg}");
    // The missed periods were on CPU 0.
    assert!(!svg.contains("missed period"), "{svg}");
    let svg = plot::latency(&[&recording], &options).unwrap().svg();
    assert!(svg.contains(">CPU 2  max 150 µs<"), "{svg}");
    let options = PlotOptions {
        thread: Some(3),
        ..PlotOptions::default()
    };
    let error = plot::timeline(&recording, &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "thread 3 does not exist: thread numbers start at 0, and the number of threads is 3"
    );
}

#[test]
fn a_limit_out_of_sight_is_told() {
    let mut recording = testing::recording(1, 5);
    recording.requirement.limits[0].at_most = 50_000_000;
    let svg = plot::latency(&[&recording], &PlotOptions::default())
        .unwrap()
        .svg();
    assert!(svg.contains("limit 50.0 ms, beyond this axis →"), "{svg}");
}

/// Replaces each part of `text` from `from` to `to` with `by`.
fn without(text: &str, from: &str, to: &str, by: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(from) {
        out.push_str(&rest[..start]);
        out.push_str(by);
        rest = rest[start..]
            .find(to)
            .map_or("", |end| &rest[start + end + to.len()..]);
    }
    out.push_str(rest);
    out
}
