//! Tests of what is said about causes. Each table has a line for each form of words.

use crate::cause::{
    Activity, Awaited, Cause, Counted, Detail, Device, Hold, Leaf, Limit, LongFunction, Missing,
    Name, Ran, Rank, Rival, Role, Signal, Source, Stay, StolenWithin, Thief, Unknown, Wait,
};
use crate::testing::interrupt;
use crate::{Comm, GapReason, KernelPriority, Nanos, ShareKind, Task, Vector};

pub(super) fn task(pid: u32, name: &str, prio: i16) -> Task {
    Task {
        pid,
        comm: Comm::new(name.as_bytes()),
        prio: KernelPriority(prio),
    }
}

fn name(pid: u32, comm: &str) -> Name {
    Name::from(&task(pid, comm, 120))
}

pub(super) fn low() -> Name {
    name(12, "low")
}

fn awaited(wait: Wait, leaf: Leaf) -> Awaited {
    Awaited {
        wait,
        chain: vec![low(), name(13, "mid")],
        leaf,
    }
}

#[test]
fn sources_are_named() {
    for (source, label) in [
        (Source::TimerLate, "timer late: the timer's interrupt"),
        (Source::TimerSlack, "timer slack: its own timer"),
        (Source::IdleExit(3), "idle exit: CPU 3"),
        (Source::IrqsOff(low()), "interrupts off: low-12"),
        (Source::PreemptOff(name(7, "")), "preemption off: thread 7"),
        (Source::Gap, "untraced gap: no event"),
        (Source::Vector(Vector::LocalTimer), "interrupt: local_timer"),
        (
            Source::Irq {
                irq: 24,
                name: "".into(),
            },
            "interrupt: interrupt 24",
        ),
        (
            Source::Irq {
                irq: 24,
                name: "eth0".into(),
            },
            "interrupt: eth0 (24)",
        ),
        (Source::Softirq(1), "softirq: TIMER"),
        (Source::Nmi, "NMI: non-maskable interrupt"),
        (Source::AwaitedInterrupt, "waiting: an interrupt"),
        (
            Source::Stopped(Some(Signal {
                signal: 19,
                sender: low(),
            })),
            "stopped: signal 19 from low-12",
        ),
        (Source::Stopped(None), "stopped: a signal or a debugger"),
        (
            Source::Migration {
                from: 1,
                to: Some(2),
            },
            "migration: from CPU 1 to CPU 2",
        ),
        (
            Source::Migration { from: 1, to: None },
            "migration: from CPU 1",
        ),
        (
            Source::Throttled(Limit::RealTime),
            "throttled: real-time throttling",
        ),
        (Source::NotRun(4), "not run: runnable while CPU 4 was idle"),
        (Source::PageFault, "page fault: page faults of its own"),
        (Source::OwnWork, "own work: the thread itself"),
        (Source::UserSpace, "own work: user space"),
        (
            Source::FaultOrUserSpace,
            "own work: page faults or user space",
        ),
        (Source::SystemCall("write".into()), "system call: write"),
        (Source::OwnSleep, "own sleep: its own timer"),
        (Source::TimerSignal(14), "own sleep: the timer of signal 14"),
        (
            Source::Device(Device::Disk(8 << 20 | 1)),
            "device: disk 8:1",
        ),
        (Source::Scheduling, "scheduling: the scheduler"),
        (Source::ReturnToUser, "return to user: switch to user space"),
        (Source::Stolen, "stolen: the hypervisor"),
        (
            Source::Undecided {
                source: Box::new(Source::Nmi),
                thief: Thief::Smi,
            },
            "undecided: a non-maskable interrupt, or an SMI",
        ),
        (
            Source::Unexplained(Unknown::NoWaker),
            "unexplained: its wake-up was not recorded",
        ),
        (Source::Others(ShareKind::Softirq), "softirq: others"),
        (
            Source::Awaited(awaited(Wait::Lock, Leaf::Ran)),
            "lock holder: low-12, which waited for mid-13",
        ),
    ] {
        assert_eq!(source.label(), label);
        assert_eq!(source.words().kind, source.kind());
    }
}

