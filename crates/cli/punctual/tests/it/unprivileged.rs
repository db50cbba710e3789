//! `explain --pid` of processes of the same user, without privileges.

use std::process::Command;

use punctual_model::cause::{Missing, Source, Unknown};
use punctual_model::{Nanos, Recording};

use crate::common::other_user::chmod;
use crate::common::{Sandbox, text};

const OTHER_USER: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups --";

/// Explains the jobs of a shell of the same user, which is not root.
#[test]
fn own_jobs_are_explained_without_root() {
    let place = Sandbox::new();
    let folder = place.path("open");
    std::fs::create_dir(&folder).unwrap();
    chmod(&place.path("."), 0o755);
    chmod(&folder, 0o777);
    let is_root = rustix::process::geteuid().is_root();
    let prefix = if is_root { OTHER_USER } else { "" };
    // The program may be in a folder that only its owner can open. Each job is above the budget.
    let program = env!("CARGO_BIN_EXE_punctual");
    let app = "while :; do sleep 0.01; done & app=$!";
    let explain = "/proc/self/fd/9 explain --pid $app --budget 1ns -D 1s --json";
    let script = format!(
        "exec 9<{program} && exec {prefix} sh -c '{app}; echo READY >&2; {explain}; code=$?; \
         kill $app; exit $code'"
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .env("PUNCTUAL_STORE", folder.join("store.db"))
        .output()
        .unwrap();
    let told = text(&output.stderr);
    if !told.contains("READY") {
        punctual_testing::skip!(User, "no other user: {}", told.trim());
        return;
    }
    if told.contains("perf_event_open") {
        punctual_testing::skip_refused("explain --pid without root", told);
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{told}");
    let recording = Recording::from_json(&text(&output.stdout)).unwrap();
    let explanation = recording.explanation.as_ref().unwrap();
    let jobs = explanation.jobs.as_ref().unwrap();
    let all: u64 = jobs.threads.iter().map(|one| one.jobs).sum();
    let over: u64 = jobs.threads.iter().map(|one| one.over_budget).sum();
    assert!(all > 0 && over == all, "{jobs:?}");
    assert_eq!(recording.accounting().recorded, all);
    assert!(!explanation.outliers.is_empty());
    for outlier in &explanation.outliers {
        assert_eq!(outlier.blame.latency(), outlier.latency_ns);
        let is_on_cpu = |source: &Source| {
            let Source::Unexplained(Unknown::NotRecorded { what, .. }) = source else {
                panic!("{source:?} cannot be known");
            };
            *what == Missing::OnCpu
        };
        let shares = outlier.blame.shares.iter();
        let ran = shares.filter(|share| is_on_cpu(&share.cause.source) && share.ns > Nanos::ZERO);
        assert_eq!(ran.count(), 1, "{outlier:?}");
    }
    let warnings = recording.warnings.join("\n");
    assert!(warnings.contains("observed without root"), "{warnings}");
}
