//! `measure gpio` with the chip of a kernel module that `cargo xtask vm` loads. The module raises
//! the edges, and measures the reactions to them itself (`xtask/module/punctual_gpio.c`).

#![allow(clippy::unwrap_used)]

#[path = "it/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use common::{Sandbox, assert_conserved, eventually, other_user, signal, stop, text};
use punctual_model::{Cell, Completion, Nanos, Outcome, Recording, Table};

/// The file of the module.
const MODULE: &str = "/proc/punctual_gpio";

/// Options of every measurement here.
const USUAL: &str = "-q --warm-up 0s --dma-latency off";

fn loaded(what: &str) -> bool {
    let loaded = Path::new(MODULE).exists();
    if !loaded {
        punctual_testing::skip!(
            Emulation,
            "{what}: the tests' GPIO chip is not there (cargo xtask vm loads it)"
        );
    }
    loaded
}

fn order(text: &str) {
    std::fs::write(MODULE, text).unwrap();
}

/// Returns what the module has counted since the last order.
fn truth() -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(MODULE).unwrap();
    let pairs = text.lines().map(|line| line.split_once(' ').unwrap());
    pairs
        .map(|(name, count)| (name.to_owned(), count.parse().unwrap()))
        .collect()
}

/// Starts a measurement, and returns when it waits for edges.
fn begin(place: &Sandbox, options: &str, slower: u32) -> Child {
    let before = place.listed().len();
    let mut child = place.spawn(&format!("measure gpio {options} -D 10m {USUAL}"));
    assert!(
        eventually(|| place.listed().len() > before || child.try_wait().unwrap().is_some()),
        "it did not begin"
    );
    // The threads start after the recording.
    std::thread::sleep(Duration::from_secs(1) * slower);
    assert!(child.try_wait().unwrap().is_none(), "{}", end_of(child));
    child
}

fn end_of(child: Child) -> String {
    text(&child.wait_with_output().unwrap().stderr)
}

/// Ends a measurement and returns its recording.
fn end(place: &Sandbox, child: Child) -> Recording {
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Stopped);
    assert_conserved(&recording);
    recording
}

/// Returns a cell of a row, which its first cell names.
fn cell<'a>(table: &'a Table, row: &str, key: &str) -> &'a Cell {
    let column = table.columns.iter().position(|c| c.key == key).unwrap();
    let name = Cell::from(row);
    let row = table.rows.iter().find(|row| row[0] == name);
    &row.unwrap_or_else(|| panic!("{table:?}"))[column]
}

fn count(recording: &Recording, row: &str) -> u64 {
    match cell(&recording.tables[0], row, "count") {
        Cell::Count(count) => *count,
        other => panic!("{other:?}"),
    }
}

/// Measures `changes` changes of the input, with this time between them, and returns the recording
/// with the counts of the module.
fn react(options: &str, changes: u32, slower: u32) -> (Recording, BTreeMap<String, u64>) {
    let place = Sandbox::new();
    let child = begin(&place, options, slower);
    order(&format!("edges {changes} {}", 5_000 * slower));
    assert!(eventually(|| truth()["left"] == 0), "the module hangs");
    // The reaction to the last edge.
    std::thread::sleep(Duration::from_millis(200) * slower);
    let truth = truth();
    (end(&place, child), truth)
}

/// Checks what is true even if edges come too fast.
fn check_always(recording: &Recording, truth: &BTreeMap<String, u64>) {
    let account = recording.accounting();
    // No edge is invented.
    assert!(account.expected <= truth["edges"], "{account:?} {truth:?}");
    // Each edge is answered by one change of the output.
    assert_eq!(account.recorded, truth["changes"], "{account:?} {truth:?}");
    let changes = count(recording, "changes of the output");
    assert_eq!(changes, truth["changes"]);
    // The call that sets the output returns after the module has seen it, and the stamp is older
    // than the end of the module's function that raised the edge.
    let histogram = &recording.threads[0].histogram;
    assert!(histogram.sum().0 >= truth["shortest_sum"], "{truth:?}");
    assert!(
        histogram.max() >= Some(Nanos(truth["shortest_max"])),
        "{truth:?}"
    );
}

