//! `app list` and `app record` with applications that measure themselves.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::common::{Sandbox, text};
use punctual_app::{ChannelSpec, Figures, Kind};
use punctual_model::{Completion, Nanos, Outcome, Outlier, Recording, ShareKind};
use punctual_rt::{Clock, OverrunPolicy, Periodic};

/// The channel with the response times of the application's jobs.
const WORK: ChannelSpec<'static> = ChannelSpec {
    name: "work",
    kind: Kind::Response,
    period_ns: 0,
    budget_ns: 10_000_000,
};

/// How long some jobs sleep.
const PAUSE: Duration = Duration::from_millis(20);

/// A loop that publishes its figures until it is dropped.
struct Application {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Application {
    fn start(name: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, name) = (Arc::clone(&stop), name.to_owned());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let figures = Figures::create(&name, 3).unwrap();
            let spec = ChannelSpec {
                name: "control\x1b[31m",
                kind: Kind::Latency,
                period_ns: 2_000_000,
                budget_ns: 50_000,
            };
            let mut channel = figures.channel(&spec).unwrap();
            let mut work = figures.channel(&WORK).unwrap();
            let spec = ChannelSpec {
                name: "without-account",
                ..spec
            };
            let mut without_account = figures.channel(&spec).unwrap();
            let period = Duration::from_millis(2);
            let mut periodic = Periodic::new(period, OverrunPolicy::Skip).unwrap();
            ready.send(()).unwrap();
            while !seen.load(Ordering::Relaxed) {
                let Some(job) = periodic.wait().unwrap() else {
                    continue;
                };
                channel.record(job.release.as_nanos(), job.latency_ns() as i64);
                without_account.record(job.release.as_nanos(), 1);
                let account = periodic.account();
                channel.account(account.due, account.missed, account.late);
                // Every hundredth job sleeps, which a real-time job should not do.
                if account.run.is_multiple_of(100) {
                    std::thread::sleep(PAUSE);
                }
                let release = job.release.as_nanos();
                let response = Clock::Monotonic.now().as_nanos() - release;
                work.record(release, response as i64);
            }
        });
        is_ready.recv().unwrap();
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Explains jobs above the budget from the releases that the application marks.
fn explained_by_its_own_marks(place: &Sandbox) {
    if !rustix::process::geteuid().is_root() {
        punctual_testing::skip!(Right, "app record --explain: no right to trace");
        return;
    }
    let output = place.run("app record motion-of-this-test -D 1500ms -q --json --explain");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let recording = Recording::from_json(&text(&output.stdout)).unwrap();
    let explanation = recording.explanation.as_ref().unwrap();
    let of_work = explanation.outliers.iter().filter(|one| one.thread == 1);
    let slept: Vec<_> = of_work
        .filter(|one| one.latency_ns.0 >= PAUSE.as_nanos() as u64)
        .collect();
    assert!(
        !slept.is_empty(),
        "{explanation:?}, {:?}",
        recording.warnings
    );
    for outlier in &slept {
        let sum: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, outlier.latency_ns.0, "{:?}", outlier.blame);
    }
    let sleeps = |one: &Outlier| {
        let mut shares = one.blame.shares.iter();
        shares.any(|share| {
            share.kind() == ShareKind::OwnSleep && share.ns.0 >= PAUSE.as_nanos() as u64
        })
    };
    assert!(slept.iter().any(|one| sleeps(one)), "{:?}", slept[0].blame);
    assert!(
        recording
            .top_samples
            .iter()
            .any(|one| one.thread == 1 && one.blame.is_some())
    );
    place.done("store delete last");
}

