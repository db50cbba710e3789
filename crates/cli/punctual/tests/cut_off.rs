//! A killed run must keep all results up to the kill, and no result may look better than it was.
//!
//! These tests occupy CPUs, which would delay the tests of any other program beside them.

#![allow(clippy::unwrap_used)]

#[path = "it/common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use common::{Sandbox, eventually, signal, stop, text};
use punctual_model::{
    Completion, Nanos, Outcome, Recording, Suspension, SuspensionKind, TopSample,
};

/// Occupies a CPU at a higher priority than all measuring threads, until this value is dropped, but
/// for at most half a minute.
struct Hog {
    stop: Arc<AtomicBool>,
    thread: Option<punctual_rt::JoinHandle<()>>,
}

impl Hog {
    /// Returns whether this value can be created. Prints the reason if it cannot.
    fn is_possible(cpu: u32) -> bool {
        Self::on(cpu).is_some()
    }

    /// Returns `None` and prints the reason if the privilege for real-time priority is missing.
    fn on(cpu: u32) -> Option<Self> {
        Self::at(cpu, 97)
    }

    fn at(cpu: u32, priority: u8) -> Option<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let builder = punctual_rt::ThreadBuilder::new("hog")
            .cpus(&[cpu])
            .policy(punctual_rt::Policy::Fifo { priority });
        let until = Instant::now() + Duration::from_secs(30);
        let spin = move || {
            while !stopping.load(Ordering::Relaxed) && Instant::now() < until {
                std::hint::spin_loop();
            }
        };
        match builder.spawn(spin) {
            Ok(thread) => Some(Self {
                stop,
                thread: Some(thread),
            }),
            Err(error) => {
                punctual_testing::skip_refused("a hog", &error);
                None
            }
        }
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the recording of a run that is still in progress.
fn so_far(place: &Sandbox) -> Recording {
    Recording::from_json(&place.done("show last --json")).unwrap()
}

#[test]
fn open_periods_of_killed_run_break_limit() {
    let _one = ONE_HOG.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Sandbox::new();
    let cpus = punctual_host::Host::live().allowed().unwrap();
    let cpu = cpus.iter().last().unwrap();
    if cpus.len() < 2 {
        punctual_testing::skip!(Hardware, "a hog beside the program: there is one CPU");
        return;
    }
    if !Hog::is_possible(cpu) {
        return;
    }
    let mut child = place.spawn(&format!(
        "measure timer -q -a {cpu} -D 10m --policy fifo --priority 90 --max-latency 100ms \
         --max-percentile 50=1s"
    ));
    place.wait_for_rows();
    let Some(hog) = Hog::on(cpu) else {
        child.kill().unwrap();
        child.wait().unwrap();
        return;
    };
    // Rows are committed once a second, or as soon as the machine lets the program run.
    let shown = eventually(|| {
        let late = so_far(&place).threads[0].open.map(|open| open.late_ns);
        late > Some(Nanos::from_millis(200))
    });
    signal(&child, "KILL");
    drop(hog);
    child.wait().unwrap();
    assert!(shown, "no open period of the starved thread");
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Interrupted);
    let thread = &recording.threads[0];
    assert!(thread.accounting.balances(), "{:?}", thread.accounting);
    let open = thread.open.unwrap();
    assert_eq!(open.period_ns, Nanos::from_millis(1));
    assert!(open.late_ns > Nanos::from_millis(200), "{open:?}");
    assert!(open.periods <= thread.accounting.missed);
    assert_eq!(thread.due().open(), open.periods);
    let verdict = &recording.verdict;
    assert_eq!(verdict.outcome, Outcome::Exceeded, "{}", verdict.sentence);
    let least = format!("max is at least {} on", open.late_ns);
    assert!(verdict.sentence.contains(&least), "{}", verdict.sentence);
    let shown = place.done("show last");
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = format!(
        "had no wake-up by the end of the run, and were late by at least {}",
        open.late_ns
    );
    assert!(words.contains(&told), "{shown}");
    let junit = place.done("report last -o - --format junit");
    assert!(junit.contains(&least), "{junit}");
}

/// Nothing but the lateness is known about the missed periods.
#[test]
fn lateness_of_missed_periods_survives_kill() {
    let _one = ONE_HOG.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Sandbox::new();
    let cpus = punctual_host::Host::live().allowed().unwrap();
    let cpu = cpus.iter().last().unwrap();
    if !Hog::is_possible(cpu) {
        return;
    }
    let mut child = place.spawn(&format!(
        "measure timer -q -a {cpu} -D 10m --policy fifo --priority 90"
    ));
    place.wait_for_rows();
    let Some(hog) = Hog::on(cpu) else {
        child.kill().unwrap();
        child.wait().unwrap();
        return;
    };
    std::thread::sleep(Duration::from_millis(50));
    drop(hog);
    let counted = eventually(|| {
        let thread = so_far(&place).threads.remove(0);
        thread
            .missed_histogram
            .is_some_and(|late| late.recorded() > 10)
    });
    signal(&child, "KILL");
    child.wait().unwrap();
    assert!(counted, "no missed periods");
    let recording = place.last();
    let thread = &recording.threads[0];
    assert!(thread.accounting.balances());
    assert_eq!(thread.due().unknown(), 0, "{:?}", thread.accounting);
    assert!(thread.missed_histogram.as_ref().unwrap().max() > Some(Nanos::from_millis(10)));
}