#[test]
fn kind_of_a_thread_is_its_role() {
    for (role, kind) in [
        (Role::Blocking, ShareKind::Blocking),
        (Role::HigherPriority, ShareKind::HigherPriority),
        (Role::Competing, ShareKind::Competing),
        (Role::Unranked, ShareKind::Unranked),
        (Role::LockHolder, ShareKind::LockHolder),
        (Role::Waker, ShareKind::Waiting),
    ] {
        assert_eq!(Cause::thread(role, &task(7, "a", 120)).kind(), kind);
    }
    for (wait, kind) in [
        (Wait::Lock, ShareKind::LockHolder),
        (Wait::Page, ShareKind::PageFault),
        (Wait::Thread, ShareKind::Waiting),
        (Wait::Signal(1), ShareKind::Waiting),
    ] {
        assert_eq!(Source::Awaited(awaited(wait, Leaf::Ran)).kind(), kind);
    }
}

/// The thread of the host that is the virtual CPU is called so.
#[test]
fn host_is_named_by_what_it_ran_instead() {
    let outside = "the vCPU's thread outside guest mode";
    let asleep = "the vCPU's thread asleep until a timer expired";
    for (source, text) in [
        (Source::OwnWork, outside),
        (Source::UserSpace, outside),
        (Source::FaultOrUserSpace, outside),
        (Source::ReturnToUser, outside),
        (
            Source::SystemCall("ioctl".into()),
            "the vCPU's thread outside guest mode, in ioctl",
        ),
        (Source::PageFault, "page faults of the vCPU's thread"),
        (Source::OwnSleep, asleep),
        (Source::AwaitedInterrupt, asleep),
        (
            Source::Device(Device::Interrupt),
            "the vCPU's thread waiting for an interrupt",
        ),
        (
            Source::TimerSignal(14),
            "the vCPU's thread waiting for the timer of signal 14",
        ),
        (
            Source::Awaited(awaited(Wait::Lock, Leaf::Ran)),
            "the vCPU's thread waiting for low-12, which waited for mid-13",
        ),
        (
            Source::Stopped(None),
            "the vCPU's thread stopped by a signal or a debugger",
        ),
        (
            Source::Throttled(Limit::RealTime),
            "the vCPU's thread throttled, real-time throttling",
        ),
        (
            Source::NotRun(4),
            "the vCPU's thread runnable while CPU 4 was idle",
        ),
        (
            Source::Migration {
                from: 1,
                to: Some(2),
            },
            "the vCPU's thread moved from CPU 1 to CPU 2",
        ),
        (Source::Gap, "unknown, no event"),
        (
            Source::Unexplained(Unknown::NoWaker),
            "unknown, its wake-up was not recorded",
        ),
        (Source::Scheduling, "the scheduler"),
        (Source::IdleExit(3), "CPU 3 waking from idle"),
        (Source::IrqsOff(low()), "low-12 with interrupts disabled"),
        (Source::PreemptOff(low()), "low-12 with preemption disabled"),
        (
            Source::Irq {
                irq: 24,
                name: "eth0".into(),
            },
            "interrupt eth0 (24)",
        ),
        (Source::Vector(Vector::Reschedule), "interrupt reschedule"),
        (Source::Softirq(3), "softirq NET_RX"),
        (Source::Nmi, "a non-maskable interrupt"),
        (Source::Stolen, "the hypervisor"),
        (
            Cause::thread(Role::Competing, &task(7, "qemu", 120)).source,
            "qemu-7 running",
        ),
    ] {
        let host = Source::Host(Box::new(source));
        assert_eq!(host.who(), format!("the host: {text}"));
        assert_eq!(host.kind(), ShareKind::Stolen);
    }
}

