//! The stacks of both threads of a wait. In the test program, the thread `waker` wakes the thread
//! `victim` from a function with a known name.

use std::process::Command;

use punctual_model::HardwareCounters;
use punctual_testing::Running;

use crate::common::Sandbox;
use crate::jobs::{built, explained};
use crate::stage::Stage;

/// Removes the list of functions that the program writes.
struct PerfMap(String);

impl Drop for PerfMap {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn both_sides_of_a_wait_are_named() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let Some(program) = built(&place, "culprits/waits") else {
        return;
    };
    let app = Running(Command::new(program).spawn().unwrap());
    let _map = PerfMap(format!("/tmp/perf-{}.map", app.0.id()));
    let recording = explained(&place, app.0.id(), "--budget 2ms --release nanosleep -D 2s");
    drop(app);
    let explanation = recording.explanation.unwrap();
    let victims = explanation.outliers.iter().filter(|one| one.thread == 0);
    let numbers: Vec<u64> = victims.map(|one| one.number).collect();
    assert!(!numbers.is_empty(), "{:?}", explanation.jobs);
    let mut shown = Vec::new();
    let found = numbers.iter().any(|number| {
        let text = place.done(&format!("explain last --outlier {number}"));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let compiled = cfg!(not(target_arch = "x86_64")) || words.contains("compiled_step+");
        let has = |name: &str| words.contains(name);
        let named = has("waiting: victim-")
            && has("woken by waker-")
            && has("victim_awaits_answer+")
            && has("waker_answers+")
            && compiled;
        shown.push(text);
        named
    });
    assert!(found, "{}", shown.join("\n"));
    let json = place.done(&format!("explain last --outlier {} --json", numbers[0]));
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let evidence = &value["window"]["evidence"];
    let waits = evidence["waits"].as_array().unwrap();
    assert!(
        waits.iter().any(|wait| wait["waker"]["comm"] == "waker"),
        "{evidence}"
    );
    // With counters or without: the reason is given.
    let counters: HardwareCounters = serde_json::from_value(evidence["counters"].clone()).unwrap();
    if let HardwareCounters::Unknown(why) = counters {
        assert!(
            why.starts_with("no hardware counters: ") || why.contains("job"),
            "{why}"
        );
    }
    assert!(shown[0].contains("hardware counters: "), "{}", shown[0]);
}
