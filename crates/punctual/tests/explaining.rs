//! `punctual measure --explain` and `punctual trace`, as a user runs them, on
//! this machine.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::path::PathBuf;

use common::{Place, assert_conserved, eventually, signal, text};
use punctual_model::{Completion, Nanos, Recording};

/// Everything is late: there is always something to explain.
const RUN: &str = "measure timer -q --policy other --dma-latency off --explain";

/// Whether the kernel lets us record.
fn may_trace(place: &Place) -> bool {
    let output = place.run(&format!("{RUN} --threshold 10s -D 300ms"));
    let able = output.status.code() == Some(0);
    if !able {
        eprintln!("SKIP explaining: {}", text(&output.stderr));
    } else {
        place.done("delete last");
    }
    able
}

/// The trace instances of runs of ours that are there, whoever mounted tracefs.
fn instances() -> Vec<String> {
    let command = "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; \
                   ls /sys/kernel/tracing/instances";
    let output = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", command])
        .output()
        .unwrap();
    let names = text(&output.stdout);
    let ours = |name: &&str| name.starts_with("punctual-flight-");
    names.lines().filter(ours).map(str::to_owned).collect()
}

fn of(pid: u32) -> Vec<String> {
    let own = format!("punctual-flight-{pid}.");
    let all = instances().into_iter();
    all.filter(|name| name.starts_with(&own)).collect()
}

/// What was found out, which must hold together.
fn assert_explained(recording: &Recording) {
    assert_conserved(recording);
    let found = recording.explanation.as_ref().unwrap();
    assert!(found.explained > 0 && found.explained <= found.seen);
    assert!(!found.outliers.is_empty() && !found.causes.is_empty());
    for outlier in &found.outliers {
        assert!(outlier.latency_ns > found.threshold_ns);
        let sum: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, outlier.latency_ns.0, "{outlier:?}");
        assert!(!outlier.blame.sentence.is_empty());
    }
    for name in ["sched:sched_switch", "sched:sched_waking"] {
        assert!(found.events.iter().any(|event| event == name), "{name}");
    }
    // Each event that is known is recorded or missing: that of a tracer, which
    // some kernels have, too.
    let known = found.events.iter().chain(&found.missing_events);
    assert_eq!(known.filter(|name| *name == "osnoise:irq_noise").count(), 1);
}

#[test]
fn outliers_are_explained_and_the_run_goes_on() {
    let place = Place::new();
    if !may_trace(&place) {
        return;
    }
    place.done(&format!("{RUN} --threshold 1us -D 1s --interval 5ms"));
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Finished);
    assert_explained(&recording);
    let worst = &recording.worst[0];
    assert!(worst.blame.is_some(), "{worst:?}");

    let note = text(&place.run("trace export -o all.dat").stderr);
    assert!(note.contains("trace-cmd report"), "{note}");
    let first = recording.explanation.as_ref().unwrap().outliers[0].number;
    place.done(&format!("trace export --outlier {first} -o one.dat"));
    let file = |name: &str| std::fs::metadata(place.path(name)).unwrap().len();
    assert!(file("one.dat") < file("all.dat"));
    let reported = std::process::Command::new("trace-cmd")
        .args(["report", "-i"])
        .arg(place.path("one.dat"))
        .output();
    match reported {
        Ok(output) => assert!(text(&output.stdout).contains("sched_switch"), "{output:?}"),
        Err(error) => eprintln!("SKIP trace-cmd report: {error}"),
    }
    let error = place.refused("trace export --outlier 4294967296", 2);
    assert!(
        error.contains(&format!("those whose are: {first}")),
        "{error}"
    );
}

#[test]
fn a_break_stops_at_the_first_and_keeps_its_trace() {
    let place = Place::new();
    if !may_trace(&place) {
        return;
    }
    let output = place.run(&format!("{RUN}=full --break 1us -D 10m --interval 5ms"));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Break);
    assert_explained(&recording);
    let found = recording.explanation.unwrap();
    assert_eq!(found.threshold_ns, Nanos::from_micros(1));
    assert!(found.events.contains(&"timer:hrtimer_start".to_owned()));
    place.done("trace export");
    assert!(place.path("trace.dat").exists());
}

#[test]
fn nothing_is_left_behind_however_it_ends() {
    let place = Place::new();
    if !may_trace(&place) {
        return;
    }
    for name in ["INT", "TERM", "KILL"] {
        let mut child = place.spawn(&format!("{RUN} --threshold 1us -D 10m --interval 5ms"));
        place.wait_for_rows();
        assert_eq!(of(child.id()).len(), 1, "{name}");
        signal(&child, name);
        child.wait().unwrap();
        if name == "KILL" {
            // The next command clears up, whatever it is; one of another test may
            // have been quicker.
            place.done("list");
        }
        let pid = child.id();
        assert!(
            eventually(|| of(pid).is_empty()),
            "{name}: {:?}",
            instances()
        );
        if name == "KILL" {
            let recording = place.last();
            assert_eq!(recording.completion, Completion::Interrupted);
            let found = recording.explanation.unwrap();
            assert!(!found.outliers.is_empty());
            place.done("trace export");
        }
        place.done("delete last");
    }
}

#[test]
fn what_cannot_be_explained_is_refused_before_anything_is_measured() {
    let place = Place::new();
    for (line, says) in [
        ("measure timer --explain", "--threshold 100us"),
        ("measure timer --threshold 100us", "--explain"),
        ("measure clock --explain --threshold 1us", "--explain"),
        ("measure timer --explain=most --threshold 1us", "full"),
        ("measure timer --explain --threshold 1", "1"),
    ] {
        let error = place.refused(line, 2);
        assert!(error.contains(says), "{line}: {error}");
    }
    assert!(!place.path("store.db").exists());
    // A recording without any.
    place.done("measure timer -q --policy other --dma-latency off -D 100ms");
    let error = place.refused("trace export last", 1);
    assert!(error.contains("no trace events"), "{error}");
    assert!(!place.path("trace.dat").exists());
}

#[test]
fn without_the_right_it_says_what_to_do() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_punctual");
    let copy: PathBuf = place.path("punctual");
    std::fs::copy(program, &copy).unwrap();
    for path in [place.path("."), copy.clone()] {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let line = "measure timer -q -D 100ms --threshold 1ms --explain --store";
    let output = std::process::Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
        ])
        .arg(&copy)
        .args(line.split_whitespace())
        .arg(place.path("none.db"))
        .output();
    let Ok(output) = output else {
        eprintln!("SKIP unprivileged run: setpriv is not there");
        return;
    };
    let error = text(&output.stderr);
    if matches!(output.status.code(), Some(126 | 127)) {
        eprintln!("SKIP unprivileged run: {error}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("outliers cannot be explained"), "{error}");
    assert!(
        error.contains("mount -t tracefs") || error.contains("sudo"),
        "{error}"
    );
}
