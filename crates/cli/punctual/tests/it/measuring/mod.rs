//! Tests of `punctual measure timer` on this machine, run as a user would.

mod launch_times;
mod limits;
mod moved;
mod network;
mod stops;
mod work;

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::common::group::{QuotaGroup, with_spinners};
use crate::common::{Sandbox, assert_conserved, eventually, signal, stop, text};
use punctual_model::{
    Completion, Nanos, Outcome, Policy, Recording, Share, ShareKind, SuspensionKind,
};

/// These options use the policy that every user may use.
const PLAIN: &str = "measure timer -q --policy other --dma-latency off";

#[test]
fn a_run_is_measured_kept_and_shown() {
    let place = Sandbox::new();
    let shown = place.done(&format!("{PLAIN} -D 2s --label bench"));
    assert!(shown.contains("account"), "{shown}");
    let recording = place.last();
    assert_conserved(&recording);
    assert_eq!(recording.completion, Completion::Finished);
    assert_eq!(recording.label.as_deref(), Some("bench"));
    assert_eq!(recording.verdict.outcome, Outcome::NoRequirement);
    for thread in &recording.threads {
        assert_eq!(thread.accounting.expected, 2_000);
        assert_eq!(thread.accounting.warm_up, 200);
        assert_eq!(thread.scheduling.policy, Policy::Other);
    }
    assert!(recording.top_samples.len() <= 20 && !recording.top_samples.is_empty());
    assert!(
        recording
            .top_samples
            .is_sorted_by(|a, b| a.latency_ns >= b.latency_ns)
    );
    assert_eq!(
        Some(recording.top_samples[0].latency_ns),
        recording.all_latencies().max()
    );
    assert!(recording.observer.clock_read_ns > Nanos::ZERO);
    assert!(recording.observer.peak_memory_bytes > 0);
    assert!(recording.host.kernel.release.value.is_some());

    let listed = place.listed();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["label"], "bench");
    let id = recording.id.to_string();
    assert_eq!(place.done(&format!("show {id}")), place.done("show last"));
    place.done(&format!("store delete {}", recording.id.short()));
    assert!(place.listed().is_empty());
    let error = place.refused(&format!("show {id}"), 1);
    assert!(error.contains(&id), "{error}");
}

#[test]
fn each_way_to_wait_can_be_chosen() {
    let place = Sandbox::new();
    for wait in ["nanosleep", "timerfd", "signal"] {
        place.done(&format!(
            "{PLAIN} --wait {wait} --interval 500us --loops 400"
        ));
        let recording = place.last();
        assert_conserved(&recording);
        assert_eq!(recording.probe.parameters["wait"], wait);
        for thread in &recording.threads {
            assert_eq!(thread.accounting.expected, 400);
        }
    }
}

#[test]
fn a_requirement_decides_the_exit_code() {
    let place = Sandbox::new();
    place.done(&format!(
        "{PLAIN} -D 300ms --max-latency 1000s --max-missed 1000"
    ));
    assert_eq!(place.last().verdict.outcome, Outcome::Met);
    for limit in ["--max-latency 1ns", "--max-percentile 50=1ns"] {
        let output = place.run(&format!("{PLAIN} -D 300ms {limit}"));
        assert_eq!(output.status.code(), Some(3), "{limit}");
        assert!(
            text(&output.stdout).contains("requirement exceeded"),
            "{limit}"
        );
        assert_eq!(place.last().verdict.outcome, Outcome::Exceeded);
    }
}

