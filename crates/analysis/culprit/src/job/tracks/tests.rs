//! Tracks of a small window.

use super::*;
use crate::testing::{
    MAKE, RUNNABLE, SLEEPS, VICTIM, event, flagged, idle, make, on, switch, task, us, victim,
    wakeup, waking, window,
};

/// A window from 0 to 1,000 µs.
fn tracks(events: &[TraceEvent]) -> Tracks {
    tracks_in(|_| (), events)
}

fn tracks_in(change: impl FnOnce(&mut Window), events: &[TraceEvent]) -> Tracks {
    let mut window = window(0, 1_000, events.to_vec());
    change(&mut window);
    Tracks::from_events(&window, events)
}

fn migrates(at: u64, orig_cpu: u32, dest_cpu: u32) -> TraceEvent {
    let task = victim();
    let kind = EventKind::Migrate {
        task,
        orig_cpu,
        dest_cpu,
    };
    event(at, MAKE, kind)
}

fn enters(at: u64, id: i64) -> TraceEvent {
    event(at, VICTIM, EventKind::SysEnter { id, args: [5, 6] })
}

fn returns(at: u64, id: i64) -> TraceEvent {
    event(at, VICTIM, EventKind::SysExit { id, ret: 0 })
}

fn fault(at: u64, user: bool) -> TraceEvent {
    let (address, ip, error_code) = (0x7000, 0, 6);
    let kind = if user {
        EventKind::PageFaultUser {
            address,
            ip,
            error_code,
        }
    } else {
        EventKind::PageFaultKernel {
            address,
            ip,
            error_code,
        }
    };
    event(at, VICTIM, kind)
}

fn fault_ends(at: u64) -> TraceEvent {
    event(at, VICTIM, EventKind::PageFaultEnd { address: 0x7000 })
}

/// The victim loses its CPU at 100 µs, is moved at these times, and runs on CPU 3 at 900 µs.
fn moved(moves: &[(u64, u32, u32)]) -> Vec<(u64, u64, Option<u32>)> {
    let mut events = vec![switch(100, victim(), RUNNABLE, make())];
    events.extend(moves.iter().map(|(at, from, to)| migrates(*at, *from, *to)));
    events.push(on(3, switch(900, idle(), RUNNABLE, victim())));
    let parts = tracks(&events).waited_on(VICTIM, us(100), us(900));
    let parts = parts.into_iter();
    parts
        .map(|(from, to, cpu)| (from.0 / 1_000, to.0 / 1_000, cpu))
        .collect()
}

#[test]
fn runnable_thread_waits_for_one_cpu_after_the_other() {
    assert_eq!(moved(&[]), [(100, 900, Some(3))]);
    assert_eq!(
        moved(&[(400, 1, 3)]),
        [(100, 400, Some(1)), (400, 900, Some(3))]
    );
    assert_eq!(
        moved(&[(400, 1, 2), (600, 2, 3)]),
        [
            (100, 400, Some(1)),
            (400, 600, Some(2)),
            (600, 900, Some(3))
        ]
    );
    // Moves at its very beginning or end leave no time for the other CPU.
    assert_eq!(moved(&[(100, 1, 3)]), [(100, 900, Some(3))]);
    assert_eq!(moved(&[(900, 1, 3)]), [(100, 900, Some(3))]);
}

#[test]
fn cpu_that_a_thread_waits_for_is_the_next_or_the_last_one() {
    let waited = |events: &[TraceEvent], tid| tracks(events).waited_on(tid, us(100), us(1_000));
    // It never runs again.
    let lost = [
        switch(50, idle(), RUNNABLE, victim()),
        switch(100, victim(), RUNNABLE, make()),
    ];
    assert_eq!(waited(&lost, VICTIM), [(us(100), us(1_000), Some(1))]);
    let unseen = [waking(100, MAKE, victim())];
    assert_eq!(waited(&unseen, VICTIM), [(us(100), us(1_000), None)]);
    assert_eq!(waited(&lost, 77), [(us(100), us(1_000), None)]);
}

