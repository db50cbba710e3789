//! Two recordings compared, as a user does.

#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use common::{Place, text};
use serde_json::Value;

/// Verbose samples of a thread: a level that is the same all the time, noise of a few
/// microseconds around it.
fn verbose(place: &Place, name: &str, level_us: u64, seed: u64) {
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

fn json(place: &Place, line: &str) -> Value {
    serde_json::from_str(&place.done(line)).unwrap()
}

#[test]
fn histograms_of_another_tool_are_set_against_each_other() {
    let place = Place::new();
    for name in ["cyclictest-2.10-h200.txt", "cyclictest-2.4-h400.txt"] {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/fixtures");
        fs::copy(fixture.join(name), place.path(name)).unwrap();
        place.done(&format!("import {name}"));
    }
    let said = place.done("compare last~1 last");
    // Figures, and that nothing follows from them.
    assert!(
        said.contains("63.0 µs") && said.contains("9.00 µs"),
        "{said}"
    );
    assert!(
        said.starts_with("whether they differ is not known"),
        "{said}"
    );
    assert!(said.contains("it has no time series"), "{said}");
    let comparison = json(&place, "compare last~1 last --json");
    assert_eq!(comparison["change"], "unknown");
    assert_eq!(
        comparison["lanes"][0]["quantiles"][0]["difference_ns"],
        -54_000
    );
    // A gate that cannot tell does not let through.
    place.refused("compare last~1 last --fail-on-worse", 1);
}

#[test]
fn samples_tell_a_shift_and_the_gate_closes() {
    let place = Place::new();
    verbose(&place, "before", 20, 1);
    verbose(&place, "after", 23, 2);
    verbose(&place, "again", 20, 3);
    let said = place.done("compare last~2 last~1 --quantiles p50,90");
    assert!(
        said.starts_with("the candidate is later at p50 by 3.00 µs"),
        "{said}"
    );
    assert!(said.contains("later at p90"), "{said}");
    assert!(
        said.contains("'before'") && said.contains("'after'"),
        "{said}"
    );
    let worse = place.run("compare last~2 last~1 --fail-on-worse");
    assert_eq!(worse.status.code(), Some(3), "{}", text(&worse.stderr));
    // Of the same machine none is found, and an improvement passes.
    let same = json(&place, "compare last~2 last --json --threshold 30us");
    assert_eq!(same["change"], "none_found", "{}", same["summary"]);
    assert!(same["lanes"][0]["rates"][1]["baseline"]["count"].as_u64() > Some(0));
    place.done("compare last~1 last --fail-on-worse");
    // The answer is the same each time.
    let line = "compare last~2 last~1 --json";
    assert_eq!(json(&place, line), json(&place, line));
}

#[test]
fn what_old_scripts_measured_is_compared() {
    let place = Place::new();
    for interval in ["1000", "2000"] {
        place.done(&format!("compat cyclictest -q -t1 -l200 -i{interval}"));
    }
    let said = place.done("compare last~1 last");
    assert!(said.contains("interval: 1.00 ms -> 2.00 ms"), "{said}");
    let comparison = json(&place, "compare last~1 last --json");
    let why = comparison["lanes"][0]["no_blocks"].as_str().unwrap();
    assert!(why.contains("at least 10 are needed"), "{why}");
    let stderr = place.refused("compare last~1 last --fail-on-worse", 1);
    assert!(stderr.contains("measured differently"), "{stderr}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let place = Place::new();
    verbose(&place, "one", 20, 1);
    place.refused("compare last", 2);
    place.refused("compare last nowhere", 1);
    let stderr = place.refused("compare last last --quantiles p200", 2);
    assert!(stderr.contains("p99.9"), "{stderr}");
    place.refused("compare last last --threshold 20", 2);
    let schema = json(&place, "schema comparison");
    assert!(schema["properties"]["lanes"].is_object());
}
