//! When timers that wake threads were due.

use std::num::NonZeroU64;
use std::time::Duration;

use punctual_model::{EventKind, Nanos};
use punctual_trace::{Followed, JobRecorder, ReleaseCall, ScoutEvent, Stage};
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::{learning, libc_nanosleep, now, own_tid, recorder};

const SLACK: Nanos = Nanos::from_millis(2);

fn spec(at: Nanos) -> Timespec {
    Timespec {
        tv_sec: (at.0 / 1_000_000_000) as i64,
        tv_nsec: (at.0 % 1_000_000_000) as i64,
    }
}

fn real_time() -> Nanos {
    let now = clock_gettime(ClockId::Realtime);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

fn soon(now: Nanos) -> Nanos {
    now + Nanos::from_millis(3)
}

/// Returns the due and the latest time of the timer that woke this thread.
fn timer(recorder: &mut JobRecorder, from: Nanos, stage: Stage) -> (Nanos, Nanos) {
    let tid = own_tid();
    let cut = recorder.slice(from, now(), stage);
    let of_timer = cut.events.iter().rev().find_map(|event| match event.kind {
        EventKind::TimerDue { pid, due, latest } if pid == tid => Some((event, due, latest)),
        _ => None,
    });
    let (event, due, latest) = of_timer.expect("a timer");
    // The wake-up itself comes next.
    let woken = cut.events.iter().any(|other| {
        let is_waking = matches!(&other.kind, EventKind::Waking { task, .. } if task.pid == tid);
        is_waking && other.time == event.time && other.cpu == event.cpu
    });
    assert!(woken, "{event:?}");
    (due, latest)
}

#[test]
fn timers_say_when_they_were_due() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    recorder.follow(&learning(own_tid())).unwrap();
    set_current_timer_slack(NonZeroU64::new(SLACK.0)).unwrap();
    for stage in [Stage::Full, Stage::Light] {
        recorder.enter(stage).unwrap();

        let from = now();
        let due = soon(from);
        while clock_nanosleep_absolute(ClockId::Monotonic, &spec(due)).is_err() {}
        assert_eq!(timer(&mut recorder, from, stage), (due, due + SLACK));

        let from = now();
        let real = real_time();
        let offset = real.saturating_sub(now())..=real.saturating_sub(from);
        let due = soon(real);
        while clock_nanosleep_absolute(ClockId::Realtime, &spec(due)).is_err() {}
        let (found, latest) = timer(&mut recorder, from, stage);
        assert!(offset.contains(&due.saturating_sub(found)), "{found} {due}");
        assert_eq!(latest, found + SLACK);

        let from = now();
        let due = soon(from);
        let file = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).unwrap();
        let once = Itimerspec {
            it_interval: spec(Nanos::ZERO),
            it_value: spec(due),
        };
        timerfd_settime(&file, TimerfdTimerFlags::ABSTIME, &once).unwrap();
        rustix::io::read(&file, &mut [0_u8; 8]).unwrap();
        assert_eq!(timer(&mut recorder, from, stage), (due, due));
    }
}

/// The kernel may end a timeout of poll a thousandth later. Nobody asked for an earlier time.
#[test]
fn tolerance_of_poll_is_no_delay() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    recorder.follow(&learning(own_tid())).unwrap();
    set_current_timer_slack(NonZeroU64::new(1)).unwrap();
    let length = Nanos::from_millis(200);
    let from = now();
    let timeout = spec(length);
    assert_eq!(rustix::event::poll(&mut [], Some(&timeout)).unwrap(), 0);
    let tid = own_tid();
    let cut = recorder.slice(from, now(), Stage::Full);
    let timers = cut.events.iter().filter_map(|event| match event.kind {
        EventKind::TimerDue { pid, due, .. } if pid == tid => Some(due),
        _ => None,
    });
    for due in timers {
        assert!(
            due > from + length + Nanos::from_micros(150),
            "{due} {from}"
        );
    }
}

/// A wake-up by a thread has no due time, even if that thread's own timer has just expired.
#[test]
fn wake_up_by_a_thread_has_no_timer() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    recorder.follow(&learning(own_tid())).unwrap();
    let from = now();
    let (tell, told) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
            tell.send(()).unwrap();
        }
    });
    while told.recv().is_ok() {}
    other.join().unwrap();
    let tid = own_tid();
    let cut = recorder.slice(from, now(), Stage::Full);
    let of_own = |kind: &EventKind| matches!(kind, EventKind::TimerDue { pid, .. } if *pid == tid);
    assert!(!cut.events.iter().any(|event| of_own(&event.kind)));
    let woken =
        |kind: &EventKind| matches!(kind, EventKind::Waking { task, .. } if task.pid == tid);
    assert!(cut.events.iter().any(|event| woken(&event.kind)));
}

/// The kernel counts from the due time, as the thread itself does. Without the slack, the median would be
/// a small part.
#[test]
fn counted_jobs_begin_when_their_timer_was_due() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let (tell, told) = std::sync::mpsc::channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let worker = std::thread::spawn(move || {
        set_current_timer_slack(NonZeroU64::new(SLACK.0)).unwrap();
        tell.send(own_tid()).unwrap();
        let mut lengths = Vec::new();
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let due = soon(now());
            while clock_nanosleep_absolute(ClockId::Monotonic, &spec(due)).is_err() {}
            lengths.push(now().saturating_sub(due));
        }
        lengths.sort_unstable();
        lengths[lengths.len() / 2]
    });
    let tid = told.recv().unwrap();
    let wait = ReleaseCall {
        id: libc_nanosleep(),
        argument: 0,
        ignored: u64::MAX,
    };
    let followed = Followed {
        tids: vec![tid],
        calls: vec![libc_nanosleep()],
        releases: [(tid, vec![wait])].into(),
        ..Followed::default()
    };
    recorder.follow(&followed).unwrap();
    recorder.enter(Stage::Light).unwrap();
    recorder
        .count(&super::counted::ask(
            &[(tid, Nanos::from_millis(900))],
            now(),
        ))
        .unwrap();
    let mut counted = punctual_model::Histogram::new();
    while counted.count() < 50 {
        std::thread::sleep(Duration::from_millis(20));
        for event in recorder.read() {
            assert!(!matches!(event, ScoutEvent::Gap { .. }), "{event:?}");
        }
        for jobs in recorder.counted() {
            for (_, histogram) in jobs.rows {
                counted.merge(&histogram);
            }
        }
    }
    drop(stop);
    let own = worker.join().unwrap();
    let median = counted.quantile(0.5).unwrap();
    assert!(median >= Nanos(own.0 / 2), "{median} {own}");
}