#[test]
fn call_of_a_thread_lasts_from_entry_to_exit() {
    let tracks = tracks(&[enters(100, 1), returns(200, 1), enters(300, 2)]);
    let call = |at| {
        tracks
            .call_at(VICTIM, us(at))
            .map(|call| call.map(|(id, _)| id))
    };
    assert_eq!(call(99), Some(None));
    assert_eq!(call(100), Some(Some(1)));
    assert_eq!(call(199), Some(Some(1)));
    assert_eq!(call(200), Some(None));
    assert_eq!(call(300), Some(Some(2)));
    assert_eq!(tracks.call_at(MAKE, us(100)), None);
    assert_eq!(tracks.call_at(VICTIM, us(100)), Some(Some((1, [5, 6]))));
    // A call that began before the first event.
    let began = self::tracks(&[returns(200, 7)]);
    assert_eq!(began.call_at(VICTIM, us(10)), Some(Some((7, [0, 0]))));
    assert_eq!(began.call_at(VICTIM, us(200)), Some(None));
    let between = |from, to| tracks.calls_between(VICTIM, us(from), us(to));
    assert_eq!(between(100, 300), [us(200)]);
    assert_eq!(between(99, 301), [us(100), us(200), us(300)]);
    assert_eq!(tracks.calls_between(MAKE, us(0), us(999)), []);
}

#[test]
fn sleep_is_in_the_call_that_its_event_shows() {
    let sleeps = |at, id| event(at, VICTIM, EventKind::SleepsIn { id, args: [5, 6] });
    let tracks = tracks(&[sleeps(100, 7), sleeps(200, -1)]);
    let call = |at| {
        tracks
            .call_of_sleep(VICTIM, us(at))
            .map(|call| call.map(|(id, _)| id))
    };
    assert_eq!((call(100), call(200)), (Some(Some(7)), Some(None)));
    assert_eq!((call(99), call(101), call(201)), (None, None, None));
    assert_eq!(tracks.call_of_sleep(MAKE, us(100)), None);
}

/// A sleeping thread is in the run queue only once its wake-up has reached the CPU.
#[test]
fn runnable_thread_is_queued_after_a_preemption_or_a_wake_up() {
    let preempted = tracks(&[
        switch(100, idle(), RUNNABLE, victim()),
        switch(200, victim(), RUNNABLE, make()),
    ]);
    assert!(preempted.was_queued(VICTIM, us(300)));
    assert!(!preempted.was_queued(77, us(300)));
    let woken = |queued: Option<u64>| {
        let mut events = vec![
            switch(100, victim(), SLEEPS, make()),
            waking(200, MAKE, victim()),
        ];
        events.extend(queued.map(|at| wakeup(at, MAKE, victim())));
        tracks(&events)
    };
    assert!(!woken(None).was_queued(VICTIM, us(300)));
    assert!(woken(Some(250)).was_queued(VICTIM, us(250)));
    assert!(!woken(Some(251)).was_queued(VICTIM, us(250)));
    // An earlier wake-up does not count.
    assert!(!woken(Some(150)).was_queued(VICTIM, us(300)));
    assert!(woken(Some(200)).was_queued(VICTIM, us(300)));
}

/// Returns whether a sleep at this time is because of the page fault at 100 µs.
fn sleeps_for_page(change: impl FnOnce(&mut Window), events: &[TraceEvent], at: u64) -> bool {
    let mut all = vec![switch(50, make(), SLEEPS, victim())];
    all.extend(events.iter().cloned());
    all.push(switch(at, victim(), SLEEPS, make()));
    let tracks = tracks_in(change, &all);
    let page = tracks.fault_before_sleep(VICTIM, us(at));
    assert_eq!(page.is_some(), tracks.slept_in_fault(VICTIM, us(at)));
    assert!(page.is_none_or(|from| from == us(100)));
    page.is_some()
}

#[test]
fn thread_sleeps_for_the_page_of_its_last_fault() {
    let without_calls = |window: &mut Window| {
        window.missing_events = vec!["raw_syscalls:sys_enter".to_owned()];
    };
    let all = |_: &mut Window| ();
    // In user space, nothing else leads to a sleep.
    assert!(sleeps_for_page(all, &[fault(100, true)], 800));
    assert!(!sleeps_for_page(all, &[], 800));
    // In a call, or if calls are not recorded, an old fault has ended.
    assert!(sleeps_for_page(all, &[fault(100, false)], 125));
    assert!(!sleeps_for_page(all, &[fault(100, false)], 126));
    assert!(sleeps_for_page(without_calls, &[fault(100, true)], 125));
    assert!(!sleeps_for_page(without_calls, &[fault(100, true)], 126));
    // A call shows that the fault has ended.
    for call in [enters(110, 1), returns(110, 1)] {
        assert!(!sleeps_for_page(all, &[fault(100, true), call], 120));
    }
    let call_before = [enters(90, 1), fault(100, false)];
    assert!(sleeps_for_page(all, &call_before, 120));
    // Its end is recorded.
    assert!(sleeps_for_page(
        all,
        &[fault(100, true), fault_ends(121)],
        120
    ));
    let ended = [fault(100, true), fault_ends(120)];
    assert!(!sleeps_for_page(all, &ended, 120));
}

