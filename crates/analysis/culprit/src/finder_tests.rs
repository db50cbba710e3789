//! Waits that the finder reports, and their limits.

use super::*;
use punctual_model::Task;

const TID: u32 = 7;
const SLEEPS: u32 = 1;
const RUNNABLE: u32 = 0;

fn task(pid: u32) -> Task {
    Task {
        pid,
        comm: Comm::new(b"t"),
        prio: KernelPriority(120),
    }
}

fn event(us: u64, kind: EventKind) -> TraceEvent {
    TraceEvent {
        time: Nanos::from_micros(us),
        cpu: 0,
        pid: 0,
        flags: 0,
        preempt_count: 0,
        kind,
    }
}

fn waking(us: u64) -> TraceEvent {
    let kind = EventKind::Waking {
        task: task(TID),
        target_cpu: 0,
    };
    event(us, kind)
}

fn switch(us: u64, prev: u32, state: u32, next: u32) -> TraceEvent {
    let kind = EventKind::Switch {
        prev: task(prev),
        prev_state: TaskState(state),
        next: task(next),
    };
    event(us, kind)
}

/// Returns the lengths of the waits that were found, and the number of waits without an end.
fn found(events: &[TraceEvent]) -> (Vec<u64>, usize) {
    let mut finder = LateWakeUps::new(Nanos::from_micros(50));
    let waits = events.iter().filter_map(|event| {
        let wait = finder.take(event, &|tid| tid == TID)?;
        let (late, found) = match wait {
            Wait::InTime(found) => (false, found),
            Wait::TooLong(found) => (true, found),
        };
        assert_eq!(late, found.latency() > Nanos::from_micros(50));
        Some(found.latency().0 / 1_000)
    });
    (waits.collect(), finder.take_without_end().len())
}

#[test]
fn wait_spans_wake_up_to_switch() {
    let events = [
        switch(0, TID, SLEEPS, 9),
        waking(100),
        switch(130, 9, RUNNABLE, TID),
        switch(200, TID, RUNNABLE, 9),
        switch(900, 9, SLEEPS, TID),
    ];
    assert_eq!(found(&events), (vec![30, 700], 0));
}

/// Some kernels write no event for a CPU's switch from the idle thread.
#[test]
fn switch_in_without_event_is_no_wait() {
    let events = [
        switch(0, TID, SLEEPS, 0),
        waking(100),
        switch(200, TID, SLEEPS, 0),
        waking(1_100),
        switch(1_120, 9, RUNNABLE, TID),
    ];
    assert_eq!(found(&events), (vec![20], 1));
}

/// Some kernels write no events at all while some threads run.
#[test]
fn rewoken_thread_has_run() {
    let events = [
        switch(0, TID, SLEEPS, 9),
        waking(100),
        // No event shows the switch to the thread or the switch away from it.
        waking(30_000_100),
        switch(30_000_120, 9, RUNNABLE, TID),
        // No event shows this switch away from the thread.
        waking(30_100_000),
        switch(30_100_030, 9, RUNNABLE, TID),
    ];
    assert_eq!(found(&events), (vec![20, 30], 1));
}

#[test]
fn second_wake_up_without_waking_begins_the_wait() {
    let wakeup = |us| {
        let task = task(TID);
        let (target_cpu, new) = (0, false);
        event(
            us,
            EventKind::Wakeup {
                task,
                target_cpu,
                new,
            },
        )
    };
    let events = [
        wakeup(12),
        wakeup(800_012),
        switch(800_030, 0, RUNNABLE, TID),
    ];
    assert_eq!(found(&events), (vec![18], 1));
    let events = [
        switch(0, TID, SLEEPS, 9),
        waking(10),
        wakeup(12),
        switch(30, 9, RUNNABLE, TID),
    ];
    assert_eq!(found(&events), (vec![20], 0));
}

#[test]
fn running_thread_woken_does_not_wait() {
    let events = [
        switch(0, 9, SLEEPS, TID),
        waking(100),
        switch(500, TID, SLEEPS, 9),
        waking(600),
        switch(610, 9, SLEEPS, TID),
    ];
    assert_eq!(found(&events), (vec![10], 0));
}

