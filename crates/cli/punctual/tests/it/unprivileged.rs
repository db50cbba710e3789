//! Causes and waits of threads of the same user, without privileges.

use std::collections::BTreeMap;
use std::process::Command;

use punctual_model::cause::{Missing, Source, Unknown};
use punctual_model::{Nanos, Recording, WakeupRow, WakeupSource, Wakeups};

use crate::common::other_user::chmod;
use crate::common::{Sandbox, assert_conserved, text};

const OTHER_USER: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups --";

/// Runs `command` of punctual as a user who is not root, while a shell of that user runs `load`. Returns
/// the output if the kernel shows its context switches to this user; otherwise prints a skip.
fn as_ordinary_user(place: &Sandbox, load: &str, command: &str) -> Option<String> {
    let folder = place.path("open");
    std::fs::create_dir(&folder).unwrap();
    chmod(&place.path("."), 0o755);
    chmod(&folder, 0o777);
    let is_root = rustix::process::geteuid().is_root();
    let prefix = if is_root { OTHER_USER } else { "" };
    // The program may be in a folder that only its owner can open.
    let program = env!("CARGO_BIN_EXE_punctual");
    let script = format!(
        "exec 9<{program} && exec {prefix} sh -c '{load} & app=$!; echo READY >&2; \
         /proc/self/fd/9 {command}; code=$?; kill $app; exit $code'"
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .env("PUNCTUAL_STORE", folder.join("store.db"))
        .env("PUNCTUAL_LOCKS", &folder)
        .output()
        .unwrap();
    let told = text(&output.stderr);
    if !told.contains("READY") {
        punctual_testing::skip!(User, "no other user: {}", told.trim());
        return None;
    }
    let shows_switches = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .is_ok_and(|level| level.trim().parse::<i32>().is_ok_and(|level| level <= 2));
    if told.contains("perf_event_open") || !(shows_switches || output.status.success()) {
        punctual_testing::skip_refused("switches of own threads", told);
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{told}");
    Some(text(&output.stdout))
}

/// Returns what the records of switches lack to show the cause of a share.
fn missing(source: &Source) -> Missing {
    let Source::Unexplained(Unknown::NotRecorded { what, .. }) = source else {
        panic!("{source:?} cannot be known");
    };
    *what
}

/// Explains the jobs of a shell of the same user, which is not root. Each is above the budget.
#[test]
fn own_jobs_are_explained_without_root() {
    let place = Sandbox::new();
    let load = "while :; do sleep 0.01; done";
    let line = "explain --pid $app --budget 1ns -D 1s --json";
    let Some(output) = as_ordinary_user(&place, load, line) else {
        return;
    };
    let recording = Recording::from_json(&output).unwrap();
    let explanation = recording.explanation.as_ref().unwrap();
    let jobs = explanation.jobs.as_ref().unwrap();
    let all: u64 = jobs.threads.iter().map(|one| one.jobs).sum();
    let over: u64 = jobs.threads.iter().map(|one| one.over_budget).sum();
    assert!(all > 0 && over == all, "{jobs:?}");
    assert_eq!(recording.accounting().recorded, all);
    assert!(!explanation.outliers.is_empty());
    for outlier in &explanation.outliers {
        assert_eq!(outlier.blame.latency(), outlier.latency_ns);
        let shares = outlier
            .blame
            .shares
            .iter()
            .filter(|share| share.ns > Nanos::ZERO);
        let ran = shares.filter(|share| missing(&share.cause.source) == Missing::OnCpu);
        assert_eq!(ran.count(), 1, "{outlier:?}");
    }
    let warnings = recording.warnings.join("\n");
    assert!(warnings.contains("observed without root"), "{warnings}");
}

/// A busy thread on the same CPU, which a woken thread of the batch policy does not preempt. Each wake-up
/// is an outlier.
#[test]
fn own_outliers_are_explained_without_root() {
    let place = Sandbox::new();
    let line = "measure timer -q --policy batch --dma-latency off --cpus 0 -i 20ms -D 2s --explain \
                --threshold 1ns --json";
    let load = "taskset -c 0 sh -c \"while :; do :; done\"";
    let Some(output) = as_ordinary_user(&place, load, line) else {
        return;
    };
    let recording = Recording::from_json(&output).unwrap();
    assert_conserved(&recording);
    let explanation = recording.explanation.as_ref().unwrap();
    assert!(explanation.explained > 10 && !explanation.outliers.is_empty());
    let mut seen = BTreeMap::<String, Nanos>::new();
    for outlier in &explanation.outliers {
        assert_eq!(outlier.blame.latency(), outlier.latency_ns);
        for share in &outlier.blame.shares {
            // The records of the first and the last outlier may be incomplete.
            if let Source::Unexplained(Unknown::NoEventOfThread) = share.cause.source {
                continue;
            }
            let time = seen.entry(format!("{:?}", missing(&share.cause.source)));
            *time.or_default() += share.ns;
        }
    }
    // After each wake-up, the thread ran. Before, it slept or waited for the busy CPU.
    assert!(
        seen.contains_key("OnCpu") && seen.contains_key("RanInstead"),
        "{seen:?}"
    );
    let warnings = recording.warnings.join("\n");
    assert!(warnings.contains("explained without root"), "{warnings}");
}

#[test]
fn own_wake_ups_are_watched_without_root() {
    let place = Sandbox::new();
    let load = "while :; do sleep 0.01; done";
    let line = "watch -q -D 2s --by comm,cgroup --json";
    let Some(output) = as_ordinary_user(&place, load, line) else {
        return;
    };
    let seen: Wakeups = serde_json::from_str(&output).unwrap();
    assert_eq!(seen.source, WakeupSource::Switches);
    assert!(seen.not_bpf.is_some() && seen.open.is_empty());
    let named = |row: &&WakeupRow| row.comm.is_some() && row.group.is_some();
    let waits = seen.rows.iter().filter(named).map(|row| row.waits.count);
    assert!(waits.sum::<u64>() > 5, "{seen:?}");
    assert!(!seen.longest.is_empty());
    assert!(seen.longest.iter().all(|late| late.culprit.is_none()));
    // On an idle machine, the last ones can be 0.
    let longest = seen.longest.iter().map(|late| late.latency_ns);
    assert!(longest.is_sorted_by(|one, next| one >= next), "{seen:?}");
}
