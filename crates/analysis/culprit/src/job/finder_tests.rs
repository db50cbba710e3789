use super::super::release::{Call, CallKind};
use super::*;
use punctual_model::{Comm, KernelPriority, Task, TaskState};

const TID: u32 = 7;
const SLEEPS: u32 = 1;
const RUNNABLE: u32 = 0;
const STOPS: u32 = 4;
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
    // This thread's release is known, so none of its other calls are needed. For another thread,
    // all calls are needed.
    assert_eq!(finder.calls(), [NANOSLEEP]);
    assert!(!finder.is_learning(TID) && finder.is_learning(8));
    let other = switch(500_000, 9, SLEEPS, 8);
    finder.take(&other, &|tid| tid == 8, &kind);
    assert_eq!(finder.calls(), [NANOSLEEP]);
    assert!(finder.is_learning(8));
}

/// A busy thread makes more calls than are kept during the search, which lasts 300 ms.
#[test]
fn busy_search_leaves_no_hole() {
    let mut events = Vec::new();
    for n in 0..300 {
        events.extend(turn(n * 1_000));
        let calls = (0..60).flat_map(|call| {
            let at = n * 1_000 + 876 + 2 * call;
            [enter(at, 39), exit(at + 1, 39, 7)]
        });
        events.extend(calls);
    }
    events.extend((300..400).flat_map(|n| turn(n * 1_000)));
    assert!(events.len() > crate::job::learning::REMEMBERED);
    let (jobs, seen) = jobs(&events);
    assert!(jobs.len() > 200, "{}", jobs.len());
    for job in &jobs {
        assert_eq!(job.response(), Nanos::from_micros(400));
    }
    // The jobs at the start are not counted, and the statistics say so.
    let first = jobs[0].release.0;
    let not_counted = seen.not_counted.0;
    assert!(not_counted > 100_000_000 && first.abs_diff(not_counted) < 2_000_000);
}

proptest::proptest! {
    /// Some kernels lose scheduler events. Any of the events in a cycle may be missing.
    #[test]
    fn missing_events_make_no_wrong_job(
        lost in proptest::collection::btree_set((0_u64..400, 0_usize..4), 0..60),
    ) {
        // Indices in `turn` of the release wait's switch, wake-up and switch back, and of a later
        // wake-up.
        let indices = [1, 2, 3, 7];
        let events: Vec<TraceEvent> = (0..400)
            .flat_map(|n| turn(n * 1_000).into_iter().enumerate().map(move |at| (n, at)))
            .filter(|(n, (at, _))| {
                let place = indices.iter().position(|index| index == at);
                place.is_none_or(|place| !lost.contains(&(*n, place)))
            })
            .map(|(_, (_, event))| event)
            .collect();
        let (jobs, seen) = jobs(&events);
        for job in &jobs {
            let release = job.release.0 % 1_000_000;
            // If its switch is missing, a sleep cannot be distinguished from a call that returned
            // without waiting.
            let at_once = release == 0 && job.response() == Nanos::from_millis(1);
            let right = release == 600_000 && job.response() == Nanos::from_micros(400);
            proptest::prop_assert!(right || at_once, "{job:?}");
        }
        let unseen = lost.iter().filter(|(_, place)| *place == 0).count() as u64;
        proptest::prop_assert!(seen.at_once <= unseen, "{} of {unseen}", seen.at_once);
    }
}

#[test]
fn release_without_its_event_is_unknown() {
    let mut events: Vec<TraceEvent> = (0..400).flat_map(|n| turn(n * 1_000)).collect();
    let is_waking = |event: &TraceEvent| matches!(event.kind, EventKind::Waking { .. });
    let lost = turn(400_000);
    events.extend(lost.into_iter().filter(|event| !is_waking(event)));
    // The switch back to the thread is also lost.
    let lost = turn(401_000).into_iter().enumerate();
    let kept = lost.filter(|(index, event)| !is_waking(event) && *index != 3);
    events.extend(kept.map(|(_, event)| event));
    events.extend(turn(402_000));
    let (jobs, seen) = jobs(&events);
    // The last cycle has no completion, and the two before it no release.
    assert_eq!((seen.jobs, seen.at_once, seen.incomplete), (400, 0, 3));
    assert!(
        jobs.iter()
            .all(|job| job.response() == Nanos::from_micros(400))
    );
}

/// The jobs of 400 cycles. The timers of each were due at this time of the cycle; their interrupt comes
/// at 600 µs.
fn with_timer(due: u64) -> (Vec<Job>, JobSeen) {
    let cycle = |at: u64| {
        let kind = EventKind::TimerDue {
            pid: TID,
            due: Nanos::from_micros(at + due),
            latest: Nanos::from_micros(at + due + 50),
        };
        let timer = event(at + 600, 0, kind);
        let mut events = turn(at);
        let woken = events.iter().position(|event| event.time == timer.time);
        events.insert(woken.unwrap(), timer);
        events
    };
    let events: Vec<TraceEvent> = (1..=400).flat_map(|n| cycle(n * 1_000)).collect();
    jobs(&events)
}