/// Late periods in a row of periods are judged, and each output names the worst row.
#[test]
fn windows_of_late_periods_are_judged() {
    let place = Sandbox::new();
    let misses = |budget: &str| {
        let output = place.run(&format!("{PLAIN} -D 500ms --misses 2/10 --budget {budget}"));
        let shown = text(&output.stdout);
        (output.status.code(), place.last(), shown)
    };
    let (code, late, shown) = misses("1ns");
    assert_eq!(code, Some(3), "{shown}");
    let words = "late periods in any 10 (over 1 ns) is 10";
    assert!(
        late.verdict.sentence.contains(words),
        "{}",
        late.verdict.sentence
    );
    let windows = late.threads[0].windows[0];
    assert!(
        windows.worst == 10 && windows.first_violated_ns.is_some(),
        "{windows:?}"
    );
    let junit = place.done("report last -o - --format junit");
    assert!(junit.contains("failures=\"1\""), "{junit}");
    let (code, met, shown) = misses("1000s");
    // Only periods without a sample may be late now.
    let mut windows = met.threads.iter().map(|thread| &thread.windows[0]);
    let expected = if windows.any(|windows| windows.worst > 2) {
        3
    } else {
        0
    };
    assert_eq!(code, Some(expected), "{shown}");
}

#[test]
fn too_few_periods_are_no_proof() {
    let place = Sandbox::new();
    let output = place.run(&format!(
        "{PLAIN} -D 300ms --max-percentile 99.9999=1000s --max-latency 1000s"
    ));
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let verdict = place.last().verdict;
    assert_eq!(verdict.outcome, Outcome::NotDecidable);
    assert!(
        verdict.sentence.contains("needs 10,000,000 due periods")
            && verdict.sentence.contains(": measure for 2 h 47 min"),
        "{}",
        verdict.sentence
    );
    let shown = place.done("report last -o - --format junit");
    assert!(shown.contains("errors=\"1\""), "{shown}");
    assert_eq!(place.listed()[0]["outcome"], "not_decidable");
}

/// Occupies the CPU for 50 ms in every 400 ms, at a higher priority than all measuring threads.
fn starve(cpu: u32, until: std::time::Instant) -> Option<punctual_rt::JoinHandle<()>> {
    let builder = punctual_rt::ThreadBuilder::new("starver")
        .cpus(&[cpu])
        .policy(punctual_rt::Policy::Fifo { priority: 97 });
    let starver = builder.spawn(move || {
        while std::time::Instant::now() < until {
            let begun = std::time::Instant::now();
            while begun.elapsed() < Duration::from_millis(50) {
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_millis(350));
        }
    });
    match starver {
        Ok(starver) => Some(starver),
        Err(error) => {
            punctual_testing::skip_refused("a starved thread", &error);
            None
        }
    }
}

#[test]
fn periods_missed_by_starvation_break_percentile() {
    let place = Sandbox::new();
    let cpus = punctual_host::Host::live().allowed().unwrap();
    let cpu = cpus.iter().last().unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(4);
    let Some(starver) = starve(cpu, until) else {
        return;
    };
    let output = place.run(&format!(
        "measure timer -q -a {cpu} -D 3s --policy fifo --priority 90 --max-percentile 99=3ms"
    ));
    starver.join().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
    let recording = place.last();
    assert_conserved(&recording);
    let thread = &recording.threads[0];
    let late = thread.missed_histogram.as_ref().unwrap();
    assert_eq!(late.recorded(), thread.accounting.missed);
    assert_eq!(
        thread.due().periods(),
        thread.accounting.recorded + thread.accounting.missed
    );
    assert!(late.max() < thread.histogram.max(), "{late:?}");
    assert!(
        recording.verdict.sentence.contains("p99 of due periods is"),
        "{}",
        recording.verdict.sentence
    );
    let shown = text(&output.stdout);
    assert!(
        shown.contains("the percentiles count missed periods as late"),
        "{shown}"
    );
    let shown = place.done("show last");
    for of in ["of samples", "of due periods"] {
        assert!(shown.contains(of), "{shown}");
    }
}

#[test]
fn a_break_value_ends_the_run() {
    let place = Sandbox::new();
    let output = place.run(&format!("{PLAIN} -D 10m --break 1ns"));
    assert_eq!(output.status.code(), Some(3));
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Break);
    assert_eq!(recording.verdict.outcome, Outcome::Exceeded);
    let sentence = &recording.verdict.sentence;
    assert!(
        sentence.contains("exceeds the break value 1 ns"),
        "{sentence}"
    );
    assert_conserved(&recording);
}

