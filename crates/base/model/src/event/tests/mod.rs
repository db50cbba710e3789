//! Tests of the names and descriptions of events.

mod contents;
mod stacks;
mod tasks;

use std::collections::BTreeMap;

use super::*;

/// Names of the addresses and system calls that these tests use.
struct Names(BTreeMap<u64, &'static str>);

impl EventNames for Names {
    fn call(&self, id: i64) -> String {
        match id {
            202 => "futex".to_owned(),
            id => format!("system call {id}"),
        }
    }

    fn symbol(&self, address: u64) -> String {
        let known = self.0.get(&address).map(|name| (*name).to_owned());
        known.unwrap_or_else(|| format!("{address:#x}"))
    }
}

/// Names the addresses 1, 2, …
fn names(of: &[&'static str]) -> Names {
    Names((1..).zip(of.iter().copied()).collect())
}

fn task(pid: u32, name: &str, prio: i16) -> Task {
    Task {
        pid,
        comm: Comm::new(name.as_bytes()),
        prio: KernelPriority(prio),
    }
}

fn event(cpu: u32, pid: u32, kind: EventKind) -> TraceEvent {
    TraceEvent {
        time: Nanos(1),
        cpu,
        pid,
        flags: 0,
        preempt_count: 0,
        kind,
    }
}

fn switch(prev: u32, next: u32) -> EventKind {
    EventKind::Switch {
        prev: task(prev, "p", 120),
        prev_state: TaskState(0),
        next: task(next, "n", 120),
    }
}

#[test]
fn only_requested_events_and_positions_explain_nothing() {
    let requested = EventKind::Requested {
        name: "a:b".into(),
        fields: String::new(),
    };
    for (kind, is_requested, is_accounting) in [
        (requested, true, true),
        (
            EventKind::TimerLate {
                late: Nanos(5),
                function: 1,
                frames: vec![],
            },
            false,
            true,
        ),
        (EventKind::TimerlatStack { frames: vec![] }, false, true),
        (
            EventKind::SwitchedOut {
                task: task(7, "a", 19),
                waited: Nanos(1),
                frames: vec![],
            },
            false,
            true,
        ),
        (EventKind::KernelStack { frames: vec![] }, false, false),
        (switch(1, 2), false, false),
    ] {
        let event = event(0, 1, kind);
        let found = (event.is_requested(), event.is_accounting());
        assert_eq!(found, (is_requested, is_accounting), "{event:?}");
    }
}

#[test]
fn each_flag_of_an_event_is_one_bit() {
    let flags = [
        TraceEvent::IRQS_OFF,
        TraceEvent::NEED_RESCHED_LAZY,
        TraceEvent::NEED_RESCHED,
        TraceEvent::HARDIRQ,
        TraceEvent::SOFTIRQ,
        TraceEvent::PREEMPT_RESCHED,
        TraceEvent::NMI,
        TraceEvent::BH_OFF,
    ];
    for flag in flags {
        let mut event = event(0, 1, switch(1, 2));
        assert!(!event.has(flag));
        event.flags = flag;
        assert!(
            flags
                .iter()
                .all(|other| event.has(*other) == (*other == flag))
        );
        event.flags = !flag;
        assert!(!event.has(flag));
    }
}

#[test]
fn events_are_described_with_their_targets_and_names() {
    let names = names(&["smp_call", "tick"]);
    let ipi = |cpus: &[u32]| EventKind::IpiSend {
        cpus: cpus.to_vec(),
        callsite: 1,
        callback: 0,
    };
    let tick = |dependency| EventKind::TickStop {
        success: dependency == 0,
        dependency,
    };
    let timer = |expires_ns, softexpires_ns| EventKind::HrtimerStart {
        hrtimer: 9,
        function: 2,
        expires_ns,
        softexpires_ns,
    };
    let requested = |fields: &str| EventKind::Requested {
        name: "a:b".into(),
        fields: fields.to_owned(),
    };
    for (kind, text) in [
        (ipi(&[]), "IPI to other CPUs from smp_call"),
        (ipi(&[3]), "IPI to CPU 3 from smp_call"),
        (ipi(&[1, 3]), "IPI to CPUs 1, 3 from smp_call"),
        (tick(0), "stops the tick"),
        (
            tick(1),
            "the tick goes on: POSIX_TIMER (a CPU-time timer is armed)",
        ),
        (timer(60_000, 10_000), "timer tick armed, slack 50.0 µs"),
        (timer(10_000, 60_000), "timer tick armed, slack 0 ns"),
        (
            EventKind::SleepsIn {
                id: -1,
                args: [0; 2],
            },
            "sleeps outside of system calls",
        ),
        (
            EventKind::SleepsIn {
                id: 202,
                args: [0; 2],
            },
            "sleeps in futex",
        ),
        (
            EventKind::SysExit { id: 7, ret: -4 },
            "system call 7 returns -4",
        ),
        (EventKind::SoftirqEntry { vec: 3 }, "softirq NET_RX begins"),
        (EventKind::SoftirqExit { vec: 10 }, "softirq vector 10 ends"),
        (
            EventKind::BlockIssue {
                dev: 254 << 20 | 1,
                sector: 9,
            },
            "request to disk 254:1",
        ),
        (requested(""), "a:b"),
        (requested("x=1"), "a:b x=1"),
    ] {
        assert_eq!(kind.describe(&names), text);
    }
}

#[test]
fn vectors_keep_their_names() {
    for (vector, name) in Vector::NAMED {
        assert_eq!((Vector::named(name), vector.name()), (vector.clone(), name));
    }
    let other = Vector::named("mystery");
    assert_eq!(
        (other.name(), &other),
        ("mystery", &Vector::Other("mystery".into()))
    );
}
