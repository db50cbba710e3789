//! Tests of the facts of recorded machines, with one tree for each kind of machine.

// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use punctual_host::{Host, HostError};
use punctual_model::{CpuSet, Nanos};

fn tree(name: &str) -> Host {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees");
    Host::new(trees.join(name))
}

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// A machine with PREEMPT_RT, isolated CPUs, a fixed frequency, and deep idle states switched off.
#[test]
fn controller() {
    insta::assert_json_snapshot!(tree("controller").facts());
}

/// A machine with the default settings of a distribution: powersave, SMT, dynamic preemption.
#[test]
fn laptop() {
    insta::assert_json_snapshot!(tree("laptop").facts());
}

/// A virtual machine without cpufreq, an idle driver or visible firmware.
#[test]
fn cloud() {
    insta::assert_json_snapshot!(tree("cloud").facts());
}

/// An Arm board without a model name, DMI or MSR, with a kernel before 6.1 and with one CPU
/// offline.
#[test]
fn arm_board() {
    insta::assert_json_snapshot!(tree("arm-board").facts());
}

#[test]
fn nothing_there_is_all_unknown() {
    let empty = tempfile::tempdir().unwrap();
    let host = Host::new(empty.path());
    let facts = host.facts();
    assert!(facts.cpus.is_empty());
    assert_eq!(facts.fingerprint.len(), 16);
    // Each unknown fact has a reason.
    let json = serde_json::to_value(&facts).unwrap();
    assert_eq!(count_unknown(&json), (36, 0));
    assert!(host.online().is_err() && host.boot_id().is_none());
    let counters = host.counters();
    assert!(
        counters
            .unknown()
            .iter()
            .any(|line| line.starts_with("interrupts: "))
    );
    let none = counters.since(&host.counters(), &cpus("0"), Nanos(1));
    assert_eq!(none.cpus.len(), 1);
    assert_eq!(none.unknown, counters.unknown());
}

/// Returns how many facts are unknown with a reason, and how many have a value.
fn count_unknown(json: &serde_json::Value) -> (usize, usize) {
    let serde_json::Value::Object(object) = json else {
        return (0, 0);
    };
    if object.contains_key("source") && object.get("source").is_some_and(|s| s.is_string()) {
        let unknown = object.get("unknown").is_some_and(|reason| reason != "");
        return (unknown.into(), object.contains_key("value").into());
    }
    object
        .values()
        .map(count_unknown)
        .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
}

#[test]
fn cpus_come_from_the_kernels_list() {
    let board = tree("arm-board");
    assert_eq!(board.online().unwrap(), cpus("0-2"));
    assert_eq!(board.present().unwrap(), cpus("0-3"));
    assert_eq!(board.allowed().unwrap(), cpus("0-3"));
}

#[test]
fn a_wrong_list_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path: PathBuf = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("sys/devices/system/cpu/online", "0-x\n");
    write("proc/self/status", "Name: x\n");
    let host = Host::new(folder.path());
    let error = host.online().unwrap_err();
    assert!(matches!(error, HostError::CpuList { .. }));
    let text = error.to_string();
    assert!(
        text.contains("/sys/devices/system/cpu/online") && text.contains("0-x"),
        "{text}"
    );
    assert!(matches!(
        host.allowed().unwrap_err(),
        HostError::NoField { .. }
    ));
    let text = host.present().unwrap_err().to_string();
    assert!(text.contains("/sys/devices/system/cpu/present"), "{text}");
}

#[test]
fn process_is_distinguished_from_its_successor() {
    let host = tree("controller");
    assert_eq!(
        host.boot_id().unwrap(),
        "6b1f6c1e-57b5-4d0b-8f0e-0f6c1d2a3b4c"
    );
    assert_eq!(host.process_start(4711), Some(13_377));
    assert_eq!(host.process_start(4712), None);
}

#[test]
fn missing_counters_are_reported_once() {
    let unknown = |name: &str| tree(name).counters().unknown().to_vec();
    assert_eq!(unknown("controller"), [""; 0]);
    let throttle = "thermal throttling: \
        /sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count: not there";
    assert_eq!(unknown("laptop"), ["SMI count: /dev/cpu/*/msr: not there"]);
    assert_eq!(
        unknown("cloud"),
        [throttle, "SMI count: /dev/cpu/*/msr: not there"]
    );
    assert_eq!(
        unknown("arm-board"),
        [
            throttle,
            "SMI count: only Intel processors have one (this is Arm)"
        ]
    );
}