#[test]
fn two_runs_may_write_at_once() {
    let place = Sandbox::new();
    let children: Vec<_> = (0..2)
        .map(|_| place.spawn(&format!("{PLAIN} -D 2s --samples --share-cpus")))
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    assert_eq!(place.listed().len(), 2);
    for selector in ["last", "last~1"] {
        let json = place.done(&format!("show {selector} --json"));
        assert_conserved(&Recording::from_json(&json).unwrap());
    }
}

#[test]
fn samples_are_kept_as_measured() {
    let place = Sandbox::new();
    place.done(&format!("{PLAIN} -D 2s --samples"));
    let recording = place.last();
    let kept = recording.samples.unwrap();
    assert_eq!(kept.count + kept.dropped, recording.accounting().recorded);
    let csv = place.done("export last --format csv");
    let mut sums = vec![0u64; recording.threads.len()];
    let mut lines = 0;
    for line in csv.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let (thread, latency) = (cells[0].parse::<usize>().unwrap(), cells[3]);
        sums[thread] += latency.parse::<i64>().unwrap().max(0) as u64;
        lines += 1;
    }
    assert_eq!(lines, kept.count);
    if kept.dropped == 0 {
        for (thread, sum) in recording.threads.iter().zip(sums) {
            assert_eq!(thread.histogram.sum().0, sum);
        }
    }
}

#[test]
fn early_end_of_load_is_reported_once() {
    let place = Sandbox::new();
    let mut command = place.command(&format!("{PLAIN} -D 1s --load"));
    let output = command.arg("command:true").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let load = &place.last().load[0];
    assert!(!load.failed);
    let how = load.ended_early.as_deref().unwrap();
    assert!(how.contains("ended with exit status: 0 after"), "{how}");
    let shown = text(&output.stdout);
    assert_eq!(shown.matches("ended early").count(), 1, "{shown}");
}

/// If the load of a measurement is missing, there is no result: the verdict is never *held*, and
/// the exit code is 1.
#[test]
fn failed_load_voids_the_run() {
    let place = Sandbox::new();
    let mut command = place.command(&format!("{PLAIN} -D 1s --max-latency 100s --load"));
    let load = "command:echo no rule to make target >&2; exit 2";
    let output = command.arg(load).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let recording = place.last();
    assert!(recording.load[0].failed);
    assert_eq!(recording.verdict.outcome, Outcome::NotDecidable);
    let shown = text(&output.stdout);
    assert_eq!(
        shown.matches("failed, the run is void").count(),
        1,
        "{shown}"
    );
    assert_eq!(
        shown.matches("its stderr: no rule to make target").count(),
        1,
        "{shown}"
    );
    assert!(!shown.contains("held"), "{shown}");
}

#[test]
fn load_ends_with_killed_run() {
    let place = Sandbox::new();
    let marker = format!("9876{}", std::process::id());
    let mut command = place.command(&format!("{PLAIN} -D 10m --load"));
    let mut child = command
        .arg(format!("command:sleep {marker}"))
        .spawn()
        .unwrap();
    let running = || {
        let list = std::process::Command::new("ps")
            .args(["-eo", "args"])
            .output()
            .unwrap();
        text(&list.stdout)
            .lines()
            .any(|line| line.trim() == format!("sleep {marker}"))
    };
    assert!(eventually(running));
    signal(&child, "KILL");
    child.wait().unwrap();
    assert!(eventually(|| !running()));
}

fn first_cpu() -> u32 {
    punctual_host::Host::live()
        .allowed()
        .unwrap()
        .first()
        .unwrap()
}

#[test]
fn phases_have_their_own_histograms() {
    let place = Sandbox::new();
    let line = "measure timer -q --policy other --dma-latency off --phases idle:400ms,idle:600ms";
    place.done(line);
    let recording = place.last();
    assert_conserved(&recording);
    let cpus = recording.threads.len() / 2;
    let (first, second) = recording.threads.split_at(cpus);
    assert!(first.iter().all(|thread| thread.accounting.expected == 400));
    assert!(
        second
            .iter()
            .all(|thread| thread.accounting.expected == 600)
    );
    assert!(
        first[0].title().starts_with("idle: CPU "),
        "{}",
        first[0].title()
    );
}
