//! Measures how long the audit of a machine with 64 CPUs takes: reading its facts and judging them.
//! It excludes the part that counts events for a fixed time.
//!
//! Run it with `cargo bench -p punctual-checks --bench large_machine`. The limit for the whole
//! command is 150 ms on the audited machine. In this benchmark, the files are in memory.

// A benchmark stops at the first error.
#![allow(clippy::unwrap_used)]

#[path = "../tests/it/machines/mod.rs"]
mod machines;

use std::fs;
use std::path::Path;

use divan::Bencher;
use punctual_checks::{Request, audit, patterns};
use punctual_host::Host;
use tempfile::TempDir;

/// Number of processes and kernel threads: about 17 per CPU, plus those of services.
const TASKS: u32 = 1_400;

fn main() {
    divan::main();
}

/// The simulated server of the tests, plus files that a real server also has: idle states, caches,
/// processes.
fn machine() -> (TempDir, Host) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    machines::server(folder.path());
    let put = |file: String, text: &str| write(folder.path(), &file, text);
    for cpu in 0..64 {
        let of_cpu = format!("sys/devices/system/cpu/cpu{cpu}");
        for state in 0..4 {
            let state_folder = format!("{of_cpu}/cpuidle/state{state}");
            put(format!("{state_folder}/name"), &format!("C{state}"));
            put(format!("{state_folder}/latency"), &(state * 40).to_string());
            put(format!("{state_folder}/disable"), "0");
        }
        for index in 0..3 {
            let file = format!("{of_cpu}/cache/index{index}/shared_cpu_list");
            put(file, &cpu.to_string());
        }
        put(format!("{of_cpu}/power/energy_perf_bias"), "6");
        put(format!("{of_cpu}/power/pm_qos_resume_latency_us"), "0");
        let throttled = format!("{of_cpu}/thermal_throttle/core_throttle_count");
        put(throttled, "0");
        put(
            format!("sys/devices/system/clockevents/clockevent{cpu}/current_device"),
            "lapic-deadline",
        );
    }
    for pid in 1..=TASKS {
        let stat = format!(
            "{pid} (kworker/{}:{pid}) S 2 0 0 0 -1 69238880 {}0 {} 0 0",
            pid % 64,
            "0 ".repeat(29),
            pid % 64,
        );
        put(format!("proc/{pid}/stat"), &stat);
        let status = format!("Name:\tkworker\nCpus_allowed_list:\t{}\n", pid % 64);
        put(format!("proc/{pid}/status"), &status);
    }
    let host = Host::new(folder.path());
    (folder, host)
}

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

fn request() -> Request {
    Request {
        role: "telco".parse().unwrap(),
        cpus: None,
    }
}

#[divan::bench(sample_count = 20)]
fn reading(bencher: Bencher) {
    let (_folder, host) = machine();
    let patterns = patterns();
    assert_eq!(host.capture(&patterns).tasks.value.unwrap().len(), 1_400);
    bencher.bench_local(|| host.capture(&patterns));
}

#[divan::bench(sample_count = 20)]
fn judging(bencher: Bencher) {
    let (_folder, host) = machine();
    let facts = host.capture(&patterns());
    assert_eq!(audit(&facts, &request()).unwrap().cpus.len(), 30);
    bencher.bench_local(|| audit(&facts, &request()).unwrap());
}
