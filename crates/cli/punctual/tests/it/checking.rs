//! Tests of `check`, from the command line to the verdict.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::{Sandbox, text};
use punctual_model::{Checkup, Nanos, Outcome};

/// Runs `check` with JSON on stdout.
fn checked(place: &Sandbox, line: &str) -> (Checkup, Option<i32>) {
    let output = place.run(&format!("check --json -q {line}"));
    let checkup = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{line}: {error}: {}", text(&output.stderr)));
    (checkup, output.status.code())
}

fn code(checkup: &Checkup) -> i32 {
    match checkup.outcome {
        outcome if outcome.is_good() => 0,
        outcome if outcome.is_bad() => 3,
        _ => 4,
    }
}

/// A run of a few seconds proves neither that there are at most ten late seconds a day, nor that there
/// are no disturbances.
#[test]
fn a_short_check_is_never_held() {
    let place = Sandbox::new();
    let line = "-D 4s --load cpu --budget 500us -o page.html --label bench";
    let (checkup, exit) = checked(&place, line);
    assert_ne!(checkup.outcome, Outcome::Held, "{}", checkup.sentence);
    assert_eq!(exit, Some(code(&checkup)), "{}", checkup.sentence);
    let names: Vec<&str> = checkup
        .conditions
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["idle", "loaded"]);
    assert_eq!(checkup.conditions[1].loads, ["cpu"]);
    for condition in &checkup.conditions {
        assert!(
            condition.periods > 0 && condition.measured_ns.0 > 0,
            "{condition:?}"
        );
        assert!(
            condition.per_day_at_most.is_none_or(|most| most > 10.0),
            "{condition:?}"
        );
        // The run is always too short.
        let short = condition
            .lacking
            .iter()
            .any(|why| why.contains("at least 10.0 s"));
        assert!(short, "{condition:?}");
    }
    assert!(checkup.hardware.is_some() || !checkup.lacking.is_empty());
    if checkup.outcome == Outcome::NotProven {
        let next = checkup.next.join("\n");
        assert!(
            next.contains("--until-proven") || next.contains("sudo"),
            "{next}"
        );
    }
    // All recordings of the check are stored with its label.
    let listed = place.listed();
    assert_eq!(listed.len(), checkup.recordings.len());
    assert!(
        listed.iter().all(|one| one["label"] == "bench"),
        "{listed:?}"
    );
    let page = std::fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("Check-up</h1>") && page.contains("Conditions"));
    // The list, the recording and the second half of the page must show the same verdict.
    let main = &checkup.recordings[0];
    let verdict = |one: &serde_json::Value| one["verdict"]["outcome"].clone();
    let shown = place.run(&format!("show {main} --json"));
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(
        verdict(&shown),
        serde_json::to_value(checkup.outcome).unwrap()
    );
    assert_eq!(shown["verdict"]["sentence"], checkup.sentence.as_str());
    let text = place.run(&format!("show {main}"));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(!page.contains("no requirement was given"), "{page}");
    assert!(!text.contains("no requirement was given"), "{text}");
    // The reports must name the machine and the date.
    let on = checkup.measured_on.as_ref().unwrap();
    assert!(page.contains(&on.date()) && on.line().contains("kernel "));
    // The report for continuous integration has the verdict of the check.
    let junit = place.done("report last --format junit -o -");
    for condition in ["check: idle", "check: loaded"] {
        assert!(junit.contains(&format!("name=\"{condition}\"")), "{junit}");
    }
    assert!(
        junit.contains(if exit == Some(3) {
            "<failure"
        } else {
            "<error"
        }),
        "{junit}"
    );
    // Each recording has the requirement, and the certificate has the verdict with all its parts.
    assert_eq!(shown["requirement"]["periodic"]["budget_ns"], 500_000);
    assert!(shown["audit"].is_object(), "{:#}", shown["audit"]);
    place.done(&format!("report {main} --certificate -o certificate.html"));
    let certificate = std::fs::read_to_string(place.path("certificate.html")).unwrap();
    for part in [
        "period 1.00 ms, wake-ups at most 500 µs late; at most 10 late seconds a day",
        "95% confidence, if the rest of the day is like these",
        "required: at most 10",
        "budget 500 µs",
    ] {
        assert!(certificate.contains(part), "{part}: {certificate}");
    }
    assert!(!certificate.contains("not judged") && !certificate.contains("without an audit"));
}