#[test]
fn stopped_thread_waits_since_its_stop() {
    let events = [
        switch(0, TID, 4, 9),
        waking(900),
        switch(1_000, 9, SLEEPS, TID),
    ];
    assert_eq!(found(&events), (vec![1_000], 0));
}

#[test]
fn wait_during_lost_events_has_no_length() {
    let mut finder = LateWakeUps::new(Nanos::ZERO);
    take(&mut finder, &switch(0, TID, SLEEPS, 9));
    take(&mut finder, &waking(100));
    finder.blind_until(Nanos::from_micros(5_000));
    assert_eq!(take(&mut finder, &switch(5_010, 9, SLEEPS, TID)), None);
    let without_end = WithoutEnd {
        tid: TID,
        since: Nanos::from_micros(100),
    };
    assert_eq!(finder.take_without_end(), [without_end]);
    take(&mut finder, &switch(5_100, TID, SLEEPS, 9));
    take(&mut finder, &waking(5_200));
    let wait = take(&mut finder, &switch(5_207, 9, SLEEPS, TID));
    assert!(matches!(wait, Some(Wait::TooLong(late)) if late.latency() == Nanos::from_micros(7)));
}

fn take(finder: &mut LateWakeUps, event: &TraceEvent) -> Option<Wait> {
    finder.take(event, &|tid| tid == TID)
}

#[test]
fn wait_as_long_as_the_threshold_is_in_time() {
    let waits = [(50, false), (51, true)];
    for (length, late) in waits {
        let mut finder = LateWakeUps::new(Nanos::from_micros(50));
        take(&mut finder, &switch(0, TID, SLEEPS, 9));
        take(&mut finder, &waking(100));
        let wait = take(&mut finder, &switch(100 + length, 9, RUNNABLE, TID));
        assert_eq!(matches!(wait, Some(Wait::TooLong(_))), late, "{length} µs");
        assert_eq!(matches!(wait, Some(Wait::InTime(_))), !late, "{length} µs");
    }
}

/// A signal wakes a sleeping thread, which then stops. The cause can be before the stop.
#[test]
fn events_of_a_stop_begin_with_the_wake_up_just_before_it() {
    const STOPPED: u32 = 4;
    const TRACED: u32 = 8;
    let cases = [
        (STOPPED, 99_999, true),
        (TRACED, 99_999, true),
        (STOPPED, 100_000, false),
        // A thread that other threads displaced has run since its wake-up.
        (RUNNABLE, 50, false),
    ];
    for (state, after, from_wake_up) in cases {
        let mut finder = LateWakeUps::new(Nanos::ZERO);
        take(&mut finder, &switch(0, TID, SLEEPS, 9));
        take(&mut finder, &waking(10));
        take(&mut finder, &switch(15, 9, RUNNABLE, TID));
        let left = 10 + after;
        take(&mut finder, &switch(left, TID, state, 9));
        let wait = take(&mut finder, &switch(left + 70, 9, RUNNABLE, TID));
        let Some(Wait::TooLong(late)) = wait else {
            panic!("{wait:?}");
        };
        assert_eq!(late.delay, Delay::Taken);
        assert_eq!(late.expected, Nanos::from_micros(left));
        let from = if from_wake_up { 10 } else { left };
        assert_eq!(
            late.events_from,
            Nanos::from_micros(from),
            "{state} {after}"
        );
    }
}

/// The switch to the thread that stops was not recorded.
#[test]
fn stop_without_a_switch_in_also_begins_with_the_wake_up() {
    let mut finder = LateWakeUps::new(Nanos::ZERO);
    take(&mut finder, &switch(0, TID, SLEEPS, 9));
    take(&mut finder, &waking(10));
    take(&mut finder, &switch(20, TID, 4, 9));
    let wait = take(&mut finder, &switch(90, 9, RUNNABLE, TID));
    let Some(Wait::TooLong(late)) = wait else {
        panic!("{wait:?}");
    };
    assert_eq!(late.events_from, Nanos::from_micros(10));
    assert_eq!(late.expected, Nanos::from_micros(20));
    assert_eq!(finder.take_without_end().len(), 1);
}

