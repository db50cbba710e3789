//! Late wake-ups of any thread, and involuntary switches.

use insta::assert_snapshot;
use punctual_model::Delay;

use crate::stream::*;

#[test]
fn a_wake_up_begins_with_its_waking() {
    let hog = task("hog", 61, 0);
    let stream = Stream::late(250.0)
        .change(|window| window.delay = Delay::Wakeup)
        .switch(-80.0, victim(), SLEEPS, hog)
        .on(0, 33)
        .waking_of(0.0, victim(), 1)
        .on(1, 61)
        .wakeup(2.0, 1)
        .switch(250.0, hog, SLEEPS, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn a_turn_taken_by_a_higher_thread() {
    let hog = task("hog", 61, 0);
    let stream = Stream::late(250.0)
        .change(|window| window.delay = Delay::Taken)
        .switch(0.0, victim(), RUNNABLE, hog)
        .switch(250.0, hog, SLEEPS, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn a_turn_taken_by_a_signal() {
    let stream = Stream::late(900.0)
        .change(|window| window.delay = Delay::Taken)
        .switch(0.0, victim(), STOPS, make())
        .on(0, 33)
        .waking_of(880.0, victim(), 1)
        .on(1, 12)
        .wakeup(884.0, 1)
        .switch(900.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}
