//! A switch that had not ended: the thread before still wrote an event.

use punctual_culprit::find;
use punctual_model::cause::{Detail, Name, Source};
use punctual_model::{EventKind, ShareKind, Task};

use crate::stream::*;

/// The victim is switched in at 10 µs. At 18 µs, this thread writes this event on this CPU.
fn switched(cpu: u32, writer: Task, name: &str) -> (ShareKind, Option<Detail>) {
    let kind = EventKind::Requested {
        name: name.into(),
        fields: String::new(),
    };
    let stream = Stream::late(30.0)
        .sleeping_beside(make())
        .timer(2.0)
        .switch(10.0, make(), RUNNABLE, victim())
        .on(cpu, writer.pid)
        .event(18.0, kind);
    let found = find(&stream.window);
    let mut segments = found.segments.iter();
    let segment = segments.find(|one| (one.from..one.to).contains(&at(12.0)));
    let cause = segment.unwrap().cause.clone();
    if cause.source == Source::Scheduling {
        let mut segments = found.segments.iter();
        let after = segments.find(|one| (one.from..one.to).contains(&at(20.0)));
        assert_eq!(after.unwrap().cause.kind(), ShareKind::ReturnToUser);
    }
    (cause.kind(), cause.detail)
}

#[test]
fn event_of_the_thread_before_is_written_inside_the_switch() {
    let (kind, detail) = switched(1, make(), "tlb_flush");
    assert_eq!(kind, ShareKind::Scheduling);
    let expected = Detail::InSwitch {
        from: Name::from(&make()),
        until: "tlb_flush".into(),
    };
    assert_eq!(detail, Some(expected));
}

#[test]
fn other_events_do_not_prolong_the_switch() {
    for (cpu, writer, name) in [
        (1, victim(), "tlb_flush"),
        (2, make(), "tlb_flush"),
        (1, make(), "sys_enter"),
    ] {
        let (kind, detail) = switched(cpu, writer, name);
        assert_eq!(
            (kind, detail),
            (ShareKind::ReturnToUser, None),
            "{cpu} {name}"
        );
    }
}
