//! Limits of the choice of the release wait.

use super::*;

const A: Call = Call { id: 1, argument: 0 };
const B: Call = Call { id: 2, argument: 0 };
const C: Call = Call { id: 3, argument: 0 };

fn us(us: u64) -> Nanos {
    Nanos::from_micros(us)
}

/// Waits one after the other: the place, and the length of the wait and of the work after it in µs.
fn waits(all: &[(Call, u64, u64)]) -> Waits {
    let mut waits = Waits::default();
    let mut at = 0;
    for (call, length, work) in all {
        waits.add(Some(*call), (us(at), us(at + length)), true);
        at += length + work;
    }
    waits
}

fn seen(waits: &Waits, call: Call) -> SeenWaits {
    let all = waits.seen_waits().into_iter();
    let mut of_call = all.filter(|place| place.call == call);
    of_call.next().unwrap()
}

/// A kind for each call; the others cannot be the release.
fn kinds(known: &[(Call, CallKind)]) -> impl Fn(Call) -> Option<CallKind> {
    move |call| {
        known
            .iter()
            .find(|(one, _)| *one == call)
            .map(|(_, kind)| *kind)
    }
}

fn chosen(waits: &Waits, known: &[(Call, CallKind)]) -> Option<Call> {
    waits.choose(&kinds(known)).map(|found| found.call)
}

const OTHERS: [(Call, CallKind); 3] = [
    (A, CallKind::Other),
    (B, CallKind::Other),
    (C, CallKind::Other),
];

#[test]
fn waits_are_counted_by_place() {
    let waits = waits(&[(A, 10, 5), (B, 20, 5), (A, 30, 5), (A, 40, 5)]);
    assert_eq!(waits.count, 4);
    let (a, b) = (seen(&waits, A), seen(&waits, B));
    assert_eq!((a.count, a.total), (3, us(80)));
    assert_eq!((b.count, b.total), (1, us(20)));
    // The place with the longest total comes first.
    let order: Vec<Call> = waits.seen_waits().iter().map(|place| place.call).collect();
    assert_eq!(order, [A, B]);
    assert!(waits.has(A) && !waits.has(C));
    assert_eq!(waits.found(A).seen, 3);
    assert_eq!((waits.found(C).seen, waits.found(C).period), (0, None));
}

/// The arguments of calls are unbounded.
#[test]
fn number_of_places_is_limited() {
    let mut waits = Waits::default();
    let place = |argument| Call { id: 1, argument };
    for number in 0..300 {
        waits.add(Some(place(number)), (us(number), us(number + 1)), true);
    }
    assert_eq!(waits.seen_waits().len(), 256);
    assert!(waits.has(place(255)) && !waits.has(place(256)));
    // Known places are still counted.
    waits.add(Some(place(0)), (us(999), us(1_000)), true);
    assert_eq!((seen(&waits, place(0)).count, waits.count), (2, 301));
}

#[test]
fn period_needs_regular_intervals() {
    let period = |ends: &[u64]| {
        let mut waits = Waits::default();
        for end in ends {
            waits.add(Some(A), (us(end - 1), us(*end)), true);
        }
        seen(&waits, A).period
    };
    assert_eq!(period(&[100, 200, 300, 400, 500]), Some(us(100)));
    // Four intervals are needed.
    assert_eq!(period(&[100, 200, 300, 400]), None);
    // Half of the intervals may be off by a quarter of the median, but not by more.
    assert_eq!(period(&[100, 200, 300, 375, 500]), Some(us(100)));
    assert_eq!(period(&[100, 200, 325, 425, 500, 625]), Some(us(100)));
    assert_eq!(period(&[100, 226, 326, 400, 526, 600]), None);
    // Waits that end at the same time have none.
    assert_eq!(period(&[100; 6]), None);
}

