//! Tests of the clause about the largest share.

use super::{low, share, task};
use crate::cause::{
    Awaited, Cause, Counted, Detail, Device, Leaf, Limit, Missing, Ran, Rank, Role, Source, Stay,
    Thief, Unknown, Wait,
};
use crate::testing::{blame, interrupt};
use crate::{Delay, Nanos, Share};

/// The sentence about a single share, without `CPU 1 was 9.00 µs late: `.
fn clause(cause: Cause, count: u32) -> String {
    let blame = blame(vec![Share::new(cause, Nanos(9_000), count)]);
    let sentence = blame.sentence();
    let clause = sentence.strip_prefix("CPU 1 was 9.00 µs late: ");
    let clause = clause.and_then(|clause| clause.strip_suffix('.'));
    clause.unwrap_or(&sentence).to_owned()
}

/// The sentence about a single share of a job.
fn of_job(cause: Cause, count: u32) -> String {
    let mut blame = blame(vec![Share::new(cause, Nanos(9_000), count)]);
    blame.delay = Delay::Job;
    let sentence = blame.sentence();
    let clause = sentence.strip_prefix("victim-100 on CPU 1 took 9.00 µs for a job: ");
    let clause = clause.and_then(|clause| clause.strip_suffix('.'));
    clause.unwrap_or(&sentence).to_owned()
}

#[test]
fn subject_and_verb_depend_on_the_delay() {
    for (delay, text) in [
        (Delay::Timer, "CPU 1 was 9.00 µs late: "),
        (Delay::Section, "CPU 1 was blocked for 9.00 µs: "),
        (Delay::Call, "victim-100 on CPU 1 was 9.00 µs late: "),
        (Delay::Wakeup, "victim-100 on CPU 1 was 9.00 µs late: "),
        (Delay::Taken, "victim-100 on CPU 1 was 9.00 µs late: "),
        (Delay::Step, "victim-100 on CPU 1 took 9.00 µs: "),
        (
            Delay::Work,
            "victim-100 on CPU 1 took 9.00 µs for its work: ",
        ),
        (Delay::Job, "victim-100 on CPU 1 took 9.00 µs for a job: "),
    ] {
        let mut blame = blame(vec![share(Source::Nmi, 9_000)]);
        blame.delay = delay;
        assert_eq!(
            blame.sentence(),
            format!("{text}a non-maskable interrupt ran for 9.00 µs.")
        );
        blame.shares.clear();
        assert!(blame.sentence().ends_with("CPU 1 was not late."));
        assert_eq!(blame.culprit(), "nothing");
    }
}

#[test]
fn largest_share_is_explained_by_its_kind() {
    let at = |source: Source| Cause::new(source).with(Detail::At("f".into()));
    let thread = |role, prio: i16| {
        let task = task(7, "io", prio);
        Cause::thread(role, &task).with(Detail::Rank(Rank::from(&task)))
    };
    let slack = Detail::Slack {
        slack_ns: Nanos(50_000),
        known: true,
    };
    let undecided = || Source::Undecided {
        source: Box::new(Source::Nmi),
        thief: Thief::Smi,
    };
    let empty = Detail::Counted {
        counted: Counted::default(),
        detail: None,
    };
    for (cause, count, text) in [
        (
            at(Source::TimerLate),
            3,
            "the timer's interrupt arrived 9.00 µs late, 3 times",
        ),
        (
            Cause::new(Source::TimerSlack),
            1,
            "its timer slack delayed it by 9.00 µs",
        ),
        (
            Cause::new(Source::TimerSlack).with(slack),
            1,
            "its timer slack of 50.0 µs delayed it by 9.00 µs",
        ),
        (
            Cause::new(Source::IdleExit(1)).with(Detail::IdleState(2)),
            2,
            "CPU 1 took 9.00 µs to wake from idle state 2, 2 times",
        ),
        (
            at(Source::IrqsOff(low())),
            2,
            "low-12 had interrupts disabled for 9.00 µs, 2 times, at f",
        ),
        (
            at(Source::PreemptOff(low())),
            1,
            "low-12 had preemption disabled for 9.00 µs, at f",
        ),
        (
            Cause::new(Source::Gap).with(Detail::While(Ran::Idle)),
            1,
            "untraced gap: no event for 9.00 µs while the CPU was idle",
        ),
        (
            Cause::new(Source::Gap),
            1,
            "untraced gap: no event for 9.00 µs",
        ),
        (
            Cause::new(Source::Softirq(3)).with(Detail::On(None)),
            2_000,
            "softirq NET_RX ran for 9.00 µs in an unknown thread, 2,000 times",
        ),
        (
            Cause::new(Source::Nmi),
            0,
            "a non-maskable interrupt ran for 9.00 µs",
        ),
        (
            thread(Role::Blocking, 120),
            1,
            "preemption delayed: io-7 (lower priority, nice 0) was not preempted for 9.00 µs",
        ),
        (
            thread(Role::Blocking, i16::MAX),
            1,
            "preemption delayed: io-7 (due for preemption, priority not recorded) was not preempted \
             for 9.00 µs",
        ),
        (
            Cause::thread(Role::Blocking, &task(7, "io", 120)),
            2,
            "preemption delayed: io-7 (lower priority, -) was not preempted for 9.00 µs, 2 times",
        ),
        (
            thread(Role::HigherPriority, 19),
            2,
            "io-7, of higher priority (real-time 80), ran for 9.00 µs, 2 times",
        ),
        (
            thread(Role::Competing, 120),
            1,
            "io-7, of equal rank (nice 0), ran for 9.00 µs",
        ),
        (
            thread(Role::Unranked, i16::MAX),
            1,
            "io-7 ran for 9.00 µs, of unknown priority",
        ),
        (
            thread(Role::LockHolder, 120),
            1,
            "it waited 9.00 µs for a lock held by io-7 (nice 0)",
        ),
        (
            thread(Role::Waker, 120),
            2,
            "it slept 9.00 µs until woken by io-7, 2 times",
        ),
        (
            Cause::new(Source::Stopped(None)),
            1,
            "it was stopped for 9.00 µs by a signal or a debugger",
        ),
        (
            at(Source::Migration {
                from: 1,
                to: Some(2),
            }),
            1,
            "its migration from CPU 1 to CPU 2 took 9.00 µs, at f",
        ),
        (
            Cause::new(Source::Throttled(Limit::RealTime)),
            1,
            "it was throttled for 9.00 µs while it was runnable: real-time throttling",
        ),
        (
            at(Source::NotRun(2)),
            2,
            "the scheduler did not run it for 9.00 µs: it was runnable while CPU 2 was idle, 2 times; at f",
        ),
        (
            at(Source::PageFault),
            2,
            "page faults of its own took 9.00 µs, 2 times, at f",
        ),
        (at(Source::UserSpace), 1, "user space ran for 9.00 µs, at f"),
        (
            at(Source::SystemCall("write".into())),
            2,
            "it was in write for 9.00 µs, 2 times",
        ),
        (
            at(Source::Device(Device::Interrupt)),
            2,
            "it waited 9.00 µs for an interrupt, 2 times, at f",
        ),
        (
            at(Source::OwnSleep),
            2,
            "it slept 9.00 µs until its own timer expired, 2 times, at f",
        ),
        (
            at(Source::Scheduling),
            1,
            "the scheduler took 9.00 µs, at f",
        ),
        (
            at(Source::ReturnToUser),
            1,
            "the return to user space took 9.00 µs",
        ),
        (
            at(Source::Stolen),
            2,
            "the hypervisor used the CPU for 9.00 µs, 2 times, at f",
        ),
        (
            at(undecided()),
            2,
            "a non-maskable interrupt, or an SMI, took 9.00 µs, 2 times (at f)",
        ),
        (
            Cause::new(undecided()).with(empty),
            1,
            "a non-maskable interrupt, or an SMI, took 9.00 µs",
        ),
        (
            at(Source::Unexplained(Unknown::NoWaker)),
            1,
            "9.00 µs are unexplained: its wake-up was not recorded, at f",
        ),
    ] {
        assert_eq!(clause(cause, count), text);
    }
}

