//! cyclicdeadline.

use serde_json::Value;

use crate::common::{Sandbox, assert_conserved, text};

#[test]
fn deadline_threads_are_measured_or_refusal_explained() {
    let place = Sandbox::new();
    let output = place.run("compat cyclicdeadline -a -t 1 -i 5000 -D 1 -q --json=-");
    let out = text(&output.stdout);
    if output.status.code() != Some(0) {
        punctual_testing::skip_refused("no deadline thread is admitted here", text(&output.stderr));
        return;
    }
    assert!(out.starts_with("Using all CPUS\nT: 0 ("), "{out}");
    let (lines, json) = out.split_once("{\n").unwrap();
    assert!(lines.contains(" I:5000 C:"), "{out}");
    let read: Value = serde_json::from_str(&format!("{{{json}")).unwrap();
    assert_eq!(read["resolution_in_ns"], 0);
    // The run has 200 periods, and none of them may be lost while the phase is detected.
    let cycles = read["thread"]["0"]["cycles"].as_u64().unwrap();
    let missed = place.last().threads[0].accounting.missed;
    assert!(
        (190..=202).contains(&(cycles + missed)),
        "{cycles} and {missed}"
    );
    assert_conserved(&place.last());
}

#[test]
fn long_deadlines_short_runs_units_are_accepted() {
    let place = Sandbox::new();
    for line in [
        "-i 500000 -D 1 --histogram=50us",
        "-i 2s -D 1",
        "-i 100us -s 0us -D 1",
    ] {
        let line = format!("compat cyclicdeadline {line} -t 1 -q -a");
        let output = place.run(&line);
        let said = text(&output.stderr);
        if output.status.code() != Some(0) && said.contains("SCHED_DEADLINE") {
            punctual_testing::skip_refused("no deadline thread is admitted here", &said);
            return;
        }
        assert_eq!(output.status.code(), Some(0), "{line}: {said}");
        assert_conserved(&place.last());
    }
}