#[test]
fn only_a_sleep_that_begins_then_is_for_a_page() {
    let events = [
        switch(50, make(), SLEEPS, victim()),
        fault(100, true),
        switch(120, victim(), RUNNABLE, make()),
        switch(130, make(), SLEEPS, victim()),
        switch(140, victim(), SLEEPS, make()),
    ];
    let tracks = tracks(&events);
    let page = |at| tracks.fault_before_sleep(VICTIM, us(at));
    // It is preempted at 120 µs, and sleeps from 140 µs on.
    assert_eq!(
        (page(120), page(139), page(140)),
        (None, None, Some(us(100)))
    );
    assert_eq!(
        (page(141), tracks.fault_before_sleep(77, us(140))),
        (None, None)
    );
}

#[test]
fn running_thread_is_in_a_fault_until_it_ends() {
    let in_fault = |change: &dyn Fn(&mut Window), events: &[TraceEvent], at| {
        let tracks = tracks_in(change, events);
        tracks.in_fault(VICTIM, us(at)).is_some()
    };
    let all: &dyn Fn(&mut Window) = &|_| ();
    let with_end = [fault(100, false), fault_ends(150)];
    assert!(!in_fault(all, &with_end, 99) && in_fault(all, &with_end, 100));
    assert!(in_fault(all, &with_end, 149) && !in_fault(all, &with_end, 150));
    // Without an end, only a fault in user space is one, until a call.
    let open = [fault(100, true), enters(200, 1)];
    assert!(in_fault(all, &open, 199) && !in_fault(all, &open, 200));
    assert!(!in_fault(all, &[fault(100, false)], 110));
    let unrecorded: &dyn Fn(&mut Window) = &|window| {
        window.missing_events = vec!["raw_syscalls:sys_enter".to_owned()];
    };
    assert!(!in_fault(unrecorded, &open, 110));
}

#[test]
fn stop_signal_is_that_of_the_thread_or_the_only_one() {
    let signal = |at, sig, pid, sender| {
        let comm = victim().comm;
        event(at, sender, EventKind::SignalGenerate { sig, pid, comm })
    };
    // The victim is stopped from 300 to 600 µs.
    let stopped = |signals: &[TraceEvent]| {
        let mut events = vec![switch(50, make(), SLEEPS, victim())];
        events.extend(signals.iter().cloned());
        events.push(switch(300, victim(), 4, make()));
        events.push(switch(600, make(), SLEEPS, victim()));
        events.sort_by_key(|event| event.time);
        tracks(&events).stop_signal(VICTIM, us(450))
    };
    let own = |at| signal(at, 19, VICTIM, 33);
    assert_eq!(stopped(&[]), None);
    assert_eq!(stopped(&[own(200)]), Some((19, 33)));
    assert_eq!(stopped(&[own(300)]), Some((19, 33)));
    // It came during the stop.
    assert_eq!(stopped(&[own(301)]), None);
    // The last one counts.
    let two = [signal(100, 20, VICTIM, 34), own(200)];
    assert_eq!(stopped(&two), Some((19, 33)));
    // A signal for the process goes to one of its threads.
    let of_process = |at| signal(at, 20, 101, 34);
    assert_eq!(stopped(&[of_process(200)]), Some((20, 34)));
    assert_eq!(stopped(&[of_process(301)]), None);
    assert_eq!(stopped(&[of_process(100), of_process(200)]), Some((20, 34)));
    assert_eq!(stopped(&[of_process(100), own(200)]), Some((19, 33)));
    // Two different ones prove nothing, in whichever order.
    let other = signal(150, 19, 102, 34);
    assert_eq!(stopped(&[of_process(200), other.clone()]), None);
    let by_other = signal(150, 20, 102, 35);
    assert_eq!(stopped(&[of_process(200), by_other]), None);
    // Other signals stop nothing.
    assert_eq!(stopped(&[signal(200, 10, VICTIM, 33)]), None);
}

