//! `explain --pid` of a running application: one is stopped by a signal, and one ends during the
//! run.

use std::process::Child;
use std::time::{Duration, Instant};

use crate::common::{Sandbox, signal, text};
use punctual_model::{Nanos, Recording, Share, ShareKind};
use rustix::process::{Pid, Signal, kill_process};

use crate::stage::Stage;

/// Starts an application that wakes every few milliseconds. The application is our own program.
fn application(place: &Sandbox, seconds: u32) -> Child {
    let line = format!(
        "measure timer --policy other -i 5ms -D {seconds}s --warm-up 0 -q --store {}",
        place.path("app.db").display()
    );
    place.spawn(&line)
}

/// Stops an application from a thread that an explanation can name. Returns the length of the stop.
fn stop_for(app: &Child, length: Duration) -> Nanos {
    let pid = Pid::from_child(app);
    let stopper = std::thread::Builder::new().name("stopper".to_owned());
    let stopper = stopper.spawn(move || {
        kill_process(pid, Signal::STOP).unwrap();
        let stopped = Instant::now();
        std::thread::sleep(length);
        kill_process(pid, Signal::CONT).unwrap();
        Nanos::from(stopped.elapsed())
    });
    stopper.unwrap().join().unwrap()
}

fn recorded(place: &Sandbox) -> Recording {
    let recording = place.last();
    assert_eq!(recording.probe.name, "threads");
    crate::common::assert_conserved(&recording);
    // Watched threads have no periods, so lost events are not counted as missed periods.
    assert_eq!(recording.accounting().missed, 0);
    for outlier in &recording.explanation.as_ref().unwrap().outliers {
        let sum: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, outlier.latency_ns.0, "{:?}", outlier.blame);
    }
    recording
}

#[test]
fn an_application_that_a_signal_stops() {
    // Keep this value until the end of the test, because other scenes would compete for the CPUs.
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let mut app = application(&place, 30);
    let pid = app.id();
    let watching = place.spawn(&format!(
        "explain --pid {pid} --wait --threshold 60ms -D 30s -q"
    ));
    place.wait_for_rows();
    let length = stop_for(&app, Duration::from_millis(250));
    std::thread::sleep(Duration::from_millis(700));
    signal(&watching, "INT");
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    signal(&app, "INT");
    app.wait().unwrap();
    let recording = recorded(&place);
    let outliers = &recording.explanation.as_ref().unwrap().outliers;
    let shares = outliers.iter().flat_map(|outlier| &outlier.blame.shares);
    let shares: Vec<_> = shares
        .filter(|share| share.kind() == ShareKind::Stopped)
        .collect();
    let told = outliers
        .iter()
        .map(|o| o.blame.sentence())
        .collect::<Vec<_>>();
    let by_us = |share: &&&Share| share.who().starts_with("signal 19 from stopper-");
    let told = format!("stopped for {length}, but: {shares:?} {told:#?}");
    let longest = shares.iter().filter(by_us).map(|share| share.ns).max();
    let longest = longest.unwrap_or_else(|| panic!("{told}"));
    // The stop takes effect only when the application gets a CPU, and other programs may be using
    // the CPUs.
    match punctual_testing::crowded() {
        Some(crowd) if longest.0 < length.0 - length.0 / 10 => {
            punctual_testing::skip!(Quiet, "{crowd}: the length of a stop: {told}");
        }
        _ => assert!(longest.0.abs_diff(length.0) <= length.0 / 10, "{told}"),
    }
    let listed = place.done("explain last");
    assert!(listed.contains("it was stopped for"), "{listed}");
    let whole: serde_json::Value =
        serde_json::from_str(&place.done("explain last --json")).unwrap();
    assert!(
        !whole["outliers"][0]["window"]["events"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn an_application_that_ends_midway() {
    // Keep this value until the end of the test, because other scenes would compete for the CPUs.
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let mut app = application(&place, 2);
    let pid = app.id();
    let output = place.run(&format!(
        "explain --pid {pid} --wait --threshold 1us -D 60s -q"
    ));
    app.wait().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recording = recorded(&place);
    let watched = format!("threads of punctual (pid {pid})");
    assert_eq!(recording.headline(), watched);
    assert!(
        text(&output.stdout).contains(&watched),
        "{}",
        text(&output.stdout)
    );
    let warned = recording
        .warnings
        .iter()
        .any(|w| w.contains("had ended after"));
    assert!(warned, "{:?}", recording.warnings);
    let explanation = recording.explanation.unwrap();
    assert!(explanation.explained > 0 && !explanation.causes.is_empty());
    // The process has ended, so there is nothing to watch.
    let told = place.refused(&format!("explain --pid {pid}"), 2);
    assert!(told.contains("there is no process"), "{told}");
}

#[test]
fn what_cannot_be_is_said() {
    let place = Sandbox::new();
    let told = place.refused("explain --threshold 1ms", 2);
    assert!(told.contains("--wait"), "{told}");
    place.refused("explain last --pid 1", 2);
    place.refused("explain --pid 0", 2);
    let told = place.refused("explain --comm nobody-has-this", 2);
    assert!(told.contains("no thread to watch"), "{told}");
}
