//! Tests that both sources count the wake-ups of this machine, if they are available.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use std::time::Duration;

use punctual_model::{PriorityClass, WaitHistogram, Wakeups};
use punctual_trace::{Tracefs, WakeupWatch, WatchAsk};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use common::owner;

const ASK: WatchAsk = WatchAsk {
    by_comm: true,
    real_time_only: false,
    pid_max: 1 << 15,
    longest: 8,
    groups: None,
};

fn by_programs(ask: WatchAsk) -> Option<WakeupWatch> {
    match WakeupWatch::by_programs(ask) {
        Ok(watch) => Some(watch),
        Err(error) => {
            punctual_testing::skip_refused("wake-ups by BPF programs", &error);
            None
        }
    }
}

fn by_events(ask: WatchAsk) -> Option<WakeupWatch> {
    let tracefs = Tracefs::find(std::path::Path::new("/"));
    let why = "a test".to_owned();
    match tracefs.and_then(|tracefs| WakeupWatch::by_events(&tracefs, owner(), ask, why, None)) {
        Ok(watch) => Some(watch),
        Err(error) => {
            punctual_testing::skip_refused("wake-ups by trace events", &error);
            None
        }
    }
}

/// Runs a thread with a unique name that sleeps `times` times. It shares a CPU with the calling
/// thread, which is always ready to run, so that each sleep ends with a wake-up, and all switches
/// are between these two threads. Every kernel records such switches, unlike switches from the idle
/// thread. Two threads that wake each other would not be suitable, because on a busy machine, they
/// may run one after the other before either of them sleeps.
fn sleep_often(name: &str, times: u32) {
    let before = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set(rustix::thread::sched_getcpu());
    sched_setaffinity(None, &one).unwrap();
    let sleeper = std::thread::Builder::new().name(name.to_owned());
    let sleeper = sleeper.spawn(move || {
        for _ in 0..times {
            std::thread::sleep(Duration::from_nanos(1));
        }
    });
    let sleeper = sleeper.unwrap();
    while !sleeper.is_finished() {
        std::thread::yield_now();
    }
    sleeper.join().unwrap();
    sched_setaffinity(None, &before).unwrap();
}

/// Returns the waits of the threads with this name.
fn waits_of(seen: &Wakeups, name: &str) -> WaitHistogram {
    let mut waits = WaitHistogram::new();
    for row in seen
        .rows
        .iter()
        .filter(|row| row.comm.as_deref() == Some(name))
    {
        assert_eq!(row.class, PriorityClass::Fair);
        waits.merge(&row.waits);
    }
    waits
}

/// Checks invariants of both sources.
fn assert_sound(seen: &Wakeups) {
    for row in &seen.rows {
        let buckets = row.waits.buckets.iter().map(|bucket| bucket.1);
        assert_eq!(row.waits.count, buckets.sum::<u64>());
    }
    assert!(seen.longest.iter().all(|late| late.latency_ns.0 > 0));
    assert!(
        seen.longest
            .is_sorted_by_key(|late| std::cmp::Reverse(late.latency_ns))
    );
    assert!(seen.longest.len() <= ASK.longest);
}

#[test]
fn wake_ups_count_by_name_and_class() {
    for (mut watch, name) in by_programs(ASK)
        .into_iter()
        .zip(["watch-test-bpf"])
        .chain(by_events(ASK).into_iter().zip(["watch-test-ev"]))
    {
        sleep_often(name, 500);
        watch.keep_up().unwrap();
        let seen = watch.read().unwrap();
        assert_sound(&seen);
        let waits = waits_of(&seen, name);
        // Events may be lost.
        assert!(waits.count > 250 && waits.max_ns.0 > 0, "{seen:?}");
        watch.stop().unwrap();
    }
}

/// Both sources run at the same time and count the same wake-ups.
#[test]
fn both_sources_count_the_same() {
    let (Some(mut programs), Some(mut events)) = (by_programs(ASK), by_events(ASK)) else {
        return;
    };
    // Both sources are active from before the thread starts until after it has ended.
    let name = "watch-test-same";
    sleep_often(name, 300);
    std::thread::sleep(Duration::from_millis(5));
    let (counted, by_events) = (programs.read().unwrap(), events.read().unwrap());
    let (a, b) = (waits_of(&counted, name), waits_of(&by_events, name));
    eprintln!(
        "by programs {} wake-ups of {} ns, by events {} of {} ns ({} lost, {} events lost)",
        a.count, a.sum_ns, b.count, b.sum_ns, by_events.lost, by_events.events_lost
    );
    if by_events.lost + by_events.events_lost + counted.lost > 0 {
        punctual_testing::skip!(
            Quiet,
            "the comparison: some were lost, and whose is not known"
        );
        return;
    }
    assert_eq!(a.count, b.count);
}

#[test]
fn only_real_time_threads_count_on_request() {
    let ask = WatchAsk {
        real_time_only: true,
        ..ASK
    };
    for mut watch in by_programs(ask).into_iter().chain(by_events(ask)) {
        sleep_often("watch-test-fair", 50);
        let seen = watch.read().unwrap();
        assert!(
            seen.rows
                .iter()
                .all(|row| row.class <= PriorityClass::RealTime),
            "{seen:?}"
        );
    }
}

/// Threads that have to wait while the programs are being loaded do so because of this program.
#[test]
fn wake_ups_before_start_are_not_counted() {
    let busy = std::thread::spawn(|| sleep_often("early", 5_000));
    for watch in [by_programs(ASK), by_events(ASK)].into_iter().flatten() {
        let mut watch = watch;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let seen = watch.read().unwrap();
        let began = now.saturating_sub(seen.elapsed_ns.0);
        for late in &seen.longest {
            assert!(late.woken_ns.0 >= began, "{late:?} before {began}");
        }
        watch.stop().unwrap();
    }
    busy.join().unwrap();
}
