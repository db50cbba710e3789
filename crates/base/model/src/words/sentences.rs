//! Tests of the sentences about late threads and about the scheduler.

use super::said::{low, task};
use crate::cause::{
    Awaited, Cause, Counted, Detail, Device, Disabled, Hold, Leaf, Limit, LongFunction, Missing,
    Ran, Rank, Role, SchedulerFinding, SchedulerRule, SmisWithin, Source, Stay, StolenWithin,
    Thief, Unknown, Usual, Wait,
};
use crate::testing::{blame, interrupt};
use crate::{Blame, Delay, Move, Nanos, Share, Task};

fn share(source: Source, ns: u64) -> Share {
    Share::new(Cause::new(source), Nanos(ns), 1)
}

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

#[test]
fn other_shares_are_named_briefly_in_descending_order() {
    let awaited = |wait| {
        Source::Awaited(Awaited {
            wait,
            chain: vec![low()],
            leaf: Leaf::Ran,
        })
    };
    let undecided = Source::Undecided {
        source: Box::new(Source::Nmi),
        thief: Thief::Smi,
    };
    for (source, text) in [
        (Source::Scheduling, "scheduling"),
        (Source::ReturnToUser, "return to user space"),
        (Source::TimerLate, "until the timer's interrupt"),
        (
            Source::Unexplained(Unknown::NoWaker),
            "unexplained: its wake-up was not recorded",
        ),
        (Source::TimerSlack, "of timer slack"),
        (Source::Gap, "untraced gap"),
        (Source::PageFault, "page faults of its own"),
        (Source::FaultOrUserSpace, "page faults or user space"),
        (Source::UserSpace, "its own work"),
        (Source::Nmi, "non-maskable interrupt"),
        (awaited(Wait::Lock), "waiting for a lock held by low-12"),
        (awaited(Wait::Thread), "asleep until woken by low-12"),
        (Source::Stopped(None), "stopped by a signal or a debugger"),
        (Source::IdleExit(2), "waking CPU 2 from idle"),
        (Source::Migration { from: 1, to: None }, "moving from CPU 1"),
        (Source::Throttled(Limit::RealTime), "throttled"),
        (Source::NotRun(2), "runnable while CPU 2 was idle"),
        (Source::SystemCall("write".into()), "in write"),
        (
            Source::Device(Device::Interrupt),
            "waiting for an interrupt",
        ),
        (Source::OwnSleep, "asleep until its own timer expired"),
        (Source::Stolen, "stolen by the hypervisor"),
        (undecided, "a non-maskable interrupt, or an SMI"),
        (Source::Softirq(3), "softirq NET_RX"),
        (Source::IrqsOff(low()), "interrupts off low-12"),
    ] {
        let sentence = blame(vec![share(source, 9_000), share(Source::OwnWork, 20_000)]).sentence();
        let own = "CPU 1 was 29.0 µs late: the thread itself ran for 20.0 µs; besides 9.00 µs ";
        assert_eq!(sentence, format!("{own}{text}."));
    }
    // A share of a twentieth is not mentioned, and at most three are.
    let said = |others: &[u64]| {
        let all = others.iter().map(|ns| share(Source::Softirq(3), *ns));
        let all = all.chain([share(Source::Nmi, 100_000 - others.iter().sum::<u64>())]);
        let sentence = blame(all.collect()).sentence();
        sentence
            .split_once("; besides ")
            .map(|(_, others)| others.to_owned())
    };
    assert_eq!(said(&[5_000, 1]), None);
    assert_eq!(said(&[5_001]).unwrap(), "5.00 µs softirq NET_RX.");
    assert_eq!(
        said(&[6_000, 9_000, 7_000, 8_000]).unwrap(),
        "9.00 µs softirq NET_RX, 8.00 µs softirq NET_RX, 7.00 µs softirq NET_RX."
    );
}

