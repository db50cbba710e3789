//! `explain --pid` of an application whose jobs are delayed in known ways. The application does not
//! use any of our crates.

use std::io::Read as _;
use std::process::{Command, Stdio};

use crate::common::group::QuotaGroup;
use crate::common::{Sandbox, eventually, instances_of, text};
use crate::stage::{Stage, Truth, disagreement};
use punctual_model::{Nanos, Outlier, Recording, ReleaseChoice, ShareKind};
use punctual_testing::Running;

/// Builds a test program. Returns `None` and prints the reason if that is not possible.
pub(crate) fn built(place: &Sandbox, name: &str) -> Option<std::path::PathBuf> {
    let source = format!("{}/tests/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let program = place.path(name.rsplit('/').next().unwrap_or(name));
    let output = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .output();
    match output {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => panic!("{}", text(&output.stderr)),
        Err(error) => {
            punctual_testing::skip!(Program, "a C program: cc: {error}");
            None
        }
    }
}

pub(crate) fn explained(place: &Sandbox, pid: u32, options: &str) -> Recording {
    place.done(&format!("explain --pid {pid} -q --detail full {options}"));
    let recording = place.last();
    assert_eq!(recording.probe.name, "jobs");
    crate::common::assert_conserved(&recording);
    for outlier in &recording.explanation.as_ref().unwrap().outliers {
        let sum: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, outlier.latency_ns.0, "{:?}", outlier.blame);
    }
    recording
}

/// A delay reported by the program.
struct JobReport {
    way: String,
    from: Nanos,
    truth: Truth,
}

fn told(line: &str) -> Option<JobReport> {
    let parts: Vec<&str> = line.split('\t').collect();
    let [way, kind, who, from, to] = parts[..] else {
        return None;
    };
    let kind: ShareKind = serde_json::from_value(kind.into()).unwrap();
    let (from, to) = (Nanos(from.parse().ok()?), Nanos(to.parse().ok()?));
    Some(JobReport {
        way: way.to_owned(),
        from,
        truth: Truth {
            kind,
            who: who.to_owned(),
            took: to.saturating_sub(from),
        },
    })
}

/// Returns the job of the main thread that was running at this time.
fn job_at(outliers: &[Outlier], time: Nanos) -> Option<&Outlier> {
    let of_main = |outlier: &&Outlier| outlier.thread == 0;
    outliers.iter().filter(of_main).find(|outlier| {
        let due = outlier.monotonic_ns;
        due <= time && time <= due + outlier.latency_ns
    })
}

/// Compares the sum of all shares of a sleep in a call to a device, because the program measures
/// the whole call.
fn whole_call(outlier: &Outlier, truth: &Truth) -> Option<String> {
    use ShareKind::{Device, SystemCall, Waiting};
    let shares = &outlier.blame.shares;
    let disk =
        |share: &&punctual_model::Share| share.kind() == Device && share.who().starts_with("disk ");
    if shares.iter().find(disk).is_none() {
        return Some("no disk".to_owned());
    }
    let own = |who: &str| matches!(who, "user space" | "the thread itself");
    let beside = shares
        .iter()
        .filter(|share| own(&share.who()) || share.who() == "pwrite64");
    let beside = Nanos(beside.map(|share| share.ns.0).sum());
    let inside = shares.iter().filter(|share| {
        [Device, Waiting].contains(&share.kind())
            || (share.kind() == SystemCall && share.who() == "fsync")
    });
    let inside = Nanos(inside.map(|share| share.ns.0).sum());
    let allowed = (truth.took.0 / 10).max(20_000);
    let rest = outlier.latency_ns.saturating_sub(inside + beside);
    let fits = inside.0 <= truth.took.0 + allowed && (inside + rest).0 + allowed >= truth.took.0;
    (!fits).then(|| format!("{inside} in the call of {}", truth.took))
}

#[test]
fn all_job_delay_causes_are_named() {
    let ways = "lock pi condition pipe fsync fault stop call overrun sleep spin late touch";
    causes_are_named(1, ways);
}

/// `benches/causes.py` induces the same causes for longer, and others whose shares differ more.
#[test]
fn threads_that_delay_jobs_are_named() {
    causes_are_named(2, "higher peers holds sleeps network full chain migrate");
}

