//! `punctual measure timer`, as a user runs it, on this machine.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::process::Command;
use std::time::Duration;

use common::group::{QuotaGroup, with_spinners};
use common::{Place, assert_conserved, eventually, signal, stop, text};
use punctual_model::{
    Completion, Nanos, Outcome, Policy, Recording, Share, ShareKind, SuspensionKind,
};

/// The policy that every user may have.
const PLAIN: &str = "measure timer -q --policy other --dma-latency off";

#[test]
fn a_run_is_measured_kept_and_shown() {
    let place = Place::new();
    let shown = place.done(&format!("{PLAIN} -D 2s --label bench"));
    assert!(shown.contains("account"), "{shown}");
    let recording = place.last();
    assert_conserved(&recording);
    assert_eq!(recording.completion, Completion::Finished);
    assert_eq!(recording.label.as_deref(), Some("bench"));
    assert_eq!(recording.verdict.outcome, Outcome::NoRequirement);
    for thread in &recording.threads {
        assert_eq!(thread.accounting.expected, 2_000);
        assert_eq!(thread.accounting.warm_up, 200);
        assert_eq!(thread.scheduling.policy, Policy::Other);
    }
    assert!(recording.worst.len() <= 20 && !recording.worst.is_empty());
    assert!(
        recording
            .worst
            .is_sorted_by(|a, b| a.latency_ns >= b.latency_ns)
    );
    assert_eq!(
        Some(recording.worst[0].latency_ns),
        recording.all_latencies().max()
    );
    assert!(recording.observer.clock_read_ns > Nanos::ZERO);
    assert!(recording.observer.peak_memory_bytes > 0);
    assert!(recording.host.kernel.release.value.is_some());

    let listed = place.listed();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["label"], "bench");
    let id = recording.id.to_string();
    assert_eq!(place.done(&format!("show {id}")), place.done("show last"));
    place.done(&format!("delete {}", recording.id.short()));
    assert!(place.listed().is_empty());
    let error = place.refused(&format!("show {id}"), 1);
    assert!(error.contains(&id), "{error}");
}

#[test]
fn each_way_to_wait_can_be_chosen() {
    let place = Place::new();
    for wait in ["nanosleep", "timerfd", "signal"] {
        place.done(&format!(
            "{PLAIN} --wait {wait} --interval 500us --loops 400"
        ));
        let recording = place.last();
        assert_conserved(&recording);
        assert_eq!(recording.probe.parameters["wait"], wait);
        for thread in &recording.threads {
            assert_eq!(thread.accounting.expected, 400);
        }
    }
}

#[test]
fn a_requirement_decides_the_exit_code() {
    let place = Place::new();
    place.done(&format!(
        "{PLAIN} -D 300ms --max-latency 1000s --max-missed 1000"
    ));
    assert_eq!(place.last().verdict.outcome, Outcome::Held);
    for limit in ["--max-latency 1ns", "--max-percentile 50=1ns"] {
        let output = place.run(&format!("{PLAIN} -D 300ms {limit}"));
        assert_eq!(output.status.code(), Some(3), "{limit}");
        assert!(
            text(&output.stdout).contains("requirement broken"),
            "{limit}"
        );
        assert_eq!(place.last().verdict.outcome, Outcome::Broken);
    }
}

#[test]
fn too_few_periods_are_not_taken_for_proof() {
    let place = Place::new();
    let output = place.run(&format!(
        "{PLAIN} -D 300ms --max-percentile 99.9999=1000s --max-latency 1000s"
    ));
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let verdict = place.last().verdict;
    assert_eq!(verdict.outcome, Outcome::NotProven);
    assert!(
        verdict.sentence.contains("10,000,000 due periods needed")
            && verdict.sentence.contains(": measure 2 h 47 min"),
        "{}",
        verdict.sentence
    );
    let shown = place.done("report last -o - --format junit");
    assert!(shown.contains("errors=\"1\""), "{shown}");
    assert_eq!(place.listed()[0]["outcome"], "not_proven");
}

/// Takes the CPU for 50 ms of each 400 ms, above all measuring threads.
fn starve(cpu: u32, until: std::time::Instant) -> Option<punctual_rt::JoinHandle<()>> {
    let builder = punctual_rt::ThreadBuilder::new("starver")
        .cpus(&[cpu])
        .policy(punctual_rt::Policy::Fifo { priority: 97 });
    let starver = builder.spawn(move || {
        while std::time::Instant::now() < until {
            let begun = std::time::Instant::now();
            while begun.elapsed() < Duration::from_millis(50) {
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_millis(350));
        }
    });
    match starver {
        Ok(starver) => Some(starver),
        Err(error) => {
            punctual_testing::skip!("a starved thread: {error}");
            None
        }
    }
}

