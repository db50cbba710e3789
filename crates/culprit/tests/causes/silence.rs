//! Time passes and nothing happens.

use insta::assert_snapshot;
use punctual_model::{EventKind, Nanos};

use crate::stream::*;

fn stalled() -> Stream {
    Stream::late(830.0)
        .sleeping_beside(make())
        .timer(815.0)
        .switch(822.0, make(), RUNNABLE, victim())
}

#[test]
fn while_a_thread_ran() {
    assert_snapshot!(stalled().summary());
}

#[test]
fn strengthened_by_steal() {
    let stream = stalled().change(|window| {
        window.evidence.span = Nanos::from_millis(100);
        window.evidence.steal = Some(Nanos::from_millis(10));
    });
    assert_snapshot!(stream.summary());
}

#[test]
fn strengthened_by_system_management_interrupts() {
    let stream = stalled().change(|window| window.evidence.smis = Some(2));
    assert_snapshot!(stream.summary());
}

#[test]
fn in_user_space_interrupts_cannot_be_off() {
    let stream = Stream::late(830.0)
        .sleeping_beside(make())
        .event(-50.0, EventKind::SysExit { id: 1, ret: 0 })
        .timer(815.0)
        .switch(822.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn while_the_thread_was_on_its_way() {
    let stream = Stream::late(500.0)
        .sleeping_beside(make())
        .timer(2.0)
        .switch(8.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}
