//! `punctual measure --explain` and `punctual export --format trace-dat` on this machine.

#![allow(clippy::unwrap_used)]

#[path = "it/common/mod.rs"]
mod common;

use std::path::PathBuf;

use common::{Sandbox, assert_conserved, eventually, instances_of, signal, text};
use punctual_model::{Completion, Nanos, Outlier, Recording, Share, ShareKind, Wakeups};

/// With these options, every wake-up is late, so there is always something to explain.
const RUN: &str = "measure timer -q --policy other --dma-latency off --explain";

/// Returns whether this process is allowed to trace.
fn may_trace(place: &Sandbox) -> bool {
    let output = place.run(&format!("{RUN} --threshold 10s -D 300ms"));
    if output.status.code() != Some(0) {
        punctual_testing::skip_refused("explaining", text(&output.stderr));
        return false;
    }
    let explained = place.last().explanation;
    place.done("store delete last");
    // An ordinary user gets an explanation by context switches, without trace events.
    let is_traced = explained.is_some_and(|found| !found.events.is_empty());
    if !is_traced {
        punctual_testing::skip!(Right, "explaining: no trace events");
    }
    is_traced
}

/// Asserts that an explanation is consistent.
fn assert_explained(recording: &Recording) {
    assert_conserved(recording);
    let found = recording.explanation.as_ref().unwrap();
    assert!(found.explained > 0 && found.explained <= found.seen);
    assert!(!found.outliers.is_empty() && !found.causes.is_empty());
    for outlier in &found.outliers {
        assert!(outlier.latency_ns > found.threshold_ns);
        let sum: u64 = outlier.blame.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, outlier.latency_ns.0, "{outlier:?}");
        assert!(!outlier.blame.sentence().is_empty());
    }
    for name in ["sched:sched_switch", "sched:sched_waking"] {
        assert!(found.events.iter().any(|event| event == name), "{name}");
    }
    // Each known event is either recorded or listed as missing. This includes the event of a tracer
    // that only some kernels have.
    let known = found.events.iter().chain(&found.missing_events);
    assert_eq!(known.filter(|name| *name == "osnoise:irq_noise").count(), 1);
}

