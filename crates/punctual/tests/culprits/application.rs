//! `explain --pid` of a running application, a signal that stops it, and one
//! that ends midway.

use std::process::Child;
use std::time::{Duration, Instant};

use crate::common::{Place, signal, text};
use punctual_model::{Nanos, Recording, ShareKind};

use crate::stage::Stage;

/// An application that wakes each few milliseconds: our own program.
fn application(place: &Place, seconds: u32) -> Child {
    let line = format!(
        "measure timer --policy other -i 5ms -D {seconds}s --warm-up 0 -q --store {}",
        place.path("app.db").display()
    );
    place.spawn(&line)
}

fn recorded(place: &Place) -> Recording {
    let recording = place.last();
    assert_eq!(recording.probe.name, "threads");
    crate::common::assert_conserved(&recording);
    for outlier in &recording.explanation.as_ref().unwrap().outliers {
        let sum: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, outlier.latency_ns.0, "{:?}", outlier.blame);
    }
    recording
}

#[test]
fn an_application_that_a_signal_stops() {
    // Held to the end: other scenes would compete for the CPUs.
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Place::new();
    let mut app = application(&place, 30);
    let pid = app.id();
    let watching = place.spawn(&format!("explain --pid {pid} --threshold 60ms -D 30s -q"));
    place.wait_for_rows();
    let stopped = Instant::now();
    signal(&app, "STOP");
    std::thread::sleep(Duration::from_millis(250));
    signal(&app, "CONT");
    let length = Nanos::from(stopped.elapsed());
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
        .filter(|share| share.kind == ShareKind::Stopped)
        .collect();
    let told = outliers
        .iter()
        .map(|o| &o.blame.sentence)
        .collect::<Vec<_>>();
    let right = |ns: Nanos| ns.0.abs_diff(length.0) <= length.0 / 10;
    assert!(
        shares
            .iter()
            .any(|share| right(share.ns) && share.who.starts_with("signal 19 from kill-")),
        "stopped for {length}, but: {shares:?} {told:#?}"
    );
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
    // Held to the end: other scenes would compete for the CPUs.
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Place::new();
    let mut app = application(&place, 2);
    let pid = app.id();
    let output = place.run(&format!("explain --pid {pid} --threshold 1us -D 60s -q"));
    app.wait().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recording = recorded(&place);
    let warned = recording
        .warnings
        .iter()
        .any(|w| w.contains("had ended after"));
    assert!(warned, "{:?}", recording.warnings);
    let explanation = recording.explanation.unwrap();
    assert!(explanation.explained > 0 && !explanation.causes.is_empty());
    // Gone: nothing to watch.
    let told = place.refused(&format!("explain --pid {pid}"), 2);
    assert!(told.contains("there is no process"), "{told}");
}

#[test]
fn what_cannot_be_is_said() {
    let place = Place::new();
    let told = place.refused("explain --threshold 1ms", 2);
    assert!(told.contains("--pid or --comm"), "{told}");
    place.refused("explain last --pid 1", 2);
    place.refused("explain --pid 0", 2);
    let told = place.refused("explain --comm nobody-has-this", 2);
    assert!(told.contains("no thread to watch"), "{told}");
}
