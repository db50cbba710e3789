//! Tools that use pairs of threads or processes.

use std::fs;
use std::process::Child;

use serde_json::Value;

use crate::common::{Sandbox, assert_conserved, eventually, signal, text};

#[test]
fn lines_are_what_scripts_look_for() {
    let place = Sandbox::new();
    let out = place.done("compat ptsematest -t 2 -a -l 300 -q");
    // Scripts extract the maxima with `grep -- '->' | sed`.
    let maxima: Vec<u64> = (out.lines().filter(|line| line.contains("->")))
        .map(|line| line.rsplit("Max ").next().unwrap().trim().parse().unwrap())
        .collect();
    assert_eq!(maxima.len(), 2, "{out}");
    let first = out.lines().next().unwrap();
    assert!(first.starts_with("#0: ID"), "{out}");
    // As in the original, the first pair that finishes also ends the other pairs.
    assert!(
        out.lines().any(|line| line.ends_with(", Cycles 300")),
        "{out}"
    );
    assert!(first.contains(", P0, CPU0, I1000; #1: ID"), "{out}");
    let out = place.done("compat signaltest -t 3 -l 20 -q");
    let fields: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(fields.len(), 3, "{out}");
    // Scripts like those of rteval use awk, so the value after `Max:` must be the last field.
    assert!(
        fields
            .iter()
            .all(|line| line.last().unwrap().parse::<u64>().is_ok()),
        "{out}"
    );
    assert!(out.starts_with("T: 0 ("), "{out}");
}

/// The time limit changes which system call is used, but not the lines or the keys.
#[test]
fn messages_are_waited_for_with_a_limit() {
    let place = Sandbox::new();
    let out = place.done("compat pmqtest -T 5 -l 50 -q --json=out.json");
    let first = out.lines().next().unwrap();
    assert!(first.ends_with(", TO 0, Cycles 50"), "{out}");
    let file = fs::read_to_string(place.path("out.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(file["thread"]["0"]["receiver"]["timeoutcount"], 0);
    let recording = place.last();
    assert_conserved(&recording);
    assert_eq!(
        recording.probe.parameters["timeout_ns"],
        Value::from(5_000_000_000_u64)
    );
}

const TRACING_ON: &str = "/sys/kernel/tracing/tracing_on";

/// Restores the machine's `tracing_on`. As in the original, a break sets it to 0.
struct TracingOn(Option<String>);

impl TracingOn {
    fn keep() -> Self {
        Self(fs::read_to_string(TRACING_ON).ok())
    }
}

impl Drop for TracingOn {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            fs::write(TRACING_ON, before).unwrap();
        }
    }
}

#[test]
fn strict_break_is_shown_by_status() {
    let _kept = TracingOn::keep();
    let place = Sandbox::new();
    let call = "compat sigwaittest -b 1 -i 500 -D 20 -q";
    let output = place.run(call);
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(said.contains("stopped at a break"), "{said}");
    let strict = place
        .command(call)
        .env("PUNCTUAL_STRICT", "1")
        .output()
        .unwrap();
    assert_eq!(strict.status.code(), Some(3));
}

/// Returns the PIDs of the children of a process.
fn children(parent: u32) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().nth(1) == Some(parent.to_string().as_str())
    };
    numbers.filter(is_child).collect()
}

/// Returns the IDs of System V semaphore sets.
fn semaphores() -> Vec<String> {
    let table = fs::read_to_string("/proc/sysvipc/sem").unwrap_or_default();
    let rows = table.lines().skip(1);
    rows.filter_map(|row| row.split_whitespace().nth(1).map(str::to_owned))
        .collect()
}