/// Asserts what the user sees: the list, one outlier, and the report with its picture.
fn assert_told(place: &Sandbox, recording: &Recording) {
    let found = recording.explanation.as_ref().unwrap();
    let number = found.outliers[0].number;
    let list = place.done("explain last");
    let list: Vec<&str> = list.split_whitespace().collect();
    let list = list.join(" ");
    // The output states the longest time until an explanation, and the time spent on measuring the
    // overhead.
    let within = found.explained_within_ns.unwrap();
    assert!(
        list.contains(&format!("at most {within} after the outlier")),
        "{list}"
    );
    let took = found.rise_took_ns.unwrap();
    let known = format!("measured for {took} before the start");
    // On a busy machine, there may be too few samples to determine the overhead of the events.
    let unknown = format!("overhead is still unknown after measuring for {took} before the start");
    assert!(list.contains(&known) || list.contains(&unknown), "{list}");
    assert!(took > Nanos::ZERO);
    let one = place.done(&format!("explain last --outlier {number}"));
    assert!(one.contains(&format!("outlier {number}: ")), "{one}");
    assert!(
        one.contains("expected wake-up") && one.contains("actual wake-up"),
        "{one}"
    );
    let json = place.done(&format!("explain last --outlier {number} --json"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["outlier"]["number"], number);
    assert!(!json["segments"].as_array().unwrap().is_empty());
    place.done("report last -o report.html");
    let page = std::fs::read_to_string(place.path("report.html")).unwrap();
    let largest = recording.top_samples[0].blame.as_ref().unwrap();
    let beginning: String = largest.sentence().chars().take(30).collect();
    let picture = page.find(&beginning).is_some() && page.contains("<svg");
    assert!(picture, "no picture with: {beginning}");
}

/// If outliers of two threads occur at the same time, both of them are explained.
#[test]
fn simultaneous_outliers_are_both_explained() {
    let place = Sandbox::new();
    if !may_trace(&place) {
        return;
    }
    let span = |outlier: &Outlier| {
        let due = outlier.monotonic_ns;
        (due, due + outlier.latency_ns)
    };
    let mut seen = Vec::new();
    // If many outliers occur at once on a busy machine, the largest ones are explained. These are
    // not necessarily from the same time.
    for _ in 0..5 {
        place.done(&format!(
            "{RUN} --threshold 1us -D 500ms --interval 5ms --threads 2 --aligned"
        ));
        let recording = place.last();
        assert_explained(&recording);
        let found = recording.explanation.unwrap();
        let both = found.outliers.windows(2).filter(|pair| {
            let (a, b) = (span(&pair[0]), span(&pair[1]));
            pair[0].thread != pair[1].thread && a.0 < b.1 && b.0 < a.1
        });
        if both.count() > 0 {
            return;
        }
        seen.extend(found.outliers.iter().map(span));
    }
    match punctual_testing::crowded() {
        Some(crowd) => {
            punctual_testing::skip!(Quiet, "{crowd}: outliers at the same time: {seen:?}")
        }
        None => panic!("no two of one time: {seen:?}"),
    }
}

/// The CLOCK_MONOTONIC of a process may differ from the clock that the kernel uses for events
/// (time_namespaces(7)).
#[test]
fn events_are_found_despite_clock_offset() {
    let place = Sandbox::new();
    if !may_trace(&place) {
        return;
    }
    let elsewhere = |line: &str| {
        let output = std::process::Command::new("unshare")
            .args(["--time", "--monotonic", "12345678", "--fork"])
            .arg(env!("CARGO_BIN_EXE_punctual"))
            .args(line.split_whitespace())
            .env("XDG_STATE_HOME", place.path("state"))
            .env("PUNCTUAL_STORE", place.path("store.db"))
            .env("PUNCTUAL_LOCKS", place.path("locks"))
            .output();
        match output {
            Ok(output) if !text(&output.stderr).starts_with("unshare: ") => Some(output),
            other => {
                punctual_testing::skip!(Right, "a clock of its own: {other:?}");
                None
            }
        }
    };
    let line = format!("{RUN} --threshold 1us -D 500ms --interval 5ms");
    let Some(output) = elsewhere(&line) else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recording = place.last();
    assert_explained(&recording);
    assert!(recording.top_samples[0].monotonic_ns > Nanos::from_secs(12_345_678));
    let Some(output) = elsewhere("watch -q --no-bpf -D 1s --by comm --json") else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let seen: Wakeups = serde_json::from_str(&text(&output.stdout)).unwrap();
    let counted = seen.rows.iter().map(|row| row.waits.count);
    assert!(counted.sum::<u64>() + seen.lost > 5, "{seen:?}");
    let late = &seen.longest[0];
    assert!(late.woken_ns > Nanos::from_secs(12_345_678), "{late:?}");
}

/// Memory that a run used, as far as it was sampled, not counting the code of the recorder.
struct Took {
    /// Memory used before the first thread measured.
    arming: u64,
    measuring: u64,
    outliers: u64,
}

fn memory_of(place: &Sandbox, options: &str) -> Took {
    let mut child = place.spawn(&format!(
        "measure timer -q --policy other --dma-latency off --threads 2 -i 200us -D 2s {options}"
    ));
    let measures = |task: std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| name.starts_with("timer/"))
    };
    let tasks = format!("/proc/{}/task", child.id());
    let status = format!("/proc/{}/status", child.id());
    let mut took = Took {
        arming: 0,
        measuring: 0,
        outliers: 0,
    };
    let mut armed = false;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let number = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        };
        armed |= std::fs::read_dir(&tasks).is_ok_and(|tasks| tasks.flatten().any(measures));
        let bytes = number("RssAnon:").unwrap_or(0) * 1_024;
        let most = if armed {
            &mut took.measuring
        } else {
            &mut took.arming
        };
        *most = bytes.max(*most);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    took.outliers = place.last().explanation.map_or(0, |found| found.seen);
    took
}

/// Ring buffers are kernel memory. The rest is memory of this program. The loader of BPF programs
/// reads all types of the kernel, and frees them before the measurement starts.
#[test]
fn recorder_memory_stays_within_16_mb() {
    let place = Sandbox::new();
    if !may_trace(&place) {
        return;
    }
    // Compare a run without explanations with runs in which every sample is an outlier.
    let without = memory_of(&place, "").measuring;
    assert!(without > 0);
    for level in ["usual", "full"] {
        let options = format!("--explain={level} --threshold 1us");
        // On a busy machine, a run reads the events late and needs more memory.
        let runs = [(); 2].map(|()| memory_of(&place, &options));
        let with = runs.into_iter().min_by_key(|took| took.measuring).unwrap();
        let (measuring, arming, seen) = (with.measuring, with.arming, with.outliers);
        eprintln!(
            "{level}: {measuring} bytes with {seen} outliers, {arming} before, {without} without"
        );
        assert!(seen > 1_000, "{seen}");
        let recorder = measuring.saturating_sub(without);
        assert!(recorder <= 16_000_000, "{recorder}");
        assert!(arming <= 32_000_000, "{arming}");
    }
}