#[test]
fn undecided_source_is_the_subject_of_its_sentence() {
    for (source, text) in [
        (Source::SystemCall("read".into()), "system call read"),
        (Source::ReturnToUser, "the return to user space"),
        (
            Source::Awaited(awaited(Wait::Lock, Leaf::Ran)),
            "low-12, which waited for mid-13 running",
        ),
        (Source::OwnWork, "the thread itself"),
    ] {
        for (thief, who) in [
            (Thief::Hypervisor, "the hypervisor"),
            (Thief::Smi, "an SMI"),
            (Thief::Either, "the hypervisor, or an SMI"),
        ] {
            let source = Box::new(source.clone());
            let undecided = Source::Undecided { source, thief };
            assert_eq!(undecided.who(), format!("{text}, or {who}"));
        }
    }
}

#[test]
fn awaited_threads_are_named_with_what_the_last_one_did() {
    let by = |prio| Leaf::Preempted {
        by: name(14, "hog"),
        prio: KernelPriority(prio),
    };
    let chain = "low-12, which waited for mid-13";
    for (wait, leaf, text) in [
        (Wait::Thread, Leaf::Ran, chain.to_owned()),
        (
            Wait::Page,
            by(i16::MAX),
            format!("{chain}, preempted by hog-14"),
        ),
        (
            Wait::Lock,
            by(19),
            format!("{chain}, preempted by hog-14 (real-time 80)"),
        ),
        (
            Wait::Signal(10),
            Leaf::Slept,
            format!("signal 10 of {chain}, which slept until its own timer expired"),
        ),
        (
            Wait::VmOperation,
            Leaf::Asleep,
            format!("a JVM operation of {chain}, which slept"),
        ),
        (
            Wait::Collection,
            Leaf::Device(Device::Softirq(4)),
            format!("a garbage collection of {chain}, which waited for softirq BLOCK"),
        ),
        (
            Wait::GoroutineStop,
            Leaf::NotScheduled,
            format!("a stop of all goroutines by {chain}, runnable on an idle CPU"),
        ),
        (
            Wait::Thread,
            Leaf::Stopped,
            format!("{chain}, which was stopped"),
        ),
        (
            Wait::Thread,
            Leaf::Unknown,
            format!("{chain}, whose activity is unknown"),
        ),
    ] {
        assert_eq!(awaited(wait, leaf).to_string(), text);
    }
    for (device, text) in [
        (
            Device::Irq {
                irq: 9,
                name: "".into(),
            },
            "interrupt 9",
        ),
        (
            Device::Irq {
                irq: 9,
                name: "acpi".into(),
            },
            "interrupt acpi (9)",
        ),
        (Device::Vector("irq_work".into()), "irq_work"),
    ] {
        assert_eq!(device.to_string(), text);
    }
    let unnamed = |pid| Name {
        pid,
        comm: Comm::default(),
    };
    assert_eq!(
        [unnamed(None), unnamed(Some(7))].map(|name| name.to_string()),
        ["a thread", "thread 7"]
    );
    assert_eq!(Name { pid: None, ..low() }.to_string(), "low");
}

