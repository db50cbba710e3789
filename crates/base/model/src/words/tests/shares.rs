//! Tests of the other shares and the doubts of a blame.

use super::{low, share};
use crate::cause::{
    Awaited, Cause, Detail, Device, Leaf, Limit, LongFunction, Source, Thief, Unknown, Usual, Wait,
};
use crate::testing::blame;
use crate::{Blame, Move, Nanos, Share};

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
