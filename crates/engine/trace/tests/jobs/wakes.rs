//! The programs wake the reader.

use std::process::Command;
use std::time::Duration;

use punctual_model::{EventKind, Nanos};
use punctual_trace::{Followed, JobRecorder, ReleaseCall, Stage};

use crate::{BUDGET, events, libc_nanosleep, now, own_tid, recorder};

/// Follows the sleeps of a thread as its release wait.
fn timed(recorder: &mut JobRecorder, tids: &[u32]) {
    let wait = ReleaseCall {
        id: libc_nanosleep(),
        argument: 1,
        ignored: 0,
    };
    let followed = Followed {
        tids: tids.to_vec(),
        calls: vec![libc_nanosleep()],
        releases: tids.iter().map(|tid| (*tid, vec![wait])).collect(),
        ..Followed::default()
    };
    recorder.follow(&followed).unwrap();
}

/// Sleeps until an absolute time on CLOCK_MONOTONIC, as in the test's release wait.
fn sleep() {
    let until = now().0 + 2_000_000;
    let until = rustix::time::Timespec {
        tv_sec: (until / 1_000_000_000) as i64,
        tv_nsec: (until % 1_000_000_000) as _,
    };
    let slept =
        rustix::thread::clock_nanosleep_absolute(rustix::thread::ClockId::Monotonic, &until);
    slept.unwrap();
}

fn work(time: Nanos) {
    let end = now() + time;
    while now() < end {}
}

/// Returns whether there is something to read.
fn is_told(recorder: &mut JobRecorder) -> bool {
    let begun = now();
    recorder.wait(None, Duration::from_millis(200));
    recorder.read();
    now() < begun + Nanos::from_millis(200)
}

#[test]
fn only_jobs_over_budget_wake_the_reader() {
    for stage in [Stage::Light, Stage::Full] {
        let Some(mut recorder) = recorder() else {
            return;
        };
        recorder.enter(stage).unwrap();
        timed(&mut recorder, &[own_tid()]);
        sleep();
        recorder.read();
        for _ in 0..10 {
            sleep();
        }
        // The busy machine may have made a job longer.
        let slow = slowest(&mut recorder) >= BUDGET;
        assert!(!is_told(&mut recorder) || slow || stage == Stage::Full);
        sleep();
        work(Nanos(BUDGET.0 * 2));
        sleep();
        assert!(is_told(&mut recorder), "{stage:?}");
        assert!(!is_told(&mut recorder) || stage == Stage::Full);
    }
}

/// Returns the longest time from a wake-up of this thread to its next sleep.
fn slowest(recorder: &mut JobRecorder) -> Nanos {
    let tid = own_tid();
    let (mut woken, mut longest) = (None, Nanos::ZERO);
    let from = Nanos::ZERO;
    for event in recorder.slice(from, now(), Stage::Light).events {
        match &event.kind {
            EventKind::Waking { task, .. } if task.pid == tid => woken = Some(event.time),
            EventKind::SleepsIn { .. } if event.pid == tid => {
                let job = woken.take().map(|since| event.time - since);
                longest = longest.max(job.unwrap_or_default());
            }
            _ => {}
        }
    }
    longest
}

#[test]
fn ended_threads_wake_the_reader_and_leave_no_entry() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    recorder.enter(Stage::Light).unwrap();
    for _ in 0..3 {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        std::thread::sleep(Duration::from_millis(20));
        // There is room for two threads: that of the last child must be gone.
        timed(&mut recorder, &[own_tid(), pid]);
        assert!(!recorder.take_changed());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_told(&mut recorder));
        events(&mut recorder);
        assert!(recorder.take_changed());
        timed(&mut recorder, &[own_tid()]);
    }
    assert_eq!(recorder.untimed(), 0);
    timed(&mut recorder, &[own_tid(), 1, 2, 3]);
    assert_eq!(recorder.untimed(), 2);
}

#[test]
fn threads_that_get_the_wanted_name_are_noticed() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let named = |name: &'static str| {
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(|| {}).unwrap().join().unwrap();
    };
    recorder.enter(Stage::Light).unwrap();
    recorder.take_joined();
    named("joins");
    assert!(recorder.take_joined());
    // Another thread of the machine may join a control group, but not each time.
    let quiet = (0..100).any(|_| {
        named("joint");
        !recorder.take_joined()
    });
    assert!(quiet);
}
