//! perf and trace-cmd record the same run at the same time.

use std::collections::BTreeMap;
use std::process::Command;

use crate::common::{Sandbox, skip_refused_by_perf, text};
use crate::forms::{end, near, reactions, wake_ups};
use crate::recorders::{cpu_without_idle_switches, recorded};

/// The events of `perf sched record` that trace-cmd records too.
const EVENTS: [&str; 5] = [
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_migrate_task",
    "sched:sched_stat_runtime",
];

/// Maximum difference of two time stamps in ns: the kernel calls one recorder after the other.
const APART: u64 = 20_000;

/// Lets both recorders record a command. Returns what it printed, or `None` if that is not possible here.
fn both(place: &Sandbox, command: &[&str]) -> Option<String> {
    let run = || {
        let mut perf = Command::new("perf");
        perf.args(["sched", "record", "-q", "-k", "mono", "-m", "4096"]);
        perf.args(["-o", "run.data", "--"]).args(command);
        perf.current_dir(place.path("")).output()
    };
    match recorded(place, &EVENTS, run)? {
        Ok(output) if output.status.success() => Some(text(&output.stdout)),
        Ok(output) => {
            skip_refused_by_perf("perf sched record", &text(&output.stderr));
            None
        }
        Err(error) => {
            punctual_testing::skip!(Program, "perf: {error}");
            None
        }
    }
}

/// Skips or fails, after the recorders disagreed in each of several runs.
fn disagree(place: &Sandbox, what: &str) {
    if let Some(cpu) = cpu_without_idle_switches(place) {
        punctual_testing::skip!(
            Kernel,
            "{what}: the kernel writes no switch from the idle thread of CPU {cpu}"
        );
        return;
    }
    match punctual_testing::crowded() {
        Some(crowd) => punctual_testing::skip!(Quiet, "{what}: {crowd}"),
        None => panic!("{what}"),
    }
}

#[test]
fn perf_and_trace_cmd_have_the_same_reactions() {
    let place = Sandbox::new();
    // A hypervisor may take the CPU between the events of the two recorders.
    for _ in 0..4 {
        let measure = wake_ups(&place);
        let recorded = both(&place, &["sleep", "1"]);
        end(measure);
        if recorded.is_none() {
            return;
        }
        let [perf, dat] = ["run.data", "both.dat"].map(|file| reactions(&place, file));
        // trace-cmd begins earlier and ends later.
        let span = perf.iter().map(|one| one.1);
        let (from, to) = (span.clone().min().unwrap(), span.max().unwrap());
        let dat: Vec<_> = (dat.into_iter())
            .filter(|one| (from..=to).contains(&one.1))
            .collect();
        let all = dat.len();
        if all >= 10 && near("perf and trace-cmd", &perf, &dat, APART) == (all, all) {
            return;
        }
    }
    disagree(&place, "perf and trace-cmd show different reactions");
}

/// Returns the run times of threads that perf prints in lines such as `sh:7 | 1.000 ms | 3 | ...`.
fn of_perf(latency: &str) -> BTreeMap<u32, [String; 2]> {
    let rows = latency.lines().filter_map(|line| {
        let mut fields = line.split('|').map(str::trim);
        let (_, pid) = fields.next()?.rsplit_once(':')?;
        let run = fields.next()?.trim_end_matches(" ms").trim().to_owned();
        Some((pid.parse().ok()?, [run, fields.next()?.to_owned()]))
    });
    rows.collect()
}

/// Returns the run times that events state, and the numbers of waits, in a table of threads.
fn of_table(table: &str) -> BTreeMap<u32, [String; 2]> {
    let rows = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (names, figures) = words.split_at_checked(words.len().checked_sub(8)?)?;
        let (_, pid) = names.last()?.rsplit_once('-')?;
        let figures = [figures[2], figures[3]].map(str::to_owned);
        Some((pid.parse().ok()?, figures))
    });
    rows.collect()
}

/// Starts processes that compute and sleep, and prints their IDs.
const WORK: &str = "for one in 1 2 3 4 5 6 7 8; do \
    sh -c 'echo $$; n=0; while [ $n -lt 3000 ]; do n=$((n + 1)); done; sleep 0.01'; done";

/// perf cannot read a `trace.dat`. The processes begin and end while both recorders record, so the events
/// state the same run times.
#[test]
fn runtime_column_of_a_trace_dat_is_that_of_perf() {
    let place = Sandbox::new();
    let Some(pids) = both(&place, &["sh", "-c", WORK]) else {
        return;
    };
    let pids: Vec<u32> = pids.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(pids.len(), 8, "{pids:?}");
    let mut perf = Command::new("perf");
    perf.args(["sched", "latency", "-p", "-i", "run.data"]);
    let latency = perf.current_dir(place.path("")).output().unwrap();
    let perf = of_perf(&text(&latency.stdout));
    let table = place.done("explain --trace both.dat --thread-times=perf");
    let own = of_table(&table);
    let mut differ = Vec::new();
    for pid in &pids {
        match (own.get(pid), perf.get(pid)) {
            (Some(own), Some(perf)) if own == perf => {}
            pair => differ.push(format!("{pid}: {pair:?}")),
        }
    }
    eprintln!(
        "{} of {} threads have the same runtime and waits",
        pids.len() - differ.len(),
        pids.len()
    );
    if !differ.is_empty() {
        disagree(&place, &format!("the run times differ: {differ:?}"));
    }
}
