//! A watched thread between its jobs: unused release waits, idle waits and outcomes.

use punctual_model::{Comm, KernelPriority};

use super::*;

const RELEASE: Call = Call { id: 1, argument: 0 };
const OTHER: Call = Call { id: 2, argument: 0 };
const FUTEX: Call = Call {
    id: 202,
    argument: 64,
};

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn us(us: u64) -> Nanos {
    Nanos::from_micros(us)
}

fn found(call: Call, period: Option<Nanos>) -> FoundRelease {
    FoundRelease {
        call,
        seen: 9,
        period,
    }
}

const FULL: Stages = Stages {
    light: false,
    both: false,
};

/// A thread whose release wait is known, and that entered it last at 1 s.
fn known(period: Option<Nanos>, elsewhere: u64) -> Thread {
    let mut thread = Thread::default();
    thread.seen.release = Some(found(RELEASE, period));
    (thread.last_release, thread.elsewhere) = (Some(ms(1_000)), elsewhere);
    thread
}

/// A wait from one time to another in ms, after this CPU time in µs.
fn wait(call: Option<Call>, from: u64, to: u64, ran: u64) -> EndedWait {
    EndedWait {
        call,
        from: ms(from),
        to: ms(to),
        ran: us(ran),
    }
}

#[test]
fn search_begins_when_the_release_wait_is_unused() {
    let begins = |period: Option<u64>, elsewhere: u64, now: u64| {
        let mut thread = known(period.map(ms), elsewhere);
        assert!(!thread.search_ends(ms(now), FULL));
        thread.learning.is_some()
    };
    // For two seconds, with five waits elsewhere.
    assert!(begins(None, 5, 3_000));
    assert!(!begins(None, 5, 2_999) && !begins(None, 4, 3_000));
    // For twenty periods.
    assert!(begins(Some(500), 5, 11_000) && !begins(Some(500), 5, 10_999));
    assert!(begins(Some(50), 5, 3_000));
    let mut thread = known(None, 5);
    thread.seen_in_full = true;
    thread.search_ends(ms(3_000), FULL);
    let learning = thread.learning.unwrap();
    assert_eq!(
        (learning.since, learning.dropped_since),
        (ms(3_000), Some(ms(1_000)))
    );
    assert!(!thread.seen_in_full);
}

/// Until then, the thread may be in a long job.
#[test]
fn other_release_wait_is_accepted_late() {
    let ends = |now: u64, stages: Stages, in_full: bool| {
        let mut thread = known(None, 5);
        thread.search_ends(ms(3_000), stages);
        let learning = thread.learning.as_mut().unwrap();
        for turn in 0..40 {
            learning
                .waits
                .add(Some(OTHER), (ms(3_000 + turn), ms(3_001 + turn)), true);
        }
        thread.seen_in_full = in_full;
        thread.search_ends(ms(now), stages)
    };
    assert!(ends(11_000, FULL, false) && !ends(10_999, FULL, false));
    // In the light stage, a release wait without a sleep is not seen.
    let both = Stages {
        light: true,
        both: true,
    };
    assert!(ends(11_000, both, true) && !ends(11_000, both, false));
}

#[test]
fn search_has_enough_waits_after_some_time() {
    let is_over = |waits: u64, elapsed: u64| {
        let mut learning = Learning::new(ms(1_000), FULL);
        for turn in 0..waits {
            let at = ms(1_000 + turn);
            learning.waits.add(Some(OTHER), (at, at + us(500)), true);
        }
        learning.is_over(ms(1_000 + elapsed))
    };
    assert!(is_over(30, 300) && !is_over(29, 300) && !is_over(30, 299));
    assert!(is_over(5, 2_000) && !is_over(4, 2_000) && !is_over(5, 1_999));
    assert!(is_over(2, 10_000) && !is_over(1, 10_000) && !is_over(2, 9_999));
}

