//! Page faults of a job that do not wait for I/O.

use proptest::prelude::*;
use punctual_culprit::find;
use punctual_model::{EventKind, Nanos, Share, ShareKind, TraceEvent, Vector};

use crate::jobs::{READ, enter, exit, explained, job, share};
use crate::stream::*;

fn ends(address: u64) -> EventKind {
    EventKind::PageFaultEnd { address }
}

fn in_kernel(address: u64) -> EventKind {
    EventKind::PageFaultKernel {
        address,
        ip: 0x401000,
        error_code: 6,
    }
}

fn page_faults(shares: &[Share]) -> Vec<&Share> {
    let fits = |share: &&Share| share.kind() == ShareKind::PageFault;
    shares.iter().filter(fits).collect()
}

/// One fault in user space, one that an interrupt divides, and one in a system call.
#[test]
fn faults_with_ends_are_one_share() {
    let stream = job(1_000.0)
        .event(100.0, fault(0x1000))
        .event(150.0, ends(0x1000))
        .event(300.0, fault(0x2000))
        .event(
            350.0,
            EventKind::VectorEntry {
                vector: Vector::LocalTimer,
            },
        )
        .event(
            360.0,
            EventKind::VectorExit {
                vector: Vector::LocalTimer,
            },
        )
        .event(400.0, ends(0x2000))
        .event(500.0, enter(READ, [5, 0]))
        .event(510.0, in_kernel(0x3000))
        .event(540.0, ends(0x3000))
        .event(600.0, exit(READ));
    let found = explained(&stream);
    let faults = page_faults(&found.shares);
    assert_eq!(faults.len(), 1, "{found:#?}");
    assert_eq!((faults[0].ns, faults[0].count), (Nanos(170_000), 3));
    assert_eq!(share(&found, ShareKind::SystemCall, "read"), 70.0);
    // From 12 to 100, from 150 to 300, from 400 to 500, and from 600 µs on.
    assert_eq!(share(&found, ShareKind::OwnWork, "user space"), 738.0);
    let long = job(1_000.0)
        .event(100.0, fault(0x1000))
        .event(950.0, ends(0x1000));
    let sentence = explained(&long).sentence();
    assert!(sentence.contains("1 page fault took 850 µs"), "{sentence}");
}

#[test]
fn fault_without_end_is_upper_bound() {
    let stream = job(1_000.0)
        .event(100.0, fault(0x1000))
        .event(300.0, fault(0x2000))
        .event(500.0, enter(READ, [5, 0]))
        .event(510.0, in_kernel(0x3000))
        .event(600.0, exit(READ));
    let found = explained(&stream);
    assert!(page_faults(&found.shares).is_empty(), "{found:#?}");
    let most = share(&found, ShareKind::OwnWork, "page faults or user space");
    assert_eq!(most, 400.0);
    assert_eq!(share(&found, ShareKind::OwnWork, "user space"), 488.0);
    assert_eq!(share(&found, ShareKind::SystemCall, "read"), 100.0);
    let sentence = explained(&job(1_000.0).event(20.0, fault(0x1000))).sentence();
    assert!(
        sentence.contains("page faults or user space took 980 µs; no event shows when"),
        "{sentence}"
    );
}

/// The end of one fault and the beginning of the next one are missing.
#[test]
fn end_of_other_fault_does_not_count() {
    let stream = job(1_000.0)
        .event(100.0, fault(0x1000))
        .event(900.0, ends(0x2000));
    let found = explained(&stream);
    assert!(page_faults(&found.shares).is_empty(), "{found:#?}");
}

/// A preemption during a fault belongs to the other thread. Afterwards, the fault continues.
#[test]
fn preempted_fault_continues_afterwards() {
    let hog = task("hog", 61, 0);
    let stream = job(1_000.0)
        .event(100.0, fault(0x1000))
        .switch(200.0, victim(), RUNNABLE, hog)
        .switch(700.0, hog, SLEEPS, victim())
        .event(800.0, ends(0x1000));
    let found = explained(&stream);
    let faults = page_faults(&found.shares);
    assert_eq!(faults[0].ns, Nanos::from_micros(200), "{found:#?}");
    assert_eq!(share(&found, ShareKind::HigherPriority, "hog-61"), 500.0);
}

/// Returns the events of faults and calls with these lengths in µs, and the total time in faults.
fn steps(lengths: &[(u64, u64, bool)]) -> (Vec<TraceEvent>, u64) {
    let mut stream = Stream::late(0.0).on(1, VICTIM);
    let (mut at, mut total) = (20, 0);
    for (number, (before, long, call)) in lengths.iter().enumerate() {
        let address = 0x1000 * (number as u64 + 1);
        at += before;
        if *call {
            stream = stream.event(at as f64, enter(READ, [5, 0]));
            at += 5;
        }
        let kind = if *call {
            in_kernel(address)
        } else {
            fault(address)
        };
        stream = stream
            .event(at as f64, kind)
            .event((at + long) as f64, ends(address));
        at += long;
        total += long;
        if *call {
            at += 5;
            stream = stream.event(at as f64, exit(READ));
        }
    }
    (stream.window.events, total)
}

proptest! {
    /// If events are missing, no share exceeds the true time. Otherwise, the shares are exact.
    #[test]
    fn fault_time_never_exceeds_truth(
        lengths in proptest::collection::vec((1_u64..40, 1_u64..40, any::<bool>()), 1..12),
        lost in proptest::collection::btree_set(0_usize..48, 0..12),
    ) {
        let (events, total) = steps(&lengths);
        let whole = lost.iter().all(|at| *at >= events.len());
        let kept = (events.into_iter().enumerate()).filter(|(at, _)| !lost.contains(at));
        let mut window = job(2_000.0).window;
        window.events.extend(kept.map(|(_, event)| event));
        let found = find(&window).blame;
        let faults: u64 = page_faults(&found.shares).iter().map(|share| share.ns.0).sum();
        prop_assert!(faults <= total * 1_000, "{faults} of {total}");
        prop_assert!(!whole || faults == total * 1_000, "{faults} of {total}");
    }
}
