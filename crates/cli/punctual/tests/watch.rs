//! Tests of `watch` from the command line.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "it/common/mod.rs"]
mod common;

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Sandbox, beside_sleeper, eventually, instances_of, signal, text};
use punctual_model::{Activities, ActivityKind, ActivityRow, Nanos, WakeupSource, Wakeups};
use punctual_testing::Running;

/// Returns whether wake-ups can be watched here with these options. Prints the reason if not.
fn can_watch(place: &Sandbox, options: &str) -> bool {
    let output = place.run(&format!("watch -q -D 100ms --json {options}"));
    let stderr = text(&output.stderr);
    if !output.status.success() {
        assert!(
            stderr.contains("wake-ups cannot be") && stderr.contains("trace"),
            "{stderr}"
        );
        punctual_testing::skip_refused(format!("watch {options}"), &stderr);
    }
    output.status.success()
}

fn watched(place: &Sandbox, line: &str) -> Wakeups {
    serde_json::from_str(&place.done(line)).unwrap()
}

/// Asserts that the counts are consistent. The source of the events makes no difference.
fn assert_counted(seen: &Wakeups) {
    let own = |row: &&punctual_model::WakeupRow| row.comm.as_deref() == Some("sleeper");
    let count: u64 = seen
        .rows
        .iter()
        .filter(own)
        .map(|row| row.waits.count)
        .sum();
    // If the kernel does not trace switches from an idle thread, the output says so.
    assert!(count + seen.lost > 5, "{seen:?}");
    for row in &seen.rows {
        let in_buckets: u64 = row.waits.buckets.iter().map(|bucket| bucket.1).sum();
        assert_eq!(row.waits.count, in_buckets);
    }
}

#[test]
fn all_wake_ups_are_counted_and_told() {
    let place = Sandbox::new();
    if !can_watch(&place, "") {
        return;
    }
    beside_sleeper(|| {
        let seen = watched(&place, "watch -q -D 1s --by cpu,priority,comm --json");
        assert_counted(&seen);
        assert_eq!(seen.not_bpf.is_none(), seen.source == WakeupSource::Bpf);
        let table = place.done("watch -q -D 300ms --by priority --longest 3");
        let class = match punctual_rt::current_policy().unwrap() {
            punctual_rt::Policy::Idle => "idle",
            _ => "fair",
        };
        // On a busy machine, the watch may look too rarely.
        let lost = table.contains("wake-ups are missing from the rows");
        assert!(table.contains(class) || lost, "{table}");
        assert!(table.contains("longest waits") || lost, "{table}");
    });
}

#[test]
fn events_are_counted_without_bpf() {
    let place = Sandbox::new();
    if !can_watch(&place, "--no-bpf") {
        return;
    }
    let line = "watch -q -D 1s --by cpu,priority,comm --json --no-bpf";
    beside_sleeper(|| {
        let seen = watched(&place, line);
        assert_counted(&seen);
        assert_eq!(seen.source, WakeupSource::Events);
        assert!(seen.not_bpf.unwrap().contains("--no-bpf"));
    });
    let table = place.done("watch -q -D 300ms --by priority --longest 3 --no-bpf");
    assert!(table.contains("counted from trace events"), "{table}");
    // On some kernels, the switches from idle threads are not traced. Then wake-ups are missing
    // here too.
    let lost = table.contains("wake-ups are missing from the rows");
    assert!(table.contains("fair") || lost, "{table}");
}

/// Runs as root without the capabilities that BPF programs need. tracefs does not need them.
#[test]
fn reason_for_missing_bpf_is_reported() {
    let place = Sandbox::new();
    // tracefs is mounted before the capabilities are dropped, because mounting needs one of them.
    let script = "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; \
                  exec setpriv --bounding-set=-sys_admin,-bpf,-perfmon \"$@\"";
    let output = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(env!("CARGO_BIN_EXE_punctual"))
        .args("watch -q -D 300ms --json".split_whitespace())
        .env("XDG_STATE_HOME", place.path("state"))
        .output();
    let Ok(output) = output else {
        punctual_testing::skip!(Program, "watch without CAP_BPF: unshare is not there");
        return;
    };
    let stderr = text(&output.stderr);
    if ["unshare: ", "setpriv: ", "sh: "]
        .iter()
        .any(|of| stderr.starts_with(of))
    {
        punctual_testing::skip!(Right, "watch without CAP_BPF: {stderr}");
        return;
    }
    assert!(
        stderr.contains("CAP_BPF") || stderr.contains("BTF"),
        "{stderr}"
    );
    if !output.status.success() {
        // tracefs is not available either.
        assert!(stderr.contains("; trace events: "), "{stderr}");
        punctual_testing::skip_refused("counting events without CAP_BPF", &stderr);
        return;
    }
    let seen: Wakeups = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(seen.source, WakeupSource::Events);
    let why = seen.not_bpf.unwrap();
    assert!(stderr.contains(&why), "{stderr} does not say {why}");
}

