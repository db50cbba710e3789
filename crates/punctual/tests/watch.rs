//! `watch`, from the command line.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Place, eventually, instances_of, signal, text};
use punctual_model::{Nanos, WakeupSource, Wakeups};

/// Whether wake-ups can be watched here with these options; says so where they
/// cannot.
fn can_watch(place: &Place, options: &str) -> bool {
    let output = place.run(&format!("watch -q -D 100ms --json {options}"));
    let stderr = text(&output.stderr);
    if !output.status.success() {
        assert!(
            stderr.contains("wake-ups cannot be") && stderr.contains("trace"),
            "{stderr}"
        );
        punctual_testing::skip!("watch {options}: {stderr}");
    }
    output.status.success()
}

fn watched(place: &Place, line: &str) -> Wakeups {
    serde_json::from_str(&place.done(line)).unwrap()
}

/// What holds whoever counts: the program itself sleeps and wakes while it
/// watches.
fn assert_counted(seen: &Wakeups) {
    let own = |row: &&punctual_model::WakeupRow| row.comm.as_deref() == Some("punctual");
    let count: u64 = seen
        .rows
        .iter()
        .filter(own)
        .map(|row| row.waits.count)
        .sum();
    // Where the kernel tells of no switch from an idle thread, that is said.
    assert!(count + seen.lost > 5, "{seen:?}");
    for row in &seen.rows {
        let in_buckets: u64 = row.waits.buckets.iter().map(|bucket| bucket.1).sum();
        assert_eq!(row.waits.count, in_buckets);
    }
}

#[test]
fn all_wake_ups_are_counted_and_told() {
    let place = Place::new();
    if !can_watch(&place, "") {
        return;
    }
    let seen = watched(&place, "watch -q -D 1s --by cpu,priority,comm --json");
    assert_counted(&seen);
    assert_eq!(seen.not_bpf.is_none(), seen.source == WakeupSource::Bpf);
    let table = place.done("watch -q -D 300ms --by priority --worst 3");
    assert!(
        table.contains("fair") && table.contains("longest waits"),
        "{table}"
    );
}

#[test]
fn without_programs_in_the_kernel_events_are_counted() {
    let place = Place::new();
    if !can_watch(&place, "--no-bpf") {
        return;
    }
    let line = "watch -q -D 1s --by cpu,priority,comm --json --no-bpf";
    let seen = watched(&place, line);
    assert_counted(&seen);
    assert_eq!(seen.source, WakeupSource::Events);
    assert!(seen.not_bpf.unwrap().contains("--no-bpf"));
    let table = place.done("watch -q -D 300ms --by priority --worst 3 --no-bpf");
    assert!(table.contains("counted from trace events"), "{table}");
    // The same of a kernel that tells of no switch from any idle thread.
    let lost = table.contains("wake-ups are in no row");
    assert!(table.contains("fair") || lost, "{table}");
}

/// Root without the rights that programs need, which tracefs does not ask for.
#[test]
fn why_the_kernel_takes_no_programs_is_said() {
    let place = Place::new();
    // Mounted before: that would take one of these rights.
    let script = "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; \
                  exec setpriv --bounding-set=-sys_admin,-bpf,-perfmon \"$@\"";
    let output = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(env!("CARGO_BIN_EXE_punctual"))
        .args("watch -q -D 300ms --json".split_whitespace())
        .env("XDG_STATE_HOME", place.path("state"))
        .output();
    let Ok(output) = output else {
        punctual_testing::skip!("watch without CAP_BPF: unshare is not there");
        return;
    };
    let stderr = text(&output.stderr);
    if ["unshare: ", "setpriv: ", "sh: "]
        .iter()
        .any(|of| stderr.starts_with(of))
    {
        punctual_testing::skip!("watch without CAP_BPF: {stderr}");
        return;
    }
    assert!(
        stderr.contains("CAP_BPF") || stderr.contains("BTF"),
        "{stderr}"
    );
    if !output.status.success() {
        // Nor is tracefs there for it.
        assert!(stderr.contains("; trace events: "), "{stderr}");
        punctual_testing::skip!("counting events without CAP_BPF: {stderr}");
        return;
    }
    let seen: Wakeups = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(seen.source, WakeupSource::Events);
    let why = seen.not_bpf.unwrap();
    assert!(stderr.contains(&why), "{stderr} does not say {why}");
}

