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
    "sched:sched_wakeup_new",
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

/// The figures of a thread: run time that events state, number of waits, and their average and maximum
/// in ms.
type Figures = (String, String, [f64; 2]);

fn figures(words: &[&str]) -> Option<Figures> {
    let [run, waits, average, longest, ..] = words else {
        return None;
    };
    let millis = [average.parse().ok()?, longest.parse().ok()?];
    Some(((*run).to_owned(), (*waits).to_owned(), millis))
}

/// Parses the lines of perf: `sh:7 | 1.000 ms | 3 | avg: 0.2 ms | max: 0.3 ms | ...`.
fn of_perf(latency: &str) -> BTreeMap<u32, Figures> {
    let rows = latency.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split('|').collect();
        let (_, pid) = fields.first()?.trim().rsplit_once(':')?;
        let fields = fields.iter().skip(1).map(|field| {
            let field = field.trim().trim_end_matches(" ms");
            field.rsplit(' ').next().unwrap_or(field)
        });
        let fields: Vec<&str> = fields.collect();
        Some((pid.parse().ok()?, figures(&fields)?))
    });
    rows.collect()
}

/// Number of runs, and run time in ms from the switches.
type Runs = (String, f64);

/// Parses the lines of perf: `sh[7/5]  2  3  1.000 ...`.
fn runs_of_perf(timehist: &str) -> BTreeMap<u32, Runs> {
    let rows = timehist.lines().filter_map(|line| {
        let (thread, rest) = line.rsplit_once(']')?;
        let pid = thread.rsplit_once('[')?.1.split('/').next()?;
        let mut words = rest.split_whitespace().skip(1);
        let runs = words.next()?.to_owned();
        Some((pid.parse().ok()?, (runs, words.next()?.parse().ok()?)))
    });
    rows.collect()
}

/// Parses a table of threads.
fn of_table(table: &str) -> BTreeMap<u32, (Runs, Figures)> {
    let rows = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (names, all) = words.split_at_checked(words.len().checked_sub(8)?)?;
        let (_, pid) = names.last()?.rsplit_once('-')?;
        let runs = (all[1].to_owned(), all[0].parse().ok()?);
        Some((pid.parse().ok()?, (runs, figures(all.get(2..)?)?)))
    });
    rows.collect()
}

/// Starts processes that compute and sleep, and prints their IDs.
const WORK: &str = "for one in 1 2 3 4 5 6 7 8; do \
    sh -c 'echo $$; n=0; while [ $n -lt 3000 ]; do n=$((n + 1)); done; sleep 0.01'; done";

/// Records processes with both recorders. Returns those whose figures differ, or `None` if
/// that is not possible here.
fn different(place: &Sandbox) -> Option<Vec<String>> {
    let pids = both(place, &["sh", "-c", WORK])?;
    let pids: Vec<u32> = pids.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(pids.len(), 8, "{pids:?}");
    let perf = |view: [&str; 2]| {
        let mut perf = Command::new("perf");
        perf.arg("sched").args(view).args(["-i", "run.data"]);
        text(&perf.current_dir(place.path("")).output().unwrap().stdout)
    };
    let waits = of_perf(&perf(["latency", "-p"]));
    let runs = runs_of_perf(&perf(["timehist", "-s"]));
    let chosen: String = pids.iter().map(|pid| format!(" --pid {pid}")).collect();
    let table = place.done(&format!(
        "explain --trace both.dat --thread-times=perf{chosen}"
    ));
    let own = of_table(&table);
    let (mut differ, mut equal) = (Vec::new(), 0);
    for pid in &pids {
        let all = (own.get(pid), runs.get(pid), waits.get(pid));
        let are_near = |a: f64, b: f64| (a - b).abs() <= APART as f64 / 1e6;
        let is_same = match all {
            (Some((own_runs, own)), Some(runs), Some(waits)) => {
                let is_run_near = own_runs.0 == runs.0 && are_near(own_runs.1, runs.1);
                let mut millis = own.2.iter().zip(waits.2);
                let are_waits_near = millis.all(|(a, b)| are_near(*a, b));
                (&own.0, &own.1) == (&waits.0, &waits.1) && is_run_near && are_waits_near
            }
            _ => false,
        };
        if is_same {
            equal += 1;
        } else {
            differ.push(format!("{pid}: {all:?}"));
        }
    }
    eprintln!(
        "{equal} of {} threads have the same runtime and waits",
        pids.len()
    );
    Some(differ)
}

/// perf cannot read a `trace.dat`. The processes begin and end while both recorders record, so the events
/// state the same run times. The lengths of runs and waits differ by the time between the two recorders.
#[test]
fn runtime_column_of_a_trace_dat_is_that_of_perf() {
    let place = Sandbox::new();
    let mut all = Vec::new();
    for _ in 0..4 {
        match different(&place) {
            None => return,
            Some(differ) if differ.is_empty() => return,
            Some(differ) => all.extend(differ),
        }
    }
    disagree(&place, &format!("the figures of threads differ: {all:?}"));
}