#[test]
fn what_an_interrupt_did_is_said_with_who_sent_it() {
    let sent = Detail::SentBy {
        sender: Some(low()),
        cpu: 2,
        function: "f".into(),
    };
    let stays = Detail::Stays(vec![Stay {
        ns: None,
        at: "f".into(),
        until: None,
    }]);
    for (detail, count, text) in [
        (None, 1, ""),
        (Some(sent.clone()), 1, ", sent by low-12 on CPU 2 in f"),
        (
            Some(sent),
            2,
            ", 2 times, the longest one sent by low-12 on CPU 2 in f",
        ),
        (Some(stays), 2, ", 2 times, in f"),
        (Some(Detail::Function("tick".into())), 1, ", mostly in tick"),
    ] {
        let said = clause(interrupt("eth0").with(detail), count);
        assert_eq!(said, format!("interrupt eth0 (24) ran for 9.00 µs{text}"));
    }
}

#[test]
fn thread_of_a_job_works_waits_and_faults() {
    let at = |source: Source| Cause::new(source).with(Detail::At("f".into()));
    let awaited = |wait| {
        Source::Awaited(Awaited {
            wait,
            chain: vec![low()],
            leaf: Leaf::Ran,
        })
    };
    for (cause, count, text) in [
        (
            Cause::new(Source::UserSpace),
            1,
            "it computed for 9.00 µs in user space",
        ),
        (
            at(Source::UserSpace),
            1,
            "it computed for 9.00 µs in user space (at f)",
        ),
        (
            Cause::new(Source::FaultOrUserSpace),
            1,
            "page faults or user space took 9.00 µs; no event shows when the page faults ended",
        ),
        (
            Cause::new(Source::OwnWork),
            1,
            "the thread itself ran for 9.00 µs",
        ),
        (
            Cause::new(Source::PageFault),
            1,
            "1 page fault took 9.00 µs",
        ),
        (
            Cause::new(Source::PageFault),
            1_200,
            "1,200 page faults took 9.00 µs",
        ),
        (
            at(Source::PageFault),
            2,
            "it waited 9.00 µs in page faults (at f): page faults of its own",
        ),
        (
            at(awaited(Wait::Lock)),
            1,
            "it waited 9.00 µs for a lock (at f) held by low-12",
        ),
        (
            at(awaited(Wait::Thread)),
            1,
            "it waited 9.00 µs (at f) for low-12",
        ),
        (
            Cause::new(awaited(Wait::Page)),
            1,
            "it waited 9.00 µs in page faults: low-12",
        ),
        (
            Cause::not_recorded(Missing::OnCpu, &["a:b"]).with(Detail::Faults),
            1,
            "it was on its CPU for 9.00 µs (with page faults); whether its own code, a system call, a \
             page fault or an interrupt took the time is not recorded",
        ),
        (
            Cause::not_recorded(Missing::WakeUp, &["a:b"]),
            1,
            "9.00 µs are unexplained: the wake-up (a:b not recorded)",
        ),
        (
            Cause::new(Source::Nmi),
            2,
            "a non-maskable interrupt ran for 9.00 µs, 2 times",
        ),
    ] {
        assert_eq!(of_job(cause, count), text);
    }
}