#[test]
fn doubts_about_a_blame_are_said() {
    let said = |change: fn(&mut Blame)| {
        let mut blame = blame(vec![share(Source::Nmi, 20_000)]);
        change(&mut blame);
        let sentence = blame.sentence();
        let own = "CPU 1 was 20.0 µs late: a non-maskable interrupt ran for 20.0 µs";
        sentence
            .strip_prefix(own)
            .map(str::to_owned)
            .unwrap_or(sentence)
    };
    assert_eq!(said(|_| ()), ".");
    assert_eq!(
        said(|blame| blame.moved = Some(Move { from: 1, to: 3 })),
        ". The thread was moved from CPU 1 to CPU 3."
    );
    assert_eq!(
        said(|blame| blame.events_lost = 1_200),
        ". Trace events were lost (1,200), so the shares may be wrong."
    );
    assert_eq!(
        said(|blame| blame.by_observer = true),
        ". The recording of events by punctual caused this delay."
    );
    // An error of the clocks is said if it is above a tenth of the latency and above 1 µs.
    assert_eq!(said(|blame| blame.clock_error_ns = Nanos(2_000)), ".");
    assert_eq!(
        said(|blame| blame.clock_error_ns = Nanos(2_001)),
        ". The event times are accurate only to within 2.00 µs."
    );
    for (error, is_said) in [(1_000, false), (1_001, true)] {
        let mut short = blame(vec![share(Source::Nmi, 5_000)]);
        short.clock_error_ns = Nanos(error);
        assert_eq!(
            short.sentence().contains("accurate only to within"),
            is_said
        );
    }
    assert_eq!(
        said(|blame| {
            let cause = &mut blame.shares[0].cause;
            cause.function = Some(LongFunction {
                function: "f".into(),
                ns: Nanos(7_000),
            });
            cause.anomaly = Some(Usual {
                p999_ns: Nanos(3_000),
                count: 1_500,
            });
        }),
        ", function f took 7.00 µs of it, an anomaly: 99.9% of its 1,500 runs took at most 3.00 µs."
    );
}

#[test]
fn known_cause_is_preferred_among_equal_ones() {
    let unknown = || share(Source::Unexplained(Unknown::NoWaker), 9);
    let nmi = || share(Source::Nmi, 9);
    let culprit = |shares: Vec<Share>| blame(shares).culprit();
    let named = "NMI: non-maskable interrupt";
    assert_eq!(culprit(vec![unknown(), nmi()]), named);
    assert_eq!(culprit(vec![nmi(), unknown()]), named);
    assert_eq!(culprit(vec![nmi(), share(Source::OwnWork, 9)]), named);
    assert_eq!(
        culprit(vec![nmi(), share(Source::OwnWork, 10)]),
        "own work: the thread itself"
    );
    let mut shown = blame(vec![nmi(), unknown()]);
    shown.put_into_words();
    let words = shown.words.as_ref().unwrap();
    assert_eq!(
        (words.culprit.as_str(), &words.sentence),
        (named, &shown.sentence())
    );
    for share in &shown.shares {
        assert_eq!(**share.words.as_ref().unwrap(), share.cause.words());
    }
    assert_eq!(
        (shown.shares[0].who(), shown.shares[0].detail()),
        (shown.shares[0].cause.who(), None)
    );
    let detailed = Share::new(Cause::new(Source::Nmi).with(Detail::Faults), Nanos(1), 1);
    assert_eq!(detailed.detail().as_deref(), Some("with page faults"));
}