#[test]
fn job_begins_when_its_timer_was_due() {
    let (found, seen) = with_timer(450);
    assert_eq!((seen.jobs, seen.incomplete), (399, 1));
    for job in found {
        assert_eq!(job.response(), Nanos::from_micros(550));
        // The CPU time counts from the wake-up, because the thread slept until then.
        assert!(job.ran < Nanos::from_micros(400), "{job:?}");
        assert_eq!(job.events_from, job.release);
    }
}

/// A timer can be set to a time that has passed. The job is then as long as if the sleep had been none.
#[test]
fn timer_of_the_past_releases_when_the_thread_sleeps() {
    let (at_sleep, _) = with_timer(5);
    let (long_ago, _) = with_timer(0);
    assert_eq!(at_sleep, long_ago);
    assert!(!long_ago.is_empty());
    let length = Nanos::from_micros(995);
    assert!(long_ago.iter().all(|job| job.response() == length));
}

/// A cycle whose sleep until 600 µs is interrupted by a stop. `due`: whether an event shows the
/// time until which it sleeps.
fn stopped_turn(at: u64, stop: (u64, u64), due: bool) -> Vec<TraceEvent> {
    let until = |us: u64| {
        let until = Nanos::from_micros(at + 600);
        due.then(|| event(us, TID, EventKind::SleepUntil { until }))
    };
    let (from, to) = (at + stop.0, at + stop.1);
    let mut events = vec![enter(at, NANOSLEEP)];
    events.extend(until(at + 1));
    events.extend([
        switch(at + 5, TID, SLEEPS, 9),
        waking(from - 20),
        switch(from - 10, 9, RUNNABLE, TID),
        exit(from - 5, NANOSLEEP, -514),
        switch(from, TID, STOPS, 9),
        waking(to - 20),
        switch(to - 10, 9, RUNNABLE, TID),
        enter(to, NANOSLEEP),
    ]);
    events.extend(until(to + 1));
    if stop.1 < 600 {
        events.extend([
            switch(to + 5, TID, SLEEPS, 9),
            waking(at + 600),
            switch(at + 610, 9, RUNNABLE, TID),
        ]);
    }
    events.extend([exit(at.max(to) + 400, NANOSLEEP, 0)]);
    events
}

/// The jobs of 400 ordinary cycles, and of a cycle with a stop at 500 ms.
fn with_stop(stop: (u64, u64), due: bool) -> (Vec<Job>, JobSeen) {
    let mut events: Vec<TraceEvent> = (0..400).flat_map(|n| turn(n * 1_000)).collect();
    events.extend(stopped_turn(500_000, stop, due));
    events.extend(turn(502_000));
    jobs(&events)
}

#[test]
fn stop_in_release_wait_delays_job() {
    let (jobs, seen) = with_stop((300, 900), true);
    let job = jobs[jobs.len() - 1];
    let at = Nanos::from_micros;
    assert_eq!((job.release, job.completion), (at(500_600), at(502_000)));
    // The events of the signal are from before the release.
    assert_eq!(job.events_from, at(500_280));
    // It ran from 890 µs on.
    assert_eq!(job.ran, at(1_110));
    assert_eq!((seen.at_once, seen.while_stopped), (0, 0));
    // The job was due after the stop.
    let (jobs, seen) = with_stop((300, 500), true);
    let job = jobs[jobs.len() - 1];
    assert_eq!((job.release, job.events_from), (at(500_600), at(500_600)));
    assert_eq!((seen.at_once, seen.while_stopped), (0, 0));
}

#[test]
fn unknown_release_in_stop_is_counted() {
    let (jobs, seen) = with_stop((300, 900), false);
    let job = jobs[jobs.len() - 1];
    assert_eq!(job.release, Nanos::from_micros(500_900));
    assert_eq!((seen.at_once, seen.while_stopped), (1, 1));
    assert_eq!(seen.longest_stop, Nanos::from_micros(600));
}

proptest::proptest! {
    /// If events are missing, the release is the true one, the return to the wait, or unknown.
    #[test]
    fn missing_events_make_no_wrong_stop(
        lost in proptest::collection::btree_set(0_usize..13, 0..6),
        stop in (100_u64..500, 600_u64..2_000),
        due: bool,
    ) {
        let mut events: Vec<TraceEvent> = (0..400).flat_map(|n| turn(n * 1_000)).collect();
        let stopped = stopped_turn(500_000, stop, due).into_iter().enumerate();
        let kept = stopped.filter(|(at, _)| !lost.contains(at));
        events.extend(kept.map(|(_, event)| event));
        events.extend(turn(503_000));
        let (jobs, seen) = jobs(&events);
        let to = 500_000 + stop.1;
        for job in jobs.iter().filter(|job| job.release > Nanos::from_micros(499_999)) {
            let release = job.release.0 / 1_000;
            // If the switch to the sleep or the return value is missing, the calls look like one
            // that returned, and if the wake-up for the stop is the only event, like a release.
            let at_once = [500_000, to, to + 1].contains(&release);
            let by_signal = release == 500_000 + stop.0 - 20 || release == to - 20;
            proptest::prop_assert!(release == 500_600 && due || at_once || by_signal, "{job:?}");
        }
        let length = Nanos::from_micros(stop.1 - stop.0);
        proptest::prop_assert!(seen.longest_stop <= length);
    }
}