#[test]
fn what_a_starved_thread_missed_breaks_a_percentile() {
    let place = Place::new();
    let cpus = punctual_host::Host::live().allowed().unwrap();
    let cpu = cpus.iter().last().unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(4);
    let Some(starver) = starve(cpu, until) else {
        return;
    };
    let output = place.run(&format!(
        "measure timer -q -a {cpu} -D 3s --policy fifo --priority 90 --max-percentile 99=3ms"
    ));
    starver.join().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
    let recording = place.last();
    assert_conserved(&recording);
    let thread = &recording.threads[0];
    let late = thread.missed_histogram.as_ref().unwrap();
    assert_eq!(late.recorded(), thread.accounting.missed);
    assert_eq!(
        thread.due().periods(),
        thread.accounting.recorded + thread.accounting.missed
    );
    assert!(late.max() < thread.histogram.max(), "{late:?}");
    assert!(
        recording.verdict.sentence.contains("p99 of due periods is"),
        "{}",
        recording.verdict.sentence
    );
    let shown = text(&output.stdout);
    for of in ["of samples", "of due periods"] {
        assert!(shown.contains(of), "{shown}");
    }
}

#[test]
fn a_break_value_ends_the_run() {
    let place = Place::new();
    let output = place.run(&format!("{PLAIN} -D 10m --break 1ns"));
    assert_eq!(output.status.code(), Some(3));
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Break);
    assert_eq!(recording.verdict.outcome, Outcome::Broken);
    let sentence = &recording.verdict.sentence;
    assert!(
        sentence.contains("broken: break value 1 ns crossed by"),
        "{sentence}"
    );
    assert_conserved(&recording);
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let place = Place::new();
    let child = place.spawn(&format!("{PLAIN} -D 10m"));
    place.wait_for_rows();
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Stopped);
    assert_conserved(&recording);
}

#[test]
fn a_killed_run_is_shown_as_interrupted_with_what_was_measured() {
    let place = Place::new();
    let mut child = place.spawn(&format!("{PLAIN} -D 10m"));
    place.wait_for_rows();
    signal(&child, "KILL");
    child.wait().unwrap();
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Interrupted);
    assert!(
        recording
            .threads
            .iter()
            .all(|thread| thread.accounting.balances())
    );
    assert!(recording.all_latencies().recorded() > 0);
    assert!(place.done("list").contains("interrupted"));
    place.done("delete last");
}

#[test]
fn a_stop_of_a_second_is_one_long_sample_and_a_thousand_missed() {
    let place = Place::new();
    let child = place.spawn(&format!("{PLAIN} -D 5s --warm-up 0 --cpus {}", first_cpu()));
    place.wait_for_rows();
    stop(&child);
    std::thread::sleep(Duration::from_secs(1));
    signal(&child, "CONT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recording = place.last();
    assert_conserved(&recording);
    let account = recording.accounting();
    assert_eq!(account.expected, 5_000);
    assert_eq!(account.warm_up, 0);
    // The sleep before the signal to go on is at least a second, and other
    // programs take their time too.
    assert!(account.missed >= 990, "{account:?}");
    let max = recording.all_latencies().max().unwrap();
    assert!(max >= Nanos::from_millis(990), "{max}");
    // It is one sample: the next one is far below.
    assert!(recording.worst[1].latency_ns < Nanos::from_millis(900));
}

/// What the user stopped says nothing of the machine: neither broken nor held.
#[test]
fn a_run_that_was_stopped_proves_nothing() {
    let place = Place::new();
    let child = place.spawn(&format!(
        "{PLAIN} -D 4s --max-latency 500ms --cpus {}",
        first_cpu()
    ));
    place.wait_for_rows();
    stop(&child);
    std::thread::sleep(Duration::from_secs(1));
    signal(&child, "CONT");
    let output = child.wait_with_output().unwrap();
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(4), "{shown}");
    let recording = place.last();
    assert_conserved(&recording);
    let [stop] = recording.suspensions.as_slice() else {
        panic!("{:?}", recording.suspensions);
    };
    assert_eq!(stop.kind, SuspensionKind::StoppedBySignal);
    assert!(stop.length_ns >= Nanos::from_millis(990), "{stop:?}");
    assert!(recording.worst[0].is_suspended(&recording.suspensions));
    assert_eq!(recording.verdict.outcome, Outcome::NotProven);
    for told in [
        "stopped by a signal (Ctrl-Z) for about",
        "by SIGSTOP or Ctrl-Z; measure",
        ", suspended",
    ] {
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(told), "{told}: {shown}");
    }
}