#[test]
fn earlier_release_waits_are_remembered() {
    let mut thread = Thread::default();
    for id in 0..7 {
        thread.replaces(found(Call { id, argument: 0 }, None));
    }
    assert_eq!(thread.seen.release.unwrap().call.id, 6);
    let earlier: Vec<i64> = thread.seen.earlier.iter().map(|one| one.call.id).collect();
    assert_eq!(earlier, [0, 1, 2, 3]);
    assert_eq!(thread.seen.incomplete, 0);
    // The job in progress began with the earlier one.
    thread.state.continues(ms(1), Some((ms(1), us(5))), false);
    thread.replaces(found(RELEASE, None));
    thread.replaces(found(OTHER, None));
    assert_eq!(thread.seen.incomplete, 1);
}

#[test]
fn waits_are_noted_by_what_follows_from_them() {
    let mut thread = Thread::default();
    thread.note_wait(wait(Some(OTHER), 0, 10, 100), false, FULL);
    thread.note_wait(wait(Some(FUTEX), 11, 31, 1_100), false, FULL);
    assert_eq!(
        (thread.elsewhere, thread.longest_elsewhere),
        (2, Some((FUTEX, ms(20))))
    );
    thread.note_wait(wait(Some(OTHER), 32, 51, 1_200), false, FULL);
    assert_eq!(thread.longest_elsewhere, Some((FUTEX, ms(20))));
    // Of equal ones, the last.
    thread.note_wait(wait(Some(OTHER), 52, 72, 1_300), false, FULL);
    assert_eq!(thread.longest_elsewhere, Some((OTHER, ms(20))));
    thread.note_wait(wait(None, 73, 99, 1_300), false, FULL);
    assert_eq!(thread.longest_elsewhere, Some((OTHER, ms(20))));
    assert_eq!((thread.waited, thread.released()), (None, Some(ms(99))));
    assert_eq!(thread.busy_since, None);
    thread.seen_in_full = true;
    thread.note_wait(wait(Some(RELEASE), 100, 110, 1_400), true, FULL);
    assert_eq!(
        (thread.busy_since, thread.longest_elsewhere),
        (Some(ms(110)), None)
    );
    assert_eq!((thread.elsewhere, thread.seen_in_full), (5, false));
    assert_eq!(thread.waited, Some((RELEASE, ms(100), ms(110))));
    assert_eq!(thread.seen.waits.count, 6);
    // The last release counts only if the release wait is known.
    thread.note_wait(wait(Some(OTHER), 111, 120, 1_500), false, FULL);
    assert_eq!(thread.released(), Some(ms(120)));
    thread.seen.release = Some(found(RELEASE, None));
    assert_eq!(thread.released(), Some(ms(110)));
}

/// A thread that runs for 60 µs between waits of 10 ms does almost nothing; this one runs longer.
#[test]
fn time_between_waits_shows_whether_a_thread_works() {
    let tiny = |ran: u64| {
        let mut thread = Thread::default();
        for turn in 0..20 {
            let from = 20 * turn;
            thread.note_wait(wait(Some(OTHER), from, from + 10, ran * turn), false, FULL);
        }
        thread.seen.waits.bursts.are_tiny()
    };
    assert!(tiny(60) && tiny(500) && !tiny(501));
}

#[test]
fn busy_times_are_the_longest() {
    let mut thread = Thread::default();
    thread.note_busy(ms(10), ms(40));
    assert_eq!(thread.seen.busy, Some((ms(10), ms(30))));
    thread.note_busy(ms(50), ms(80));
    assert_eq!(thread.seen.busy, Some((ms(10), ms(30))));
    thread.note_busy(ms(50), ms(81));
    assert_eq!(thread.seen.busy, Some((ms(50), ms(31))));
    thread.busy_since = Some(ms(20));
    thread.note_busy(ms(70), ms(90));
    assert_eq!(thread.seen.busy, Some((ms(20), ms(70))));
    assert_eq!(thread.seen.incomplete, 4);
}