#[test]
fn run_continues_after_explaining_outliers() {
    let place = Sandbox::new();
    if !may_trace(&place) {
        return;
    }
    place.done(&format!("{RUN} --threshold 1us -D 1s --interval 5ms"));
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Finished);
    assert_explained(&recording);
    let largest = &recording.top_samples[0];
    assert!(largest.blame.is_some(), "{largest:?}");

    let note = text(&place.run("export -f trace-dat -o all.dat").stderr);
    assert!(note.contains("trace-cmd report"), "{note}");
    let found = recording.explanation.as_ref().unwrap();
    let first = found.outliers[0].number;
    assert_told(&place, &recording);
    place.done(&format!("export -f trace-dat --outlier {first} -o one.dat"));
    let file = |name: &str| std::fs::metadata(place.path(name)).unwrap().len();
    assert!(file("one.dat") < file("all.dat"));
    let reported = std::process::Command::new("trace-cmd")
        .args(["report", "-i"])
        .arg(place.path("one.dat"))
        .output();
    match reported {
        Ok(output) => {
            assert!(text(&output.stdout).contains("sched_switch"), "{output:?}");
            // Perfetto recognises the text format by this line and reads these fields.
            let raw = std::process::Command::new("trace-cmd")
                .args(["report", "-N", "-i"])
                .arg(place.path("one.dat"))
                .output()
                .unwrap();
            let raw = text(&raw.stdout);
            assert!(raw.lines().any(|line| line.starts_with("cpus=")), "{raw}");
            assert!(
                raw.contains(" sched_switch: ") && raw.contains("prev_comm="),
                "{raw}"
            );
        }
        Err(error) => punctual_testing::skip!(Program, "trace-cmd report: {error}"),
    }
    let error = place.refused("export -f trace-dat --outlier 4294967296", 2);
    assert!(
        error.contains(&format!("outliers with trace events: {first}")),
        "{error}"
    );
}

/// In probes with two threads, the delay of either thread is explained.
#[test]
fn calls_from_thread_to_thread_are_explained() {
    let place = Sandbox::new();
    if !may_trace(&place) {
        return;
    }
    for (line, who) in [
        ("wakeup --via eventfd -i 5ms", "post/"),
        ("signal -i 5ms", "signal/"),
        ("socket --via udp", "echo/"),
    ] {
        place.done(&format!(
            "measure {line} -q --policy other --dma-latency off --explain --threshold 1us -D 1s"
        ));
        let recording = place.last();
        assert_explained(&recording);
        let found = recording.explanation.unwrap();
        let shares = || found.outliers.iter().flat_map(|o| &o.blame.shares);
        // The call in the other thread is part of the latency.
        let of_other = |share: &&Share| share.who().starts_with(who);
        let called = shares().filter(of_other).count();
        assert!(called > 0, "{line}: {:?}", found.causes);
        if who == "echo/" {
            let delivered =
                |share: &Share| share.kind() == ShareKind::Softirq && share.who() == "NET_RX";
            assert!(shares().any(delivered), "{:?}", found.causes);
        }
        let told = place.done("explain last");
        assert!(told.contains(who), "{told}");
    }
}

/// Returns the explained recording of `measure` with these options. If this machine does not permit
/// the run, prints the reason and returns `None`.
fn explained(place: &Sandbox, line: &str) -> Option<Recording> {
    let output = place.run(&format!("measure {line} -q --dma-latency off --explain"));
    if output.status.code() != Some(0) {
        let status = output.status;
        punctual_testing::skip_refused(format!("{line}: {status}"), text(&output.stderr));
        return None;
    }
    let recording = place.last();
    let found = recording.explanation.as_ref().unwrap();
    assert!(found.seen > 0, "{line}");
    assert_explained(&recording);
    Some(recording)
}

fn shares_of(recording: &Recording) -> impl Iterator<Item = &Share> {
    let outliers = &recording.explanation.as_ref().unwrap().outliers;
    outliers.iter().flat_map(|outlier| &outlier.blame.shares)
}

