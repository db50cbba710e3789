//! Called by the names of the tools beside cyclictest: their files and exit
//! status, and what other people's scripts make of them.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{Place, assert_conserved, text};
use serde_json::Value;

/// The tools, how they are called, and a file that the original wrote of two
/// threads, or of one.
const TOOLS: [(&str, &str, &str); 6] = [
    (
        "signaltest",
        "-t 2 -l 40",
        include_str!("../../compat/tests/fixtures/sig-2.4.json"),
    ),
    (
        "ptsematest",
        "-t 2 -l 40",
        include_str!("../../compat/tests/fixtures/ptse-2.4.json"),
    ),
    (
        "svsematest",
        "-t 2 -a -l 40",
        include_str!("../../compat/tests/fixtures/svse-2.4.json"),
    ),
    (
        "sigwaittest",
        "-l 40",
        include_str!("../../compat/tests/fixtures/sigw-2.4.json"),
    ),
    (
        "pmqtest",
        "-t 2 -l 40",
        include_str!("../../compat/tests/fixtures/pmq-2.4.json"),
    ),
    (
        "oslat",
        "-D 1 -c 0",
        include_str!("../../compat/tests/fixtures/oslat-2.10.json"),
    ),
];

/// The lines of a JSON file without their values, of the first thread, with
/// buckets as one.
fn keys(file: &str) -> Vec<String> {
    let lines = file.lines().map(|line| line.split(':').next().unwrap());
    let until = lines.take_while(|line| *line != "    \"1\"" && *line != "  \"punctual\"");
    let mut keys: Vec<String> = until
        .filter(|line| line.trim() != "}" && line.trim() != "},")
        .map(|line| match line.strip_prefix("        \"") {
            Some(rest) if rest.starts_with(|first: char| first.is_ascii_digit()) => {
                "bucket".to_owned()
            }
            _ => line.to_owned(),
        })
        .collect();
    keys.dedup();
    keys
}

#[test]
fn json_has_the_originals_keys_in_their_order() {
    for (tool, line, original) in TOOLS {
        let place = Place::new();
        place.done(&format!("compat {tool} {line} -q --json=out.json"));
        let file = fs::read_to_string(place.path("out.json")).unwrap();
        assert_eq!(keys(&file), keys(original), "{tool}");
        // As scripts read them.
        let read: Value = serde_json::from_str(&file).unwrap();
        let threads = read["thread"].as_object().unwrap();
        assert_eq!(read["num_threads"], threads.len(), "{tool}");
        assert_eq!(read["return_code"], 0, "{tool}");
        assert!(threads.contains_key("0"), "{tool}");
        let recording = place.last();
        if tool != "oslat" {
            assert_conserved(&recording);
        }
        assert_eq!(read["punctual"]["recording"], recording.id.to_string());
    }
}

#[test]
fn lines_are_what_scripts_look_for() {
    let place = Place::new();
    let out = place.done("compat ptsematest -t 2 -a -l 300 -q");
    // `grep -- '->' | sed` for the maxima.
    let maxima: Vec<u64> = (out.lines().filter(|line| line.contains("->")))
        .map(|line| line.rsplit("Max ").next().unwrap().trim().parse().unwrap())
        .collect();
    assert_eq!(maxima.len(), 2, "{out}");
    let first = out.lines().next().unwrap();
    assert!(
        first.starts_with("#0: ID") && first.ends_with(", Cycles 300"),
        "{out}"
    );
    assert!(first.contains(", P0, CPU0, I1000; #1: ID"), "{out}");
    let out = place.done("compat signaltest -t 3 -l 20 -q");
    let fields: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(fields.len(), 3, "{out}");
    // awk of rteval-like scripts: the value after `Max:` is the last field.
    assert!(
        fields
            .iter()
            .all(|line| line.last().unwrap().parse::<u64>().is_ok()),
        "{out}"
    );
    assert!(out.starts_with("T: 0 ("), "{out}");
}

/// The limit changes the call, and neither lines nor keys.
#[test]
fn messages_are_waited_for_with_a_limit() {
    let place = Place::new();
    let out = place.done("compat pmqtest -T 5 -l 50 -q --json=out.json");
    let first = out.lines().next().unwrap();
    assert!(first.ends_with(", TO 0, Cycles 50"), "{out}");
    let file = fs::read_to_string(place.path("out.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(file["thread"]["0"]["receiver"]["timeoutcount"], 0);
    let recording = place.last();
    assert_conserved(&recording);
    assert_eq!(
        recording.probe.parameters["timeout_ns"],
        Value::from(5_000_000_000_u64)
    );
}

#[test]
fn a_break_is_said_and_strict_is_told_by_the_status() {
    let place = Place::new();
    let call = "compat sigwaittest -b 1 -i 500 -D 20 -q";
    let output = place.run(call);
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(said.contains("stopped at a break"), "{said}");
    let strict = place
        .command(call)
        .env("PUNCTUAL_STRICT", "1")
        .output()
        .unwrap();
    assert_eq!(strict.status.code(), Some(3));
}

#[test]
fn what_they_do_not_take_ends_with_the_usage() {
    let place = Place::new();
    for (call, says) in [
        ("compat ptsematest -i 1ms", "'1ms' is not a whole number"),
        ("compat pmqtest -T 1 -f 2", "not supported"),
        ("compat svsematest -f", "not supported"),
        ("compat signaltest -t 1", "a ring has 2 to 64 threads"),
        ("compat oslat -w sleep", "is not a workload"),
        ("compat cyclicdeadline -i 1", "deadlines are from 100"),
        ("compat hwlatdetect --duration 1y", "is not a time"),
    ] {
        let said = place.refused(call, 1);
        assert!(
            said.contains(says) && said.contains("Usage:"),
            "{call}: {said}"
        );
    }
}

#[test]
fn deadline_threads_are_measured_or_refused_with_the_reason() {
    let place = Place::new();
    let output = place.run("compat cyclicdeadline -a -t 1 -i 5000 -D 1 -q --json=-");
    let out = text(&output.stdout);
    if output.status.code() != Some(0) {
        punctual_testing::skip!(
            "no deadline thread is admitted here: {}",
            text(&output.stderr)
        );
        return;
    }
    assert!(out.starts_with("Using all CPUS\nT: 0 ("), "{out}");
    let (lines, json) = out.split_once("{\n").unwrap();
    assert!(lines.contains(" I:5000 C:"), "{out}");
    let read: Value = serde_json::from_str(&format!("{{{json}")).unwrap();
    assert_eq!(read["resolution_in_ns"], 0);
    assert!(read["thread"]["0"]["cycles"].as_u64().unwrap() > 0);
    assert_conserved(&place.last());
}

#[test]
fn the_kernels_detector_is_used_or_said_to_be_missing() {
    let place = Place::new();
    let output = place.run("compat hwlatdetect --duration 1 --window 100ms --width 10ms");
    match output.status.code() {
        Some(1) if output.stdout.is_empty() => {
            let said = text(&output.stderr);
            assert!(said.contains("hwlat"), "{said}");
            punctual_testing::skip!("{said}");
        }
        _ => {
            let out = text(&output.stdout);
            assert!(
                out.starts_with("hwlatdetect:  test duration 1 seconds\n"),
                "{out}"
            );
            assert!(out.contains("\nSamples recorded: "), "{out}");
        }
    }
}
