//! `explain --pid` of an application with thousands of threads. The application is a separate
//! process, so that its threads do not count towards the limits of the test process.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;

use punctual_model::Recording;

use crate::common::{Sandbox, text};
use crate::stage::Stage;

const THREADS: usize = 15_000;

/// This variable is set in the environment of the sleeping process.
const ROLE: &str = "PUNCTUAL_TEST_SLEEPERS";

/// Lets all threads sleep until stdin is closed. This runs in the process that `Sleepers::start`
/// starts.
#[test]
fn sleepers() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let sleeper = || {
        thread::Builder::new()
            .stack_size(16 << 10)
            .spawn(thread::park)
    };
    let started: Result<Vec<_>, _> = (1..THREADS).map(|_| sleeper()).collect();
    match started {
        Ok(_) => println!("\nsleepers: ready"),
        Err(error) => println!("\nsleepers: {error}"),
    }
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

struct Sleepers(Child);

impl Sleepers {
    /// Returns `None`, and prints a skip, if the kernel refuses that many threads.
    fn start() -> Option<Self> {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "many_threads::sleepers", "--nocapture"])
            .env(ROLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said =
            lines.find_map(|line| line.unwrap().strip_prefix("sleepers: ").map(str::to_owned));
        let sleepers = Self(child);
        match said.as_deref() {
            Some("ready") => Some(sleepers),
            why => {
                punctual_testing::skip!(Right, "an application of {THREADS} threads: {why:?}");
                None
            }
        }
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn latency_among_15000_threads_is_explained() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let Some(sleepers) = Sleepers::start() else {
        return;
    };
    let place = Sandbox::new();
    let pid = sleepers.0.id();
    let watching = place.spawn(&format!("explain --pid {pid} --wait -D 1s -q --json"));
    let output = watching.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let recording = Recording::from_json(&text(&output.stdout)).unwrap();
    assert_eq!(recording.probe.name, "threads");
    crate::common::assert_conserved(&recording);
    let shared = |warning: &String| warning.contains("threads have no separate figures");
    assert!(
        recording.warnings.iter().any(shared),
        "{:?}",
        recording.warnings
    );
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .count();
    assert!(threads >= THREADS, "{threads}");
}