#[test]
fn what_is_unknown_is_named() {
    let gap = |reason| Unknown::Gap { reason, cpu: 3 };
    for (unknown, text) in [
        (Unknown::ThreadEnded, "the thread has ended"),
        (
            Unknown::NothingBefore,
            "no event of the thread was recorded before it ran",
        ),
        (Unknown::NoEventOfThread, "no event of the thread"),
        (Unknown::NoEventOfCpu(3), "no event of CPU 3"),
        (
            Unknown::NoSwitchIn(3),
            "the switch from idle on CPU 3 was not recorded",
        ),
        (
            Unknown::WakeupPending,
            "the wake-up from another CPU had not reached this CPU",
        ),
        (Unknown::OwnPriority, "the thread's own priority"),
        (
            Unknown::PriorityOf(low()),
            "low-12 ran with unknown priority",
        ),
        (
            Unknown::EventsLost,
            "no event was recorded, and some events were lost",
        ),
        (gap(GapReason::BeforeTrace), "the trace begins later"),
        (gap(GapReason::Lost), "events of CPU 3 were lost"),
        (
            gap(GapReason::Contradiction),
            "a switch on CPU 3 was not recorded",
        ),
        (
            gap(GapReason::NotHeld),
            "the wait is longer than the time that the events in memory cover",
        ),
        (
            gap(GapReason::ClocksDiffer),
            "clocks of different CPUs cannot be compared",
        ),
        (
            Unknown::QuotaOrEqual(Some("/a".to_owned())),
            "throttled by the CPU quota of /a, or delayed by threads of equal rank",
        ),
        (
            Unknown::QuotaOrEqual(None),
            "throttled by a CPU quota, or delayed by threads of equal rank",
        ),
        (
            Unknown::IdleInstead(2),
            "CPU 2 was idle while the thread was runnable; possible: a pending wake-up, throttling, \
             hypervisor, SMI",
        ),
        (
            Unknown::PassedOver,
            "the scheduler ran other threads first; possible: real-time throttling, the deadline \
             server for ordinary threads",
        ),
    ] {
        assert_eq!(Cause::unexplained(unknown).who(), text);
    }
    for (missing, text) in [
        (Missing::WhatRan, "what ran"),
        (
            Missing::AfterInterrupt,
            "what ran from the timer's interrupt to the thread",
        ),
        (Missing::WakeUp, "the wake-up"),
        (
            Missing::Own,
            "the thread itself, a page fault or an untraced gap",
        ),
        (Missing::InterruptOrGap, "an interrupt, or an untraced gap"),
        (
            Missing::WokenBy,
            "a timer, a device or a peer on this machine",
        ),
        (
            Missing::OnCpu,
            "the thread on its CPU: its own code, system calls, page faults or interrupts",
        ),
        (Missing::RanInstead, "waiting for its CPU, unknown why"),
        (Missing::BeforeWakeUp, "before its wake-up, unknown why"),
        (
            Missing::AroundWakeUp,
            "before or after its wake-up, unknown which",
        ),
        (
            Missing::HandlerOn(low()),
            "low-12, or a handler that interrupted it",
        ),
        (
            Missing::QuotaOrEqual,
            "threads of equal rank, or a CPU quota",
        ),
    ] {
        let is_on_cpu = missing == Missing::OnCpu;
        let cause = Cause::not_recorded(missing, &["a:b", "c:d"]);
        assert_eq!(cause.who(), format!("{text} (a:b, c:d not recorded)"));
        assert_eq!(cause.source.is_unknown_on_cpu(), is_on_cpu);
    }
}

#[test]
fn source_is_of_the_threads_that_had_the_cpu() {
    let thread = |pid| Cause::thread(Role::Competing, &task(pid, "a", 120)).source;
    let by = |pid| {
        let leaf = Leaf::Preempted {
            by: name(pid, "hog"),
            prio: KernelPriority(19),
        };
        Source::Awaited(awaited(Wait::Lock, leaf))
    };
    for (source, is_of) in [
        (thread(7), true),
        (thread(8), true),
        (thread(9), false),
        (Source::IrqsOff(name(7, "a")), true),
        (Source::PreemptOff(name(8, "a")), true),
        (Source::PreemptOff(Name { pid: None, ..low() }), false),
        (by(7), true),
        (by(9), false),
        // The threads of the chain only waited.
        (
            Source::Awaited(Awaited {
                chain: vec![name(7, "a")],
                ..awaited(Wait::Lock, Leaf::Ran)
            }),
            false,
        ),
        (Source::Nmi, false),
    ] {
        assert_eq!(source.is_of(&[7, 8]), is_of, "{source:?}");
    }
}

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