/// Judges the channels by the same requirement as a measurement and a check.
fn is_judged(place: &Sandbox) {
    let record = "app record motion-of-this-test -D 1500ms -q --json";
    let judged = |options: &str, code: i32| {
        let output = place.run(&format!("{record} {options}"));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options}: {stderr}");
        Recording::from_json(&text(&output.stdout)).unwrap()
    };
    // Each hundredth job takes 20 ms, and the budget is 10 ms: about five a second are late.
    let late = judged("--channel work --max-late-seconds-per-day 10", 3);
    assert_eq!(late.verdict.outcome, Outcome::Broken);
    assert_eq!(late.threads.len(), 1);
    let asked = late.requirement.periodic.as_ref().unwrap();
    assert_eq!(
        (asked.budget_ns, asked.jobs),
        (Nanos::from_millis(10), true)
    );
    assert_eq!(late.verdict, late.judge());
    let above = late.threads[0].above[0];
    assert_eq!(above.limit_ns, asked.budget_ns);
    assert!(above.periods >= 5, "{above:?}");
    let report = place.path("kit.html");
    place.done(&format!("report last -o {}", report.display()));
    let report = std::fs::read_to_string(report).unwrap();
    assert!(
        report.contains("jobs of at most 10.0 ms; at most 10 late seconds a day"),
        "{report}"
    );
    assert!(report.contains("budget 10.0 ms"), "{report}");
    place.done("store delete last");

    // The jobs after the one of 20 ms are missed, ten at a time.
    let control = "--channel control\u{fffd}[31m";
    let misses = judged(&format!("{control} --misses 1/100"), 3);
    assert_eq!(
        misses.verdict.outcome,
        Outcome::Exceeded,
        "{:?}",
        misses.verdict
    );
    let period = misses.requirement.periodic.as_ref().unwrap().period_ns;
    assert_eq!(period, Nanos::from_millis(2));
    let met = judged("--channel work --max-percentile 50=10m", 0);
    assert_eq!(met.verdict.outcome, Outcome::Met);
    // Missed periods of this channel are unknown.
    let open = judged("--channel without-account --max-missed 5", 4);
    assert_eq!(open.verdict.outcome, Outcome::NotDecidable);
    place.done("store delete last");
    let why = place.refused(&format!("{record} --max-late-seconds-per-day 10"), 2);
    assert!(
        why.contains("--channel") && why.contains("work, response"),
        "{why}"
    );
    let why = place.refused(&format!("{record} --channel contol"), 2);
    assert!(why.contains("no channel is named 'contol'"), "{why}");
}

/// A process can contain only one application, so the tests that create one do not run at the same
/// time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// System calls that trace, stop or signal another process, or write to it (names as in strace).
const INTRUDING: &str = "ptrace,process_vm_writev,process_vm_readv,kill,tkill,tgkill,pidfd_open,\
                         pidfd_getfd,pidfd_send_signal,process_madvise";

/// The files of the application are opened only for reading, and none of these system calls is
/// made.
#[test]
fn attach_only_reads() {
    let _alone = alone();
    let place = Sandbox::new();
    let _application = Application::start("only-read");
    let own = std::process::id();
    for line in [
        format!("app record {own} -D 200ms -q"),
        format!("app lint --pid {own} -D 200ms --json"),
    ] {
        let inner = place.command(&line);
        let log = place.path("strace.log");
        let mut command = Command::new("strace");
        command
            .args(["-f", "-qq", "-s", "300", "-o"])
            .arg(&log)
            .args(["-e", &format!("trace=open,openat,openat2,{INTRUDING}")])
            .arg(inner.get_program())
            .args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let Ok(output) = command.output() else {
            punctual_testing::skip!(Program, "no strace(1)");
            return;
        };
        let calls = std::fs::read_to_string(&log).unwrap_or_default();
        let theirs = format!("/proc/{own}/");
        let is_of_it = |call: &&str| call.contains(&theirs) || call.contains("/proc/self/fd/");
        let opened: Vec<&str> = calls.lines().filter(is_of_it).collect();
        if opened.is_empty() && text(&output.stderr).contains("strace") {
            punctual_testing::skip!(Right, "strace cannot trace: {}", text(&output.stderr));
            return;
        }
        assert!(!opened.is_empty(), "{line}: {}", text(&output.stderr));
        for call in calls.lines() {
            let name = call.split_whitespace().nth(1).unwrap_or_default();
            let name = name.split('(').next().unwrap_or_default();
            assert!(
                !INTRUDING.split(',').any(|one| one == name),
                "{line}: {call}"
            );
        }
        for call in opened {
            let writes = call.contains("O_RDWR") || call.contains("O_WRONLY");
            assert!(!writes, "{line}: {call}");
        }
    }
}

