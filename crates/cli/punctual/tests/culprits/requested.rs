//! `--event`: an additional event is recorded and shown with the outliers.

use std::process::Command;

use crate::common::{Sandbox, text};
use crate::stage::Stage;
use punctual_model::Recording;
use punctual_testing::Running;

/// An event that explanations do not need, so it is not recorded without `--event`.
const NAME: &str = "raw_syscalls:sys_exit";

/// Asserts that the outliers of the last recording show the event. Returns the recording.
fn assert_shown(place: &Sandbox, name: &str) -> Recording {
    let recording = place.last();
    let found = recording.explanation.as_ref().unwrap();
    assert_eq!(found.requested_events, [name]);
    let event = name.split('/').next().unwrap();
    let json = place.done("explain last --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let outliers = json["outliers"].as_array().unwrap();
    let shown = outliers.iter().find_map(|outlier| {
        let events = outlier["window"]["events"].as_array()?;
        let requested = |one: &&serde_json::Value| one["k"]["requested"]["name"] == event;
        let first = events.iter().find(requested)?;
        let fields = first["k"]["requested"]["fields"].as_str().unwrap();
        assert!(fields.contains('='), "{fields}");
        Some(outlier["outlier"]["number"].as_u64().unwrap())
    });
    let number = shown.unwrap_or_else(|| panic!("no outlier has {event}: {json:#}"));
    for outlier in &found.outliers {
        let sum: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, outlier.latency_ns.0, "{:?}", outlier.blame);
    }
    let shown = place.done(&format!("explain last --outlier {number} --all-events"));
    assert!(
        shown.contains(event) && shown.contains("* requested by --event"),
        "{shown}"
    );
    recording
}

/// Asserts that the exported trace contains the event in the only buffer that Perfetto reads.
fn assert_exported(place: &Sandbox, name: &str) {
    place.done("export -f trace-dat -o trace.dat");
    let reported = Command::new("trace-cmd")
        .args(["report", "-N", "-i"])
        .arg(place.path("trace.dat"))
        .output();
    let reported = match reported {
        Ok(output) => text(&output.stdout),
        Err(error) => {
            punctual_testing::skip!(Program, "trace-cmd report: {error}");
            return;
        }
    };
    let (_, event) = name.split_once(':').unwrap();
    assert!(reported.contains(&format!(" {event}: ")), "{reported}");
    let line = |line: &&str| line.contains("]") && line.contains(": ");
    let time = |line: &str| {
        let word = line
            .split(']')
            .nth(1)?
            .split_whitespace()
            .find(|word| word.contains('.'))?;
        word.trim_end_matches(':').parse::<f64>().ok()
    };
    let times: Vec<f64> = reported.lines().filter(line).filter_map(time).collect();
    assert!(times.len() > 1 && times.is_sorted(), "{reported}");
}

#[test]
fn requested_event_is_shown_with_outliers() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    place.done(&format!(
        "measure timer -q --policy other --dma-latency off --explain --threshold 1us -D 400ms \
         --event {NAME}"
    ));
    assert_shown(&place, NAME);
    assert_exported(&place, NAME);
    place.done("report last -o report.html");
    let page = std::fs::read_to_string(place.path("report.html")).unwrap();
    assert!(page.contains("--event") && page.contains(NAME), "no mark");
}

/// The event is recorded by BPF programs and by the kernel's tracer.
#[test]
fn requested_event_is_shown_for_jobs() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let app = Command::new("sh")
        .args(["-c", "while :; do sleep 0.01; done"])
        .spawn();
    let app = Running(app.unwrap());
    let pid = app.0.id();
    for how in ["", "--no-bpf"] {
        let event = format!("raw_syscalls:sys_enter/common_pid == {pid}/");
        let mut command = place.command(&format!(
            "explain --pid {pid} -q --detail full --budget 1us --release wait4 -D 700ms {how}"
        ));
        let output = command.args(["--event", &event]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_shown(&place, &event);
        assert_exported(&place, "raw_syscalls:sys_enter");
    }
}

#[test]
fn unrecordable_event_is_refused_with_reason() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let measure = "measure timer -q -D 300ms --explain --threshold 1us --event";
    for (event, expected) in [
        ("sched:sched_swich", "did you mean sched:sched_switch"),
        ("sched:sched_switch/prev_pd==1/", "Field not found"),
        ("sched", "use SYSTEM:EVENT"),
    ] {
        let told = place.refused(&format!("{measure} {event}"), 2);
        assert!(told.contains(expected), "{told}");
        let told = place.refused(&format!("explain --pid 1 -D 300ms --event {event}"), 2);
        assert!(told.contains(expected), "{told}");
    }
    // An event cannot be added to an existing recording. If there are no outliers, no event is
    // shown.
    let told = place.refused("explain last --event irq:irq_handler_entry", 2);
    assert!(
        told.contains("--event applies only to a running application"),
        "{told}"
    );
    place.refused("measure timer -D 300ms --event irq:irq_handler_entry", 2);
}
