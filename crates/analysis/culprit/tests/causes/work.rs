//! Delays during a fixed piece of work, which runs in user space from its beginning to its end.

use punctual_model::{Delay, ShareKind};

use crate::jobs::share;
use crate::stream::*;

/// The victim was woken on CPU 1, and begins its work.
fn work(long: f64) -> Stream {
    Stream::late(long)
        .change(|window| window.delay = Delay::Work)
        .on(1, 0)
        .waking(-30.0)
        .wakeup(-28.0, 1)
        .switch(-20.0, idle(), RUNNABLE, victim())
}

/// Returns the own work, in µs, and the whole sentence.
fn own_work(stream: &Stream) -> (f64, String) {
    let blame = punctual_culprit::find(&stream.window).blame;
    let own = share(&blame, ShareKind::OwnWork, "");
    (own, blame.sentence())
}

/// In a step, the same events are a gap: a step does nothing that takes this long.
#[test]
fn work_without_events_is_own_work() {
    let (own, sentence) = own_work(&work(400.0));
    assert_eq!(own, 400.0, "{sentence}");
    assert!(sentence.contains("took 400 µs for its work"), "{sentence}");
}

#[test]
fn interrupt_is_not_own_work() {
    let (own, sentence) = own_work(&work(100.0).on(1, VICTIM).irq(10.0, 70.0, 24, "eth0"));
    assert_eq!(own, 40.0, "{sentence}");
    assert!(sentence.contains("interrupt eth0"), "{sentence}");
}

#[test]
fn short_pieces_between_interrupts_are_own_work() {
    let stream = work(60.0)
        .on(1, VICTIM)
        .irq(10.0, 20.0, 24, "eth0")
        .irq(30.0, 40.0, 24, "eth0");
    let (own, sentence) = own_work(&stream);
    assert_eq!(own, 40.0, "{sentence}");
}

#[test]
fn preemption_is_not_own_work() {
    let hog = task("hog", 61, 0);
    let stream =
        work(300.0)
            .switch(50.0, victim(), RUNNABLE, hog)
            .switch(250.0, hog, SLEEPS, victim());
    let (own, sentence) = own_work(&stream);
    assert_eq!(own, 100.0, "{sentence}");
    assert!(sentence.contains("hog"), "{sentence}");
}
