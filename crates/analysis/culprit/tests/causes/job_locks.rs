//! A thread that waits for a lock with priority inheritance. While the owner runs, the kernel lets
//! the waiter spin.

use proptest::prelude::*;
use punctual_culprit::find;
use punctual_model::{Blame, EventKind, KernelPriority, ShareKind, Task};

use crate::jobs::{enter, exit, explained, job, share};
use crate::stream::*;

const FUTEX: i64 = 202;
const LOCK: u64 = 6 | 128;
const UNLOCK: u64 = 7 | 128;

fn owner() -> Task {
    task("owner", 20, 89)
}

fn inherits(task: Task, prio: i16) -> EventKind {
    EventKind::PiSetprio {
        task,
        newprio: KernelPriority(prio),
    }
}

fn owns(owner: u32) -> EventKind {
    EventKind::FutexOwner {
        futex: 0x7f10,
        owner,
    }
}

fn held(blame: &Blame) -> f64 {
    share(blame, ShareKind::LockHolder, "owner-20")
}

/// The owner runs on CPU 0. The victim spins on CPU 1 from 50 to 905 µs.
fn spins(begins: &[(f64, EventKind)], ends: &[(f64, EventKind)], operation: u64) -> Stream {
    let mut stream = job(1_000.0)
        .on(0, 0)
        .switch(-100.0, idle(), RUNNABLE, owner())
        .on(1, VICTIM)
        .event(50.0, enter(FUTEX, [0x7f10, operation]));
    for (at, kind) in begins {
        stream = stream.event(*at, kind.clone());
    }
    stream = stream.on(0, 20);
    for (at, kind) in ends {
        stream = stream.event(*at, kind.clone());
    }
    stream.on(1, VICTIM).event(905.0, exit(FUTEX))
}

#[test]
fn spinning_waiter_names_running_owner() {
    let lent = [(52.0, inherits(owner(), 4))];
    let given_back = [(900.0, inherits(task("owner", 20, 4), 89))];
    let found = explained(&spins(&lent, &given_back, LOCK));
    assert_eq!(held(&found), 848.0, "{found:#?}");
    assert_eq!(share(&found, ShareKind::SystemCall, "futex"), 7.0);
    assert!(found.sentence().contains("futex 0x7f10"), "{found:#?}");
    // Without inheritance, because the priorities are equal, the futex names its owner.
    let found = explained(&spins(&[(51.0, owns(20))], &[], LOCK));
    assert_eq!(held(&found), 854.0, "{found:#?}");
    // The clock may not have advanced since the call began.
    let found = explained(&spins(&[(50.0, owns(20))], &[], LOCK));
    assert_eq!(held(&found), 855.0, "{found:#?}");
    let unlocked = [
        (300.0, enter(FUTEX, [0x7f20, UNLOCK])),
        (800.0, enter(FUTEX, [0x7f10, UNLOCK])),
    ];
    let found = explained(&spins(&[(51.0, owns(20))], &unlocked, LOCK));
    assert_eq!(held(&found), 749.0, "{found:#?}");
}

/// An interrupt delays the owner.
#[test]
fn owners_interrupt_is_not_its_work() {
    let name = "eth0".into();
    let interrupt = [
        (300.0, EventKind::IrqEntry { irq: 24, name }),
        (500.0, EventKind::IrqExit { irq: 24, ret: 1 }),
    ];
    let found = explained(&spins(&[(52.0, inherits(owner(), 4))], &interrupt, LOCK));
    assert_eq!(held(&found), 653.0, "{found:#?}");
    assert_eq!(share(&found, ShareKind::Interrupt, "eth0"), 200.0);
}

/// The owner itself waits for another lock, so the owner of that lock inherits the priority, too.
#[test]
fn first_heir_is_the_owner() {
    let lent = [
        (52.0, inherits(owner(), 4)),
        (53.0, inherits(task("far", 21, 100), 4)),
    ];
    let found = explained(&spins(&lent, &[], LOCK));
    assert_eq!(held(&found), 853.0, "{found:#?}");
    assert_eq!(share(&found, ShareKind::LockHolder, "far"), 0.0);
}

