//! `watch`, from the command line.

#![allow(clippy::unwrap_used)]

mod common;

use std::process::Stdio;

use common::{Place, signal, text};
use punctual_model::Wakeups;

/// Whether wake-ups can be watched here; says so where they cannot.
fn can_watch(place: &Place) -> bool {
    let output = place.run("watch -q -D 100ms --json");
    let stderr = text(&output.stderr);
    if !output.status.success() {
        assert!(
            stderr.contains("BTF") || stderr.contains("refused"),
            "{stderr}"
        );
        punctual_testing::skip!("watch: {stderr}");
    }
    output.status.success()
}

#[test]
fn all_wake_ups_are_counted_and_told() {
    let place = Place::new();
    if !can_watch(&place) {
        return;
    }
    let json = place.done("watch -q -D 1s --by cpu,priority,comm --json");
    let seen: Wakeups = serde_json::from_str(&json).unwrap();
    // The program itself sleeps and wakes while it watches.
    let own = |row: &&punctual_model::WakeupRow| row.comm.as_deref() == Some("punctual");
    let count: u64 = seen
        .rows
        .iter()
        .filter(own)
        .map(|row| row.waits.count)
        .sum();
    assert!(count > 5, "{seen:?}");
    for row in &seen.rows {
        let in_buckets: u64 = row.waits.buckets.iter().map(|bucket| bucket.1).sum();
        assert_eq!(row.waits.count, in_buckets);
    }
    let table = place.done("watch -q -D 300ms --by priority --worst 3");
    assert!(
        table.contains("fair") && table.contains("longest waits"),
        "{table}"
    );
}

#[test]
fn it_ends_on_ctrl_c_with_what_it_has_seen() {
    let place = Place::new();
    if !can_watch(&place) {
        return;
    }
    let child = place
        .command("watch -q")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Whether it has begun to watch makes no difference to how it must end.
    std::thread::sleep(std::time::Duration::from_millis(800));
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("wake-ups in"), "{output:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let place = Place::new();
    for line in [
        "watch --by node",
        "watch -D 1parsec",
        "watch --worst 99",
        "watch --rows 0",
    ] {
        place.refused(line, 2);
    }
}