/// With priority inheritance, the holder of the lock causes the wait. Without inheritance, a thread
/// of medium priority keeps the holder from running.
#[test]
fn lock_wait_names_holder_and_its_obstacle() {
    let place = Sandbox::new();
    if !may_trace(&place) {
        return;
    }
    let usual = "-D 500ms --hold 300us --spin 3ms -i 20ms --threshold 250us";
    let cpu = punctual_rt::affinity::current().unwrap()[0];
    for (lock, kind, who) in [
        ("inherit", ShareKind::LockHolder, format!("low/{cpu}-")),
        ("plain", ShareKind::HigherPriority, format!("middle/{cpu}-")),
    ] {
        let line = format!("inversion --lock {lock} --cpus {cpu} {usual}");
        let Some(recording) = explained(&place, &line) else {
            return;
        };
        let found = recording.explanation.as_ref().unwrap();
        let whole = found.outliers.iter().filter(|o| o.blame.events_lost == 0);
        let (mut all, mut right) = (0, 0);
        for outlier in whole {
            let shares = &outlier.blame.shares;
            let sum = |fits: &dyn Fn(&Share) -> bool| -> u64 {
                let fitting = shares.iter().filter(|share| fits(share));
                fitting.map(|share| share.ns.0).sum()
            };
            let of_it = sum(&|share| share.kind() == kind && share.who().starts_with(&who));
            // According to the clock, these threads work for at least this long, including the time
            // of interrupting causes. Most of that time may be a stall caused by a hypervisor.
            let on_top = sum(&|share| {
                use ShareKind::{Interrupt, Nmi, Silence, Softirq};
                [Interrupt, Nmi, Silence, Softirq].contains(&share.kind())
            });
            let least = if lock == "plain" { 2_000_000 } else { 200_000 };
            assert!(of_it > 0 && of_it + on_top >= least, "{lock}: {outlier:?}");
            all += 1;
            right += usize::from(of_it >= least);
            let sentence = &outlier.blame.sentence();
            assert!(sentence.starts_with(&format!("high/{cpu}-")), "{sentence}");
            assert!(sentence.contains(" took "), "{sentence}");
        }
        let told = format!("{lock}: {right} of {all}: {:?}", found.causes);
        assert!(right > 0 && right * 2 >= all, "{told}");
    }
}

/// Steps of one thread, and switches to another.
#[test]
fn steps_between_clock_readings_are_explained() {
    let place = Sandbox::new();
    if !may_trace(&place) {
        return;
    }
    let line = "fault --policy other --memory anonymous --after nothing --pages 8 -i 50ms \
                -D 1s --threshold 1ns";
    if let Some(recording) = explained(&place, line) {
        let found = recording.explanation.as_ref().unwrap();
        let known = "exceptions:page_fault_user";
        if found.events.iter().any(|event| event == known) {
            let faults = shares_of(&recording).filter(|s| s.kind() == ShareKind::PageFault);
            assert!(faults.count() > 0, "{:?}", found.causes);
        } else {
            punctual_testing::skip!(Kernel, "this kernel has no event for page faults")
        }
    }
    let line = "switch --policy other --way pipe --batch 4 -i 50ms -D 500ms --threshold 1ns";
    if let Some(recording) = explained(&place, line) {
        let outliers = &recording.explanation.as_ref().unwrap().outliers;
        for outlier in outliers {
            let sentence = &outlier.blame.sentence();
            assert!(sentence.starts_with("switch-to/"), "{sentence}");
        }
        let by_other = shares_of(&recording).filter(|share| share.who().starts_with("switch/"));
        assert!(by_other.count() > 0, "{outliers:?}");
    }
}

/// Reading a clock takes so little time that it needs no cause, but the thread can be disturbed
/// during it. Without a finer counter, samples are mean values.
#[test]
fn individually_timed_clock_reads_are_explained() {
    let place = Sandbox::new();
    if !may_trace(&place) {
        return;
    }
    let line = "clock --policy other --reads 1 -i 20ms -D 500ms --threshold 1ns -q \
                --dma-latency off --explain";
    place.done(&format!("measure {line} --batch 8"));
    let means = place.last();
    let found = means.explanation.as_ref().unwrap();
    assert_eq!(found.explained, 0, "{found:?}");
    let said = means
        .warnings
        .iter()
        .any(|text| text.contains("mean of several"));
    assert_eq!(said, found.seen > 0, "{:?}", means.warnings);
    place.done(&format!("measure {line} --batch 1"));
    let recording = place.last();
    if recording.explanation.as_ref().unwrap().seen == 0 {
        punctual_testing::skip!(Hardware, "each read takes no time by this clock");
        return;
    }
    assert_explained(&recording);
}

