//! Tests of `compare` with two or more recordings.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::common::{Sandbox, text};
use serde_json::Value;

/// Imports verbose samples of one thread. They have a constant level with a noise of a few
/// microseconds.
fn verbose(place: &Sandbox, name: &str, level_us: u64, seed: u64) {
    let mut state = seed;
    let mut lines = String::new();
    for cycle in 0..24_000u64 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let us = level_us + (state >> 33) % 17;
        writeln!(lines, "{:8}:{cycle:8}:{us:8}", 0).unwrap();
    }
    fs::write(place.path(name), lines).unwrap();
    place.done(&format!("import {name} --label {name}"));
}

/// Returns the length, in ns, of a row in the time series of the last recording.
fn row_length(place: &Sandbox) -> u64 {
    place.last().series.interval_ns.0
}

fn json(place: &Sandbox, line: &str) -> Value {
    serde_json::from_str(&place.done(line)).unwrap()
}

#[test]
fn histograms_of_other_tools_are_compared() {
    let place = Sandbox::new();
    for name in ["cyclictest-2.10-h200.txt", "cyclictest-2.4-h400.txt"] {
        let fixture =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/formats/tests/fixtures");
        fs::copy(fixture.join(name), place.path(name)).unwrap();
        place.done(&format!("import {name}"));
    }
    let said = place.done("compare last~1 last");
    // The output has the figures, and states that they are inconclusive.
    assert!(
        said.contains("63.0 µs") && said.contains("9.00 µs"),
        "{said}"
    );
    assert!(said.starts_with("baseline has no time series"), "{said}");
    assert_eq!(said.matches("no time series").count(), 1, "{said}");
    assert!(said.contains("inconclusive: p50 (x 0.14 here)"), "{said}");
    let comparison = json(&place, "compare last~1 last --json");
    assert_eq!(comparison["change"], "unknown");
    assert_eq!(
        comparison["channels"][0]["quantiles"][0]["difference_ns"],
        -54_000
    );
    // If the comparison is inconclusive, the gate fails.
    let said = place.refused("compare last~1 last --fail-on-worse", 4);
    assert!(said.contains("not proven"), "{said}");
}

#[test]
fn shift_in_samples_closes_the_gate() {
    let place = Sandbox::new();
    verbose(&place, "before", 20, 1);
    verbose(&place, "after", 23, 2);
    verbose(&place, "again", 20, 3);
    let said = place.done("compare last~2 last~1 --quantiles p50,90");
    assert!(
        said.starts_with("candidate: p50 higher by 3.00 µs"),
        "{said}"
    );
    assert!(said.contains("p90 higher by"), "{said}");
    assert!(
        said.contains("'before'") && said.contains("'after'"),
        "{said}"
    );
    let worse = place.run("compare last~2 last~1 --fail-on-worse");
    assert_eq!(worse.status.code(), Some(3), "{}", text(&worse.stderr));
    // No difference is found on the same machine, and an improvement passes the gate.
    let same = json(&place, "compare last~2 last --json --threshold 30us");
    let change = same["change"].as_str().unwrap();
    assert!(
        ["none_found", "unknown"].contains(&change),
        "{}",
        same["summary"]
    );
    assert!(same["channels"][0]["rates"][1]["baseline"]["count"].as_u64() > Some(0));
    place.done("compare last~1 last --fail-on-worse");
    // The result is reproducible.
    let line = "compare last~2 last~1 --json";
    assert_eq!(json(&place, line), json(&place, line));
}

#[test]
fn what_old_scripts_measured_is_compared() {
    let place = Sandbox::new();
    for interval in ["1000", "2000"] {
        place.done(&format!("compat cyclictest -q -t1 -l30 -i{interval}"));
    }
    let said = place.done("compare last~1 last");
    assert!(said.contains("interval: 1.00 ms -> 2.00 ms"), "{said}");
    let comparison = json(&place, "compare last~1 last --json");
    let why = comparison["channels"][0]["no_blocks"].as_str().unwrap();
    assert!(why.contains("at least 10 are needed"), "{why}");
    // The reason is printed only once, in the first line. It includes the run length that is
    // needed.
    let first = said.lines().next().unwrap();
    assert!(
        first.contains("10 are needed; measure ") && first.contains(".00 s or longer"),
        "{said}"
    );
    // If a run of 200 ms ends after a given number of samples, its rows have a length of 50 ms.
    let row = row_length(&place);
    assert_eq!(row, 50_000_000, "{row}");
    assert_eq!(said.matches("10 are needed").count(), 1, "{said}");
    let stderr = place.refused("compare last~1 last --fail-on-worse", 1);
    assert!(stderr.contains("measured differently"), "{stderr}");
}