/// A process can contain only one application, so everything is tested in this one test.
#[test]
fn an_application_is_listed_and_recorded() {
    let _alone = alone();
    let place = Sandbox::new();
    let application = Application::start("motion-of-this-test");
    let own = std::process::id();
    let listed: serde_json::Value = serde_json::from_str(&place.done("app list --json")).unwrap();
    let entry = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["pid"] == own)
        .unwrap();
    assert_eq!(entry["name"], "motion-of-this-test");
    let channel = &entry["channels"][0];
    assert_eq!(
        (&channel["kind"], &channel["period_ns"]),
        (&"latency".into(), &2_000_000.into())
    );
    // Text from an application is escaped before it reaches the terminal.
    let shown = place.done("app list");
    assert!(
        shown.contains("control") && !shown.contains('\x1b'),
        "{shown}"
    );

    let json = place.done("app record motion-of-this-test -D 400ms -q --json --label kit");
    let recording = Recording::from_json(&json).unwrap();
    assert_eq!(recording.completion, Completion::Finished);
    assert_eq!(recording.probe.name, "app");
    assert_eq!(
        recording.headline(),
        format!("jobs of motion-of-this-test (pid {own})")
    );
    let account = recording.accounting();
    assert!(account.balances() && account.recorded > 0, "{account:?}");
    let unknown = |warning: &&String| warning.contains("missed periods are unknown");
    let unknown: Vec<&String> = recording.warnings.iter().filter(unknown).collect();
    assert!(
        matches!(unknown[..], [one] if one.starts_with("without-account")),
        "{:?}",
        recording.warnings
    );
    let threads = recording.threads.iter();
    let counted: u64 = threads.map(|thread| thread.histogram.recorded()).sum();
    assert_eq!(counted, account.recorded);
    let rows: u64 = recording.series.rows.iter().map(|row| row.count).sum();
    assert_eq!(rows, account.recorded);
    let row_max = recording
        .series
        .rows
        .iter()
        .filter_map(|row| row.max_ns)
        .max();
    assert!(row_max.is_some());
    // The recording contains the facts of the machine, and can be found like any other recording.
    assert!(recording.host.kernel.release.get().is_some());
    assert!(recording.interference.power.is_some());
    assert_eq!(recording.tables[0].name, "application");
    assert!(place.done("list").contains("jobs of motion-of-this-test"));
    assert!(place.done("show last").contains("late starts"));
    assert_eq!(place.last().label.as_deref(), Some("kit"));

    place.done("store delete last");
    is_judged(&place);
    explained_by_its_own_marks(&place);
    // The application ends while it is being recorded. Its samples must be kept. The rows of an older
    // recording would end the wait for rows at once.
    let place = Sandbox::new();
    let child = place.spawn(&format!("app record {own} -D 60s -q"));
    place.wait_for_rows();
    drop(application);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recording = place.last();
    assert!(recording.accounting().recorded > 0);
    let warned = recording
        .warnings
        .iter()
        .any(|text| text.contains("closed its figures"));
    assert!(warned, "{:?}", recording.warnings);
}

#[test]
fn what_is_not_there_is_named() {
    let place = Sandbox::new();
    let why = place.refused("app record 4194999 -D 1s", 2);
    assert!(why.contains("there is no process 4194999"), "{why}");
    let why = place.refused("app record no-such-application -D 1s", 2);
    assert!(
        why.contains("no application named 'no-such-application'"),
        "{why}"
    );
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let why = place.refused(&format!("app record {} -D 1s", child.id()), 2);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(why.contains("(sleep) publishes no figures"), "{why}");
}