/// If threads have no affinity, the output names the CPU on which they woke.
#[test]
fn moving_threads_are_explained_since_due() {
    let place = Sandbox::new();
    if !may_trace(&place) {
        return;
    }
    let Some(recording) = explained(&place, "migrate -D 500ms -i 50ms --threshold 100ns") else {
        return;
    };
    // In each round, every thread is due at a different time.
    let found = recording.explanation.as_ref().unwrap();
    assert!(found.outliers.iter().all(|outlier| outlier.cpu.is_none()));
    let told = place.done("explain last");
    assert!(told.contains("highest"), "{told}");
    assert!(!recording.interference.cpus.is_empty());
    assert!(recording.interference.power.is_some());
}

#[test]
fn break_stops_at_first_and_keeps_trace() {
    let place = Sandbox::new();
    if !may_trace(&place) {
        return;
    }
    let output = place.run(&format!("{RUN}=full --break 1us -D 10m --interval 5ms"));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Break);
    assert_explained(&recording);
    let found = recording.explanation.unwrap();
    assert_eq!(found.threshold_ns, Nanos::from_micros(1));
    assert!(found.events.contains(&"timer:hrtimer_start".to_owned()));
    place.done("export -f trace-dat");
    assert!(place.path("trace.dat").exists());
}

#[test]
fn nothing_is_left_behind_however_it_ends() {
    let place = Sandbox::new();
    if !may_trace(&place) {
        return;
    }
    let mounts = || std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mounted = mounts();
    for name in ["INT", "TERM", "KILL"] {
        let mut child = place.spawn(&format!("{RUN} --threshold 1us -D 10m --interval 5ms"));
        place.wait_for_rows();
        assert_eq!(instances_of(child.id()).len(), 1, "{name}");
        signal(&child, name);
        child.wait().unwrap();
        if name == "KILL" {
            // The next command cleans up, whichever command it is. A command of another test may
            // already have done so.
            place.done("list");
        }
        let pid = child.id();
        assert!(
            eventually(|| instances_of(pid).is_empty()),
            "{name}: {:?}",
            instances_of(pid)
        );
        if name == "KILL" {
            let recording = place.last();
            assert_eq!(recording.completion, Completion::Interrupted);
            let found = recording.explanation.unwrap();
            assert!(!found.outliers.is_empty());
            assert_eq!(found.threshold_ns, Nanos::from_micros(1));
            assert!(!found.events.is_empty());
            place.done("export -f trace-dat");
        }
        place.done("store delete last");
    }
    // If tracefs was not mounted before, it was mounted only for these processes.
    let trace = |mounts: &str| mounts.matches("tracefs").count();
    assert_eq!(trace(&mounts()), trace(&mounted));
}

#[test]
fn unexplainable_measurement_is_refused_before_start() {
    let place = Sandbox::new();
    for (line, says) in [
        ("measure timer --explain", "--threshold 100us"),
        ("measure timer --threshold 100us", "--explain"),
        ("measure irq-load --explain", "The probe counts interrupts"),
        (
            "measure hardware --explain --threshold 1us",
            "The probe finds the cause",
        ),
        ("measure timer --explain=most --threshold 1us", "full"),
        ("measure timer --explain --threshold 1", "1"),
    ] {
        let error = place.refused(line, 2);
        assert!(error.contains(says), "{line}: {error}");
    }
    assert!(!place.path("store.db").exists());
    // A recording without trace events.
    place.done("measure timer -q --policy other --dma-latency off -D 100ms");
    let error = place.refused("export last -f trace-dat", 1);
    assert!(error.contains("no trace events"), "{error}");
    assert!(!place.path("trace.dat").exists());
}

#[test]
fn missing_right_is_reported_with_remedy() {
    let place = Sandbox::new();
    let program = env!("CARGO_BIN_EXE_punctual");
    let copy: PathBuf = place.path("punctual");
    std::fs::copy(program, &copy).unwrap();
    for path in [place.path("."), copy.clone()] {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    // More events need tracing.
    let line = "measure timer -q -D 100ms --threshold 1ms --explain=full --store";
    let output = std::process::Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
        ])
        .arg(&copy)
        .args(line.split_whitespace())
        .arg(place.path("none.db"))
        .output();
    let Ok(output) = output else {
        punctual_testing::skip!(Program, "unprivileged run: setpriv is not there");
        return;
    };
    let error = text(&output.stderr);
    // The setpriv of busybox does not have any of these options.
    if matches!(output.status.code(), Some(126 | 127)) || error.starts_with("setpriv: ") {
        punctual_testing::skip!(User, "unprivileged run: {error}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("outliers cannot be explained"), "{error}");
    assert!(
        error.contains("mount -t tracefs") || error.contains("sudo"),
        "{error}"
    );
}
