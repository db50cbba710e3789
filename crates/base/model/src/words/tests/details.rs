//! Tests of how the time was spent.

use super::{low, name, task};
use crate::cause::{
    Activity, Cause, Counted, Detail, Device, Hold, LongFunction, Ran, Rank, Rival, Source, Stay,
    StolenWithin,
};
use crate::testing::interrupt;
use crate::{KernelPriority, Nanos};

#[test]
fn details_say_how_the_time_was_spent() {
    let text = |text: &str| Some(text.to_owned());
    let rank = |prio, activity, before| {
        Detail::Rank(Rank {
            prio: KernelPriority(prio),
            activity,
            before,
        })
    };
    let waits = |call: Option<&str>, at: Option<&str>| Detail::WaitsIn {
        call: call.map(Into::into),
        argument: 16,
        at: at.map(Into::into),
    };
    let rival = |prio, activity| {
        Detail::Meanwhile(Some(Rival {
            task: task(9, "r", prio),
            activity,
        }))
    };
    let unknown = i16::MAX;
    let steal = |stolen| Counted {
        steal: Some(StolenWithin {
            stolen_ns: Nanos(stolen),
            within_ns: Nanos(20_000_000),
        }),
        smis: None,
    };
    let counted = |counted, detail: Option<Detail>| Detail::Counted {
        counted,
        detail: detail.map(Box::new),
    };
    for (detail, words) in [
        (Detail::Function("f".into()), "f"),
        (Detail::Nested("f < g".into()), "f < g"),
        (
            Detail::SentBy {
                sender: Some(low()),
                cpu: 2,
                function: "f".into(),
            },
            "sent by low-12 on CPU 2 in f",
        ),
        (
            Detail::SentBy {
                sender: None,
                cpu: 2,
                function: "f".into(),
            },
            "sent by an interrupt on CPU 2 in f",
        ),
        (
            Detail::On(Some(task(0, "swapper/1", 120))),
            "on the idle CPU",
        ),
        (
            Detail::On(Some(task(16, "ksoftirqd/1", 120))),
            "in ksoftirqd/1-16, nice 0",
        ),
        (Detail::On(Some(task(16, "k", unknown))), "in k-16"),
        (Detail::On(None), "in an unknown thread"),
        (rank(125, None, None), "nice 5"),
        (
            rank(120, Some(Activity::Syscall("write".into())), None),
            "nice 0, in write",
        ),
        (
            rank(19, None, Some(task(7, "io", 49))),
            "real-time 80; above io-7, real-time 50, which it waited for",
        ),
        (
            rank(49, None, Some(task(7, "io", 49))),
            "real-time 50; as io-7, real-time 50, which it waited for",
        ),
        (
            rank(120, None, Some(task(7, "io", 130))),
            "nice 0; as io-7, nice 10, which it waited for",
        ),
        (
            rank(120, None, Some(task(7, "io", 49))),
            "nice 0; below io-7, real-time 50, which it waited for",
        ),
        (
            Detail::Doing(Activity::PageFault { user: true }),
            "in a page fault",
        ),
        (
            Detail::Doing(Activity::PageFault { user: false }),
            "in a kernel page fault",
        ),
        (Detail::Doing(Activity::Work("w".into())), "in work w"),
        (
            Detail::Doing(Activity::PreemptionOff("p".into())),
            "preemption disabled at p",
        ),
        (
            Detail::Doing(Activity::SpinsFor("l".into())),
            "spinning for the kernel lock l",
        ),
        (Detail::Doing(Activity::Asleep), "which slept itself"),
        (
            Detail::Doing(Activity::Faulted),
            "its last event was a page fault",
        ),
        (
            Detail::Doing(Activity::AwaitsLockOf(low())),
            "which waited for a lock held by low-12",
        ),
        (
            Detail::Doing(Activity::DelaysSoftirq),
            "the timer's softirq waits",
        ),
        (
            Detail::Doing(Activity::UserSpace),
            "in user space, without any event",
        ),
        (Detail::MovedBy(low()), "by low-12"),
        (Detail::Meanwhile(None), "the CPU was idle meanwhile"),
        (rival(unknown, None), "r-9 ran meanwhile"),
        (rival(19, None), "r-9 (real-time 80) ran meanwhile"),
        (
            rival(19, Some(Activity::Asleep)),
            "r-9 (real-time 80, which slept itself) ran meanwhile",
        ),
        (
            rival(unknown, Some(Activity::Asleep)),
            "r-9 (which slept itself) ran meanwhile",
        ),
        (
            Detail::HeldBy {
                possible: vec![Hold::Quota, Hold::RealTimeThrottling, Hold::FairServer],
                decided_by: Some("a:b".into()),
                sched_ext: Some("rusty".into()),
            },
            "possible: the CPU quota of a control group, real-time throttling, the deadline server for \
             ordinary threads (the event a:b would decide); sched_ext scheduler: rusty",
        ),
        (
            Detail::HeldBy {
                possible: vec![Hold::Scheduler],
                decided_by: None,
                sched_ext: None,
            },
            "no known limit explains this",
        ),
        (
            Detail::HeldBy {
                possible: vec![Hold::PendingWakeup, Hold::Theft, Hold::Scheduler],
                decided_by: None,
                sched_ext: None,
            },
            "possible: a pending wake-up from another CPU, hypervisor or SMI, an error of the scheduler",
        ),
        (Detail::Ran(task(9, "r", 120)), "r-9, nice 0 ran"),
        (
            Detail::Together,
            "idle exit, switch and return to user space together",
        ),
        (Detail::WaitingForPage, "waiting for a page"),
        (
            Detail::Slack {
                slack_ns: Nanos(50_000),
                known: true,
            },
            "of 50.0 µs",
        ),
        (
            Detail::Slack {
                slack_ns: Nanos(50_000),
                known: false,
            },
            "of 50.0 µs (the default for ordinary threads)",
        ),
        (Detail::IdleState(2), "state 2"),
        (Detail::At("f".into()), "at f"),
        (
            Detail::Stays(vec![
                Stay {
                    ns: Some(Nanos(9_000)),
                    at: "f".into(),
                    until: Some("g".into()),
                },
                Stay {
                    ns: None,
                    at: "h".into(),
                    until: None,
                },
            ]),
            "9.00 µs in f until g, in h",
        ),
        (
            Detail::InSwitch {
                from: low(),
                until: "f".into(),
            },
            "inside the switch from low-12, until f",
        ),
        (Detail::AfterWakeup("f".into()), "after a wake-up in f"),
        (Detail::While(Ran::Idle), "while the CPU was idle"),
        (Detail::While(Ran::Thread(low())), "while low-12 ran"),
        (
            Detail::UserOrKernel,
            "user space or kernel: system calls are not recorded",
        ),
        (Detail::Faults, "with page faults"),
        (waits(None, None), "in an unknown system call"),
        (waits(Some("futex"), None), "futex 0x10"),
        (
            waits(Some("read"), Some("main")),
            "in read, descriptor 16, at main",
        ),
        (waits(Some("pause"), None), "in pause"),
        (
            Detail::PageFrom(Device::Disk(8 << 20)),
            "waiting for a page from disk 8:0",
        ),
        (
            Detail::Through(vec![low(), name(7, "io")]),
            "through low-12, io-7",
        ),
        (
            Detail::PossiblyWaitsFor {
                thread: low(),
                cpu: 2,
            },
            "possibly waits for low-12, preempted on CPU 2",
        ),
        (
            Detail::Instead(Box::new(Source::Softirq(3))),
            "instead of softirq NET_RX",
        ),
        (counted(steal(0), None), "steal time did not rise"),
        (
            counted(steal(10_000_000), None),
            "steal time rose by 10.0 ms within 20.0 ms",
        ),
        (
            counted(Counted::default(), Some(Detail::Faults)),
            "with page faults",
        ),
        (
            counted(steal(0), Some(Detail::Faults)),
            "steal time did not rise; with page faults",
        ),
    ] {
        assert_eq!(Cause::new(Source::Nmi).with(detail).detail(), text(words));
    }
    assert_eq!(Cause::new(Source::Nmi).detail(), None);
    let mut long = interrupt("eth0");
    long.function = Some(LongFunction {
        function: "f".into(),
        ns: Nanos(7_000),
    });
    assert_eq!(
        long.label(),
        "interrupt: eth0 (24), function f took 7.00 µs of it"
    );
    let long = long.with(Detail::At("g".into()));
    assert_eq!(
        long.label(),
        "interrupt: eth0 (24), at g, function f took 7.00 µs of it"
    );
    assert_eq!(
        long.words().detail,
        text("at g, function f took 7.00 µs of it")
    );
    let empty = Cause::new(Source::Nmi).with(counted(Counted::default(), None));
    assert_eq!(empty.label(), "NMI: non-maskable interrupt");
}