/// A read that waits for 9 ms.
fn long_read(at: u64) -> [TraceEvent; 5] {
    [
        enter(at, READ),
        switch(at + 5, TID, SLEEPS, 9),
        waking(at + 9_000),
        switch(at + 9_010, 9, RUNNABLE, TID),
        exit(at + 9_015, READ, 4),
    ]
}

/// A program that sleeps while it starts, and then waits for a device.
#[test]
fn abandoned_release_wait_is_replaced() {
    let mut events: Vec<TraceEvent> = (0..400).flat_map(|n| turn(n * 1_000)).collect();
    events.extend((0..1_500).flat_map(|n| long_read(400_000 + n * 10_000)));
    let (jobs, seen) = jobs(&events);
    let earlier: Vec<i64> = seen.earlier.iter().map(|found| found.call.id).collect();
    assert_eq!(
        (earlier, seen.release.unwrap().call.id),
        (vec![NANOSLEEP], READ)
    );
    // The search begins 2 s after the change.
    let responses = jobs.iter().map(Job::response);
    let of_later = responses.filter(|one| *one == Nanos::from_micros(1_000));
    assert!((1_290..=1_300).contains(&of_later.count()));
    let shortest = jobs
        .iter()
        .all(|job| job.response() <= Nanos::from_micros(1_000));
    assert!(shortest);
    let not_counted = seen.not_counted;
    assert!((Nanos::from_secs(2)..Nanos::from_millis(2_100)).contains(&not_counted));
}

/// A job of 5 s, with many waits in it.
#[test]
fn long_job_keeps_its_release_wait() {
    let mut events: Vec<TraceEvent> = (0..400).flat_map(|n| turn(n * 1_000)).collect();
    let last = turn(400_000);
    events.extend(last[..5].to_vec());
    events.extend((0..500).flat_map(|n| long_read(400_620 + n * 10_000)));
    events.extend((0..400).flat_map(|n| turn(5_400_620 + n * 1_000)));
    let (jobs, seen) = jobs(&events);
    assert!(seen.earlier.is_empty() && seen.not_counted == Nanos::ZERO);
    assert_eq!((seen.jobs, seen.incomplete), (800, 1));
    let longest = jobs.iter().map(Job::response).max().unwrap();
    assert_eq!(longest, Nanos::from_micros(5_400_620 - 400_600));
}

/// While nothing was observed, the thread may have used its release wait.
#[test]
fn lost_events_do_not_abandon_release_wait() {
    let mut finder = JobFinder::new(CallNumbers::default());
    let kind = |_: u32, call: Call| (call.id == NANOSLEEP).then_some(CallKind::Timer);
    let watched = |tid: u32| tid == TID;
    let take = |finder: &mut JobFinder, events: &[TraceEvent]| {
        for event in events {
            finder.take(event, &watched, &kind);
        }
    };
    for n in 0..400 {
        take(&mut finder, &turn(n * 1_000));
    }
    for (n, end) in [(0, 0), (1, 60_000_000), (2, 120_000_000)] {
        take(&mut finder, &long_read(500_000 + n * 60_000_000));
        take(&mut finder, &long_read(510_000 + n * 60_000_000));
        take(&mut finder, &long_read(520_000 + n * 60_000_000));
        finder.blind_until(Nanos::from_micros(end + 540_000));
    }
    let (_, seen) = finder.seen().next().unwrap();
    assert!(seen.earlier.is_empty() && !finder.is_learning(TID));
}

/// A thread of SCHED_DEADLINE gives up the rest of its runtime at the end of each job.
#[test]
fn yield_of_deadline_thread_is_release_wait() {
    const YIELD: i64 = 24;
    let kind = |_: u32, _: Call| Some(CallKind::Timer);
    for (prio, count) in [(-1, 399), (120, 0)] {
        let mut finder = JobFinder::new(CallNumbers {
            sched_yield: vec![YIELD],
            ..CallNumbers::default()
        });
        let mut jobs = Vec::new();
        for n in 0..400 {
            let at = n * 1_000;
            let of_prio = |mut event: TraceEvent| {
                if let EventKind::Switch { prev, next, .. } = &mut event.kind {
                    for task in [prev, next] {
                        task.prio = KernelPriority(prio);
                    }
                }
                event
            };
            for event in [
                enter(at, YIELD),
                switch(at + 5, TID, RUNNABLE, 9),
                switch(at + 700, 9, RUNNABLE, TID),
                exit(at + 705, YIELD, 0),
            ] {
                jobs.extend(finder.take(&of_prio(event), &|tid| tid == TID, &kind));
            }
        }
        let responses: Vec<Nanos> = jobs.iter().map(Job::response).collect();
        assert_eq!(responses.len(), count, "priority {prio}");
        assert!(responses.iter().all(|one| *one == Nanos::from_micros(300)));
    }
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