/// The run ends when the longest time is over. If it was too short, the verdict is never *held*.
#[test]
fn until_proven_ends_at_the_longest_time() {
    let place = Sandbox::new();
    let line = "-D 1s --load none --until-proven=3s --max-late-seconds-per-day 86399";
    let (checkup, exit) = checked(&place, line);
    assert_eq!(exit, Some(code(&checkup)), "{}", checkup.sentence);
    assert_eq!(checkup.conditions.len(), 1);
    let only = &checkup.conditions[0];
    // If the run did not end, it would measure for days to prove such a limit.
    assert!(only.measured_ns.as_secs_f64() < 60.0, "{only:?}");
    assert_eq!(checkup.outcome, Outcome::NotProven, "{only:?}");
}

#[test]
fn screen_names_verdict_conditions_and_next_command() {
    let place = Sandbox::new();
    let output = place.run("check -D 2s --load none -q");
    let screen = text(&output.stdout);
    assert!(matches!(output.status.code(), Some(3 | 4)), "{output:?}");
    for name in ["verdict ", "loop ", "condition ", "next "] {
        assert!(
            screen.lines().any(|line| line.starts_with(name)),
            "{name}: {screen}"
        );
    }
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("at most 10 late seconds a day"), "{screen}");
}

/// A budget that no wake-up can meet makes each second late. Within seconds, the verdict is
/// *broken*, whatever number of late seconds is allowed.
#[test]
fn loop_that_is_always_late_is_broken() {
    let place = Sandbox::new();
    let line = "-D 10s --load none --budget 1ns --max-late-seconds-per-day 20000 --misses 1/10";
    let (checkup, exit) = checked(&place, line);
    let only = &checkup.conditions[0];
    let seconds = only.measured_ns.as_secs_f64();
    assert!(
        only.late_seconds.unwrap() as f64 > 0.9 * seconds,
        "{only:?}"
    );
    assert!(only.longest_series.unwrap() > 100, "{only:?}");
    assert_eq!(only.windows.unwrap().worst, 10, "{only:?}");
    if only.real_time {
        assert_eq!(
            (checkup.outcome, exit),
            (Outcome::Broken, Some(3)),
            "{only:?}"
        );
    }
}

#[test]
fn senseless_options_are_refused_before_measuring() {
    let place = Sandbox::new();
    for (line, why) in [
        ("check --budget 2ms", "longer than the period"),
        (
            "check --until-proven --max-late-seconds-per-day 0",
            "no run is long enough",
        ),
        ("check --load storm", "unknown load 'storm'"),
        ("check --max-late-seconds-per-day -1", "below 86400"),
        ("check --max-late-seconds-per-day 86400", "below 86400"),
        ("check --max-late-seconds-per-day many", "below 86400"),
        (
            "check --max-misses-per-day 3",
            "a loop that is always late has one",
        ),
        ("check --misses 3/2", "2/100 allows"),
        ("check --misses 0/0", "2/100 allows"),
        ("check --misses 1/200000 -D 20s", "longer than"),
        ("check -D 0s", "longer than 0"),
        ("check --json -o -", "only one format"),
        ("check --cpus 4000", "4000"),
        ("check --period 1us --budget 1us", "--period"),
        ("check --priority 100", "100"),
    ] {
        let said = place.refused(line, 2);
        assert!(said.contains(why), "{line}: {said}");
    }
    assert!(!place.path("store.db").exists() || place.listed().is_empty());
}