/// The run is stopped with Ctrl-Z and then killed. The lateness that the stop causes is not a
/// latency of the machine.
#[test]
fn known_stop_survives_kill() {
    let place = Sandbox::new();
    let line = "measure timer -q --policy other --dma-latency off -D 10m --max-latency 500ms";
    let mut child = place.spawn(line);
    place.wait_for_rows();
    stop(&child);
    std::thread::sleep(Duration::from_secs(1));
    signal(&child, "CONT");
    let known = eventually(|| !so_far(&place).suspensions.is_empty());
    signal(&child, "KILL");
    child.wait().unwrap();
    assert!(known, "the stop is not in the store");
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Interrupted);
    let [stop] = recording.suspensions.as_slice() else {
        panic!("{:?}", recording.suspensions);
    };
    assert_eq!(stop.kind, SuspensionKind::StoppedBySignal);
    assert!(stop.length_ns >= Nanos::from_millis(990), "{stop:?}");
    assert!(recording.top_samples[0].is_suspended(&recording.suspensions));
    assert_eq!(recording.verdict.outcome, Outcome::NotDecidable);
    let shown = place.done("show last");
    assert!(shown.contains("stopped by a signal (Ctrl-Z)"), "{shown}");
}

/// The stop is so short that the program cannot notice by itself that it did not run. It is
/// detected because all threads have missed periods when the SIGCONT arrives.
#[test]
fn a_short_stop_is_marked_as_well() {
    // The run is not real-time, so a hog would stop it for longer.
    let _one = ONE_HOG.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Sandbox::new();
    let line = "measure timer -q --policy other --dma-latency off -D 3s --max-latency 60ms";
    let child = place.spawn(line);
    place.wait_for_rows();
    stop(&child);
    std::thread::sleep(Duration::from_millis(100));
    signal(&child, "CONT");
    let output = child.wait_with_output().unwrap();
    let recording = place.last();
    // A busy machine can suspend the run at other times as well.
    let found = &recording.suspensions;
    let stopped = |stop: &Suspension| {
        stop.kind == SuspensionKind::StoppedBySignal && stop.length_ns >= Nanos::from_millis(90)
    };
    assert!(found.iter().any(stopped), "{found:?}");
    // The result is certain only if no other wait of that length occurred on this machine.
    let late = |sample: &&TopSample| sample.latency_ns > Nanos::from_millis(60);
    let mut late = recording.top_samples.iter().filter(late);
    if late.all(|sample| sample.is_suspended(found)) {
        assert_eq!(recording.verdict.outcome, Outcome::NotDecidable);
        assert_eq!(output.status.code(), Some(4));
    }
}

/// Returns the last CPU, if a hog there leaves another CPU to the program, and is permitted.
fn cpu_for_hog() -> Option<u32> {
    let cpus = punctual_host::Host::live().allowed().unwrap();
    let cpu = cpus.iter().last().unwrap();
    if cpus.len() < 2 {
        punctual_testing::skip!(Hardware, "a hog beside the program: there is one CPU");
        return None;
    }
    Hog::is_possible(cpu).then_some(cpu)
}

/// Priority of a hog that does not disturb the measurements of other tests.
const LOW: u8 = 3;

/// What a run says about such a hog.
fn told_of(cpu: u32) -> [String; 2] {
    let process = std::process::id();
    [
        format!("s on CPU {cpu}, which"),
        format!("hog (process {process}, SCHED_FIFO priority {LOW})"),
    ]
}

/// Only one hog runs at a time, so that each test is delayed by its own only.
static ONE_HOG: Mutex<()> = Mutex::new(());

/// The measuring threads never run at all.
#[test]
fn run_below_an_occupant_ends_at_once() {
    let _one = ONE_HOG.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(cpu) = cpu_for_hog() else {
        return;
    };
    let place = Sandbox::new();
    let line = format!("measure wakeup -q -a {cpu} -D 1s --policy fifo --priority 2");
    let Some(hog) = Hog::at(cpu, LOW) else {
        return;
    };
    let output = place.run(&line);
    drop(hog);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(" got no CPU time for "), "{said}");
    for part in told_of(cpu) {
        assert!(said.contains(&part), "{said}");
    }
}

/// The measuring thread runs at first, and then gets no CPU time until after the end of the run.
#[test]
fn run_without_cpu_time_ends_and_is_kept() {
    let _one = ONE_HOG.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(cpu) = cpu_for_hog() else {
        return;
    };
    for (length, signalled, code, completion) in [
        ("5s", None, 1, Completion::Interrupted),
        ("10m", Some("TERM"), 130, Completion::Stopped),
    ] {
        let place = Sandbox::new();
        let child = place.spawn(&format!(
            "measure timer -q -a {cpu} -D {length} --policy fifo --priority 2"
        ));
        place.wait_for_rows();
        let hog = Hog::at(cpu, LOW).unwrap();
        if let Some(name) = signalled {
            signal(&child, name);
        }
        let begun = Instant::now();
        let output = child.wait_with_output().unwrap();
        let lasted = begun.elapsed();
        drop(hog);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        // The limit is that of the hog. On an idle machine, the run ends within 2 s of SIGTERM.
        assert!(lasted < Duration::from_secs(25), "{lasted:?}");
        let recording = place.last();
        assert_eq!(recording.completion, completion);
        assert!(recording.accounting().recorded > 0);
        assert!(recording.accounting().balances());
        let warnings = recording.warnings.join("; ");
        let thread = format!("thread timer/{cpu} got no CPU time for ");
        for part in told_of(cpu).into_iter().chain([thread]) {
            assert!(warnings.contains(&part), "{warnings}");
        }
    }
}