/// An interruption may hide waits, so no interval and no hand-over spans it.
#[test]
fn nothing_spans_an_interruption() {
    let mut waits = Waits::default();
    for end in [100, 200, 300, 400] {
        waits.add(Some(A), (us(end - 10), us(end)), true);
    }
    waits.interrupt();
    waits.wakes_at(A);
    for end in [90_000, 90_100] {
        waits.add(Some(A), (us(end - 10), us(end)), true);
    }
    let place = &waits.by_call[&A];
    let long = place.intervals.iter().any(|interval| *interval > 100_000);
    assert_eq!((place.intervals.len(), long), (4, false));
    assert_eq!((place.repeated, place.handed_on), (4, 0));
    assert_eq!(place.kept, 4);
    assert_eq!(seen(&waits, A).period, Some(us(100)));
}

/// A thread that had to wait for a lock wakes the next waiter when it releases it.
#[test]
fn lock_is_handed_on() {
    let handed_on = |times: usize, kept: usize, calls: bool| {
        let mut waits = Waits::default();
        for turn in 0..times + kept {
            let at = turn as u64 * 100;
            waits.add(Some(A), (us(at), us(at + 10)), calls);
            // A second wake-up hands on nothing.
            for _ in 0..2 {
                if turn < times {
                    waits.wakes_at(A);
                }
            }
        }
        waits.is_lock(A)
    };
    assert!(handed_on(3, 0, true) && !handed_on(2, 0, true));
    // The last wait may still be handed on.
    assert!(handed_on(4, 4, true) && !handed_on(4, 5, true));
    // If calls are not recorded, wake-ups are not, either.
    assert!(!handed_on(9, 0, false));
    let mut waits = waits(&[(A, 10, 5)]);
    waits.wakes_at(B);
    waits.locks_pi(B);
    assert!(!waits.is_lock(A) && !waits.is_lock(B));
    waits.locks_pi(A);
    assert!(waits.is_lock(A));
}

#[test]
fn ends_by_peers_show_a_lock() {
    let mut waits = waits(&[(A, 10, 5), (B, 10, 5)]);
    for _ in 0..3 {
        waits.ended(A, End::Held { is_peer: true });
        waits.ended(C, End::Held { is_peer: true });
    }
    assert!(waits.is_lock(A) && !waits.is_lock(B) && !waits.is_lock(C));
}

/// Repeats a cycle of waits.
fn cycles(count: u64, cycle: &[(Call, u64, u64)]) -> Waits {
    let all: Vec<_> = (0..count).flat_map(|_| cycle.to_vec()).collect();
    waits(&all)
}

#[test]
fn rare_wait_is_no_release() {
    // A long wait among many short ones.
    let beside = |many: u64, long: u64| {
        let mut all: Vec<_> = (0..many as usize)
            .map(|number| (B, 10, [1, 60, 200][number % 3]))
            .collect();
        all.extend([(A, long, 3), (A, long, 5)]);
        chosen(&waits(&all), &OTHERS)
    };
    assert_eq!(beside(100, 900_000), Some(A));
    assert_eq!(beside(149, 900_000), Some(A));
    assert_eq!(beside(150, 900_000), Some(B));
    // A single wait is none.
    assert_eq!(
        chosen(&waits(&[(A, 900, 5), (B, 10, 5), (B, 10, 5)]), &OTHERS),
        Some(B)
    );
    assert_eq!(chosen(&waits(&[(A, 900, 5)]), &OTHERS), None);
    assert_eq!(chosen(&waits(&[]), &OTHERS), None);
}

