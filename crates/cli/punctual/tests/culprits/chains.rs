//! Chains of four processes with known delays, in traces that trace-cmd records and on the running
//! machine.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;

use punctual_culprit::ChainStart;
use punctual_model::{ChainPart, Comm, FromJson as _, Nanos, TraceChains};
use punctual_session::{TraceRequest, trace_chains};
use punctual_tracefile::{Input, open};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Sandbox, text};
use crate::jobs::built;
use crate::recorders::{cpu_without_idle_switches, recorded};
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

/// Sleep of a process in a round.
const SLEEPS: (&str, ChainPart, u64) = ("c-plan", ChainPart::Sleeps, 1_000);

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
fn differences(found: &TraceChains, told: &str, parts: &[(&str, ChainPart, u64)]) -> Vec<String> {
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
    for (who, part, us) in parts {
        let truth = Nanos::from_micros(*us);
        match mean(who, *part) {
            Some(mean) if near(mean, truth) => {}
            mean => wrong.push(format!("{who} {part}: {mean:?}, truth {truth}")),
        }
    }
    wrong
}

/// Chains, and what the program printed.
type Measured = Option<(TraceChains, String)>;

/// Exit code of the program if the kernel has no io_uring.
const NO_URING: i32 = 5;

/// Runs the pipeline. Returns what it printed, or `None` if the kernel has no io_uring.
fn told(pipeline: &mut Command) -> Option<String> {
    let output = pipeline.output().unwrap();
    if output.status.code() == Some(NO_URING) {
        return None;
    }
    // A pipeline that failed has too few rounds, and the recorder must still be stopped.
    if !output.status.success() {
        eprintln!("{}", text(&output.stderr));
    }
    Some(text(&output.stdout))
}

/// Records a run in a file, and finds its chains.
fn in_file(place: &Sandbox, run: &dyn Fn() -> Option<String>) -> Measured {
    let told = recorded(place, &EVENTS, run)??;
    Some((chains_of(&place.path("both.dat")), told))
}

/// Follows the chains of a run live.
fn live(place: &Sandbox, run: &dyn Fn() -> Option<String>) -> Measured {
    let mut child = place.spawn("explain --from comm:c-sensor --to comm:c-motor -D forever --json");
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    if !line.contains("following chains") {
        let _ = child.wait();
        punctual_testing::skip_refused("explain --from", line);
        return None;
    }
    let told = run();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    // 4: all chains are unknown, which the comparison reports.
    let status = output.status;
    assert!(matches!(status.code(), Some(0 | 4)), "{status:?}");
    let told = told?;
    Some((TraceChains::from_json(&output.stdout).unwrap(), told))
}

type Measure = fn(&Sandbox, &dyn Fn() -> Option<String>) -> Measured;

/// Compares the chains of a pipeline with its truth. Returns `false` if that is not possible here.
fn compare(
    place: &Sandbox,
    how: &str,
    pipeline: impl Fn() -> Command,
    parts: &[(&str, ChainPart, u64)],
    measure: Measure,
) -> bool {
    let mut all = Vec::new();
    // Other programs may disturb a round, and a hypervisor may take a CPU.
    for _ in 0..3 {
        let Some((found, told)) = measure(place, &|| told(&mut pipeline())) else {
            return false;
        };
        let wrong = differences(&found, &told, parts);
        eprintln!(
            "{how}: {:?} of {}, {wrong:?}",
            found.latencies.max(),
            found.begun
        );
        if wrong.is_empty() {
            return true;
        }
        all.push(wrong);
    }
    // A live run leaves no file, so another run shows whether switches of idle threads are missing.
    if in_file(place, &|| told(&mut pipeline())).is_some()
        && let Some(cpu) = cpu_without_idle_switches(place)
    {
        punctual_testing::skip!(
            Kernel,
            "chains: trace instances lack the switches of the idle thread of CPU {cpu}: {all:?}"
        );
        return true;
    }
    match punctual_testing::crowded() {
        Some(crowd) => punctual_testing::skip!(Quiet, "chains: {crowd}: {all:?}"),
        None => panic!("{how}: {all:#?}"),
    }
    true
}

/// Compares the chains of the pipelines in C.
fn compare_all(measure: Measure) {
    let place = Sandbox::new();
    let Some(stage) = Stage::set(2) else {
        return;
    };
    let Some(program) = built(&place, "culprits/chain") else {
        return;
    };
    let cpus: Vec<String> = stage.cpus.iter().take(2).map(ToString::to_string).collect();
    let mut parts = RUNS.map(|(who, us)| (who, ChainPart::Runs, us)).to_vec();
    parts.push(SLEEPS);
    for how in ["pipe", "udp", "futex", "mixed", "uring"] {
        let pipeline = || {
            let mut command = Command::new(&program);
            command.arg(how).args(&cpus);
            command
        };
        if !compare(&place, how, pipeline, &parts, measure) {
            if how == "uring" {
                punctual_testing::skip!(Kernel, "chains through io_uring: no io_uring");
            }
            return;
        }
    }
}

/// Compares the chains of a pipeline in Python whose processes publish to each other by DDS.
fn compare_dds(measure: Measure) {
    let has_dds = Command::new("python3")
        .args(["-c", "import cyclonedds"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !has_dds {
        return punctual_testing::skip!(Program, "the Python package cyclonedds");
    }
    let place = Sandbox::new();
    let Some(stage) = Stage::set(2) else {
        return;
    };
    let cpus: Vec<String> = stage.cpus.iter().take(2).map(ToString::to_string).collect();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/culprits/chain.py");
    let pipeline = || {
        let mut command = Command::new("python3");
        command.arg(script).args(&cpus);
        command
    };
    // How long Python runs is unknown.
    compare(&place, "dds", pipeline, &[SLEEPS], measure);
}

#[test]
fn chains_of_processes_have_the_measured_latency() {
    compare_all(in_file);
}

#[test]
fn live_chains_have_the_measured_latency() {
    compare_all(live);
}

#[test]
fn chains_through_dds_have_the_measured_latency() {
    compare_dds(in_file);
}

#[test]
fn live_chains_through_dds_have_the_measured_latency() {
    compare_dds(live);
}