#[test]
fn senders_can_be_separate_processes() {
    for tool in ["svsematest -a", "sigwaittest"] {
        let place = Sandbox::new();
        let out = place.done(&format!("compat {tool} -f -t 2 -l 30 -q --json=out.json"));
        let file = fs::read_to_string(place.path("out.json")).unwrap();
        let file: Value = serde_json::from_str(&file).unwrap();
        // The first pair that has all its samples ends the run.
        let samples = |pair: &str| file["thread"][pair]["sender"]["samples"].as_u64();
        assert_eq!(samples("0").max(samples("1")), Some(30), "{out}");
        let recording = place.last();
        assert_conserved(&recording);
        assert_eq!(recording.probe.parameters["processes"], Value::from(true));
        let partners = recording.tables.iter().find(|t| t.name == "partners");
        let rows = &partners.unwrap().rows;
        assert_eq!(rows.len(), 2);
        // Each line names the sender that is in the table, not the receiver a second time.
        for (row, line) in rows.iter().zip(out.lines()) {
            let ids: Vec<&str> = line
                .split("ID")
                .skip(1)
                .map(|rest| rest.split(',').next().unwrap())
                .collect();
            let punctual_model::Cell::Text(sender) = &row[1] else {
                panic!("{row:?}");
            };
            assert_eq!(ids[1], sender, "{out}");
            assert_ne!(ids[0], ids[1], "{out}");
        }
    }
}

/// Starts the command and waits until both senders run.
fn running(place: &Sandbox) -> (Child, Vec<u32>) {
    let child = place.spawn("compat svsematest -f -t 2 -q");
    let mut started = Vec::new();
    let found = eventually(|| {
        started = children(child.id());
        started.len() == 2
    });
    assert!(found, "{started:?}");
    (child, started)
}

fn assert_gone(processes: &[u32], before: &[String]) {
    let gone = eventually(|| {
        let runs = |pid: &u32| fs::exists(format!("/proc/{pid}")).unwrap();
        // Other tests may have created and removed semaphores in the meantime.
        !processes.iter().any(runs) && semaphores().iter().all(|set| before.contains(set))
    });
    assert!(gone, "{processes:?} {before:?} {:?}", semaphores());
}

#[test]
fn processes_and_semaphores_end_with_tool() {
    let place = Sandbox::new();
    let before = semaphores();
    let (child, started) = running(&place);
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("#1 -> #0"));
    assert_gone(&started, &before);
    let (mut child, started) = running(&place);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_gone(&started, &before);
}

#[test]
fn killed_sender_ends_the_tool() {
    let place = Sandbox::new();
    let before = semaphores();
    let (child, started) = running(&place);
    let status = std::process::Command::new("kill")
        .args(["-9", &started[0].to_string()])
        .status();
    assert!(status.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("signal 9"), "{said}");
    assert_gone(&started, &before);
}

#[test]
fn timeouts_are_forced_and_counted() {
    let place = Sandbox::new();
    let out = place.done("compat pmqtest -T 1 -f 2 -l 1 -q --json=out.json");
    let file = fs::read_to_string(place.path("out.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let timeouts = file["thread"]["0"]["receiver"]["timeoutcount"].as_u64();
    // In two seconds, there is one timeout, or two on a busy machine.
    assert!(matches!(timeouts, Some(1 | 2)), "{timeouts:?}");
    let line = format!(", TO {}, Cycles 1\n", timeouts.unwrap());
    assert!(out.contains(&line), "{out}");
    assert_conserved(&place.last());
}

#[test]
fn fork_value_is_refused_from_users() {
    let place = Sandbox::new();
    let output = place.run("compat svsematest -fr0");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "Invalid fork option\n");
}

/// Canonical's tests compare the priorities in the output with the value of the option.
#[test]
fn both_threads_show_the_requested_priority() {
    let place = Sandbox::new();
    for tool in ["ptsematest", "svsematest", "sigwaittest", "pmqtest"] {
        let output = place.run(&format!("compat {tool} -p 80 -t 2 -d 0 -l 5 -q"));
        let (out, said) = (text(&output.stdout), text(&output.stderr));
        if said.contains("Unable to change scheduling policy") {
            punctual_testing::skip!(Right, "{said}");
            return;
        }
        let priorities: Vec<&str> = (out.lines().flat_map(|line| line.split(", ")))
            .filter(|word| word.starts_with('P'))
            .collect();
        assert_eq!(
            priorities,
            ["P80", "P80", "P79", "P79"],
            "{tool}: {out}{said}"
        );
    }
}