#[test]
fn gap_has_all_its_possible_causes() {
    let said = |ran, disabled, ended_in: Option<&str>, nmi_recorded, counted| {
        let detail = Detail::Hypotheses {
            ran,
            disabled,
            ended_in: ended_in.map(Into::into),
            nmi_recorded,
            counted,
        };
        Cause::new(Source::Gap).with(detail).detail().unwrap()
    };
    let none = Counted::default();
    let ran = Ran::Thread(low());
    let enabled = Some("finish_task_switch < schedule");
    for (ran, disabled, ended_in, nmi, text) in [
        (
            Ran::Idle,
            Disabled::Possible,
            None,
            true,
            "while the CPU was idle; possible: hypervisor, SMI, firmware",
        ),
        (
            Ran::Idle,
            Disabled::Before,
            None,
            false,
            "while the CPU was idle; possible: hypervisor, SMI, firmware, NMI (not recorded)",
        ),
        (
            ran,
            Disabled::No,
            None,
            true,
            "while low-12 ran; possible: hypervisor, SMI, firmware",
        ),
        (
            ran,
            Disabled::Before,
            Some("copy_page"),
            true,
            "while low-12 ran; possible: interrupts disabled in low-12 (as at the previous event), \
             hypervisor, SMI, firmware; the next interrupt arrived in copy_page",
        ),
        (
            ran,
            Disabled::Possible,
            enabled,
            true,
            "while low-12 ran; possible: interrupts disabled in low-12, hypervisor, SMI, firmware; \
             interrupts were enabled again in finish_task_switch < schedule",
        ),
        (
            ran,
            Disabled::Possible,
            Some("copy_page"),
            true,
            "while low-12 ran; possible: hypervisor, SMI, firmware, or interrupts disabled in low-12; \
             the next interrupt arrived in copy_page",
        ),
        (
            Ran::Faulted(low()),
            Disabled::Possible,
            None,
            true,
            "while low-12 ran; possible: the preceding page fault, hypervisor, SMI, firmware, or \
             interrupts disabled in low-12",
        ),
    ] {
        assert_eq!(said(ran, disabled, ended_in, nmi, none), text);
    }
    let within_ns = Nanos(20_000_000);
    let smis = |count| Some(SmisWithin { count, within_ns });
    let steal = |stolen| {
        Some(StolenWithin {
            stolen_ns: Nanos(stolen),
            within_ns,
        })
    };
    for (counted, text) in [
        (
            Counted {
                steal: steal(1),
                smis: smis(2),
            },
            "; steal time rose by 1 ns within 20.0 ms; SMIs within 20.0 ms: 2",
        ),
        (
            Counted {
                steal: steal(0),
                smis: smis(0),
            },
            "",
        ),
        (
            Counted {
                steal: None,
                smis: smis(1),
            },
            "; SMIs within 20.0 ms: 1",
        ),
    ] {
        let said = said(Ran::Idle, Disabled::No, None, true, counted);
        assert_eq!(
            said,
            format!("while the CPU was idle; possible: hypervisor, SMI, firmware{text}")
        );
    }
}

#[test]
fn finding_about_the_scheduler_says_rule_times_and_reason() {
    let finding = |rule, by: Option<Task>, times, [total, longest]: [u64; 2]| SchedulerFinding {
        rule,
        thread: task(7, "io", 19),
        cpu: 2,
        by,
        times,
        total_ns: Nanos(total),
        longest_ns: Nanos(longest),
        first_ns: Nanos(1),
        limit: None,
        possible: vec![Hold::Quota],
        decided_by: None,
    };
    let hog = Some(task(9, "hog", 120));
    let reason = "possible: the CPU quota of a control group";
    for (finding, text) in [
        (
            finding(SchedulerRule::NoIdleWhileRunnable, None, 1, [9_000, 9_000]),
            "io-7 (real-time 80) was runnable while CPU 2 was idle: once, 9.00 µs in total",
        ),
        (
            finding(SchedulerRule::HigherFirst, hog, 1_200, [9_000, 5_000]),
            "io-7 (real-time 80) was runnable on CPU 2 while hog-9 (nice 0) ran there: 1,200 times, \
             9.00 µs in total, 5.00 µs at most",
        ),
        (
            finding(SchedulerRule::InOrder, None, 2, [0, 0]),
            "no thread ran on CPU 2 before io-7 (real-time 80), which was woken earlier: 2 times",
        ),
        (
            finding(SchedulerRule::Inheritance, None, 2, [9, 0]),
            "io-7 (real-time 80) ran on CPU 2 without the priority that it had inherited: 2 times, 9 \
             ns in total",
        ),
    ] {
        assert_eq!(finding.sentence(), format!("{text}; {reason}"));
        let limited = SchedulerFinding {
            limit: Some(Limit::RealTime),
            ..finding
        };
        assert_eq!(
            limited.sentence(),
            format!("{text}; limit: real-time throttling")
        );
    }
}
