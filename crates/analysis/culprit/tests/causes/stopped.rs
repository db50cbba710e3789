//! A signal stopped the victim.

use insta::assert_snapshot;
use punctual_model::{Comm, EventKind};

use crate::stream::*;

#[test]
fn by_another_process_and_continued_by_it() {
    let kill = task("kill", 90, 120);
    let stream = Stream::late(5_000.0)
        .sleeping_beside(idle())
        .on(0, 90)
        .switch(-250.0, task("swapper/0", 0, 120), RUNNABLE, kill)
        .event(
            -200.0,
            EventKind::SignalGenerate {
                sig: 19,
                pid: VICTIM,
                comm: Comm::new(b"victim"),
            },
        )
        .waking(-198.0)
        .on(1, 0)
        .wakeup(-195.0, 1)
        .switch(-190.0, idle(), RUNNABLE, victim())
        .switch(-180.0, victim(), STOPS, idle())
        .on(0, 90)
        .waking(4_980.0)
        .on(1, 0)
        .wakeup(4_983.0, 1)
        .switch(4_990.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn by_a_debugger() {
    let stream = Stream::late(700.0)
        .switch(-180.0, victim(), 8, idle())
        .on(0, 91)
        .waking(680.0)
        .on(1, 0)
        .wakeup(683.0, 1)
        .switch(690.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}