#[test]
fn outcomes_without_a_job_are_counted() {
    let mut thread = Thread::default();
    let counts = |thread: &Thread| {
        let seen = &thread.seen;
        (
            seen.at_once,
            seen.while_stopped,
            seen.incomplete,
            seen.longest_stop,
        )
    };
    thread.note_outcome(Outcome::AtOnce, ms(1));
    assert_eq!(counts(&thread), (1, 0, 0, ms(0)));
    thread.note_outcome(Outcome::InStop(ms(5)), ms(1));
    thread.note_outcome(Outcome::InStop(ms(3)), ms(1));
    assert_eq!(counts(&thread), (3, 2, 0, ms(5)));
    thread.note_outcome(Outcome::ReleaseUnknown, ms(1));
    assert_eq!(counts(&thread), (3, 2, 1, ms(5)));
    thread.note_outcome(Outcome::Several(ms(2)), ms(9));
    assert_eq!(counts(&thread), (4, 2, 2, ms(5)));
    assert_eq!(thread.seen.busy, Some((ms(2), ms(7))));
}

fn point(at: u64, ran: u64) -> Point {
    Point {
        at: ms(at),
        ran: us(ran),
    }
}

fn open(at: u64, ran: u64) -> OpenJob {
    OpenJob {
        release: point(at, ran),
        events_from: ms(at),
        at_once: false,
        light: false,
    }
}

#[test]
fn completed_job_has_its_times() {
    let mut thread = Thread::default();
    (thread.state.comm, thread.state.prio) = (Comm::new(b"t"), KernelPriority(9));
    let mut began = open(10, 300);
    began.events_from = ms(8);
    let job = thread.completed(7, 3, began, point(25, 900));
    assert_eq!((job.tid, job.cpu, job.prio), (7, 3, KernelPriority(9)));
    assert_eq!(
        (job.release, job.completion, job.events_from),
        (ms(10), ms(25), ms(8))
    );
    assert_eq!((job.response(), job.ran), (ms(15), us(600)));
    assert_eq!((thread.seen.jobs, thread.seen.execution.count()), (1, 1));
    // A clock that goes backwards.
    let odd = thread.completed(7, 3, open(10, 300), point(9, 200));
    assert_eq!((odd.completion, odd.ran), (ms(10), us(0)));
    assert_eq!(thread.seen.execution.count(), 2);
}

/// A wait for a futex that takes nearly the whole job, of an ordinary thread that does almost nothing.
#[test]
fn job_that_is_nearly_all_wait_may_be_idle_time() {
    let may_be = |length: u64, prio: i16, call: Call, ended: bool| {
        let mut thread = known(None, 0);
        thread.state.prio = KernelPriority(prio);
        for turn in 0..4 {
            let at = 100 * turn;
            thread
                .seen
                .waits
                .add(Some(RELEASE), (ms(at), ms(at + 10)), true);
            thread
                .seen
                .waits
                .add(Some(call), (ms(at + 20), ms(at + 30)), true);
        }
        if ended {
            thread
                .seen
                .waits
                .ended(call, super::super::idle::End::Timeout);
        }
        thread.longest_elsewhere = Some((call, ms(length)));
        let numbers = CallNumbers {
            futex: vec![FUTEX.id],
            ..CallNumbers::default()
        };
        thread.may_be_idle(&open(1_000, 0), point(1_200, 0), &numbers)
    };
    // Nine tenths of the 200 ms.
    assert!(may_be(180, 120, FUTEX, true) && !may_be(179, 120, FUTEX, true));
    assert!(!may_be(180, 9, FUTEX, true) && !may_be(180, 120, OTHER, true));
    assert!(!may_be(180, 120, FUTEX, false));
    let without = known(None, 0);
    assert!(!without.may_be_idle(&open(1, 0), point(2, 0), &CallNumbers::default()));
}

#[test]
fn release_waits_are_judged_again_at_some_waits() {
    let judged = |count: u64, second: bool| {
        let mut thread = known(None, 0);
        thread.seen.second_release = second.then(|| found(OTHER, None));
        thread.seen.waits.count = count;
        thread.is_to_be_judged()
    };
    assert!(judged(1, false) && judged(8, false));
    // A thread of a pool is judged rarely.
    assert!(judged(8, true) && judged(16, true) && !judged(9, true));
    assert!(!Thread::default().is_to_be_judged());
}