#[test]
fn no_trace_instance_is_left_behind() {
    let place = Place::new();
    if !can_watch(&place, "--no-bpf") {
        return;
    }
    for name in ["INT", "KILL"] {
        let mut child = place.spawn("watch -q --no-bpf");
        let pid = child.id();
        assert!(eventually(|| instances_of(pid).len() == 1), "{name}");
        signal(&child, name);
        child.wait().unwrap();
        if name == "KILL" {
            // The next command clears up; one of another test may have been
            // quicker.
            place.done("list");
        }
        assert!(eventually(|| instances_of(pid).is_empty()), "{name}");
    }
}

#[test]
fn it_ends_on_ctrl_c_with_what_it_has_seen() {
    let place = Place::new();
    if !can_watch(&place, "") {
        return;
    }
    let child = place
        .command("watch -q")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Whether it has begun to watch makes no difference to how it must end.
    std::thread::sleep(std::time::Duration::from_millis(800));
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("wake-ups in"), "{output:?}");
}

/// A thread that a spinner of higher priority starves, for 700 ms at a time.
struct Starved {
    stop: Arc<AtomicBool>,
    threads: Vec<punctual_rt::JoinHandle<()>>,
}

impl Starved {
    /// `None`: without the right to real-time priority.
    fn begin() -> Option<Self> {
        const SPIN: Duration = Duration::from_millis(700);
        let cpu = *punctual_rt::affinity::current().unwrap().last().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = |name: &str, priority: u8, turn: fn(Duration)| {
            let stopping = Arc::clone(&stop);
            punctual_rt::ThreadBuilder::new(name)
                .policy(punctual_rt::Policy::Fifo { priority })
                .cpus(&[cpu])
                .spawn(move || {
                    while !stopping.load(Ordering::Relaxed) {
                        turn(SPIN);
                    }
                })
        };
        let spinner = thread("spinner", 60, |spin| {
            let until = Instant::now() + spin;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            // Room for all others, and for the kernel's real-time throttle.
            std::thread::sleep(spin / 2);
        });
        let spinner = match spinner {
            Ok(spinner) => spinner,
            Err(error) => {
                punctual_testing::skip!("a starved thread: {error}");
                return None;
            }
        };
        // Its timer comes each 5 ms, whatever has the CPU.
        let starved = thread("starved", 50, |_| {
            std::thread::sleep(Duration::from_millis(5))
        });
        let threads = vec![spinner, starved.unwrap()];
        Some(Self { stop, threads })
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

/// From either source: a wait that lasts ends the watch before it is over, and
/// says behind whom.
#[test]
fn a_wait_that_is_still_open_is_told() {
    let place = Place::new();
    for options in ["", "--no-bpf"] {
        if !can_watch(&place, options) {
            continue;
        }
        let Some(_starved) = Starved::begin() else {
            return;
        };
        // Other tests have real-time threads as well: theirs may stall first.
        let told = (0..10).any(|_| {
            let line = format!("watch -q --real-time --stalled 250ms -D 20s --json {options}");
            let output = place.run(&line);
            assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
            let stderr = text(&output.stderr);
            assert!(stderr.contains("limit: 250 ms"), "{stderr}");
            let seen: Wakeups = serde_json::from_str(&text(&output.stdout)).unwrap();
            assert!(seen.longest() > Nanos::from_millis(250));
            seen.open.iter().any(|wait| {
                let behind = wait.behind.as_ref();
                wait.waited_ns > Nanos::from_millis(250)
                    && wait.victim.comm == "starved"
                    && wait.victim.scheduling() == "fifo 50"
                    && behind.is_some_and(|thread| thread.comm == "spinner")
            })
        });
        assert!(told, "no open wait of the starved thread ({options})");
        let shown = place.run(&format!(
            "watch -q --real-time -D 2s --stalled 250ms {options}"
        ));
        assert_eq!(shown.status.code(), Some(3));
        let shown = text(&shown.stdout);
        assert!(
            shown.contains("still waiting") || shown.contains("starved"),
            "{shown}"
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let place = Place::new();
    for line in [
        "watch --by node",
        "watch -D 1parsec",
        "watch --worst 99",
        "watch --rows 0",
        "watch --stalled soon",
    ] {
        place.refused(line, 2);
    }
}