/// A signal to go on, sent to a process that runs, changes nothing.
#[test]
fn a_continuation_alone_is_no_stop() {
    let place = Place::new();
    let child = place.spawn(&format!("{PLAIN} -D 2s --max-latency 100s"));
    place.wait_for_rows();
    signal(&child, "CONT");
    let output = child.wait_with_output().unwrap();
    let recording = place.last();
    assert_conserved(&recording);
    // Where this machine kept the program from running for long just then, a stop
    // cannot be told apart.
    if recording.suspensions.is_empty() {
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        assert_eq!(recording.verdict.outcome, Outcome::Held);
    }
}

#[test]
fn two_runs_may_write_at_once() {
    let place = Place::new();
    let children: Vec<_> = (0..2)
        .map(|_| place.spawn(&format!("{PLAIN} -D 2s --samples --share-cpus")))
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    assert_eq!(place.listed().len(), 2);
    for selector in ["last", "last~1"] {
        let json = place.done(&format!("show {selector} --json"));
        assert_conserved(&Recording::from_json(&json).unwrap());
    }
}

#[test]
fn samples_are_kept_as_measured() {
    let place = Place::new();
    place.done(&format!("{PLAIN} -D 2s --samples --sample-resolution 1ns"));
    let recording = place.last();
    let kept = recording.samples.unwrap();
    assert_eq!(kept.count + kept.dropped, recording.accounting().recorded);
    let csv = place.done("export last --format csv");
    let mut sums = vec![0u64; recording.threads.len()];
    let mut lines = 0;
    for line in csv.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let (thread, latency) = (cells[0].parse::<usize>().unwrap(), cells[3]);
        sums[thread] += latency.parse::<i64>().unwrap().max(0) as u64;
        lines += 1;
    }
    assert_eq!(lines, kept.count);
    if kept.dropped == 0 {
        for (thread, sum) in recording.threads.iter().zip(sums) {
            assert_eq!(thread.histogram.sum().0, sum);
        }
    }
}

#[test]
fn a_load_that_ends_early_is_told_once() {
    let place = Place::new();
    let mut command = place.command(&format!("{PLAIN} -D 1s --load"));
    let output = command.arg("command:true").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let load = &place.last().load[0];
    assert!(!load.failed);
    let how = load.ended_early.as_deref().unwrap();
    assert!(how.contains("ended with exit status: 0 after"), "{how}");
    let shown = text(&output.stdout);
    assert_eq!(shown.matches("ended early").count(), 1, "{shown}");
}

/// What was measured without its load is no answer: never held, exit code 1.
#[test]
fn a_load_that_fails_makes_the_run_void() {
    let place = Place::new();
    let mut command = place.command(&format!("{PLAIN} -D 1s --max-latency 100s --load"));
    let load = "command:echo no rule to make target >&2; exit 2";
    let output = command.arg(load).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let recording = place.last();
    assert!(recording.load[0].failed);
    assert_eq!(recording.verdict.outcome, Outcome::NotProven);
    let shown = text(&output.stdout);
    assert_eq!(
        shown.matches("failed, the run is void").count(),
        1,
        "{shown}"
    );
    assert_eq!(
        shown.matches("its stderr: no rule to make target").count(),
        1,
        "{shown}"
    );
    assert!(!shown.contains("held"), "{shown}");
}

#[test]
fn a_load_does_not_outlive_a_killed_run() {
    let place = Place::new();
    let marker = format!("9876{}", std::process::id());
    let mut command = place.command(&format!("{PLAIN} -D 10m --load"));
    let mut child = command
        .arg(format!("command:sleep {marker}"))
        .spawn()
        .unwrap();
    let running = || {
        let list = std::process::Command::new("ps")
            .args(["-eo", "args"])
            .output()
            .unwrap();
        text(&list.stdout)
            .lines()
            .any(|line| line.trim() == format!("sleep {marker}"))
    };
    assert!(eventually(running));
    signal(&child, "KILL");
    child.wait().unwrap();
    assert!(eventually(|| !running()));
}

