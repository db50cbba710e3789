//! Tests of windows, blames and reservations.

use std::collections::BTreeMap;

use super::*;
use crate::testing::{blame, interrupt};
use crate::{EventKind, EventNames, KernelPriority, Segment, Share, TraceEvent};

fn event(time: u64) -> TraceEvent {
    TraceEvent {
        time: Nanos(time),
        cpu: 1,
        pid: 7,
        flags: 0,
        preempt_count: 0,
        kind: EventKind::IrqExit { irq: 1, ret: 1 },
    }
}

fn segment(from: u64, to: u64) -> Segment {
    Segment {
        from: Nanos(from),
        to: Nanos(to),
        cpu: 1,
        cause: interrupt("eth0"),
        words: None,
    }
}

/// A window from 100 to 200 ns.
fn window() -> Window {
    Window {
        victim: blame(vec![]).victim,
        delay: Delay::Timer,
        expected: Nanos(100),
        actual: Nanos(200),
        events: Vec::new(),
        lost: 0,
        left_out: 0,
        missing_events: vec!["irq:irq_handler_entry".to_owned()],
        light_stage: None,
        clock_error: Nanos(50),
        symbols: BTreeMap::from([(0x10, "tick".to_owned())]),
        calls: BTreeMap::from([(202, "futex".to_owned())]),
        evidence: Evidence::default(),
        host: Vec::new(),
        segments: Vec::new(),
        activity: Vec::new(),
    }
}

#[test]
fn window_loses_the_middle_of_its_lists() {
    let most = Window::KEPT_EVENTS as u64;
    let span = |from| ActivitySpan {
        from: Nanos(from),
        to: Nanos(from + 1),
        cpu: None,
        state: ThreadState::Running,
    };
    for beyond in [0, 1, 1_001] {
        let all = 0..most + beyond;
        let mut long = window();
        long.left_out = 5;
        long.events = all.clone().map(event).collect();
        long.segments = all.clone().map(|at| segment(at, at + 1)).collect();
        let activity = ThreadActivity {
            task: Task::default(),
            spans: all.clone().map(span).collect(),
        };
        long.activity = vec![activity; 2];
        let short = long.shortened();
        let kept: Vec<u64> = (0..most / 2)
            .chain(most / 2 + beyond..most + beyond)
            .collect();
        let times: Vec<u64> = short.events.iter().map(|event| event.time.0).collect();
        assert_eq!(times, kept);
        let from: Vec<u64> = short
            .segments
            .iter()
            .map(|segment| segment.from.0)
            .collect();
        assert_eq!(from, kept);
        for thread in &short.activity {
            let from: Vec<u64> = thread.spans.iter().map(|span| span.from.0).collect();
            assert_eq!(from, kept);
        }
        assert_eq!((short.left_out, short.activity.len()), (5 + beyond, 2));
    }
}

#[test]
fn segments_of_a_damaged_window_do_not_fit() {
    for (segments, fit) in [
        (vec![], true),
        (vec![(100, 200)], true),
        (vec![(100, 150), (150, 200)], true),
        (vec![(110, 120), (130, 199)], true),
        (vec![(99, 120)], false),
        (vec![(100, 201)], false),
        (vec![(100, 150), (149, 200)], false),
        (vec![(150, 200), (100, 150)], false),
        (vec![(150, 150)], false),
        (vec![(150, 140)], false),
    ] {
        let mut window = window();
        window.segments = segments
            .iter()
            .map(|(from, to)| segment(*from, *to))
            .collect();
        assert_eq!(window.segments_fit(), fit, "{segments:?}");
        let lengths = segments
            .iter()
            .map(|(from, to): &(u64, u64)| to.saturating_sub(*from));
        let found = window.segments.iter().map(|segment| segment.length().0);
        assert!(found.eq(lengths));
    }
}

#[test]
fn window_names_what_it_knows() {
    let window = window();
    assert_eq!(window.latency(), Nanos(100));
    assert_eq!(
        (window.call(202), window.call(7)),
        ("futex".to_owned(), "system call 7".to_owned())
    );
    assert_eq!(
        (window.symbol(0x10), window.symbol(0x20)),
        ("tick".to_owned(), "0x20".to_owned())
    );
    assert!(window.has("sched:sched_switch") && !window.has("irq:irq_handler_entry"));
}