#[test]
fn edges_and_reactions_are_those_of_the_module() {
    if !loaded("the reaction") {
        return;
    }
    for (edge, edges_of_two) in [("rising", 1), ("falling", 1), ("both", 2)] {
        let options = format!("--in punctual-in --out punctual-out --edge {edge}");
        // On a slow machine, an edge can come before the answer to the previous one, and the kernel
        // can count two edges as one.
        let attempts = [(1, 200), (4, 100), (16, 40), (64, 20), (160, 10)];
        let found = attempts.into_iter().find_map(|(slower, changes)| {
            let expected = u64::from(changes) / 2 * edges_of_two;
            let (recording, truth) = react(&options, changes, slower);
            check_always(&recording, &truth);
            let met = [
                recording.accounting().expected,
                truth["edges"],
                truth["reactions"],
            ];
            let met = met.iter().all(|count| *count == expected);
            if !met {
                println!("slower: {:?} {truth:?}", recording.accounting());
            }
            met.then_some((recording, truth, expected))
        });
        let (recording, truth, expected) = found.expect("the machine is too slow");
        let account = recording.accounting();
        assert_eq!(account.recorded, expected, "{edge}: {account:?}");
        assert_eq!((account.missed, account.warm_up), (0, 0), "{edge}");
        assert_eq!(count(&recording, "counted by the kernel"), expected);
        let min = recording.threads[0].histogram.min();
        assert!(min >= Some(Nanos(truth["shortest_min"])), "{truth:?}");
        // The thread read the edge before the module saw the reaction, and the stamp is younger
        // than the start of this function.
        let woke = cell(&recording.tables[1], "time stamp to thread", "max_ns");
        let Cell::Count(woke) = woke else {
            panic!("{woke:?}");
        };
        assert!(*woke <= truth["longest_max"], "{woke} {truth:?}");
    }
}

#[test]
fn without_output_none_is_set() {
    if !loaded("a measurement without output") {
        return;
    }
    let (recording, truth) = react("--in punctual-in", 40, 4);
    let account = recording.accounting();
    assert!(account.recorded > 0, "{account:?}");
    assert!(account.expected <= truth["edges"], "{account:?} {truth:?}");
    assert_eq!(truth["changes"], 0);
    assert_eq!(recording.tables[1].rows.len(), 1);
}

/// The kernel keeps 1024 edges for a thread that does not read them.
#[test]
fn edges_that_the_kernel_drops_are_missed() {
    if !loaded("dropped edges") {
        return;
    }
    let place = Sandbox::new();
    let child = begin(&place, "--in punctual-in --out punctual-out --edge both", 1);
    stop(&child);
    order("edges 4000 500");
    assert!(eventually(|| truth()["left"] == 0), "the module hangs");
    signal(&child, "CONT");
    // The thread answers the edges in the queue.
    assert!(eventually(|| truth()["changes"] >= 1_024), "{:?}", truth());
    let truth = truth();
    let recording = end(&place, child);
    let account = recording.accounting();
    assert!(account.missed > 0, "{account:?}");
    assert_eq!(
        account.missed,
        count(&recording, "dropped: the kernel's queue was full")
    );
    assert_eq!(account.recorded, count(&recording, "read by the thread"));
    check_always(&recording, &truth);
    let warning = "the kernel dropped";
    assert!(
        recording
            .warnings
            .iter()
            .any(|text| text.starts_with(warning)),
        "{:?}",
        recording.warnings
    );
}