fn causes_are_named(cpus: usize, ways: &str) {
    let Some(stage) = Stage::set(cpus) else {
        return;
    };
    let place = Sandbox::new();
    let Some(program) = built(&place, "culprits/jobs") else {
        return;
    };
    let cpu = stage.cpus.last().unwrap().to_string();
    let folder = place.path("");
    let app = Command::new(program)
        .arg(&cpu)
        .arg(&folder)
        .args(ways.split(' '))
        .stdout(Stdio::piped())
        .spawn();
    let mut app = Running(app.unwrap());
    let recording = explained(&place, app.0.id(), "--budget 1ms -D 4s");
    let _ = app.0.kill();
    let mut output = String::new();
    app.0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();

    let explanation = recording.explanation.as_ref().unwrap();
    let jobs = explanation.jobs.as_ref().unwrap();
    let release = jobs.threads[0].release.as_ref().unwrap();
    assert_eq!(release.call, "clock_nanosleep");
    assert_eq!(release.choice, ReleaseChoice::Found);
    let period = release.period_ns.unwrap();
    assert!(period.0.abs_diff(10_000_000) < 2_000_000, "{release:?}");
    assert!(jobs.threads[0].jobs > 100 && jobs.threads[0].execution.count() > 100);

    let told: Vec<JobReport> = output.lines().filter_map(told).collect();
    for way in ways.split(' ') {
        let mut seen = Vec::new();
        let named = told.iter().filter(|told| told.way == way).any(|told| {
            // Use the middle of the span, because a clock reading before the release lies outside
            // the job.
            let middle = told.from + Nanos(told.truth.took.0 / 2);
            let Some(outlier) = job_at(&explanation.outliers, middle) else {
                return false;
            };
            let wrong = match way {
                "fsync" => whole_call(outlier, &told.truth),
                _ => disagreement(&outlier.blame, &told.truth),
            };
            seen.extend(
                wrong
                    .iter()
                    .map(|wrong| format!("{wrong}: {}", outlier.blame.sentence())),
            );
            wrong.is_none()
        });
        match punctual_testing::crowded() {
            _ if named => {}
            _ if seen.is_empty() && ["fsync", "fault", "call", "touch"].contains(&way) => {
                punctual_testing::skip!(
                    Quiet,
                    "jobs: {way} took less than the budget on this machine"
                );
            }
            Some(crowd) => punctual_testing::skip!(Quiet, "{crowd}: jobs, {way}: {seen:#?}"),
            None => panic!("{way} is not named: {seen:#?}\n{output}"),
        }
    }
    assert!(!explanation.causes.is_empty());
    let shown = place.done("show last");
    assert!(
        shown.contains("released by") && shown.contains("clock_nanosleep"),
        "{shown}"
    );
}

#[test]
fn a_quota_of_its_group_is_named() {
    let Some(stage) = Stage::set(1) else {
        return;
    };
    let Some(group) = QuotaGroup::new("jobs") else {
        return;
    };
    let place = Sandbox::new();
    let Some(program) = built(&place, "culprits/jobs") else {
        return;
    };
    let mut command = Command::new(program);
    let cpu = stage.cpus.last().unwrap().to_string();
    command.arg(cpu).arg(place.path("")).arg("quota");
    let app = Running(group.inside(&command).spawn().unwrap());
    std::thread::sleep(std::time::Duration::from_millis(100));
    let recording = explained(&place, app.0.id(), "--budget 20ms -D 2s");
    let outliers = &recording.explanation.as_ref().unwrap().outliers;
    let name = group.0.file_name().unwrap().to_str().unwrap();
    let named = outliers
        .iter()
        .flat_map(|outlier| &outlier.blame.shares)
        .any(|share| share.kind() == ShareKind::Throttled && share.who().contains(name));
    match punctual_testing::crowded() {
        _ if named => {}
        Some(crowd) => punctual_testing::skip!(Quiet, "{crowd}: a quota of a group: {outliers:#?}"),
        None => panic!("{outliers:#?}"),
    }
}

/// The program never waits, and it ends while it is being watched.
#[test]
fn job_needs_release_wait() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let app = Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn();
    let mut app = Running(app.unwrap());
    let watching = place.spawn(&format!("explain --pid {} -D 30s -q --no-bpf", app.0.id()));
    let armed = eventually(|| !instances_of(watching.id()).is_empty());
    assert!(armed, "nothing is watched");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let _ = app.0.kill();
    let _ = app.0.wait();
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recording = place.last();
    let warned = |what: &str| {
        recording
            .warnings
            .iter()
            .any(|warning| warning.contains(what))
    };
    assert!(
        warned("no release wait found for sh-"),
        "{:?}",
        recording.warnings
    );
    assert!(warned("had ended after"), "{:?}", recording.warnings);
    assert!(warned("(--no-bpf)"), "{:?}", recording.warnings);
    let jobs = recording
        .explanation
        .as_ref()
        .unwrap()
        .jobs
        .as_ref()
        .unwrap();
    assert!(
        jobs.threads
            .iter()
            .all(|one| one.release.is_none() && one.jobs == 0)
    );
    // Arguments that do not exist must be refused.
    place.refused("explain --pid 1 --release nosuchcall", 2);
    place.refused("explain --pid 1 --release futex:4", 2);
    place.refused("explain --pid 1 --budget 0", 2);
    place.refused("explain --pid 1 --wait --budget 1ms", 2);
}

