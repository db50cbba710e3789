//! The victim was moved to another CPU.

use insta::assert_snapshot;
use punctual_model::{EventKind, Task};

use crate::stream::*;

fn mover() -> Task {
    task("migration/1", 18, 0)
}

fn move_to_0(stream: Stream, us: f64) -> Stream {
    stream.event(
        us,
        EventKind::Migrate {
            task: victim(),
            orig_cpu: 1,
            dest_cpu: 0,
        },
    )
}

#[test]
fn while_it_ran() {
    let stream = Stream::late(140.0)
        .sleeping_beside(idle())
        .timer(1.0)
        .switch(6.0, idle(), RUNNABLE, victim())
        .switch(10.0, victim(), RUNNABLE, mover());
    let stream = move_to_0(stream, 100.0)
        .switch(104.0, mover(), SLEEPS, idle())
        .on(0, 0)
        .switch(130.0, task("swapper/0", 0, 120), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn moved_thread_waits_behind_another() {
    let hog = task("hog", 61, 0);
    let stream = Stream::late(900.0)
        .sleeping_beside(idle())
        .on(0, 0)
        .switch(-10.0, task("swapper/0", 0, 120), RUNNABLE, hog)
        .on(1, 0)
        .timer(1.0)
        .switch(6.0, idle(), RUNNABLE, victim())
        .switch(10.0, victim(), RUNNABLE, mover());
    let stream = move_to_0(stream, 30.0)
        .switch(34.0, mover(), SLEEPS, idle())
        .on(0, 61)
        .switch(890.0, hog, SLEEPS, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn while_it_was_being_woken() {
    let stream = Stream::late(60.0)
        .sleeping_beside(make())
        .timer_entry(2.0)
        .waking(3.0);
    let stream = move_to_0(stream, 3.2)
        .wakeup(3.8, 0)
        .timer_exit(5.0)
        .on(0, 0)
        .event(45.0, EventKind::IdleExit { cpu_id: 0 })
        .switch(50.0, task("swapper/0", 0, 120), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}
