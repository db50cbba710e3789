//! What only a PREEMPT_RT kernel can show. `cargo xtask vm` runs this in an
//! emulated machine; elsewhere, on any kernel that is real-time.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use common::{Place, text};
use punctual_model::{Completion, Recording};

/// Whether this is such a kernel; says so where it is not.
fn real_time(test: &str) -> bool {
    let yes = std::fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1");
    if !yes {
        eprintln!("SKIP {test}: this kernel is not PREEMPT_RT (cargo xtask vm boots one)");
    }
    yes
}

/// Whether the kernel has this tracer, and this user may see it.
fn has_tracer(name: &str) -> bool {
    let there = std::fs::read_to_string("/sys/kernel/tracing/available_tracers")
        .is_ok_and(|text| text.split_whitespace().any(|tracer| tracer == name));
    if !there {
        eprintln!("SKIP this kernel has no tracer {name}, or its list cannot be read");
    }
    there
}

#[test]
fn the_kernel_is_known_for_what_it_is() {
    if !real_time("facts") {
        return;
    }
    let place = Place::new();
    let json = place.done("measure timer -q -D 2s --interval 10ms --json");
    let recording = Recording::from_json(&json).unwrap();
    assert_eq!(recording.completion, Completion::Finished);
    let facts = &recording.host.kernel;
    assert_eq!(facts.preempt_rt.get(), Some(&true));
    assert!(recording.accounting().recorded > 0);
}

#[test]
fn the_kernels_detector_of_hardware_latency_is_a_source() {
    if !real_time("hwlat") || !has_tracer("hwlat") {
        return;
    }
    let place = Place::new();
    for source in ["hwlat", "both"] {
        let output = place.run(&format!(
            "measure hardware --source {source} --threshold 1us -D 3s -q --json"
        ));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let recording = Recording::from_json(&text(&output.stdout)).unwrap();
        assert_eq!(recording.completion, Completion::Finished);
    }
    let left = std::fs::read_dir("/sys/kernel/tracing/instances").unwrap();
    assert_eq!(left.count(), 0, "an instance was left behind");
    let tracer = std::fs::read_to_string("/sys/kernel/tracing/current_tracer").unwrap();
    assert_eq!(tracer.trim(), "nop");
}

#[test]
fn an_isolated_cpu_is_known_and_measured() {
    let isolated = std::fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    if isolated.trim().is_empty() {
        eprintln!("SKIP no CPU is isolated here");
        return;
    }
    let place = Place::new();
    let cpus = isolated.trim();
    let json = place.done(&format!(
        "measure timer --cpus {cpus} -q -D 2s --interval 10ms --json"
    ));
    let recording = Recording::from_json(&json).unwrap();
    let known = recording.host.processor.isolated.get();
    assert_eq!(known.map(ToString::to_string), Some(cpus.to_owned()));
    assert!(
        recording
            .threads
            .iter()
            .all(|thread| thread.accounting.recorded > 0)
    );
}