#[test]
fn several_runs_a_side_are_the_unit() {
    let place = Sandbox::new();
    // The runs alternate, and the samples of the candidate are 4 µs later.
    for nth in 0..4 {
        verbose(&place, &format!("a{nth}"), 20, 10 + nth);
        verbose(&place, &format!("b{nth}"), 24, 20 + nth);
    }
    let side = |first: u64, runs: u64| -> String {
        let each = (0..runs).map(|nth| format!("last~{}", first - 2 * nth));
        each.collect::<Vec<_>>().join(" ")
    };
    let line = format!("compare {} --with {}", side(7, 4), side(6, 4));
    let said = place.done(&line);
    assert!(said.starts_with("candidate: p50 higher by"), "{said}");
    assert!(
        said.contains("4 runs (") && said.contains("70 arrangements"),
        "{said}"
    );
    place.refused(&format!("{line} --fail-on-worse"), 3);
    // With three runs per side, the output claims nothing and states the number that is needed.
    let line = format!("compare {} --with {}", side(7, 3), side(6, 3));
    let said = place.done(&line);
    assert!(said.starts_with("too few runs"), "{said}");
    let comparison = json(&place, &format!("{line} --json"));
    assert_eq!(comparison["shortfalls"][0]["runs"], 4);
    assert_eq!(comparison["unit"], "run");
    place.refused(&format!("{line} --fail-on-worse"), 4);
    let said = place.refused("compare last~2 last~1 last", 2);
    assert!(said.contains("--with"), "{said}");
}

#[test]
fn a_report_of_two_contains_their_comparison() {
    let place = Sandbox::new();
    verbose(&place, "before", 20, 1);
    verbose(&place, "after", 23, 2);
    for ending in ["html", "md", "txt"] {
        place.done(&format!("report last~1 last -o two.{ending}"));
        let page = fs::read_to_string(place.path(&format!("two.{ending}"))).unwrap();
        assert!(
            page.contains("candidate: p50 higher by 3.00 µs"),
            "{ending}"
        );
        assert!(page.contains("95% interval"), "{ending}");
        place.done(&format!("report last -o one.{ending}"));
        let page = fs::read_to_string(place.path(&format!("one.{ending}"))).unwrap();
        assert!(!page.contains("95% interval"), "{ending}");
    }
    // The report states the reason why the recordings cannot be compared.
    place.done("measure signal -D 300ms -q --policy other --dma-latency off");
    place.done("report last~1 last -o two.md");
    let page = fs::read_to_string(place.path("two.md")).unwrap();
    assert!(page.contains("Not compared: "), "{page}");
}

/// Two runs of ten seconds each have enough rows to be compared.
#[test]
fn a_run_of_seconds_has_rows_enough() {
    let place = Sandbox::new();
    for _ in 0..2 {
        place.done("measure timer -D 3s -q --policy other --dma-latency off --cpus 0");
    }
    let recording = place.last();
    let rows = recording.series.rows.len();
    assert!(rows >= 20, "{rows} rows");
    assert_eq!(recording.tune.as_deref(), Some("none"));
    let comparison = json(&place, "compare last~1 last --json");
    let blocks = &comparison["channels"][0]["blocks"];
    assert!(
        blocks[0].as_u64() >= Some(10) && blocks[1].as_u64() >= Some(10),
        "{blocks}"
    );
    let said = place.done("compare last~1 last");
    assert!(said.contains("no tune"), "{said}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let place = Sandbox::new();
    verbose(&place, "one", 20, 1);
    place.refused("compare last", 2);
    place.refused("compare last nowhere", 1);
    let stderr = place.refused("compare last last --quantiles p200", 2);
    assert!(stderr.contains("p99.9"), "{stderr}");
    place.refused("compare last last --threshold 20", 2);
    let schema = json(&place, "schema comparison");
    assert!(schema["properties"]["channels"].is_object());
}