#[test]
fn no_trace_instance_is_left_behind() {
    let place = Sandbox::new();
    if !can_watch(&place, "--no-bpf") {
        return;
    }
    assert_leaves_no_instance(&place, "watch -q --no-bpf");
}

/// Checks that no trace instance of the command remains if it is interrupted or killed.
fn assert_leaves_no_instance(place: &Sandbox, command: &str) {
    for name in ["INT", "KILL"] {
        let mut child = place.spawn(command);
        let pid = child.id();
        assert!(eventually(|| instances_of(pid).len() == 1), "{name}");
        signal(&child, name);
        child.wait().unwrap();
        if name == "KILL" {
            // The next command cleans up. A command of another test may already have done so.
            place.done("list");
        }
        assert!(eventually(|| instances_of(pid).is_empty()), "{name}");
    }
}

#[test]
fn watch_ends_on_ctrl_c_with_results() {
    let place = Sandbox::new();
    if !can_watch(&place, "") {
        return;
    }
    let child = place
        .command("watch -q")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The program must end in the same way, no matter whether it has already started to watch.
    std::thread::sleep(std::time::Duration::from_millis(800));
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    // Without root, only own threads count: there may be a single wake-up.
    let counted = text(&output.stdout);
    let counts = ["wake-ups in", "1 wake-up in"];
    assert!(
        counts.iter().any(|count| counted.contains(count)),
        "{output:?}"
    );
}

/// A thread that is starved for 700 ms at a time by a spinner of higher priority.
struct Starved {
    stop: Arc<AtomicBool>,
    threads: Vec<punctual_rt::JoinHandle<()>>,
}

impl Starved {
    /// Returns `None` if the privilege for real-time priority is missing.
    fn begin() -> Option<Self> {
        use punctual_rt::Policy::{Fifo, Idle};
        const SPIN: Duration = Duration::from_millis(700);
        let cpu = *punctual_rt::affinity::current().unwrap().last().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = |name: &str, policy: punctual_rt::Policy, turn: fn()| {
            let stopping = Arc::clone(&stop);
            punctual_rt::ThreadBuilder::new(name)
                .policy(policy)
                .cpus(&[cpu])
                .spawn(move || {
                    while !stopping.load(Ordering::Relaxed) {
                        turn();
                    }
                })
        };
        let spinner = thread("spinner", Fifo { priority: 60 }, || {
            spin_for(SPIN);
            // The sleep leaves time for other threads, and avoids the kernel's real-time
            // throttling.
            std::thread::sleep(SPIN / 2);
        });
        let spinner = match spinner {
            Ok(spinner) => spinner,
            Err(error) => {
                punctual_testing::skip_refused("a starved thread", &error);
                return None;
            }
        };
        // The timer of this thread expires every 5 ms, whichever thread is using the CPU.
        let starved = thread("starved", Fifo { priority: 50 }, || {
            std::thread::sleep(Duration::from_millis(5));
        });
        // Some kernels do not write an event for a switch from an idle CPU. The filler therefore
        // ensures that this CPU always has a runnable thread.
        let filler = thread("filler", Idle, || spin_for(Duration::from_millis(1)));
        let threads = vec![spinner, starved.unwrap(), filler.unwrap()];
        Some(Self { stop, threads })
    }
}