/// The thread waits for a time, for events and for a pipe once in each period of 10 ms.
#[test]
fn regular_wait_for_a_time_is_preferred_to_events_and_others() {
    let cycle = |timer: u64| {
        cycles(
            20,
            &[(A, 3_000, 100), (B, timer, 100), (C, 6_000 - timer, 100)],
        )
    };
    let kinds = |a, b, c| [(A, a), (B, b), (C, c)];
    use CallKind::{Any, Other, Timer};
    let choice = |waits: &Waits, a, b, c| chosen(waits, &kinds(a, b, c));
    let waits = cycle(1_000);
    assert_eq!(choice(&waits, Other, Timer, Other), Some(B));
    assert_eq!(choice(&waits, Other, Any, Other), Some(B));
    assert_eq!(choice(&waits, Any, Timer, Other), Some(B));
    assert_eq!(choice(&waits, Timer, Any, Other), Some(A));
    assert_eq!(choice(&waits, Other, Other, Other), Some(C));
    // A wait of less than an eighth of the longest one is a part of a job.
    assert_eq!(choice(&cycle(667), Other, Timer, Other), Some(B));
    assert_eq!(choice(&cycle(666), Other, Timer, Other), Some(C));
}

/// The thread is idle in a long irregular wait, not in a short regular one.
#[test]
fn regular_wait_beside_a_longer_irregular_one() {
    let choice = |regular: u64, times: u64| {
        let mut waits = Waits::default();
        for turn in 0..20 {
            let at = turn * 10_000;
            waits.add(Some(A), (us(at), us(at + regular)), true);
        }
        // The irregular waits take 60 ms in total.
        for turn in 0..times {
            let at = turn * turn * 7_000;
            waits.add(Some(B), (us(at), us(at + 60_000 / times)), true);
        }
        chosen(&waits, &[(A, CallKind::Timer), (B, CallKind::Other)])
    };
    assert_eq!(choice(1_000, 20), Some(A));
    assert_eq!(choice(999, 20), Some(B));
    // Nine waits are too few to tell.
    assert_eq!(choice(999, 10), Some(B));
    assert_eq!(choice(999, 9), Some(A));
}

#[test]
fn waits_for_files_are_part_of_a_job() {
    let of = |storage: u64, other: u64| {
        let mut all = vec![(A, 1_000, 13); storage as usize];
        all.extend(vec![(B, 10, 7); other as usize]);
        let waits = waits(&all);
        let known = [(A, CallKind::Storage), (B, CallKind::Other)];
        (
            chosen(&waits, &known),
            waits.candidates(&kinds(&known)).len(),
        )
    };
    assert_eq!(of(90, 10).0, Some(B));
    assert_eq!(of(100, 2).0, Some(B));
    // The thread hardly waits elsewhere.
    assert_eq!(of(150, 2).0, Some(A));
    assert_eq!(of(20, 1).0, Some(A));
    // Only places where it may be idle are candidates.
    assert_eq!((of(90, 10).1, of(150, 2).1), (1, 1));
}

/// Returns waits at A and B. The owner of a lock ends the waits at A.
fn beside_lock(lock: u64, wait: u64) -> Waits {
    let mut waits = cycles(20, &[(A, lock, 13), (B, wait, 7)]);
    for _ in 0..20 {
        waits.ended(A, End::Held { is_peer: true });
    }
    waits
}

#[test]
fn lock_is_no_release_beside_a_typical_wait() {
    let choice =
        |lock, wait, kind| chosen(&beside_lock(lock, wait), &[(A, CallKind::Other), (B, kind)]);
    assert_eq!(choice(8_000, 1_000, CallKind::Any), Some(B));
    assert_eq!(choice(8_000, 999, CallKind::Any), Some(A));
    // A read is not typical.
    assert_eq!(choice(8_000, 1_000, CallKind::Other), Some(A));
    // Another futex is.
    let condition = Call { argument: 8, ..A };
    let mut waits = cycles(20, &[(A, 8_000, 13), (condition, 1_000, 7)]);
    for _ in 0..20 {
        waits.ended(A, End::Held { is_peer: true });
    }
    let known = [(A, CallKind::Other), (condition, CallKind::Other)];
    assert_eq!(chosen(&waits, &known), Some(condition));
}