#[test]
fn real_time_priority_is_used_where_it_may_be_had() {
    let place = Place::new();
    let output = place.run("measure timer -q -D 300ms --dma-latency off");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recording = place.last();
    let policy = recording.threads[0].scheduling.policy;
    if policy == Policy::Fifo {
        assert_eq!(recording.threads[0].scheduling.priority, 95);
    } else {
        punctual_testing::skip!("real-time run: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("without real-time priority"));
    }
}

#[test]
fn without_the_right_it_says_so_first_and_runs_as_other() {
    let Some(prefix) = nobody() else { return };
    let place = Place::new();
    // The folder of a test belongs to root: the store goes where nobody may write.
    let folder = place.path("open");
    std::fs::create_dir(&folder).unwrap();
    open_to_all(&place.path("."));
    open_to_all(&folder);
    let run = |line: &str| {
        let mut command = std::process::Command::new(&prefix[0]);
        command
            .args(&prefix[1..])
            .arg(env!("CARGO_BIN_EXE_punctual"))
            .args(line.split_whitespace())
            .env("PUNCTUAL_STORE", folder.join("store.db"))
            .env("PUNCTUAL_LOCKS", folder.join("locks"))
            .env("NO_COLOR", "1");
        command.output().unwrap()
    };
    let output = run("measure timer -q -D 500ms");
    if output.status.code() == Some(126) || output.status.code() == Some(127) {
        punctual_testing::skip!("unprivileged run: the program is not where nobody may run it");
        return;
    }
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let first = stderr.lines().next().unwrap_or_default();
    assert!(
        first.contains("SCHED_OTHER") && first.contains("punctual doctor"),
        "{first}"
    );
    // All that is lacking, in at most two lines of the report.
    let report = text(&output.stdout);
    assert!(report.contains("without real-time priority"), "{report}");
    let lines: Vec<&str> = report.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with("! measured without"));
    let rest = &lines[at.unwrap() + 1..];
    let more = rest
        .iter()
        .take_while(|line| line.starts_with("  "))
        .count();
    assert!(more <= 1, "{report}");
    assert!(!report.contains("limits.conf"), "{report}");

    let output = run("measure timer -q -D 500ms --policy fifo");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("RLIMIT_RTPRIO"),
        "{}",
        text(&output.stderr)
    );
}

/// How to run something as nobody, where that can be done.
fn nobody() -> Option<Vec<String>> {
    let prefix = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
    ];
    let works = std::process::Command::new(prefix[0])
        .args(&prefix[1..])
        .arg("true")
        .output()
        .is_ok_and(|output| output.status.success());
    if !works {
        punctual_testing::skip!("unprivileged run: setpriv cannot become nobody here");
        return None;
    }
    Some(prefix.map(str::to_owned).to_vec())
}