#[test]
fn open_wait_states_its_begin_and_whether_the_thread_is_stopped() {
    for (state, delay, is_stopped) in [
        (RUNNABLE, Delay::Taken, false),
        (4, Delay::Taken, true),
        (8, Delay::Taken, true),
    ] {
        let mut finder = LateWakeUps::new(Nanos::ZERO);
        take(&mut finder, &switch(30, TID, state, 9));
        let open = OpenLate {
            tid: TID,
            delay,
            is_stopped,
            expected: Nanos::from_micros(30),
        };
        assert_eq!(finder.open().collect::<Vec<_>>(), [open]);
    }
}

#[test]
fn sleeping_and_unseen_threads_have_no_open_wait() {
    let mut finder = LateWakeUps::new(Nanos::ZERO);
    take(&mut finder, &switch(30, TID, SLEEPS, 9));
    assert_eq!(finder.open().count(), 0);
    take(&mut finder, &waking(40));
    assert_eq!(finder.open().count(), 1);
    take(&mut finder, &switch(50, 9, SLEEPS, TID));
    assert_eq!(finder.open().count(), 0);
    // It runs, so this wake-up does not make it wait.
    take(&mut finder, &waking(60));
    assert_eq!(finder.open().count(), 0);
    let mut finder = LateWakeUps::new(Nanos::ZERO);
    take(&mut finder, &waking(40));
    assert_eq!(finder.open().count(), 0, "the thread may run");
}

#[test]
fn thread_that_has_run_no_longer_waits() {
    let mut finder = LateWakeUps::new(Nanos::ZERO);
    take(&mut finder, &switch(30, TID, SLEEPS, 9));
    take(&mut finder, &waking(40));
    finder.has_run(TID);
    assert_eq!(finder.open().count(), 0);
    let since = Nanos::from_micros(40);
    assert_eq!(finder.take_without_end(), [WithoutEnd { tid: TID, since }]);
    assert!(finder.take_without_end().is_empty(), "taken before");
    // Whether it is off the CPU is unknown from here.
    take(&mut finder, &waking(70));
    assert_eq!(finder.open().count(), 0);
    finder.has_run(TID);
    assert!(finder.take_without_end().is_empty());
}

#[test]
fn wait_ends_with_the_thread() {
    let mut finder = LateWakeUps::new(Nanos::ZERO);
    take(&mut finder, &switch(30, TID, SLEEPS, 9));
    take(&mut finder, &waking(40));
    take(
        &mut finder,
        &event(50, EventKind::ProcessExit { task: task(TID) }),
    );
    assert_eq!(finder.open().count(), 0);
    // A new thread can have the same number.
    assert_eq!(take(&mut finder, &switch(60, 9, SLEEPS, TID)), None);
    assert!(finder.take_without_end().is_empty());
}

/// A wait that began exactly when the recording resumed has its length.
#[test]
fn wait_since_the_end_of_lost_events_has_a_length() {
    for (since, has_length) in [(4_999, false), (5_000, true)] {
        let mut finder = LateWakeUps::new(Nanos::ZERO);
        take(&mut finder, &switch(10, TID, SLEEPS, 9));
        take(&mut finder, &waking(since));
        finder.blind_until(Nanos::from_micros(5_000));
        // An earlier loss of another CPU changes nothing.
        finder.blind_until(Nanos::from_micros(2_000));
        let wait = take(&mut finder, &switch(5_030, 9, SLEEPS, TID));
        assert_eq!(wait.is_some(), has_length, "{since}");
    }
}

#[test]
fn other_threads_are_not_followed() {
    let mut finder = LateWakeUps::new(Nanos::ZERO);
    take(&mut finder, &switch(0, 9, RUNNABLE, 8));
    assert_eq!(finder.open().count(), 0);
    assert_eq!(take(&mut finder, &switch(90, 8, SLEEPS, 9)), None);
}