/// The program does not sleep in any call.
#[test]
fn deadline_thread_that_yields_has_jobs() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let Some(program) = built(&place, "culprits/yields") else {
        return;
    };
    let app = Command::new(program)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut app = Running(app.unwrap());
    let mut first = [0; 4];
    let mut stdout = app.0.stdout.take().unwrap();
    if stdout.read_exact(&mut first).is_err() {
        let mut why = String::new();
        let mut stderr = app.0.stderr.take().unwrap();
        stderr.read_to_string(&mut why).unwrap();
        punctual_testing::skip_refused("a thread of SCHED_DEADLINE", &why);
        return;
    }
    let recording = explained(&place, app.0.id(), "--budget 9ms -D 1500ms");
    let jobs = recording.explanation.unwrap().jobs.unwrap();
    let jobs = &jobs.threads[0];
    let release = jobs.release.as_ref().unwrap();
    assert_eq!(
        (release.call.as_str(), release.choice),
        ("sched_yield", ReleaseChoice::Found)
    );
    assert!(jobs.jobs > 20 && jobs.released_at_once == 0, "{jobs:?}");
    // Each tenth job uses more than is reserved, so it is throttled twice and misses its deadline.
    // A busy host can delay further jobs.
    let reservation = jobs.reservation.as_ref().unwrap();
    assert_eq!(
        (reservation.runtime_ns, reservation.period_ns),
        (Nanos::from_millis(2), Nanos::from_millis(10))
    );
    assert_eq!(reservation.jobs, jobs.jobs);
    let long = reservation.jobs / 10;
    assert!(reservation.over_runtime >= long, "{reservation:?}");
    assert!(reservation.over_deadline >= long, "{reservation:?}");
    assert!(
        reservation.over_runtime < reservation.jobs / 2,
        "{reservation:?}"
    );
}

/// In a program by other authors, a callback delays the events in the loop of an asyncio server.
#[test]
fn blocking_asyncio_callback_is_own_work() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let script = "
import asyncio, time
async def main():
    turn = 0
    while True:
        await asyncio.sleep(0.005)
        turn += 1
        if turn % 20 == 0:
            end = time.monotonic() + 0.015
            while time.monotonic() < end: pass
asyncio.run(main())
";
    blocked_by_its_callback(&place, "python3", &["-c", script]);
}

#[test]
fn blocking_node_callback_is_own_work() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let script = "
let turn = 0;
setInterval(() => {
  turn += 1;
  if (turn % 20 === 0) {
    const end = Date.now() + 15;
    while (Date.now() < end) {}
  }
}, 5);
";
    blocked_by_its_callback(&Sandbox::new(), "node", &["-e", script]);
}

fn blocked_by_its_callback(place: &Sandbox, program: &str, arguments: &[&str]) {
    let app = match Command::new(program).args(arguments).spawn() {
        Ok(app) => Running(app),
        Err(error) => {
            punctual_testing::skip!(Program, "jobs of a loop of events: {program}: {error}");
            return;
        }
    };
    std::thread::sleep(std::time::Duration::from_millis(500));
    let recording = explained(
        place,
        app.0.id(),
        "--budget 10ms --release epoll -D 1500ms --no-bpf",
    );
    let explanation = recording.explanation.as_ref().unwrap();
    let jobs = explanation.jobs.as_ref().unwrap();
    // The first thread is the one that runs the loop.
    let release = jobs.threads[0].release.as_ref().unwrap();
    assert!(release.call.starts_with("epoll_"), "{release:?}");
    assert_eq!(release.choice, ReleaseChoice::Requested);
    // Trace events do not show when a page fault ended.
    let own = |outlier: &&Outlier| {
        let culprit = outlier.blame.culprit();
        culprit == "own work: user space" || culprit == "own work: page faults or user space"
    };
    match explanation.outliers.iter().find(own) {
        Some(outlier) => {
            let sentence = outlier.blame.sentence();
            let names = sentence.contains("computed") || sentence.contains("or user space took");
            assert!(names, "{outlier:?}");
        }
        None => match punctual_testing::crowded() {
            Some(crowd) => {
                punctual_testing::skip!(Quiet, "{crowd}: a callback: {:?}", explanation.causes)
            }
            None => panic!("{:#?}", explanation.outliers),
        },
    }
}

