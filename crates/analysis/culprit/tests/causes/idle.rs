//! The CPU was idle: the local one, or the one to which the victim was moved.

use insta::assert_snapshot;
use punctual_model::{EventKind, Nanos};

use crate::stream::*;

fn asleep(state: u32) -> EventKind {
    EventKind::IdleEntry { state, cpu_id: 1 }
}

const AWAKE: EventKind = EventKind::IdleExit { cpu_id: 1 };

#[test]
fn a_deep_state() {
    let stream = Stream::late(160.0)
        .sleeping_beside(idle())
        .event(-290.0, asleep(3))
        .event(140.0, AWAKE)
        .timer(142.0)
        .switch(150.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn longer_than_any_state_takes() {
    let stream = Stream::late(30_000.0)
        .sleeping_beside(idle())
        .event(-290.0, asleep(1))
        .timer(29_990.0)
        .event(29_994.0, AWAKE)
        .switch(29_996.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn idle_exit_exceeds_deepest_known_state() {
    let stream = Stream::late(160.0)
        .sleeping_beside(idle())
        .change(|window| window.evidence.idle_exit = Some(Nanos::from_micros(2)))
        .event(-290.0, asleep(1))
        .timer(142.0)
        .event(146.0, AWAKE)
        .switch(150.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn the_waker_was_elsewhere() {
    let stream = Stream::late(80.0)
        .sleeping_beside(idle())
        .event(-290.0, asleep(2))
        .on(0, 12)
        .timer_entry(1.0)
        .waking(3.0)
        .timer_exit(5.0)
        .on(1, 0)
        .event(60.0, AWAKE)
        .wakeup(62.0, 1)
        .switch(70.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// A kernel may state the idle state of one CPU in an event of another.
#[test]
fn idle_state_of_another_cpu_is_not_its_own() {
    let stream = |event: Option<EventKind>| {
        let stream = Stream::late(160.0).sleeping_beside(idle());
        let stream = match event {
            Some(event) => stream.event(-290.0, event),
            None => stream,
        };
        let stream = stream
            .timer(142.0)
            .switch(150.0, idle(), RUNNABLE, victim());
        stream.summary()
    };
    let foreign = EventKind::IdleEntry {
        state: 3,
        cpu_id: 2,
    };
    assert_eq!(stream(Some(foreign)), stream(None));
    assert_ne!(stream(Some(asleep(3))), stream(None));
}
