//! Waits that the end of a trace cuts off. They are named with the thread's system call, but have no
//! cause.

use std::collections::{BTreeMap, BTreeSet};

use punctual_culprit::{LateFound, LateReactions, OpenWait, TraceFacts, Wanted};
use punctual_model::{Delay, EventKind, Nanos, ThreadState, TraceEvent};

use crate::stream::{RUNNABLE, SLEEPS, STOPS, VICTIM, idle, make, victim};
use crate::testing::{event, switch, waking};

const FSYNC: i64 = 74;

fn enters(us: u64, pid: u32, id: i64) -> TraceEvent {
    event(us, pid, EventKind::SysEnter { id, args: [4, 0] })
}

fn exits(us: u64, pid: u32, id: i64) -> TraceEvent {
    event(us, pid, EventKind::SysExit { id, ret: 0 })
}

/// The victim sleeps in a call and is woken. It waits for the CPU until the end of the trace at 3,000 µs.
fn cut_off() -> Vec<TraceEvent> {
    vec![
        switch(0, idle(), RUNNABLE, victim()),
        enters(10, VICTIM, 1),
        exits(20, VICTIM, 1),
        enters(500, VICTIM, FSYNC),
        switch(510, victim(), SLEEPS, make()),
        waking(1_000, 12, victim()),
        enters(2_900, 12, 1),
        exits(3_000, 12, 1),
    ]
}

fn found(events: Vec<TraceEvent>, wanted: Wanted, lost: Option<u64>) -> LateFound {
    let mut finder = LateReactions::new(wanted);
    for event in events {
        if let Some(us) = lost.filter(|us| event.time >= Nanos::from_micros(*us)) {
            finder.lost(0, None, Nanos::from_micros(us));
        }
        finder.event(event);
    }
    finder.finish(&TraceFacts {
        recorded: &BTreeSet::new(),
        clocks_differ: false,
        resolution: Nanos(1),
        may_have_vectors: true,
        kernel: None,
        symbols: &BTreeMap::new(),
        calls: &BTreeMap::new(),
    })
}

fn open(events: Vec<TraceEvent>) -> Vec<OpenWait> {
    found(events, Wanted::longest(), None).open
}

#[test]
fn wait_at_the_end_is_named_with_its_call() {
    let found = found(cut_off(), Wanted::longest(), None);
    let ended = found.reactions.iter().map(|one| one.window.victim.tid);
    assert!(ended.clone().all(|tid| tid != VICTIM), "{ended:?}");
    let [wait] = found.open.as_slice() else {
        panic!("{:?}", found.open);
    };
    assert_eq!(wait.thread, victim());
    assert_eq!(wait.least(), Nanos::from_micros(2_000));
    assert_eq!(
        (wait.delay, wait.state()),
        (Delay::Wakeup, ThreadState::Ready)
    );
    assert_eq!(wait.call, Some((FSYNC, Nanos::from_micros(500))));
}

#[test]
fn wait_at_the_end_is_selected_like_others() {
    let wanted = |threshold: u64| Wanted {
        threshold: Some(Nanos::from_micros(threshold)),
        ..Wanted::longest()
    };
    let number = |wanted: Wanted| found(cut_off(), wanted, None).open.len();
    assert_eq!((number(wanted(1_999)), number(wanted(2_000))), (1, 0));
    let of = |pid: u32| Wanted {
        pids: vec![pid],
        ..Wanted::longest()
    };
    assert_eq!((number(of(VICTIM)), number(of(12))), (1, 0));
    let within = |from: u64, to: u64| Wanted {
        between: Some((Nanos::from_micros(from), Nanos::from_micros(to))),
        ..Wanted::longest()
    };
    assert_eq!(
        (number(within(0, 900)), number(within(2_000, 2_500))),
        (0, 1)
    );
    let on_cpu = Wanted {
        cpu: Some(1),
        ..Wanted::longest()
    };
    assert_eq!(number(on_cpu), 0);
}

/// The thread may have run while events are missing.
#[test]
fn wait_across_a_gap_is_not_named() {
    let number = |lost: u64| {
        let found = found(cut_off(), Wanted::longest(), Some(lost));
        found.open.len()
    };
    assert_eq!((number(2_900), number(600)), (0, 1));
}

#[test]
fn call_without_recorded_exits_is_not_named() {
    // No exit at all.
    let mut events = cut_off();
    events.retain(|event| !matches!(event.kind, EventKind::SysExit { .. }));
    assert_eq!(open(events)[0].call, None);
    // The exit of this call is filtered out: the thread has entered another one before.
    let mut events = cut_off();
    events.insert(1, enters(5, VICTIM, FSYNC));
    assert_eq!(open(events)[0].call, None);
    // The events of a gap are missing.
    let found = found(cut_off(), Wanted::longest(), Some(600));
    assert_eq!(found.open[0].call, None);
}

#[test]
fn stopped_thread_does_not_wait_for_a_cpu() {
    let events = vec![
        switch(0, idle(), RUNNABLE, victim()),
        switch(100, victim(), STOPS, make()),
        enters(3_000, 12, 1),
    ];
    let open = open(events);
    assert_eq!(
        (open[0].delay, open[0].state()),
        (Delay::Taken, ThreadState::Stopped)
    );
}

/// Several traces can follow each other in one text.
#[test]
fn each_trace_of_a_file_has_its_end() {
    let mut events = cut_off();
    events.extend(cut_off());
    let open = open(events);
    assert_eq!(open.len(), 2, "{open:?}");
}

#[test]
fn sleep_at_the_end_is_no_late_reaction() {
    let mut events = cut_off();
    events.retain(|event| !matches!(event.kind, EventKind::Waking { .. }));
    assert_eq!(open(events), []);
}
