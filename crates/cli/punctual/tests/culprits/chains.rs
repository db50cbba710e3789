//! Chains of four processes with known delays, in traces that trace-cmd records.

use std::path::Path;
use std::process::Command;

use punctual_culprit::ChainStart;
use punctual_model::{ChainPart, Comm, Nanos, TraceChains};
use punctual_session::{TraceRequest, trace_chains};
use punctual_tracefile::{Input, open};

use crate::common::{Sandbox, text};
use crate::jobs::built;
use crate::recorders::recorded;
use crate::stage::Stage;

const EVENTS: [&str; 10] = [
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_process_exit",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "irq_vectors",
    "raw_syscalls",
];

/// Run time of each process in a round (`chain.c`).
const RUNS: [(&str, u64); 4] = [
    ("c-sensor", 1_000),
    ("c-filter", 1_500),
    ("c-plan", 1_200),
    ("c-motor", 1_000),
];

/// Returns the chains in a file.
fn chains_of(file: &Path) -> TraceChains {
    let mut reader = open(Input::path(file).unwrap()).unwrap();
    let request = TraceRequest {
        file: file.display().to_string(),
        wanted: punctual_culprit::Wanted::longest(),
        command_line: Vec::new(),
    };
    let [from, to] = ["c-sensor", "c-motor"].map(|name| Comm::new(name.as_bytes()));
    trace_chains(reader.as_mut(), &request, ChainStart::Thread(from), to).unwrap()
}

fn near(found: Nanos, truth: Nanos) -> bool {
    found.0.abs_diff(truth.0) <= (truth.0 / 10).max(20_000)
}

/// Compares the chains with the times that the program printed. Returns what differs.
fn differences(found: &TraceChains, told: &str) -> Vec<String> {
    let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).map(Nanos);
    let truths = told.lines().map(|line| {
        let mut words = line.split(' ');
        let (due, done) = (number(words.next()), number(words.next()));
        (due.unwrap(), done.unwrap())
    });
    let truths: Vec<(Nanos, Nanos)> = truths.collect();
    let mut wrong = Vec::new();
    let reached = found.latencies.recorded();
    // The kernel may lose switches of idle threads, and an interrupt just before a write to a socket
    // hides who wakes the reader.
    if truths.len() != 40 || !(36..=40).contains(&reached) {
        let (rounds, early, unknown) = (truths.len(), &found.ended_in, found.unknown);
        wrong.push(format!(
            "{rounds} rounds, {reached} chains, {unknown} unknown: {early:?}"
        ));
    }
    for chain in &found.longest {
        let truth = truths
            .iter()
            .find(|(due, done)| *due <= chain.end && chain.begin <= *done);
        let truth = truth.map(|(due, done)| *done - *due);
        if !truth.is_some_and(|truth| near(chain.latency(), truth)) {
            wrong.push(format!("a chain of {}, truth {truth:?}", chain.latency()));
        }
        let sum: u64 = chain.spans.iter().map(|span| span.length().0).sum();
        assert_eq!(sum, chain.latency().0, "{chain:#?}");
    }
    let mean = |who: &str, part| {
        let edge = found
            .edges
            .iter()
            .find(|edge| edge.who == who && edge.part == part);
        edge.and_then(|edge| edge.total.0.checked_div(edge.chains))
            .map(Nanos)
    };
    let sleeps = ("c-plan", ChainPart::Sleeps, 1_000);
    let runs = RUNS.map(|(who, us)| (who, ChainPart::Runs, us));
    for (who, part, us) in runs.into_iter().chain([sleeps]) {
        let truth = Nanos::from_micros(us);
        match mean(who, part) {
            Some(mean) if near(mean, truth) => {}
            mean => wrong.push(format!("{who} {part}: {mean:?}, truth {truth}")),
        }
    }
    wrong
}

#[test]
fn chains_of_processes_have_the_measured_latency() {
    let place = Sandbox::new();
    let Some(stage) = Stage::set(2) else {
        return;
    };
    let Some(program) = built(&place, "culprits/chain") else {
        return;
    };
    let cpus: Vec<String> = stage.cpus.iter().take(2).map(ToString::to_string).collect();
    for how in ["pipe", "udp", "futex", "mixed"] {
        let mut all = Vec::new();
        // Other programs may disturb a round, and a hypervisor may take a CPU.
        for _ in 0..3 {
            let run = || {
                let output = Command::new(&program)
                    .arg(how)
                    .args(&cpus)
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{}", text(&output.stderr));
                text(&output.stdout)
            };
            let Some(told) = recorded(&place, &EVENTS, run) else {
                return;
            };
            let found = chains_of(&place.path("both.dat"));
            let wrong = differences(&found, &told);
            eprintln!(
                "{how}: {:?} of {}, {wrong:?}",
                found.latencies.max(),
                found.begun
            );
            all.push(wrong);
            if all.last().is_some_and(Vec::is_empty) {
                break;
            }
        }
        if all.last().is_some_and(Vec::is_empty) {
            continue;
        }
        match punctual_testing::crowded() {
            Some(crowd) => punctual_testing::skip!(Quiet, "chains: {crowd}: {all:?}"),
            None => panic!("{how}: {all:#?}"),
        }
    }
}