/// The module connects the output with the input.
#[test]
fn generated_edges_are_those_of_the_wire() {
    if !loaded("a wire") {
        return;
    }
    let place = Sandbox::new();
    let lines = "--in punctual-in --out punctual-out --interval 10ms -D 2s --json";
    for edge in ["rising", "falling", "both"] {
        order("wire 1");
        let json = place.done(&format!("measure gpio {lines} --edge {edge} {USUAL}"));
        let truth = truth();
        order("wire 0");
        let recording = Recording::from_json(&json).unwrap();
        assert_conserved(&recording);
        let account = recording.accounting();
        assert_eq!(account.expected, 200, "{edge}: {account:?}");
        assert!(account.recorded > 0, "{edge}: {account:?}");
        let [in_time, lost] = [
            "with an edge in their period",
            "without an edge in their period",
        ]
        .map(|row| count(&recording, row));
        assert_eq!(in_time, account.recorded, "{edge}");
        // Each edge outside of its period belongs to a change without an edge in its period.
        let stray = count(&recording, "edges outside of their period");
        assert!(stray <= lost, "{edge}: {stray} {lost}");
        // The first edge shows, before the run, that the wire is there. If both kinds of edges are
        // reported, two more show that the output is set to low.
        let all = 1 + in_time + lost;
        let most = if edge == "both" { all + 2 } else { all };
        let edges = truth["edges"];
        assert!((all..=most).contains(&edges), "{edge}: {truth:?}");
    }
    let stderr = place.refused(&format!("measure gpio {lines} {USUAL}"), 2);
    let reason = "no edge of gpiochip0:0 (punctual-in) came within 1.00 s";
    assert!(stderr.contains(reason), "{stderr}");
}

#[test]
fn no_edge_proves_nothing() {
    if !loaded("a silent line") {
        return;
    }
    let place = Sandbox::new();
    let output = place.run(&format!(
        "measure gpio --in punctual-in -D 1s --max-latency 10s --json {USUAL}"
    ));
    let stderr = text(&output.stderr);
    let recording = Recording::from_json(&text(&output.stdout)).unwrap();
    assert_eq!(recording.completion, Completion::Finished, "{stderr}");
    assert_eq!(recording.accounting().expected, 0);
    assert_ne!(recording.verdict.outcome, Outcome::Held);
    assert_ne!(output.status.code(), Some(0), "{stderr}");
    let shown = place.done("show last");
    assert!(shown.contains("no rising edge of gpiochip"), "{shown}");
}

#[test]
fn lines_that_cannot_be_used_are_errors() {
    if !loaded("errors of lines") {
        return;
    }
    let place = Sandbox::new();
    for (options, reason) in [
        (
            "",
            "the input is missing: pass --in LINE (this machine has gpiochip",
        ),
        (
            "--in punctual-none",
            "--in punctual-none: no GPIO line is named 'punctual-none'",
        ),
        ("--in gpiochip0:99", "gpiochip0 has no such line"),
        (
            "--in punctual-out",
            "the kernel cannot report edges of line 1",
        ),
        (
            "--in punctual-in --out punctual-idle",
            "line 2 of /dev/gpiochip0 cannot be an output",
        ),
        ("--in punctual-in --out punctual-in", "is also the input"),
    ] {
        let stderr = place.refused(&format!("measure gpio {options} -D 1s"), 2);
        assert!(stderr.contains(reason), "{options}: {stderr}");
    }
    let child = begin(&place, "--in punctual-in", 1);
    let second = Sandbox::new();
    let stderr = second.refused("measure gpio --in punctual-in -D 1s --policy other", 2);
    assert!(stderr.contains("is in use by 'punctual'"), "{stderr}");
    end(&place, child);
    // The line is free again.
    second.done(&format!("measure gpio --in punctual-in -D 1s {USUAL}"));
}

#[test]
fn chip_of_root_is_refused_to_others() {
    if !loaded("a chip of root") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    other_user::give(folder.path(), 0o700);
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["measure", "gpio", "--in", "punctual-in", "-D", "1s"])
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .uid(other_user::OTHER)
        .gid(other_user::OTHER)
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("/dev/gpiochip0 may not be opened"),
        "{stderr}"
    );
}
