//! Late wake-ups that are found in a stream of events.

use punctual_culprit::{Late, LateWakeUps, Wait};
use punctual_model::{Delay, Nanos};

use crate::stream::*;

fn late(stream: &Stream) -> Vec<Late> {
    let mut finder = LateWakeUps::new(Nanos::from_micros(100));
    let taken = stream
        .window
        .events
        .iter()
        .map(|event| finder.take(event, &|tid| tid == VICTIM));
    taken
        .filter_map(|wait| match wait {
            Some(Wait::TooLong(late)) => Some(late),
            _ => None,
        })
        .collect()
}

#[test]
fn a_wake_up_begins_its_story() {
    let stream = Stream::late(0.0)
        .waking(-500.0)
        .switch(-200.0, make(), RUNNABLE, victim());
    let found = late(&stream);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].delay, Delay::Wakeup);
    assert_eq!(
        (found[0].expected, found[0].events_from),
        (at(-500.0), at(-500.0))
    );
}

/// A stop signal wakes a sleeping thread, which stops as soon as it has a CPU. The sender of the
/// signal is recorded before the wake-up.
#[test]
fn stopped_threads_story_begins_at_wake_up() {
    let stream = Stream::late(0.0)
        .waking(-4_000.0)
        .switch(-3_950.0, make(), RUNNABLE, victim())
        .switch(-3_940.0, victim(), STOPS, make())
        .waking(-300.0)
        .switch(-200.0, make(), RUNNABLE, victim());
    let found = late(&stream);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].delay, Delay::Taken);
    assert_eq!(
        (found[0].expected, found[0].events_from),
        (at(-3_940.0), at(-4_000.0))
    );
}

/// For a preempted thread, earlier events are not needed.
#[test]
fn preempted_threads_story_begins_at_preemption() {
    let stream = Stream::late(0.0)
        .waking(-4_000.0)
        .switch(-3_950.0, make(), RUNNABLE, victim())
        .switch(-3_000.0, victim(), RUNNABLE, make())
        .switch(-200.0, make(), RUNNABLE, victim());
    let found = late(&stream);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].events_from, at(-3_000.0));
}