/// Processes that join a control group are watched, and a warning names the threads that forked.
#[test]
fn control_group_processes_and_forks_are_watched() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let Some(group) = QuotaGroup::new("members") else {
        return;
    };
    let place = Sandbox::new();
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do sleep 0.01; done"]);
    let _app = Running(group.inside(&command).spawn().unwrap());
    std::thread::sleep(std::time::Duration::from_millis(100));
    let folder = group.0.to_str().unwrap();
    let answer = place.done(&format!(
        "explain --cgroup {folder} -q -v -D 1s --budget 1s"
    ));
    let first = answer.lines().next().unwrap();
    assert!(
        first.contains("took longer than") || first.contains("No job is known"),
        "{answer}"
    );
    let recording = place.last();
    let label = recording.threads[0].label.clone();
    assert!(label.is_some_and(|label| label.starts_with("sh-")));
    let by_programs = !(recording.warnings.iter())
        .any(|warning| warning.contains("recorded by the kernel's tracer"));
    let forks = (recording.warnings.iter())
        .any(|warning| warning.contains("forked processes that are not watched: sh-"));
    if by_programs {
        assert!(forks, "{:?}", recording.warnings)
    } else {
        punctual_testing::skip_refused(
            "forks: no BPF programs",
            format!("{:?}", recording.warnings),
        )
    }
    place.refused("explain --cgroup /no/such/group", 2);
}

/// Starts a Python program that prints the time of each slow job: once in 0.7 s, it computes.
fn slow_at_times() -> Option<Running> {
    let script = "
import time
turn = 0
while True:
    time.sleep(0.005)
    turn += 1
    end = time.monotonic() + (0.06 if turn % 100 == 0 else 0.0)
    while time.monotonic() < end: pass
";
    match Command::new("python3").args(["-c", script]).spawn() {
        Ok(app) => Some(Running(app)),
        Err(error) => {
            punctual_testing::skip!(Program, "a thread that is slow at times: python3: {error}");
            None
        }
    }
}

/// By default, the light stage counts all jobs, and the full stage explains jobs whose cause
/// repeats. (`session::observe::windows` tests the windows with a simulated clock.)
#[test]
fn repeated_cause_is_named_within_three_occurrences() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let Some(app) = slow_at_times() else {
        return;
    };
    let line = format!("explain --pid {} --budget 50ms -q", app.0.id());
    let refused = place.run(&format!("{line} -D 1s --cost 1%"));
    if text(&refused.stderr).contains("the cost of watching cannot be limited") {
        punctual_testing::skip_refused("explain --cost", text(&refused.stderr));
        return;
    }
    let answer = place.done(&format!("{line} -v -D 8s"));
    let answer = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    let recording = place.last();
    crate::common::assert_conserved(&recording);
    let explanation = recording.explanation.as_ref().unwrap();
    let jobs = explanation.jobs.as_ref().unwrap();
    let windows = jobs.windows.as_ref().unwrap();
    assert!(windows.light_between && windows.limit == 0.02);
    assert!(
        windows.count > 0 && windows.call_ns > Nanos::ZERO,
        "{windows:?}"
    );
    assert!(windows.watched_ns < recording.duration_ns, "{windows:?}");
    assert!(answer.contains("all jobs were counted"), "{answer}");
    // The jobs between the windows are counted as well.
    assert!(jobs.threads[0].jobs > 100, "{jobs:?}");
    let own_work = |outlier: &&Outlier| {
        let own = outlier.blame.shares.iter();
        own.filter(|share| share.kind() == ShareKind::OwnWork)
            .any(|share| share.ns > Nanos::from_millis(20))
    };
    for outlier in &explanation.outliers {
        let sum: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, outlier.latency_ns.0, "{:?}", outlier.blame);
        assert!(
            !(outlier.light_stage && own_work(&outlier)),
            "{:?}",
            outlier.blame
        );
    }
    let first = explanation.outliers.iter().take(3);
    let named = first
        .filter(|one| !one.light_stage)
        .any(|one| own_work(&one));
    match punctual_testing::crowded() {
        _ if named => {}
        Some(crowd) => punctual_testing::skip!(Quiet, "{crowd}: a cause that repeats"),
        None => panic!("{:#?}", explanation.outliers),
    }
    drop(app);

    place.refused("explain --pid 1 --cost 0%", 2);
    place.refused("explain --pid 1 --cost much", 2);
    place.refused("explain --pid 1 --cost 2% --wait", 2);
    place.refused("explain --pid 1 --cost 2% --no-bpf", 2);
    place.refused("explain last --cost 2%", 2);
    place.refused("explain --pid 1 --cost 2% --detail full", 2);
    place.refused("explain --pid 1 --detail some", 2);
}
