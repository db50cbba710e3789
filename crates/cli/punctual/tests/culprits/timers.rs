//! Jobs that begin when their timer was due, although the kernel delayed it.

use std::process::{Command, Stdio};

use crate::common::{Sandbox, assert_conserved, text};
use crate::jobs::built;
use crate::stage::Stage;
use punctual_model::{Nanos, Recording, ShareKind};

/// Explains a loop with a timer slack of 5 ms, and compares its jobs with its own measurement.
fn slack_counts(detail: &str) {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let Some(program) = built(&place, "culprits/slack") else {
        return;
    };
    let app = (Command::new(program).arg("15"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = app.id();
    place.done(&format!(
        "explain --pid {pid} -q --budget 1ms -D 12s {detail}"
    ));
    let told = app.wait_with_output().unwrap();
    let own: u64 = text(&told.stdout).trim().parse().unwrap();
    let recording: Recording = place.last();
    assert_conserved(&recording);
    let jobs = &recording.threads[0].histogram;
    assert!(jobs.recorded() > 100, "{}", jobs.recorded());
    // Without the slack, the median would be a small part of this.
    let median = jobs.quantile(0.5).unwrap();
    assert!(median >= Nanos(own / 2), "{median} {own}");
    let outliers = &recording.explanation.as_ref().unwrap().outliers;
    let delayed = outliers.iter().filter(|outlier| {
        let sum: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, outlier.latency_ns.0, "{:?}", outlier.blame);
        let mut shares = outlier.blame.shares.iter();
        shares
            .any(|share| share.kind() == ShareKind::TimerSlack && share.ns >= Nanos::from_millis(1))
    });
    assert!(delayed.count() > 0, "{outliers:#?}");
}

#[test]
fn slack_of_a_timer_counts_in_the_full_stage() {
    slack_counts("--detail full");
}

#[test]
fn slack_of_a_timer_counts_in_the_light_stage() {
    slack_counts("--detail windows");
}