#[test]
fn reservation_counts_jobs_above_its_times() {
    let new = || Reservation {
        runtime_ns: Nanos(10),
        deadline_ns: Nanos(20),
        period_ns: Nanos(30),
        ..Reservation::default()
    };
    let mut own = new();
    for (execution, response) in [(10, 20), (11, 20), (9, 21), (12, 22), (1, 30)] {
        own.count(Nanos(execution), Nanos(response));
    }
    assert_eq!((own.jobs, own.over_runtime, own.over_deadline), (5, 2, 3));
    // The counts do not matter.
    assert!(own.has_same_times(&new()));
    for other in [
        Reservation {
            runtime_ns: Nanos(11),
            ..new()
        },
        Reservation {
            deadline_ns: Nanos(21),
            ..new()
        },
        Reservation {
            period_ns: Nanos(31),
            ..new()
        },
    ] {
        assert!(!own.has_same_times(&other) && !other.has_same_times(&own));
    }
}

#[test]
fn list_of_largest_has_a_floor_only_when_full() {
    let mut list = TopSamples::<3>::default();
    for (latency, floor) in [
        (5, None),
        (3, None),
        (9, Some(3)),
        (3, Some(3)),
        (2, Some(3)),
        (4, Some(4)),
        (10, Some(5)),
    ] {
        list.offer(Nanos(latency), Nanos(100 + latency));
        assert_eq!(list.floor(), floor.map(Nanos), "{latency}");
    }
    let sorted = [10, 9, 5].map(|latency| (Nanos(latency), Nanos(100 + latency)));
    assert_eq!(list.sorted(), sorted);
}

#[test]
fn latency_of_a_blame_is_the_sum_of_its_shares() {
    let share = |ns| Share::new(interrupt("eth0"), Nanos(ns), 1);
    assert_eq!(blame(vec![]).latency(), Nanos::ZERO);
    assert_eq!(blame(vec![share(5), share(7)]).latency(), Nanos(12));
    assert_eq!(
        blame(vec![share(u64::MAX), share(7)]).latency(),
        Nanos(u64::MAX)
    );
}

#[test]
fn unseen_theft_names_the_thief_and_why_it_is_unseen() {
    for (unseen, text) in [
        (
            UnseenTheft::Steal,
            "the hypervisor: its steal time is unknown",
        ),
        (
            UnseenTheft::ShortSteal,
            "the hypervisor: steal time is counted in steps of 10 ms, so a shorter time is not visible",
        ),
        (
            UnseenTheft::Smi,
            "the firmware: system management interrupts cannot be counted on this machine",
        ),
    ] {
        assert_eq!(unseen.reason(), text);
    }
}

/// Numbers of `stwReason` in Go's runtime.
#[test]
fn reason_of_a_stop_is_the_low_byte() {
    for (number, reason) in [
        (0, StopReason::Unknown),
        (1, StopReason::Collection),
        (2, StopReason::Collection),
        (3, StopReason::Other),
        (0xff, StopReason::Other),
        (0x1_00, StopReason::Unknown),
        (0xdead_be01, StopReason::Collection),
    ] {
        assert_eq!(StopReason::of_go(number), reason, "{number:#x}");
    }
}

#[test]
fn cause_keeps_its_source_with_a_detail() {
    let cause = interrupt("eth0").with(Detail::Faults);
    assert_eq!(cause.source, interrupt("eth0").source);
    assert_eq!(cause.detail, Some(Detail::Faults));
    assert_eq!(cause.with(None).detail, None);
    let task = Task {
        pid: 7,
        prio: KernelPriority(120),
        ..Task::default()
    };
    let Source::Thread { role, thread } = Cause::thread(Role::Waker, &task).source else {
        panic!("not a thread");
    };
    assert_eq!((role, thread), (Role::Waker, Name::from(&task)));
}