/// A thread with a job of at least 12 ms in each 100 ms. Dropping it ends the thread.
pub(crate) struct Slow {
    tid: u32,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Slow {
    /// Starts the thread with a name of at most 15 characters.
    pub(crate) fn start(name: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = std::sync::mpsc::channel();
        let stopped = Arc::clone(&stop);
        let named = std::thread::Builder::new().name(name.to_owned());
        let thread = named.spawn(move || {
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            let tid = own.file_name().unwrap().to_str().unwrap();
            sender.send(tid.parse().unwrap()).unwrap();
            for number in 1u64.. {
                std::thread::sleep(Duration::from_millis(10));
                let begun = Instant::now();
                let busy = Duration::from_millis(if number.is_multiple_of(9) { 12 } else { 0 });
                while begun.elapsed() < busy {}
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let thread = thread.unwrap();
        Self {
            tid: receiver.recv().unwrap(),
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// The jobs of a running application are judged, and its recording has the verdict.
#[test]
fn late_jobs_of_application_break_its_budget() {
    let place = Sandbox::new();
    let slow = Slow::start("slow-check");
    let line = "--budget 6ms -D 4s --max-late-seconds-per-day 0";
    let check = format!("check --json -q --pid {} {line}", slow.tid);
    let windows = place.run(&format!("{check} --misses 0/1"));
    let output = place.run(&check);
    drop(slow);
    if output.stdout.is_empty() {
        punctual_testing::skip_refused("check --pid", text(&output.stderr));
        return;
    }
    let limited: Checkup = serde_json::from_slice(&windows.stdout).unwrap();
    let condition = &limited.conditions[0];
    // Each late job violates its window of one job. A late job that has not ended is not in a window.
    let violated = condition.windows.unwrap().violated_seconds;
    let is_open = |lacking: &String| lacking.contains("was in progress");
    let open = u64::from(condition.lacking.iter().any(is_open));
    let late = condition.late_seconds.unwrap();
    assert!(
        (violated..=violated + open).contains(&late),
        "{condition:?}"
    );
    assert_eq!(limited.outcome, Outcome::Broken, "{}", limited.sentence);
    let checkup: Checkup = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(checkup.outcome, Outcome::Broken, "{}", checkup.sentence);
    assert_eq!(output.status.code(), Some(3));
    let only = &checkup.conditions[0];
    assert!(only.periods > only.late && only.late > 0, "{only:?}");
    assert!(only.max_ns >= Some(Nanos::from_millis(12)), "{only:?}");
    assert_eq!(only.jobs.as_ref().unwrap().threads.len(), 1);
    assert!(checkup.asked.jobs && checkup.hardware.is_none());
    let evidence = &checkup.claims[0].evidence;
    assert!(evidence.contains("with jobs"), "{evidence}");
    let recording = place.last();
    assert_eq!(recording.verdict.outcome, Outcome::Broken);
    assert_eq!(recording.verdict.sentence, checkup.sentence);
    let screen = place.done("show last");
    assert!(
        screen.contains("late seconds a day (jobs over 6.00 ms)"),
        "{screen}"
    );
}

/// A program that `check` starts is watched and ended. One that does not exist is named.
#[test]
fn started_program_is_judged_and_ended() {
    let place = Sandbox::new();
    let mark = format!("started-{}", std::process::id());
    std::fs::write(place.path("loop.sh"), "while :; do sleep 0.01; done\n").unwrap();
    let output = place.run(&format!(
        "check --json -q --budget 1s -D 2s -- sh loop.sh {mark}"
    ));
    let running = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .any(|process| {
            let line = std::fs::read_to_string(process.path().join("cmdline"));
            line.is_ok_and(|line| line.contains(&mark))
        });
    assert!(!running, "{mark}");
    let said = place.refused("check --budget 1ms -- /nowhere/motion --fast", 2);
    assert!(
        said.contains("cannot start /nowhere/motion --fast"),
        "{said}"
    );
    place.refused("check --budget 1ms --comm motion -- motion", 2);
    place.refused("check --hunt 10m --load cpu", 2);
    let short = place.refused("check --hunt 5s", 2);
    assert!(
        short.contains("--hunt 5.00 s is too short: pass at least"),
        "{short}"
    );
    if output.stdout.is_empty() {
        punctual_testing::skip_refused("check -- COMMAND", text(&output.stderr));
        return;
    }
    let checkup: Checkup = serde_json::from_slice(&output.stdout).unwrap();
    let jobs = checkup.conditions[0].jobs.as_ref().unwrap();
    assert!(jobs.elapsed_ns >= Nanos::from_secs(2), "{checkup:#?}");
    let watched = place.last();
    let parameters = &watched.probe.parameters;
    assert!(
        parameters["watched"].to_string().contains("sh (pid"),
        "{parameters:?}"
    );
}