fn open_to_all(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

fn first_cpu() -> u32 {
    punctual_host::Host::live()
        .allowed()
        .unwrap()
        .first()
        .unwrap()
}

#[test]
fn phases_have_their_own_histograms() {
    let place = Place::new();
    let line = "measure timer -q --policy other --dma-latency off --phases idle:400ms,idle:600ms";
    place.done(line);
    let recording = place.last();
    assert_conserved(&recording);
    let cpus = recording.threads.len() / 2;
    let (first, second) = recording.threads.split_at(cpus);
    assert!(first.iter().all(|thread| thread.accounting.expected == 400));
    assert!(
        second
            .iter()
            .all(|thread| thread.accounting.expected == 600)
    );
    assert!(
        first[0].title().starts_with("idle: CPU "),
        "{}",
        first[0].title()
    );
}

/// The time that a CPU quota takes is no outsider's.
#[test]
fn a_cpu_quota_of_the_group_is_told() {
    let Some(group) = QuotaGroup::new("quota") else {
        return;
    };
    let place = Place::new();
    let cpu = *punctual_rt::affinity::current().unwrap().last().unwrap();
    let mut spin = Command::new("sh");
    spin.args(["-c", "while :; do :; done"]);
    let mut inside = group.inside(&spin).spawn().unwrap();
    let line = format!("{PLAIN} --cpus {cpu} -i 5ms -D 6s --threshold 20ms --explain");
    let output = with_spinners(cpu, || {
        group.inside(&place.command(&line)).output().unwrap()
    });
    inside.kill().unwrap();
    inside.wait().unwrap();
    let stderr = text(&output.stderr);
    if stderr.contains("trace") && !output.status.success() {
        punctual_testing::skip!("outliers under a quota: {stderr}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let recording = place.last();
    let name = format!("/{}", group.0.file_name().unwrap().to_str().unwrap());
    let found = recording
        .interference
        .groups
        .iter()
        .find(|found| found.group == name);
    let found = found.unwrap_or_else(|| panic!("{:?}", recording.interference.groups));
    assert!(found.periods > 0, "{found:?}");
    if found.throttled < 10 {
        // The group did not get as much as its quota.
        let crowd = punctual_testing::crowded();
        let crowd = crowd.unwrap_or_else(|| panic!("{found:?}"));
        punctual_testing::skip!("{crowd}: outliers under a quota");
        return;
    }
    let shown = text(&output.stdout);
    let warning = format!("the CPU quota of control group {name} throttled it in");
    assert!(
        recording
            .warnings
            .iter()
            .any(|text| text.starts_with(&warning))
    );
    // The column may cut the name.
    let row = |line: &str| line.starts_with("throttled") && line.contains("/punctual-");
    assert!(shown.lines().any(row), "{shown}");
    let explanation = recording.explanation.unwrap();
    let shares = explanation
        .outliers
        .iter()
        .flat_map(|one| &one.blame.shares);
    let quota = format!("CPU quota of {name}");
    let told = shares.filter(|share| share.who.contains(&quota)).count();
    assert!(told > 0, "{shown}");
}

/// Of threads that are watched, too.
#[test]
fn a_cpu_quota_of_a_watched_process_is_named() {
    let Some(group) = QuotaGroup::new("watched") else {
        return;
    };
    let place = Place::new();
    // Both in the group: one wakes again and again, the other uses the quota up.
    let shell = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        group.inside(&shell).spawn().unwrap()
    };
    let mut wakes = shell("while :; do sleep 0.005; done");
    let mut spins = shell("while :; do :; done");
    let line = format!(
        "explain --pid {} --wait --threshold 20ms -D 6s -q",
        wakes.id()
    );
    let output = place.run(&line);
    for child in [&mut wakes, &mut spins] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let stderr = text(&output.stderr);
    if stderr.contains("trac") && !output.status.success() {
        punctual_testing::skip!("explain --pid under a quota: {stderr}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let recording = place.last();
    let name = format!("/{}", group.0.file_name().unwrap().to_str().unwrap());
    let groups = &recording.interference.groups;
    let found = groups.iter().find(|found| found.group == name);
    let found = found.unwrap_or_else(|| panic!("{groups:?}"));
    let explanation = recording.explanation.as_ref().unwrap();
    if found.throttled < 10 || explanation.outliers.is_empty() {
        // The group did not get as much as its quota.
        let load = punctual_testing::crowded();
        assert!(load.is_some(), "{found:?}");
        punctual_testing::skip!("outliers under a quota: the machine is busy ({load:?})");
        return;
    }
    let warning = format!("the CPU quota of control group {name} throttled it in");
    let warned = |text: &String| text.starts_with(&warning);
    assert!(recording.warnings.iter().any(warned), "{recording:?}");
    let outliers = explanation.outliers.iter();
    let mut shares = outliers.flat_map(|one| &one.blame.shares);
    let quota = format!("CPU quota of {name}");
    let is_named = |share: &Share| share.kind == ShareKind::Throttled && share.who.contains(&quota);
    assert!(shares.any(is_named), "{}", text(&output.stdout));
}

/// Their memory is checked first, and taken by each thread: a stop need not wait for
/// all of it.
#[test]
fn thousands_of_fast_threads_are_refused_or_can_be_stopped() {
    let place = Place::new();
    let line = format!("{PLAIN} -D 10m --threads 4096 -i 20us");
    let child = place.spawn(&line);
    std::thread::sleep(Duration::from_millis(500));
    let asked = std::time::Instant::now();
    let pid = child.id().to_string();
    let _ = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    println!("ended {:?} after Ctrl-C", asked.elapsed());
    if output.status.code() == Some(130) {
        // A GiB of rings, and what threads and histograms take beside.
        let peak = place.last().observer.peak_memory_bytes;
        assert!(peak < 4 << 30, "{peak}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let refused = ["MiB of memory", "thread"]
        .iter()
        .any(|why| stderr.contains(why));
    assert!(refused, "{stderr}");
}

/// A new group has no real-time runtime where the kernel groups real-time threads.
#[test]
fn a_group_without_real_time_is_named() {
    let Some(group) = QuotaGroup::new("real-time") else {
        return;
    };
    let file = group.0.join("cpu.rt_runtime_us");
    if !fs::read_to_string(&file).is_ok_and(|text| text.trim() == "0") {
        punctual_testing::skip!("no group without real-time runtime: RT_GROUP_SCHED is off");
        return;
    }
    let place = Place::new();
    for (line, code) in [
        ("measure timer -q --dma-latency off --policy fifo -D 1s", 1),
        ("measure timer -q --dma-latency off -D 1s", 0),
        ("exec -p 50 true", 1),
    ] {
        let output = group.inside(&place.command(line)).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
        let cause = format!("{} is 0", file.display());
        assert!(stderr.contains(&cause), "{line}: {stderr}");
    }
}
