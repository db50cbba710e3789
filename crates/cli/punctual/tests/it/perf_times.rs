//! Compares the table of threads with the tables of perf.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::{Sandbox, skip_refused_by_perf, text};

/// The figures of a thread, as they are printed.
type Rows = BTreeMap<u32, Vec<String>>;

/// Returns the text that perf 6.1 prints. Other versions count in another way.
fn perf(words: &[&str], file: &Path) -> Option<String> {
    let version = Command::new("perf").arg("--version").output();
    let version = version.map(|output| text(&output.stdout));
    if !version.is_ok_and(|version| version.starts_with("perf version 6.1")) {
        punctual_testing::skip!(Program, "perf 6.1 is not installed");
        return None;
    }
    let output = Command::new("perf")
        .arg("sched")
        .args(words)
        .arg("-i")
        .arg(file)
        .output();
    Some(text(&output.unwrap().stdout))
}

/// Parses `comm:7 | 1.000 ms | 3 | avg: 0.2 ms | max: 0.3 ms | max start: 1.2 s | max end: 1.3 s`.
fn latency(line: &str) -> Option<(u32, Vec<String>)> {
    let fields: Vec<&str> = line.split('|').collect();
    let [thread, figures @ ..] = fields.as_slice() else {
        return None;
    };
    let (_, pid) = thread.trim().rsplit_once(':')?;
    let figures = figures.iter().map(|field| {
        let field = field.trim().trim_end_matches(" ms").trim_end_matches(" s");
        field.rsplit(' ').next().unwrap_or(field).to_owned()
    });
    Some((pid.parse().ok()?, figures.collect()))
}

/// Parses `comm[7/5]  2  3  1.000 ...`: the number of runs, and the run time.
fn timehist(line: &str) -> Option<(u32, Vec<String>)> {
    let (thread, rest) = line.rsplit_once(']')?;
    let (_, pid) = thread.rsplit_once('[')?;
    let pid = pid.split('/').next()?;
    let mut words = rest.split_whitespace().skip(1).map(str::to_owned);
    let (runs, run) = (words.next()?, words.next()?);
    Some((pid.parse().ok()?, vec![run, runs]))
}

#[test]
fn figures_of_threads_are_those_of_perf() {
    let place = Sandbox::new();
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/tracefile/tests/fixtures/perf");
    let file = place.path("perf.data");
    let unpacked = Command::new("xz")
        .arg("-dc")
        .arg(fixtures.join("file.data.xz"))
        .output();
    let Ok(unpacked) = unpacked else {
        return punctual_testing::skip!(Program, "xz is not installed");
    };
    std::fs::write(&file, unpacked.stdout).unwrap();
    compare(&place, &file);
}

/// The events that perf itself records, among them the run times.
#[test]
fn figures_of_an_own_recording_are_those_of_perf() {
    let place = Sandbox::new();
    let file = place.path("perf.data");
    let recorded = Command::new("perf")
        .args(["sched", "record", "-o"])
        .arg(&file)
        .args([
            "sh",
            "-c",
            "for i in 1 2 3 4 5 6 7 8; do sleep 0.02; true; done",
        ])
        .output();
    match recorded {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            return skip_refused_by_perf("perf sched record", &text(&output.stderr));
        }
        Err(_) => return punctual_testing::skip!(Program, "perf is not installed"),
    }
    let stated = compare(&place, &file);
    assert!(stated > 3, "{stated}");
}

/// Compares the table of a file with that of perf. Returns the number of threads with a run time that events
/// state.
fn compare(place: &Sandbox, file: &Path) -> usize {
    let (Some(waits), Some(runs)) = (
        perf(&["latency", "-p"], file),
        perf(&["timehist", "-s"], file),
    ) else {
        return usize::MAX;
    };
    let waits: Rows = waits.lines().filter_map(latency).collect();
    let runs: Rows = runs.lines().filter_map(timehist).collect();
    assert!(waits.len() > 5 && runs.len() > 5, "{waits:?} {runs:?}");
    let shown = place.done(&format!(
        "explain --trace {} --thread-times=perf",
        file.display()
    ));
    let own = shown.lines().filter_map(|line| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let (names, figures) = words.split_at_checked(words.len().checked_sub(8)?)?;
        let (_, pid) = names.last()?.rsplit_once('-')?;
        Some((pid.parse().ok()?, figures.to_vec()))
    });
    let own: Rows = own.collect();
    for (pid, figures) in &own {
        let (run, wait) = figures.split_at(2);
        match runs.get(pid) {
            Some(theirs) => assert_eq!(run, theirs, "{pid}"),
            None => assert_eq!(run[1], "0", "{pid}"),
        }
        let mut wait = wait.to_vec();
        if wait[0] == "-" {
            wait[0] = "0.000".to_owned();
        }
        match waits.get(pid) {
            Some(theirs) => assert_eq!(wait, *theirs, "{pid}"),
            None => assert_eq!(wait[1], "0", "{pid}"),
        }
    }
    // The table has at most 100 threads.
    let is_cut = shown.contains(" further thread");
    let mut all = waits.keys().chain(runs.keys()).filter(|pid| **pid != 0);
    assert!(is_cut || all.all(|pid| own.contains_key(pid)), "{own:?}");
    let stated = waits.values().filter(|figures| figures[0] != "0.000");
    stated.count()
}
