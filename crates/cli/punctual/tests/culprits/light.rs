//! Waits within jobs in the light stage of `explain --pid`: the thread or the timer that ended them is
//! named, although only the watched thread's events are recorded.

use std::process::Command;

use crate::common::{Sandbox, eventually, text};
use crate::stage::Stage;
use punctual_model::{Nanos, Outlier, ShareKind};
use punctual_testing::Running;

/// Starts a Python program whose jobs wait for a timer and for a shell in turn.
fn waits_in_turn() -> Option<Running> {
    let script = "
import select, subprocess, time
script = 'while read x; do sleep 0.06; echo; done'
pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
shell = subprocess.Popen(['sh', '-c', script], **pipes)
turn = 0
while True:
    time.sleep(0.01)
    turn += 1
    if turn % 40 == 0:
        select.select([], [], [], 0.06)
    if turn % 40 == 20:
        shell.stdin.write(b'\\n')
        shell.stdin.flush()
        shell.stdout.readline()
";
    match Command::new("python3").args(["-c", script]).spawn() {
        Ok(app) => Some(Running(app)),
        Err(error) => {
            punctual_testing::skip!(Program, "a thread that waits: python3: {error}");
            None
        }
    }
}

/// Returns whether most of an outlier has a cause of this kind.
fn is_mainly(outlier: &Outlier, kind: ShareKind, who: &str) -> bool {
    let shares = outlier.blame.shares.iter();
    shares
        .filter(|share| share.kind() == kind && share.who().starts_with(who))
        .any(|share| share.ns > Nanos::from_millis(50))
}

#[test]
fn light_stage_names_wakers_and_timers() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let Some(app) = waits_in_turn() else {
        return;
    };
    // The light stage needs the right to record.
    let pid = app.0.id();
    let line = format!("explain --pid {pid} --release nanosleep --budget 50ms --cost 0.01%");
    let output = place.run(&format!("{line} -q -D 7s"));
    if text(&output.stderr).contains("the cost of watching cannot be limited") {
        punctual_testing::skip_refused("explain --cost", text(&output.stderr));
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    drop(app);
    let recording = place.last();
    crate::common::assert_conserved(&recording);
    let outliers = &recording.explanation.as_ref().unwrap().outliers;
    let light = || outliers.iter().filter(|outlier| outlier.light_stage);
    let for_shell = light().filter(|one| is_mainly(one, ShareKind::Waiting, "sh"));
    assert!(for_shell.count() >= 2, "{outliers:#?}");
    let for_timer = light().filter(|one| is_mainly(one, ShareKind::OwnSleep, "its own timer"));
    assert!(for_timer.count() >= 2, "{outliers:#?}");
    // A timer is never taken for a thread: the shell sleeps as long, but each job waits once.
    let both = |one: &&Outlier| {
        is_mainly(one, ShareKind::Waiting, "sh") && is_mainly(one, ShareKind::OwnSleep, "")
    };
    assert_eq!(light().find(both), None);
}

/// Returns the number of times that the threads of a process began to sleep.
fn sleeps(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_thread = |path: std::path::PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.map_or(0, |count| count.trim().parse().unwrap())
    };
    threads.map(|entry| of_thread(entry.unwrap().path())).sum()
}

#[test]
fn idle_process_lets_the_observer_sleep() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let mut app = Running(Command::new("sleep").arg("600").spawn().unwrap());
    let watching = place.spawn(&format!("explain --pid {} -D 5min -q", app.0.id()));
    let begun = eventually(|| place.run("show last --json").status.success());
    assert!(begun, "nothing is watched");
    // At 50 turns per second, there would be 200 sleeps of the observer and its second thread.
    let is_quiet = || {
        let before = sleeps(watching.id());
        std::thread::sleep(std::time::Duration::from_secs(2));
        sleeps(watching.id()) - before < 30
    };
    let quiet = eventually(is_quiet);
    let _ = app.0.kill();
    let _ = app.0.wait();
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let warnings = place.last().warnings;
    if let Some(why) = warnings.iter().find(|one| one.contains("kernel's tracer")) {
        punctual_testing::skip_refused("the recorder of jobs", why);
        return;
    }
    assert!(quiet, "{warnings:?}");
    let ended = |one: &String| one.contains("all watched threads had ended after");
    assert!(warnings.iter().any(ended), "{warnings:?}");
}

/// The kernel counts the jobs of a thread after its first thousand waits.
#[test]
fn figures_of_counted_jobs_balance() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let script = "
import time
while True:
    time.sleep(0.0003)
    sum(range(200))
";
    let Ok(app) = Command::new("python3").args(["-c", script]).spawn() else {
        punctual_testing::skip!(Program, "a thread with many jobs: python3");
        return;
    };
    let app = Running(app);
    let pid = app.0.id();
    let line = format!("explain --pid {pid} --budget 5ms --cost 0.5% -q -D 5s");
    let output = place.run(&line);
    if text(&output.stderr).contains("the cost of watching cannot be limited") {
        punctual_testing::skip_refused("explain --cost", text(&output.stderr));
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    drop(app);
    let recording = place.last();
    crate::common::assert_conserved(&recording);
    let jobs = recording
        .explanation
        .as_ref()
        .unwrap()
        .jobs
        .as_ref()
        .unwrap();
    let (of_thread, thread) = (&jobs.threads[0], &recording.threads[0]);
    // The light stage shows only a wait at which the thread sleeps, and a busy machine delays it.
    assert!(of_thread.jobs > 1_500, "{}", of_thread.jobs);
    assert_eq!(thread.histogram.count(), of_thread.jobs);
    assert_eq!(of_thread.execution.count(), of_thread.jobs);
    // A job that is released at once has no wait.
    let released = of_thread.waits + of_thread.released_at_once;
    assert!(released >= of_thread.jobs, "{of_thread:?}");
    let in_rows: u64 = recording
        .series
        .rows
        .iter()
        .map(|row| row.histogram.total())
        .sum();
    assert_eq!(in_rows, of_thread.jobs);
    let longest = recording
        .top_samples
        .first()
        .map(|sample| sample.latency_ns);
    assert_eq!(longest, thread.histogram.max());
}

#[test]
fn recording_continues_across_a_restart() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("pt-restarted");
    std::fs::copy("/bin/sleep", &program).unwrap();
    let run = || Running(Command::new(&program).arg("60").spawn().unwrap());
    let first = run();
    let watching = place.spawn("explain --comm pt-restarted -D 5s -q");
    let begun = eventually(|| place.run("show last --json").status.success());
    assert!(begun, "nothing is watched");
    drop(first);
    std::thread::sleep(std::time::Duration::from_millis(700));
    let second = run();
    let output = watching.wait_with_output().unwrap();
    drop(second);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recording = place.last();
    let restarted = |one: &String| one.contains("the watched processes restarted after");
    assert!(
        recording.warnings.iter().any(restarted),
        "{:?}",
        recording.warnings
    );
    assert!(
        recording.duration_ns >= Nanos::from_millis(4_900),
        "{}",
        recording.duration_ns
    );
}