#[test]
fn stack_belongs_to_the_switch_before_it() {
    let stack = |at| event(at, VICTIM, EventKind::KernelStack { frames: vec![at] });
    let tracks = tracks(&[stack(100), stack(500)]);
    let of = |at| tracks.stack(VICTIM, us(at)).map(|frames| frames[0]);
    assert_eq!(
        (of(100), of(99), of(101)),
        (Some(100), Some(100), Some(500))
    );
    assert_eq!((of(501), tracks.stack(MAKE, us(99))), (None, None));
    // A stack a millisecond later is that of another switch.
    let late = self::tracks(&[stack(1_500)]);
    assert_eq!(
        late.stack(VICTIM, us(501)).map(|frames| frames[0]),
        Some(1_500)
    );
    assert_eq!(late.stack(VICTIM, us(500)), None);
}

#[test]
fn priority_changes_with_events() {
    let boosted = EventKind::PiSetprio {
        task: make(),
        newprio: KernelPriority(4),
    };
    let tracks = tracks(&[
        switch(100, make(), RUNNABLE, victim()),
        event(200, VICTIM, boosted),
        waking(300, VICTIM, task("make", MAKE, 50)),
    ]);
    let prio = |tid, at| tracks.priority(tid, us(at)).0;
    assert_eq!((prio(MAKE, 0), prio(MAKE, 199)), (120, 120));
    assert_eq!(
        (prio(MAKE, 200), prio(MAKE, 299), prio(MAKE, 300)),
        (4, 4, 50)
    );
    assert_eq!((prio(VICTIM, 0), prio(77, 500)), (4, i16::MAX));
}

#[test]
fn preempted_thread_runs_again_before_the_end() {
    let other = task("other", 13, 120);
    let events = [
        switch(100, idle(), RUNNABLE, other),
        switch(200, other, RUNNABLE, make()),
        switch(300, make(), SLEEPS, other),
        switch(400, other, SLEEPS, idle()),
        waking(500, MAKE, other),
        switch(600, idle(), RUNNABLE, other),
    ];
    let tracks = tracks(&events);
    let preempted = |until| {
        let all = tracks.preempted(13, us(until));
        all.map(|(from, to, cpu)| (from.0 / 1_000, to.0 / 1_000, cpu))
            .collect::<Vec<_>>()
    };
    // The wait after the sleep does not follow a preemption.
    assert_eq!(preempted(1_000), [(200, 300, 1)]);
    assert_eq!(preempted(301), [(200, 300, 1)]);
    assert_eq!(preempted(300), []);
    assert_eq!(tracks.preempted(77, us(1_000)).count(), 0);
}

fn phases(tracks: &Tracks, tid: u32) -> Vec<(u64, u64, Phase)> {
    let spans = tracks.spans(tid, us(0), us(1_000)).into_iter();
    let told = spans.map(|span| (span.from.0 / 1_000, span.to.0 / 1_000, span.phase));
    told.collect()
}

#[test]
fn thread_goes_from_one_phase_to_the_next() {
    use Phase::{Asleep, Ended, Ready, Runs, Stopped, Unknown};
    let found = tracks(&[
        switch(100, idle(), RUNNABLE, victim()),
        switch(200, victim(), RUNNABLE, make()),
        switch(300, make(), SLEEPS, victim()),
        switch(400, victim(), SLEEPS, idle()),
        waking(500, 33, victim()),
        on(2, switch(600, idle(), RUNNABLE, victim())),
        on(2, switch(700, victim(), 4, idle())),
        waking(750, 33, victim()),
        on(2, switch(800, idle(), RUNNABLE, victim())),
        on(2, switch(900, victim(), 0x20, idle())),
    ]);
    assert_eq!(
        phases(&found, VICTIM),
        [
            (0, 100, Unknown),
            (100, 200, Runs(1)),
            (200, 300, Ready),
            (300, 400, Runs(1)),
            (400, 500, Asleep(Some(0))),
            (500, 600, Ready),
            (600, 700, Runs(2)),
            (700, 750, Stopped),
            (750, 800, Ready),
            (800, 900, Runs(2)),
            (900, 1_000, Ended),
        ]
    );
    assert_eq!(phases(&found, 77), [(0, 1_000, Unknown)]);
    assert_eq!(phases(&found, 0), [(0, 1_000, Unknown)]);
}

/// An event of a thread shows that it runs, although no switch to it is recorded.
#[test]
fn time_before_an_unrecorded_switch_is_unknown() {
    use Phase::{Asleep, Runs, Unknown};
    let found = tracks(&[
        switch(100, victim(), SLEEPS, make()),
        waking(300, MAKE, victim()),
        enters(500, 1),
        on(2, enters(600, 1)),
    ]);
    assert_eq!(
        phases(&found, VICTIM),
        [
            (0, 100, Unknown),
            (100, 300, Asleep(Some(0))),
            (300, 500, Unknown),
            (500, 600, Runs(1)),
            (600, 1_000, Runs(2)),
        ]
    );
    // A stack is written after the switch.
    let frames = Vec::new();
    let stack = event(110, VICTIM, EventKind::KernelStack { frames });
    let found = tracks(&[switch(100, victim(), SLEEPS, make()), stack]);
    assert_eq!(phases(&found, VICTIM)[1], (100, 1_000, Asleep(None)));
}

