//! Tests of the names of causes.

use super::{awaited, low, name, task};
use crate::cause::{
    Awaited, Cause, Device, Leaf, Limit, Missing, Name, Role, Signal, Source, Thief, Unknown, Wait,
};
use crate::{Comm, GapReason, KernelPriority, ShareKind, Vector};

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