#[test]
fn wait_that_siblings_end_is_no_release_beside_another() {
    let choice = |mutual: u64, others: u64, kind| {
        let mut all = vec![(A, 9_000, 13); mutual as usize];
        all.extend(vec![(B, 10, 7); others as usize]);
        let mut waits = waits(&all);
        waits.mark_mutual(&|call| call == A);
        chosen(&waits, &[(A, CallKind::Any), (B, kind)])
    };
    assert_eq!(choice(100, 2, CallKind::Any), Some(B));
    assert_eq!(choice(20, 2, CallKind::Any), Some(B));
    assert_eq!(choice(20, 1, CallKind::Any), Some(A));
    assert_eq!(choice(150, 2, CallKind::Any), Some(A));
    assert_eq!(choice(100, 2, CallKind::Other), Some(A));
}

#[test]
fn candidates_are_long_or_frequent() {
    let candidates = |long: u64, kind| {
        let waits = cycles(20, &[(A, 8_000, 5), (B, long, 5)]);
        let found = waits.candidates(&kinds(&[(A, CallKind::Other), (B, kind)]));
        found.iter().map(|place| place.call).collect::<Vec<Call>>()
    };
    assert_eq!(candidates(1_000, CallKind::Other), [A, B]);
    assert_eq!(candidates(999, CallKind::Other), [A]);
    assert_eq!(candidates(1, CallKind::Any), [A, B]);
    assert_eq!(candidates(1, CallKind::Timer), [A, B]);
    // A rare one is not frequent.
    let mut all = vec![(A, 8_000, 5); 100];
    all.push((B, 1, 5));
    let any = [(A, CallKind::Other), (B, CallKind::Any)];
    assert_eq!(waits(&all).candidates(&kinds(&any)).len(), 1);
    all.push((B, 1, 5));
    assert_eq!(waits(&all).candidates(&kinds(&any)).len(), 2);
}

#[test]
fn thread_of_a_pool_parks_in_its_longest_futex() {
    let mut waits = waits(&[(A, 10, 5), (B, 900, 5), (C, 50, 5)]);
    let longest = |waits: &Waits, ids: &[i64]| waits.longest_of(ids, &kinds(&OTHERS));
    assert_eq!(longest(&waits, &[1, 2, 3]), Some(B));
    assert_eq!(longest(&waits, &[1, 3]), Some(C));
    assert_eq!(longest(&waits, &[9]), None);
    waits.locks_pi(B);
    assert_eq!(longest(&waits, &[1, 2, 3]), Some(C));
    let only = kinds(&[(A, CallKind::Other)]);
    assert_eq!(waits.longest_of(&[1, 2, 3], &only), Some(A));
}

/// Adds bursts between the waits.
fn with_bursts(mut waits: Waits, run: u64) -> Waits {
    for _ in 0..10 {
        waits.bursts.add(us(run), us(1_000));
    }
    waits
}

#[test]
fn more_waits_decide_for_a_thread_that_does_almost_nothing() {
    let elsewhere =
        |all: &[(Call, u64, u64)], run| with_bursts(waits(all), run).may_be_idle_elsewhere();
    let (one, two) = ([(A, 10, 5), (A, 10, 5)], [(A, 10, 5), (B, 10, 5)]);
    assert!(elsewhere(&two, 50));
    assert!(!elsewhere(&one, 50) && !elsewhere(&two, 51));
}

