//! Facts that a trace file states, and the kept reactions.

use punctual_culprit::{LateFound, LateReactions, Wanted};
use punctual_model::{EventKind, NotShown, TraceEvent, Vector};

use crate::kept::{Stated, finder, finished, first, found, turn};
use crate::stream::{VICTIM, victim};
use crate::testing::event;

/// A reaction of 500 µs with these events of `make` in it.
fn with_events(kinds: &[EventKind], stated: &Stated) -> LateFound {
    let mut events = turn(10_000, first(), 500);
    let own = (kinds.iter().zip(1..)).map(|(kind, at)| event(10_000 + at, 12, kind.clone()));
    events.splice(1..1, own.collect::<Vec<TraceEvent>>());
    finished(finder(Wanted::longest(), &events), stated)
}

#[test]
fn addresses_and_calls_in_a_window_get_their_names() {
    let stated = Stated {
        symbols: vec![(0, "absolute"), (0x100, "first"), (0x200, "second")],
        ..Stated::default()
    };
    let timer = |function| EventKind::HrtimerExpireEntry {
        hrtimer: 7,
        function,
        now_ns: 0,
    };
    let kinds = [
        timer(0x100),
        timer(0x1ff),
        timer(0x200),
        timer(0x99),
        timer(0),
        EventKind::KernelStack {
            frames: vec![0x250],
        },
        EventKind::SysEnter {
            id: 1,
            args: [0; 2],
        },
        EventKind::SysExit { id: 2, ret: 0 },
    ];
    let found = with_events(&kinds, &stated);
    let window = &found.reactions[0].window;
    let named: Vec<(u64, &str)> = (window.symbols.iter())
        .map(|(at, name)| (*at, name.as_str()))
        .collect();
    assert_eq!(
        named,
        [
            (0x99, "absolute"),
            (0x100, "first"),
            (0x1ff, "first"),
            (0x200, "second"),
            (0x250, "second")
        ]
    );
    assert_eq!(window.calls, [(1, "write".to_owned())].into());
}

/// A beginning without its end would last forever.
#[test]
fn beginnings_without_recorded_ends_are_left_out() {
    let name = "eth0".into();
    let kinds = [
        EventKind::IrqEntry { irq: 24, name },
        EventKind::IrqExit { irq: 24, ret: 1 },
        EventKind::SoftirqEntry { vec: 3 },
        EventKind::SoftirqExit { vec: 3 },
        EventKind::VectorEntry {
            vector: Vector::LocalTimer,
        },
        EventKind::VectorExit {
            vector: Vector::LocalTimer,
        },
        EventKind::SysEnter {
            id: 1,
            args: [0; 2],
        },
        EventKind::SysExit { id: 1, ret: 0 },
        EventKind::WorkqueueStart {
            work: 1,
            function: 2,
        },
        EventKind::IrqDisable {
            caller: 1,
            parent: 0,
        },
        EventKind::PreemptDisable {
            caller: 1,
            parent: 0,
        },
        EventKind::HrtimerExpireEntry {
            hrtimer: 1,
            function: 2,
            now_ns: 0,
        },
    ];
    let left = |missing: &[&'static str]| {
        let stated = Stated {
            missing: missing.to_vec(),
            ..Stated::default()
        };
        let found = with_events(&kinds, &stated);
        let window = &found.reactions[0].window;
        kinds.len() + 3 - window.events.len()
    };
    assert_eq!(left(&[]), 0);
    for (missing, count) in [
        ("irq:irq_handler_exit", 2),
        ("irq:irq_handler_entry", 2),
        ("irq:softirq_exit", 2),
        ("irq_vectors:*_exit", 2),
        ("raw_syscalls:sys_exit", 1),
        ("workqueue:workqueue_execute_end", 1),
        ("preemptirq:irq_enable", 1),
        ("preemptirq:preempt_enable", 1),
        ("timer:hrtimer_expire_exit", 1),
        ("sched:sched_wakeup", 0),
    ] {
        assert_eq!(left(&[missing]), count, "{missing}");
    }
    // A vector whose end never comes has none.
    let begins = [EventKind::VectorEntry {
        vector: Vector::Other("odd".into()),
    }];
    let found = with_events(&begins, &Stated::default());
    assert_eq!(found.reactions[0].window.events.len(), 3);
}

#[test]
fn trace_without_flags_or_vectors_says_so() {
    let lacks = |flags: u8, missing: &[&'static str], without_vectors: bool| {
        let mut events = turn(10_000, first(), 50);
        events[0].flags = flags;
        let stated = Stated {
            missing: missing.to_vec(),
            without_vectors,
            ..Stated::default()
        };
        let found = finished(finder(Wanted::longest(), &events), &stated);
        let shown = &found.reactions[0].window.evidence.not_shown;
        assert_eq!(*shown, found.not_shown);
        found.not_shown
    };
    let vectors = ["irq_vectors:*_entry"];
    assert_eq!(lacks(1, &[], false), []);
    assert_eq!(lacks(0, &[], false), [NotShown::Flags]);
    assert_eq!(lacks(1, &vectors, false), [NotShown::Vectors]);
    // Without the end, the beginning is worth nothing.
    assert_eq!(
        lacks(1, &["irq_vectors:*_exit"], false),
        [NotShown::Vectors]
    );
    assert_eq!(lacks(1, &vectors, true), []);
    assert_eq!(
        lacks(0, &vectors, false),
        [NotShown::Flags, NotShown::Vectors]
    );
}

/// Without the switches, an event of another thread contradicts nothing.
#[test]
fn contradictions_need_recorded_switches() {
    let of = |missing: &[&'static str]| {
        let mut finder = LateReactions::new(Wanted::longest());
        finder.event(event(9_990, 33, EventKind::SoftirqRaise { vec: 9 }));
        for event in turn(10_000, first(), 50) {
            finder.event(event);
        }
        let stated = Stated {
            missing: missing.to_vec(),
            ..Stated::default()
        };
        let found = finished(finder, &stated);
        let gaps = found.reactions[0].window.evidence.gaps.len();
        (found.contradictions, gaps)
    };
    assert_eq!(of(&[]), (1, 1));
    assert_eq!(of(&["sched:sched_switch"]), (0, 0));
    // The victim's own priority is that of its switch.
    let found = found(Wanted::longest(), &[(victim(), 50)]);
    let window = &found.reactions[0].window;
    assert_eq!(window.victim.tid, VICTIM);
    assert_eq!(window.victim.scheduling.unwrap().priority, 95);
}
