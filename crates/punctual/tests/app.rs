//! Applications that measure themselves: listed, and recorded.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Place, text};
use punctual_app::{Figures, Kind, LaneSpec};
use punctual_model::{Completion, Recording};
use punctual_rt::{OverrunPolicy, Periodic};

/// A loop that publishes its figures, until it is dropped.
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
            let figures = Figures::create(&name, 1).unwrap();
            let spec = LaneSpec {
                name: "control\x1b[31m",
                kind: Kind::Latency,
                period_ns: 2_000_000,
                budget_ns: 50_000,
            };
            let mut lane = figures.lane(&spec).unwrap();
            let period = Duration::from_millis(2);
            let mut periodic = Periodic::new(period, OverrunPolicy::Skip).unwrap();
            ready.send(()).unwrap();
            while !seen.load(Ordering::Relaxed) {
                let Some(job) = periodic.wait().unwrap() else {
                    continue;
                };
                lane.record(job.release.as_nanos(), job.latency_ns() as i64);
                let account = periodic.account();
                lane.account(account.due, account.missed, account.late);
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

/// One application a process: these tests are one.
#[test]
fn an_application_is_listed_and_recorded() {
    let place = Place::new();
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
    let lane = &entry["lanes"][0];
    assert_eq!(
        (&lane["kind"], &lane["period_ns"]),
        (&"latency".into(), &2_000_000.into())
    );
    // What an application writes reaches no terminal as it is.
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
    let thread = &recording.threads[0];
    assert_eq!(thread.histogram.recorded(), account.recorded);
    let rows: u64 = recording.series.rows.iter().map(|row| row.count).sum();
    assert_eq!(rows, account.recorded);
    let row_max = recording
        .series
        .rows
        .iter()
        .filter_map(|row| row.max_ns)
        .max();
    assert!(row_max.is_some());
    // The machine's facts stand beside it, and it is found as others are.
    assert!(recording.host.kernel.release.get().is_some());
    assert!(recording.interference.power.is_some());
    assert_eq!(recording.tables[0].name, "application");
    assert!(place.done("list").contains("jobs of motion-of-this-test"));
    assert!(place.done("show last").contains("late starts"));
    assert_eq!(place.last().label.as_deref(), Some("kit"));

    place.done("delete last");
    // It ends while it is recorded: what it counted is kept.
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
    let place = Place::new();
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