#[test]
fn long_wait_of_an_almost_idle_thread_may_be_idle_time() {
    let may_be = |change: &dyn Fn(&mut Waits), length, run| {
        let mut waits = with_bursts(
            waits(&[(A, 100, 5), (A, 200, 9), (A, 300, 7), (B, 10, 5)]),
            run,
        );
        waits.ended(B, End::Timeout);
        change(&mut waits);
        waits.may_be_idle_at(B, us(length), A)
    };
    let nothing: &dyn Fn(&mut Waits) = &|_| ();
    // At least as long as the usual wait.
    assert!(may_be(nothing, 200, 50) && !may_be(nothing, 199, 50));
    assert!(!may_be(nothing, 200, 51));
    assert!(!may_be(&|waits| waits.locks_pi(B), 200, 50));
    assert!(!may_be(
        &|waits| waits.mark_mutual(&|call| call == B),
        200,
        50
    ));
    assert!(!may_be(&|waits| waits.ended(B, End::Answered), 200, 50));
    // Of a periodic thread, it must be as long as the period.
    let mut periodic = with_bursts(cycles(6, &[(A, 100, 900), (B, 10, 90)]), 0);
    periodic.ended(B, End::Timeout);
    assert!(periodic.may_be_idle_at(B, us(1_100), A));
    assert!(!periodic.may_be_idle_at(B, us(1_099), A));
    // Unknown places.
    assert!(!periodic.may_be_idle_at(C, us(9_000), A));
    assert!(!periodic.may_be_idle_at(B, us(9_000), C));
}

#[test]
fn other_idle_waits_are_no_locks() {
    let idle = |change: &dyn Fn(&mut Waits), may_be: &dyn Fn(Call) -> bool| {
        let mut waits = cycles(10, &[(A, 1_000, 1), (B, 2_000, 1), (A, 900, 1)]);
        for _ in 0..10 {
            waits.ended(A, End::Passed);
            waits.ended(B, End::Passed);
        }
        for _ in 0..20 {
            waits.ended(A, End::Passed);
        }
        change(&mut waits);
        waits.also_idle((A, &[]), may_be)
    };
    let nothing: &dyn Fn(&mut Waits) = &|_| ();
    assert_eq!(idle(nothing, &|_| true), [B]);
    assert_eq!(idle(nothing, &|call| call == A), []);
    assert_eq!(idle(&|waits| waits.locks_pi(B), &|_| true), []);
    assert_eq!(
        idle(&|waits| waits.mark_mutual(&|call| call == B), &|_| true),
        []
    );
}

#[test]
fn several_release_waits_are_known() {
    let one = Releases {
        first: Some(A),
        others: [None; 3],
    };
    let two = Releases {
        first: Some(A),
        others: [Some(B), None, None],
    };
    assert!(one.has(Some(A)) && !one.has(Some(B)) && !one.has(None));
    assert!(two.has(Some(A)) && two.has(Some(B)) && !two.has(Some(C)) && !two.has(None));
    assert!(two.are_several() && !one.are_several());
    assert_eq!(two.all().collect::<Vec<_>>(), [A, B]);
    assert_eq!(Releases::default().all().count(), 0);
    assert!(!Releases::default().has(None));
}

#[test]
fn memory_of_a_place_is_limited() {
    let mut waits = Waits::default();
    for end in 1..=600 {
        waits.add(Some(A), (us(end * 100 - 10), us(end * 100)), true);
    }
    let place = &waits.by_call[&A];
    assert_eq!((place.lengths.len(), place.intervals.len()), (512, 512));
    let seen = seen(&waits, A);
    assert_eq!(
        (seen.count, seen.total, seen.period),
        (600, us(6_000), Some(us(100)))
    );
}

/// A few long waits within jobs, as for garbage collections, can take longer than the release waits
/// in total.
#[test]
fn few_long_waits_are_the_release_only_if_they_outweigh_the_others() {
    let choice = |few: u64, total: u64| {
        let mut waits = Waits::default();
        let mut add = |call, count: u64, total: u64| {
            for turn in 0..count {
                let rest = if turn == 0 { total % count } else { 0 };
                let at = turn * turn * 7_000;
                waits.add(Some(call), (us(at), us(at + total / count + rest)), true);
            }
        };
        add(A, few, total);
        add(B, 20, 1_000);
        chosen(&waits, &OTHERS)
    };
    assert_eq!(choice(8, 3_000), Some(B));
    assert_eq!(choice(8, 3_001), Some(A));
    // Ten waits are usual, however long.
    assert_eq!(choice(9, 1_800), Some(B));
    assert_eq!(choice(10, 1_800), Some(A));
}