/// Returns what ended the sleep of the victim in a call with this name.
fn ended_by(name: &str, woken: TraceEvent, signal: Option<TraceEvent>, shows: bool) -> By {
    let mut events = vec![
        switch(50, idle(), RUNNABLE, victim()),
        enters(60, 7),
        switch(100, victim(), SLEEPS, make()),
        woken,
    ];
    events.extend(signal);
    let change = |window: &mut Window| {
        window.calls.insert(7, name.to_owned());
        if !shows {
            use punctual_model::NotShown::{Flags, Vectors};
            window.evidence.not_shown = vec![Flags, Vectors];
        }
    };
    tracks_in(change, &events).woken_by(VICTIM, us(100), 0)
}

#[test]
fn waker_may_have_been_interrupted_if_no_event_shows_it() {
    let by_make = || waking(300, MAKE, victim());
    let thread = By::Thread(MAKE);
    assert_eq!(ended_by("read", by_make(), None, true), thread);
    assert_eq!(ended_by("read", by_make(), None, false), By::Unrecorded);
    // No interrupt ends a wait for a futex, and a signal has a sender.
    assert_eq!(ended_by("futex", by_make(), None, false), thread);
    let comm = victim().comm;
    let signal = |at, pid| {
        let kind = EventKind::SignalGenerate { sig: 10, pid, comm };
        Some(event(at, MAKE, kind))
    };
    assert_eq!(
        ended_by("read", by_make(), signal(301, VICTIM), false),
        thread
    );
    assert_eq!(
        ended_by("read", by_make(), signal(301, 77), false),
        By::Unrecorded
    );
    let in_interrupt = flagged(TraceEvent::HARDIRQ, by_make());
    assert_ne!(ended_by("read", in_interrupt, None, true), thread);
}

/// In the light stage, only watched threads have spans.
#[test]
fn threads_that_are_not_watched_are_unknown() {
    let light = |window: &mut Window| window.light_stage = Some(vec![VICTIM]);
    let events = [switch(100, victim(), SLEEPS, make())];
    let found = tracks_in(light, &events);
    assert!(found.is_light() && !tracks(&events).is_light());
    assert_eq!(found.tids().collect::<Vec<u32>>(), [VICTIM]);
    assert_eq!(tracks(&events).tids().collect::<Vec<u32>>(), [MAKE, VICTIM]);
    assert_eq!(phases(&found, MAKE), [(0, 1_000, Phase::Unknown)]);
}

/// In the light stage, a CPU may have switched unseen until a watched thread waits for it.
#[test]
fn cpu_is_known_from_the_wake_up_of_a_watched_thread_on() {
    let events = [
        switch(100, victim(), SLEEPS, make()),
        on(2, waking(300, 33, victim())),
        switch(500, task("other", 13, 120), SLEEPS, victim()),
    ];
    let current = |tracks: &Tracks| {
        let spans = tracks.on(1, us(100), us(500)).into_iter();
        let told = spans.map(|span| {
            let pid = span.current.map(|task| task.pid);
            (span.from.0 / 1_000, span.to.0 / 1_000, pid)
        });
        told.collect::<Vec<_>>()
    };
    let light = |window: &mut Window| window.light_stage = Some(vec![VICTIM]);
    assert_eq!(
        current(&tracks_in(light, &events)),
        [(100, 300, None), (300, 500, Some(13))]
    );
    assert_eq!(current(&tracks(&events)), [(100, 500, Some(MAKE))]);
}

#[test]
fn priority_before_any_event_is_that_of_the_policy() {
    let of = |policy, priority| {
        let scheduling = punctual_model::Scheduling { policy, priority };
        let change = |window: &mut Window| window.victim.scheduling = Some(scheduling);
        tracks_in(change, &[]).priority(VICTIM, us(1)).0
    };
    assert_eq!((of(Policy::Deadline, 0), of(Policy::Other, 0)), (-1, 120));
    assert_eq!((of(Policy::Fifo, 95), of(Policy::RoundRobin, 1)), (4, 98));
}
