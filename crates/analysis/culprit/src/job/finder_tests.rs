use super::*;
use punctual_model::{Task, TaskState};

const TID: u32 = 7;
const SLEEPS: u32 = 1;
const RUNNABLE: u32 = 0;
const NANOSLEEP: i64 = 230;
const READ: i64 = 0;
const RESTART: i64 = 219;

fn task(pid: u32) -> Task {
    Task {
        pid,
        comm: Comm::new(b"t"),
        prio: KernelPriority(120),
    }
}

fn event(us: u64, pid: u32, kind: EventKind) -> TraceEvent {
    TraceEvent {
        time: Nanos::from_micros(us),
        cpu: 0,
        pid,
        flags: 0,
        preempt_count: 0,
        kind,
    }
}

fn enter(us: u64, id: i64) -> TraceEvent {
    event(us, TID, EventKind::SysEnter { id, args: [1, 0] })
}

fn exit(us: u64, id: i64, ret: i64) -> TraceEvent {
    event(us, TID, EventKind::SysExit { id, ret })
}

fn waking(us: u64) -> TraceEvent {
    let kind = EventKind::Waking {
        task: task(TID),
        target_cpu: 0,
    };
    event(us, 0, kind)
}

fn switch(us: u64, prev: u32, state: u32, next: u32) -> TraceEvent {
    let kind = EventKind::Switch {
        prev: task(prev),
        prev_state: TaskState(state),
        next: task(next),
    };
    event(us, prev, kind)
}

/// One cycle of a periodic thread: a sleep in `id`, a read that waits, 100 µs of work.
fn turn(at: u64) -> Vec<TraceEvent> {
    vec![
        enter(at, NANOSLEEP),
        switch(at + 5, TID, SLEEPS, 9),
        waking(at + 600),
        switch(at + 610, 9, RUNNABLE, TID),
        exit(at + 615, NANOSLEEP, 0),
        enter(at + 650, READ),
        switch(at + 655, TID, SLEEPS, 9),
        waking(at + 850),
        switch(at + 870, 9, RUNNABLE, TID),
        exit(at + 875, READ, 4),
    ]
}

fn jobs(events: &[TraceEvent]) -> (Vec<Job>, JobSeen) {
    let mut finder = JobFinder::new(CallNumbers {
        restart: vec![RESTART],
        ..CallNumbers::default()
    });
    let kind = |_: u32, call: Call| {
        Some(match call.id {
            NANOSLEEP => CallKind::Timer,
            _ => CallKind::Other,
        })
    };
    let watched = |tid: u32| tid == TID;
    let mut all: Vec<Job> = Vec::new();
    for event in events {
        all.extend(finder.take(event, &watched, &kind));
    }
    all.extend(finder.finish(&kind));
    let seen = finder.seen().next().unwrap().1.clone();
    (all, seen)
}

#[test]
fn job_spans_wake_up_to_release_wait() {
    let events: Vec<TraceEvent> = (0..400).flat_map(|n| turn(n * 1_000)).collect();
    let (jobs, seen) = jobs(&events);
    let release = seen.release.unwrap();
    assert_eq!(release.call.id, NANOSLEEP);
    assert_eq!(release.period, Some(Nanos::from_millis(1)));
    // The last cycle has no completion.
    assert_eq!((jobs.len(), seen.jobs, seen.incomplete), (399, 399, 1));
    assert_eq!(seen.waits(), 800);
    for job in &jobs {
        assert_eq!(job.response(), Nanos::from_micros(400));
        // The thread runs from 610 to 655 µs and from 870 to 1,000 µs.
        assert_eq!(job.ran, Nanos::from_micros(175));
    }
    assert_eq!(seen.execution.count(), 399);
}

#[test]
fn release_without_wait_is_counted() {
    let mut events: Vec<TraceEvent> = (0..400).flat_map(|n| turn(n * 1_000)).collect();
    events.extend([enter(400_000, NANOSLEEP), exit(400_002, NANOSLEEP, 0)]);
    events.push(enter(400_300, NANOSLEEP));
    let (jobs, seen) = jobs(&events);
    assert_eq!((seen.jobs, seen.at_once), (401, 1));
    assert_eq!(jobs.last().unwrap().response(), Nanos::from_micros(300));
}

#[test]
fn a_wait_that_goes_on_releases_nothing() {
    let mut events: Vec<TraceEvent> = (0..400).flat_map(|n| turn(n * 1_000)).collect();
    let at = 400_000;
    events.extend([
        enter(at, NANOSLEEP),
        switch(at + 5, TID, SLEEPS, 9),
        // A signal stops the thread, and the call is restarted.
        waking(at + 100),
        switch(at + 110, 9, RUNNABLE, TID),
        exit(at + 115, NANOSLEEP, -516),
        switch(at + 120, TID, 4, 9),
        waking(at + 300),
        switch(at + 310, 9, RUNNABLE, TID),
        enter(at + 320, RESTART),
        switch(at + 330, TID, SLEEPS, 9),
        // The thread checked its condition and continued to wait.
        waking(at + 400),
        switch(at + 410, 9, RUNNABLE, TID),
        switch(at + 420, TID, SLEEPS, 9),
        waking(at + 600),
        switch(at + 610, 9, RUNNABLE, TID),
        exit(at + 615, RESTART, 0),
        enter(at + 700, NANOSLEEP),
    ]);
    let (jobs, seen) = jobs(&events);
    assert_eq!(seen.jobs, 401);
    assert_eq!(jobs.last().unwrap().response(), Nanos::from_micros(100));
}

#[test]
fn what_was_lost_makes_no_job() {
    let mut finder = JobFinder::new(CallNumbers::default());
    let kind = |_: u32, call: Call| (call.id == NANOSLEEP).then_some(CallKind::Timer);
    let watched = |tid: u32| tid == TID;
    let mut count = 0;
    for n in 0..400 {
        if n == 390 {
            finder.blind_until(Nanos::from_millis(395));
        }
        // The wake-ups of five cycles, written by another CPU, were lost.
        let lost = |event: &TraceEvent| {
            (390..395).contains(&n) && matches!(event.kind, EventKind::Waking { .. })
        };
        for event in turn(n * 1_000).iter().filter(|event| !lost(event)) {
            count += finder.take(event, &watched, &kind).len();
        }
    }
    // The job in progress at that time and the jobs of the five cycles are missing.
    assert_eq!(count, 393);
    let (_, seen) = finder.seen().next().unwrap();
    assert_eq!((seen.incomplete, seen.at_once), (1, 0));
    // This thread's release is known, so no other call of it is needed. Another thread needs all.
    assert_eq!(finder.calls(), [NANOSLEEP]);
    assert!(!finder.is_learning(TID) && finder.is_learning(8));
    let other = switch(500_000, 9, SLEEPS, 8);
    finder.take(&other, &|tid| tid == 8, &kind);
    assert_eq!(finder.calls(), [NANOSLEEP]);
    assert!(finder.is_learning(8));
}

#[test]
fn release_wait_needs_system_calls() {
    let events: Vec<TraceEvent> = (0..400)
        .flat_map(|n| turn(n * 1_000))
        .filter(|event| {
            !matches!(
                event.kind,
                EventKind::SysEnter { .. } | EventKind::SysExit { .. }
            )
        })
        .collect();
    let (jobs, seen) = jobs(&events);
    assert!(jobs.is_empty() && seen.release.is_none());
    assert_eq!(seen.waits(), 800);
}