#[test]
fn look_alikes_are_no_lock() {
    let lent = || (52.0, inherits(owner(), 4));
    // FUTEX_WAIT does not spin. Neither does a thread that owns the lock itself.
    let mut streams = vec![
        spins(&[lent()], &[], 128),
        spins(&[(51.0, owns(VICTIM))], &[], LOCK),
        spins(&[(51.0, inherits(victim(), 3))], &[], LOCK),
        spins(&[], &[], LOCK),
    ];
    // The other thread inherits the priority outside of the call.
    let outside = job(1_000.0)
        .event(40.0, inherits(owner(), 4))
        .event(50.0, enter(FUTEX, [0x7f10, LOCK]))
        .event(905.0, exit(FUTEX));
    streams.push(outside);
    for stream in streams {
        let found = explained(&stream);
        assert_eq!(share(&found, ShareKind::LockHolder, ""), 0.0, "{found:#?}");
    }
}

/// A timer's signal interrupts the wait for the futex at 300 µs. The thread then waits for the futex
/// of `again`, until the owner wakes it.
fn interrupted(again: u64) -> Blame {
    let signal = EventKind::SignalGenerate {
        sig: 34,
        pid: VICTIM,
        comm: victim().comm,
    };
    let mut stream = job(1_000.0)
        .on(0, 0)
        .switch(-100.0, idle(), RUNNABLE, owner())
        .on(1, VICTIM)
        .event(50.0, enter(FUTEX, [0x7f10, 128]))
        .switch(60.0, victim(), SLEEPS, idle());
    stream = stream.timer_entry(300.0).waking(301.0).event(301.5, signal);
    stream = stream
        .timer_exit(302.0)
        .switch(305.0, idle(), RUNNABLE, victim())
        .event(306.0, exit(FUTEX))
        .event(310.0, enter(FUTEX, [again, 128]))
        .switch(315.0, victim(), SLEEPS, idle())
        .on(0, 20)
        .waking(900.0)
        .on(1, 0)
        .switch(905.0, idle(), RUNNABLE, victim())
        .event(906.0, exit(FUTEX));
    explained(&stream)
}

#[test]
fn signal_does_not_end_the_wait_for_a_lock() {
    let found = interrupted(0x7f10);
    assert_eq!(held(&found), 826.0, "{found:#?}");
    assert_eq!(share(&found, ShareKind::OwnSleep, ""), 0.0, "{found:#?}");
    // Another futex is another wait, so the signal ended the first one.
    let found = interrupted(0x7f20);
    assert_eq!(held(&found), 585.0, "{found:#?}");
    assert_eq!(
        share(&found, ShareKind::OwnSleep, "the timer of signal 34"),
        241.0
    );
}

proptest! {
    /// If events are missing, no wrong thread is named, and no share exceeds the true time.
    #[test]
    fn missing_events_name_no_wrong_owner(
        lost in proptest::collection::btree_set(0_usize..12, 0..6),
    ) {
        let lent = [(51.0, owns(20)), (52.0, inherits(owner(), 4))];
        let given_back = [(900.0, inherits(task("owner", 20, 4), 89))];
        let mut window = spins(&lent, &given_back, LOCK).window;
        let events = std::mem::take(&mut window.events).into_iter().enumerate();
        let kept = events.filter(|(at, _)| !lost.contains(at));
        window.events = kept.map(|(_, event)| event).collect();
        let found = find(&window).blame;
        let all = share(&found, ShareKind::LockHolder, "");
        // Without an event of the owner, its name is unknown.
        let unnamed = share(&found, ShareKind::LockHolder, "thread 20");
        prop_assert_eq!(all, held(&found) + unnamed);
        let longest = if lost.is_empty() { 849.0 } else { 949.0 };
        prop_assert!(all <= longest, "{}", all);
        prop_assert!(!lost.is_empty() || all == 849.0, "{}", all);
    }
}

/// The waiter spins in one part of its call only, before or after an interrupt.
#[test]
fn interrupt_in_the_call_does_not_prolong_the_spin() {
    let unlocked = [(300.0, enter(FUTEX, [0x7f10, UNLOCK]))];
    for (begins, ends, spun, elsewhere) in [
        (500.0, &[][..], 405.0, 350.0 + 80.0),
        (51.0, &unlocked, 249.0, 1.0 + 100.0 + 485.0),
    ] {
        let stream = spins(&[(begins, owns(20))], ends, LOCK).irq(400.0, 420.0, 24, "eth0");
        let found = explained(&stream);
        assert_eq!(held(&found), spun, "{found:#?}");
        assert_eq!(share(&found, ShareKind::SystemCall, "futex"), elsewhere);
        let sum: u64 = found.shares.iter().map(|share| share.ns.0).sum();
        assert_eq!(sum, 1_000_000);
    }
}
