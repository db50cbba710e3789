//! Jobs that newer system calls release, or a busy loop that marks its releases with the kit.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Sandbox, text};
use crate::jobs::{built, explained};
use crate::stage::{Stage, Truth, disagreement, fifo, now, sleep_until, spin_until, thread};
use punctual_app::{ChannelSpec, Figures, Kind};
use punctual_model::{Nanos, Outlier, Recording, ReleaseChoice, ShareKind};
use punctual_rt::Policy;
use punctual_testing::Running;

/// Asserts that `call` releases the jobs, and that jobs which wait for another thread say so.
/// `details`: beginnings of the object of this wait.
fn loop_is_explained(way: &str, call: &str, details: &[&str]) {
    let Some(stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let Some(program) = built(&place, "culprits/releases") else {
        return;
    };
    let cpu = stage.cpus.last().unwrap().to_string();
    let app = Command::new(program)
        .args([way, &cpu])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut app = Running(app.unwrap());
    let mut output = BufReader::new(app.0.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    if line.is_empty() {
        let mut why = String::new();
        let mut stderr = app.0.stderr.take().unwrap();
        stderr.read_to_string(&mut why).unwrap();
        punctual_testing::skip_refused(way, &why);
        return;
    }
    let recording = explained(&place, app.0.id(), "--budget 2ms -D 2s");
    let _ = app.0.kill();
    let mut told = String::new();
    output.read_to_string(&mut told).unwrap();

    let explanation = recording.explanation.as_ref().unwrap();
    let jobs = &explanation.jobs.as_ref().unwrap().threads[0];
    let release = jobs.release.as_ref().unwrap();
    assert_eq!(
        (release.call.as_str(), release.choice),
        (call, ReleaseChoice::Found),
        "{jobs:?}"
    );
    assert!(jobs.jobs > 100, "{jobs:?}");
    let of_loop: Vec<&Outlier> = (explanation.outliers.iter())
        .filter(|outlier| outlier.thread == 0)
        .collect();
    for detail in details {
        let mut seen = Vec::new();
        let named = told.lines().any(|line| {
            let Some((from, truth)) = truth_of(line) else {
                return false;
            };
            let within = |outlier: &&&Outlier| {
                let due = outlier.monotonic_ns;
                due <= from && from <= due + outlier.latency_ns
            };
            let Some(outlier) = of_loop.iter().find(within) else {
                return false;
            };
            let has_detail = (outlier.blame.shares.iter()).any(|share| {
                let shown = share.detail().unwrap_or_default();
                share.kind() == ShareKind::Waiting && shown.starts_with(detail)
            });
            let wrong = disagreement(&outlier.blame, &truth);
            let fits = has_detail && wrong.is_none();
            seen.push(format!("{wrong:?}: {:?}", outlier.blame.shares));
            fits
        });
        match punctual_testing::crowded() {
            _ if named => {}
            Some(crowd) => punctual_testing::skip!(Quiet, "{crowd}: {way}: {seen:#?}"),
            None => panic!("no job waited for the helper {detail}: {seen:#?}\n{told}"),
        }
    }
}

/// Reads a line of the program: whom the job waited for, since when, and how long.
fn truth_of(line: &str) -> Option<(Nanos, Truth)> {
    let parts: Vec<&str> = line.split('\t').collect();
    let [who, from, to] = parts[..] else {
        return None;
    };
    let (from, to) = (Nanos(from.parse().ok()?), Nanos(to.parse().ok()?));
    let truth = Truth {
        kind: ShareKind::Waiting,
        who: who.to_owned(),
        took: to.saturating_sub(from),
    };
    Some((from, truth))
}

#[test]
fn io_uring_completion_releases_jobs() {
    loop_is_explained(
        "uring",
        "io_uring_enter",
        &["in io_uring_enter, descriptor 4"],
    );
}

#[test]
fn futex2_wait_releases_jobs() {
    loop_is_explained("futex", "futex_wait", &["in futex_waitv", "futex 0x"]);
}

#[test]
fn epoll_pwait2_releases_jobs() {
    loop_is_explained("epoll", "epoll_pwait2", &["in epoll_pwait2, descriptor"]);
}

const PERIOD: Nanos = Nanos::from_millis(1);

/// How long a thread of higher priority runs in some jobs.
const HELD_UP: Nanos = Nanos::from_millis(4);

/// Polls the clock for its next release, and never sleeps.
fn busy_loop(stop: &AtomicBool, ready: &std::sync::mpsc::Sender<()>) {
    let figures = Figures::create("busy-loop-of-this-test", 1).unwrap();
    let spec = ChannelSpec {
        name: "work",
        kind: Kind::Response,
        period_ns: PERIOD.0,
        budget_ns: 2 * PERIOD.0,
    };
    let mut work = figures.channel(&spec).unwrap();
    ready.send(()).unwrap();
    let mut release = now() + PERIOD;
    while !stop.load(Ordering::Relaxed) {
        let time = now();
        if time >= release {
            work.record(release.0, i64::try_from((now() - release).0).unwrap());
            // Releases that have passed meanwhile are skipped.
            while release <= time {
                release += PERIOD;
            }
        }
    }
}

#[test]
fn busy_loop_marks_its_releases() {
    let Some(stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let cpu = *stage.cpus.last().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, ready) = std::sync::mpsc::channel();
    let seen = Arc::clone(&stop);
    let polls = thread("polls", Policy::Other { nice: -15 }, &[cpu], move || {
        busy_loop(&seen, &sender)
    });
    ready.recv().unwrap();
    let seen = Arc::clone(&stop);
    let hog = thread("hog", fifo(60), &[cpu], move || {
        let mut spans = Vec::new();
        while !seen.load(Ordering::Relaxed) {
            sleep_until(now() + Nanos::from_millis(50));
            spans.push(spin_until(now() + HELD_UP));
        }
        spans
    });
    let output = place.run("app record busy-loop-of-this-test -D 1500ms -q --json --explain");
    let plain = place.run(&format!("explain --pid {} -q -D 400ms", std::process::id()));
    stop.store(true, Ordering::Relaxed);
    polls.join().unwrap();
    let spans = hog.join().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let recording = Recording::from_json(&text(&output.stdout)).unwrap();
    let outliers = &recording.explanation.as_ref().unwrap().outliers;
    let mut wrong = Vec::new();
    let named = outliers.iter().any(|outlier| {
        let due = outlier.monotonic_ns;
        let done = due + outlier.latency_ns;
        let in_job = spans.iter().map(|span| span.within(due, done).0);
        let truth = Truth {
            kind: ShareKind::HigherPriority,
            who: "hog-".to_owned(),
            took: Nanos(in_job.sum()),
        };
        if truth.took.0 < HELD_UP.0 / 2 {
            return false;
        }
        let disagrees = disagreement(&outlier.blame, &truth);
        let fits = disagrees.is_none();
        wrong.extend(disagrees);
        fits
    });
    match punctual_testing::crowded() {
        _ if named => {}
        Some(crowd) => punctual_testing::skip!(Quiet, "{crowd}: a busy loop: {wrong:?}"),
        None => panic!("the hog is not named: {wrong:?} {outliers:#?}"),
    }
    // Without the marks, the loop has no jobs, because it never waits.
    let said = text(&plain.stdout);
    assert!(said.contains("app record"), "{said}");
}