fn spin_for(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The result of one watch of the starved thread.
#[derive(Debug, PartialEq)]
enum Scene {
    /// The wait of the thread is still open, with the spinner as its cause.
    Shown,
    /// The wait was seen only after it had ended.
    Over(String),
    /// There is no result, because another thread waited longer or events were lost.
    Elsewhere(String),
    /// The wait is shown with wrong facts.
    Wrong(String),
}

/// Judges a watch that ends at a wait of 250 ms. This machine may also let another thread wait
/// longer, run the watcher only after the wait, overwrite events, or switch to a thread above the
/// spinner.
fn scene(seen: &Wakeups) -> Scene {
    const LIMIT: Nanos = Nanos::from_millis(250);
    let lost = (seen.lost, seen.events_lost);
    let told = || {
        format!(
            "open: {:?}, largest: {:?}, lost {lost:?}",
            seen.open, seen.longest
        )
    };
    let open = (seen.open.iter()).find(|wait| wait.victim.comm == "starved");
    if let Some(wait) = open.filter(|wait| wait.waited_ns > LIMIT) {
        let behind = wait.behind.as_ref();
        if wait.victim.scheduling() != "fifo 50" || wait.cpu.is_none() {
            return Scene::Wrong(told());
        }
        return match behind {
            Some(thread) if thread.comm == "spinner" => Scene::Shown,
            // A thread of lower priority cannot keep the starved thread from running.
            Some(thread) if thread.kernel_priority >= 99 - 50 && lost == (0, 0) => {
                Scene::Wrong(told())
            }
            _ => Scene::Elsewhere(told()),
        };
    }
    let is_over =
        (seen.longest.iter()).any(|wait| wait.victim.comm == "starved" && wait.latency_ns > LIMIT);
    if is_over && seen.open.is_empty() && lost == (0, 0) {
        Scene::Over(told())
    } else {
        Scene::Elsewhere(told())
    }
}

/// With either source of events, a long wait ends the watch while the wait is still open, and the
/// output names the cause.
#[test]
fn open_wait_is_reported() {
    let place = Sandbox::new();
    for options in ["", "--no-bpf"] {
        if !can_watch(&place, options) {
            continue;
        }
        let Some(_starved) = Starved::begin() else {
            return;
        };
        let mut scenes = Vec::new();
        while scenes.last() != Some(&Scene::Shown) && scenes.len() < 10 {
            let line = format!("watch -q --real-time --stalled 250ms -D 20s --json {options}");
            // The program runs at its own priority, so that no other load delays it.
            let mut command = place.command("exec -p 70 --");
            command.arg(env!("CARGO_BIN_EXE_punctual"));
            let output = command.args(line.split_whitespace()).output().unwrap();
            assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
            let stderr = text(&output.stderr);
            assert!(stderr.contains("limit: 250 ms"), "{stderr}");
            let seen: Wakeups = serde_json::from_str(&text(&output.stdout)).unwrap();
            assert!(seen.longest() > Nanos::from_millis(250));
            scenes.push(scene(&seen));
        }
        let is_wrong = |scene: &Scene| matches!(scene, Scene::Wrong(_));
        assert!(!scenes.iter().any(is_wrong), "({options}) {scenes:?}");
        let is_over = |scene: &Scene| matches!(scene, Scene::Over(_));
        assert!(!scenes.iter().all(is_over), "({options}) {scenes:?}");
        if scenes.last() != Some(&Scene::Shown) {
            punctual_testing::skip!(
                Quiet,
                "an open wait ({options}): none of ten tries: {scenes:?}"
            );
            continue;
        }
        let shown = place.run(&format!(
            "watch -q --real-time -D 2s --stalled 250ms {options}"
        ));
        assert_eq!(shown.status.code(), Some(3), "{}", text(&shown.stderr));
        let shown = text(&shown.stdout);
        assert!(
            shown.contains("still waiting") || shown.contains("longest waits"),
            "{shown}"
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let place = Sandbox::new();
    for line in [
        "watch --by node",
        "watch -D 1parsec",
        "watch --longest 99",
        "watch --rows 0",
        "watch --stalled soon",
    ] {
        place.refused(line, 2);
    }
}

/// The waits of a process in a separate control group are listed under the name of the group, and
/// `--cgroup` counts only that group.
#[test]
fn waits_are_told_by_control_group() {
    let Some(group) = common::group::QuotaGroup::new("watched") else {
        return;
    };
    let place = Sandbox::new();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "while :; do sleep 0.01; done"]);
    let _app = Running(group.inside(&command).spawn().unwrap());
    let name = format!("/{}", group.0.file_name().unwrap().to_str().unwrap());
    for options in ["", "--no-bpf"] {
        if !can_watch(&place, options) {
            continue;
        }
        let line = format!("watch -q -D 700ms --json --by comm,cgroup {options}");
        let is_of = |row: &&punctual_model::WakeupRow| {
            let path = row.group.as_ref().and_then(|group| group.path.as_deref());
            path == Some(name.as_str())
        };
        let counted = |seen: &Wakeups| {
            let rows = seen.rows.iter().filter(is_of);
            rows.map(|row| row.waits.count).sum::<u64>()
        };
        let all = watched(&place, &line);
        let own = counted(&all);
        if own == 0 {
            // This machine does not trace switches from an idle CPU.
            assert!(all.lost > 0, "({options}) {all:?}");
            punctual_testing::skip!(Quiet, "waits by control group: {} lost", all.lost);
            continue;
        }
        let others = all
            .rows
            .iter()
            .any(|row| !is_of(&row) && row.waits.count > 0);
        assert!(others, "({options}) {all:?}");
        let folder = group.0.display();
        let only = watched(&place, &format!("{line} --cgroup {folder}"));
        assert!(counted(&only) > 0, "({options}) {only:?}");
        // Other threads are counted only if they delayed the group.
        let others = only.rows.iter().filter(|row| !is_of(row));
        let waits: u64 = others.map(|row| row.waits.count).sum();
        assert_eq!(waits, 0, "({options}) {only:?}");
        let shown = place.done(&format!("watch -q -D 300ms --by cgroup {options}"));
        assert!(shown.contains("delayed others"), "{shown}");
    }
    let told = place.refused("watch -D 1s --cgroup /no/such", 2);
    assert!(told.contains("no control group /no/such"), "{told}");
}

/// Runs `watch --of` with these options for a second. Returns `None` if the kernel does not permit
/// it or has no such events. The reason is printed.
fn activities(place: &Sandbox, options: &str) -> Option<Activities> {
    let output = place.run(&format!("watch -q -D 1s --json --of {options}"));
    let stderr = text(&output.stderr);
    if output.status.success() {
        return Some(serde_json::from_str(&text(&output.stdout)).unwrap());
    }
    assert!(stderr.contains("cannot be watched"), "{stderr}");
    if stderr.contains("has no trace event") {
        punctual_testing::skip!(Kernel, "watch --of {options}: {stderr}");
    } else {
        punctual_testing::skip_refused(format!("watch --of {options}"), &stderr);
    }
    None
}

#[test]
fn each_kind_of_activity_is_counted() {
    let place = Sandbox::new();
    for kind in ActivityKind::ALL {
        let Some(seen) = activities(&place, kind.name()) else {
            continue;
        };
        assert_eq!(seen.of, kind);
        for row in &seen.rows {
            assert!(row.run.count <= row.count && row.delay.count <= row.count);
            let in_buckets: u64 = row.run.buckets.iter().map(|bucket| bucket.1).sum();
            assert_eq!(row.run.count, in_buckets);
            assert!(row.run.sum_ns <= seen.elapsed_ns.0 || kind == ActivityKind::Work);
        }
        // The program itself sleeps with timers.
        if kind == ActivityKind::Timer && seen.events_lost == 0 {
            let known = |row: &ActivityRow| row.run.count > 0 && row.delay.count > 0;
            assert!(seen.rows.iter().any(known), "{seen:?}");
            assert!(!seen.longest.is_empty() && !seen.most_delayed.is_empty());
        }
    }
}

#[test]
fn sent_packets_are_counted_as_softirqs() {
    let place = Sandbox::new();
    let stop = Arc::new(AtomicBool::new(false));
    let sender = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let own = socket.local_addr().unwrap();
            while !stop.load(Ordering::Relaxed) {
                socket.send_to(b"packet", own).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let seen = activities(&place, "softirq --by source");
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    let Some(seen) = seen else { return };
    if seen.events_lost > 0 {
        punctual_testing::skip!(Quiet, "{} events were lost", seen.events_lost);
        return;
    }
    let received = (seen.rows.iter()).filter(|row| row.source.name.as_deref() == Some("NET_RX"));
    let (mut count, mut known, mut delays) = (0, 0, 0);
    for row in received {
        count += row.count;
        known += row.run.count;
        delays += row.delay.count;
    }
    assert!(count > 10 && known > 0 && delays > 0, "{seen:?}");
    assert!(known <= count && delays <= count, "{seen:?}");
}

#[test]
fn unfit_options_of_activities_are_refused() {
    let place = Sandbox::new();
    for (line, expected) in [
        ("watch --of irq --cgroup /", "--cgroup"),
        ("watch --of irq --real-time", "--real-time"),
        ("watch --of irq --stalled 1ms", "--stalled"),
        ("watch --of irq --by comm", "grouped by source and cpu"),
        ("watch --of irq --by cpu,cgroup", "--by cgroup"),
        ("watch --by source", "--by source needs --of"),
        ("watch --of interrupts", "softirq"),
    ] {
        let error = place.refused(line, 2);
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn activities_are_shown_and_removed_afterwards() {
    let place = Sandbox::new();
    if activities(&place, "timer").is_none() {
        return;
    }
    let table = place.done("watch -q -D 500ms --of timer --by cpu --rows 1 --longest 2");
    assert!(table.contains("timers in") && table.contains("longest delays"));
    assert!(!table.contains("function  CPU  count"), "{table}");
    assert_leaves_no_instance(&place, "watch -q --of timer");
}
