//! The recorder of jobs on this machine's kernel, where its programs may be loaded.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::process::Command;
use std::time::Duration;

use punctual_model::{EventKind, Nanos, TraceEvent};
use punctual_trace::{Descent, JobAsk, JobRecorder, ScoutEvent};

fn recorder() -> Option<JobRecorder> {
    match JobRecorder::start(JobAsk { pid_max: 4 << 20 }) {
        Ok(recorder) => Some(recorder),
        Err(error) => {
            // The kernel's verifier writes how much it has examined: then the
            // program is wrong, and no right is missing.
            assert!(!error.to_string().contains("processed"), "{error}");
            punctual_testing::skip!("{error}");
            None
        }
    }
}

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

fn now() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

fn events(read: Vec<ScoutEvent>) -> Vec<TraceEvent> {
    read.into_iter()
        .filter_map(|one| match one {
            ScoutEvent::Event(event) => Some(event),
            ScoutEvent::Gap { .. } => None,
        })
        .collect()
}

const SLEEPS: usize = 20;

#[test]
fn waits_of_a_watched_thread_are_reported_with_their_stack() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let tid = own_tid();
    recorder.watch(&[tid], &[]).unwrap();
    let from = now();
    for _ in 0..SLEEPS {
        std::thread::sleep(Duration::from_millis(1));
    }
    let to = now();
    let seen = events(recorder.read());
    assert_eq!(recorder.lost(), 0);
    assert!(seen.is_sorted_by_key(|event| event.time));
    let sleeps = |event: &&TraceEvent| {
        event.pid == tid
            && matches!(event.kind, EventKind::SysEnter { id, .. } if id == libc_nanosleep())
    };
    assert!(seen.iter().filter(sleeps).count() >= SLEEPS, "{seen:?}");
    let woken = |event: &&TraceEvent| matches!(&event.kind, EventKind::Waking { task, .. } if task.pid == tid);
    assert!(seen.iter().filter(woken).count() >= SLEEPS);
    assert!(
        seen.iter()
            .filter(woken)
            .any(|event| event.has(TraceEvent::HARDIRQ))
    );
    assert!(
        seen.iter()
            .all(|event| event.pid == tid || event.kind.is_about(tid))
    );
    // The other thread of this process makes calls: they are not recorded.
    let cut = recorder.cut(from, to);
    assert_eq!(cut.lost, 0);
    let stacks = cut.events.iter().filter(|event| event.pid == tid);
    let stacks = stacks.filter(
        |event| matches!(&event.kind, EventKind::KernelStack { frames } if frames.len() > 4),
    );
    assert!(stacks.count() >= SLEEPS);
    let of_others = |event: &&TraceEvent| {
        event.pid != tid
            && matches!(
                event.kind,
                EventKind::SysEnter { .. } | EventKind::SysExit { .. }
            )
    };
    assert_eq!(cut.events.iter().find(of_others), None);
}

/// clock_nanosleep(2)
const fn libc_nanosleep() -> i64 {
    match cfg!(target_arch = "x86_64") {
        true => 230,
        false => 115,
    }
}

#[test]
fn at_a_release_wait_no_stack_is_taken_and_other_calls_are_left_out() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let tid = own_tid();
    recorder.watch(&[tid], &[libc_nanosleep()]).unwrap();
    let from = now();
    for _ in 0..SLEEPS {
        std::thread::sleep(Duration::from_millis(1));
        std::hint::black_box(std::fs::metadata("/proc/self").unwrap());
    }
    let to = now();
    let seen = events(recorder.read());
    let other = |event: &&TraceEvent| matches!(event.kind, EventKind::SysEnter { id, .. } if id != libc_nanosleep());
    assert_eq!(seen.iter().find(other), None);
    let cut = recorder.cut(from, to);
    // The split of a job names them all the same.
    assert!(cut.events.iter().any(|event| other(&event)));
    let stack = |event: &&TraceEvent| matches!(event.kind, EventKind::KernelStack { .. });
    assert_eq!(cut.events.iter().find(stack), None);
}

#[test]
fn forked_processes_and_changed_programs_are_reported() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    recorder.watch(&[own_tid()], &[]).unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    recorder.read();
    let forked = recorder
        .descents()
        .iter()
        .any(|one| matches!(one, Descent::Fork { parent, child } if *parent == own_tid() && child.pid == pid));
    assert!(forked, "{:?}", recorder.descents());
}
