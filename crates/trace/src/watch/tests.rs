use std::process::Command;
use std::sync::mpsc;

use super::*;

const ASK: WatchAsk = WatchAsk {
    by_comm: true,
    real_time_only: false,
    pid_max: 1 << 15,
    worst: 8,
};

fn started(ask: WatchAsk) -> Option<WakeupWatch> {
    match WakeupWatch::start(ask) {
        Ok(watch) => Some(watch),
        Err(error) => {
            // The kernel's verifier tells how much it looked at: then it is the
            // program that is wrong, not the right that is lacking.
            assert!(!error.to_string().contains("processed"), "{error}");
            punctual_testing::skip!("{error}");
            None
        }
    }
}

/// Two threads that wake each other `times` times, under a name of their own.
fn ping_pong(name: &str, times: u32) {
    let (to, from) = mpsc::channel::<u32>();
    let (back, answers) = mpsc::channel::<u32>();
    let other = std::thread::Builder::new().name(name.to_owned());
    let other = other.spawn(move || {
        for number in from {
            back.send(number).unwrap();
        }
    });
    for number in 0..times {
        to.send(number).unwrap();
        assert_eq!(answers.recv().unwrap(), number);
    }
    drop(to);
    other.unwrap().join().unwrap();
}

#[test]
fn wake_ups_are_counted_by_name_and_class() {
    let Some(watch) = started(ASK) else { return };
    ping_pong("watch-test-ping", 500);
    let seen = watch.read().unwrap();
    let rows = seen
        .rows
        .iter()
        .filter(|row| row.comm.as_deref() == Some("watch-test-ping"));
    let mut waits = punctual_model::WaitHistogram::new();
    rows.for_each(|row| {
        assert_eq!(row.class, PriorityClass::Fair);
        waits.merge(&row.waits);
    });
    // The channel spins a little before it sleeps: not each turn is a wake-up,
    // but it is far more than the thread's start.
    assert!(waits.count > 5, "{waits:?}");
    assert_eq!(waits.count, waits.buckets.iter().map(|b| b.1).sum::<u64>());
    assert!(waits.max_ns.0 > 0);
    assert!(seen.worst.iter().all(|late| late.latency_ns.0 > 0));
    assert!(
        seen.worst
            .is_sorted_by_key(|late| std::cmp::Reverse(late.latency_ns))
    );
    assert!(seen.worst.len() <= ASK.worst);
}

#[test]
fn only_real_time_threads_are_counted_where_that_is_asked_for() {
    let ask = WatchAsk {
        real_time_only: true,
        ..ASK
    };
    let Some(watch) = started(ask) else { return };
    ping_pong("watch-test-fair", 50);
    let seen = watch.read().unwrap();
    assert!(
        seen.rows
            .iter()
            .all(|row| row.class <= PriorityClass::RealTime),
        "{seen:?}"
    );
}

#[test]
fn the_object_is_that_of_its_source() {
    let version = Command::new("clang").arg("--version").output();
    let is_14 = version.is_ok_and(|v| String::from_utf8_lossy(&v.stdout).contains("version 14."));
    if !is_14 {
        punctual_testing::skip!("no clang 14 here: the BPF object is not compared with its source");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("watch.bpf.o");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/build.sh");
    let status = Command::new("sh").arg(script).arg(&made).status().unwrap();
    assert!(status.success());
    let same = std::fs::read(&made).unwrap() == OBJECT;
    assert!(
        same,
        "bpf/watch.bpf.o is not made from bpf/watch.bpf.c: run bpf/build.sh"
    );
}

#[test]
fn rows_fit_the_memory_that_is_allowed() {
    for cpus in [1, 2, 64, 128] {
        let bytes = comm_rows(cpus) as usize * cpus * size_of::<Row>();
        assert!(
            bytes <= ROWS_BYTES.max(16 * cpus * size_of::<Row>()),
            "{cpus}"
        );
    }
}
