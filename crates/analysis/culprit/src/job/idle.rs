//! Threads that are idle in several waits, such as the service threads of a Java virtual machine and
//! the monitor of Go's scheduler. A thread that does almost nothing between its sleeps has no job from
//! one of its idle waits to the next one.

use punctual_model::Nanos;

use super::call::Call;

/// Maximum number of idle waits of a thread, besides its release wait.
pub(super) const FURTHER: usize = 3;

/// Longest run time between two sleeps that is still a tiny burst.
const TINY: Nanos = Nanos::from_millis(1);

/// Minimum number of tiny bursts for each longer one.
const PER_LONG_BURST: u64 = 10;

/// Minimum ratio of the time asleep to the time on the CPU.
const ASLEEP_PER_RUN: u64 = 20;

/// Minimum number of times that new work or a timeout ended the waits at a place.
const ENDS: u64 = 3;

/// Minimum ratio of the lengths of two waits. A much shorter wait is a part of a job.
const SHORT: u64 = 8;

/// Minimum length of the sleeps of a thread that sleeps again and again at one place.
const LOOPED: Nanos = Nanos::from_millis(1);

/// Cause of the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// An interrupt. For a futex or a sleep, this is a timeout.
    Timeout,
    /// A thread that was released during the wait. It cannot have held a lock since the wait began.
    Passed,
    /// A thread that this thread woke in the same job, or that such a thread woke: an answer.
    Answered,
    /// A thread that was busy since before the wait. `is_peer`: whether it also waits at this place,
    /// as threads that share a lock do.
    Held { is_peer: bool },
}

/// Numbers of the ends of the waits at a place. Ends by threads that are not watched are not counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    timeouts: u64,
    passed: u64,
    answered: u64,
    held: u64,
    held_by_peers: u64,
}

impl Ends {
    pub(super) const fn add(&mut self, end: End) {
        match end {
            End::Timeout => self.timeouts += 1,
            End::Passed => self.passed += 1,
            End::Answered => self.answered += 1,
            End::Held { is_peer: false } => self.held += 1,
            End::Held { is_peer: true } => self.held_by_peers += 1,
        }
    }

    /// Returns whether the waits are for a lock: most of them were ended by threads that also wait
    /// here, and that were not released in between.
    pub(super) const fn are_of_lock(&self) -> bool {
        let others = self.timeouts + self.passed + self.answered + self.held;
        self.held_by_peers >= ENDS && self.held_by_peers > others
    }

    /// Returns whether three quarters of the ends are timeouts or new work, and half of the waits
    /// have a known end.
    const fn are_idle(&self, waits: u64) -> bool {
        let idle = self.timeouts + self.passed;
        let busy = self.answered + self.held + self.held_by_peers;
        idle >= ENDS && idle >= 3 * busy && 2 * (idle + busy) >= waits
    }

    /// Returns whether all known ends are timeouts or new work, but too few to be sure. The place is
    /// judged some waits after the last of them.
    pub(super) const fn may_be_idle(&self) -> bool {
        let idle = self.timeouts + self.passed;
        let busy = self.answered + self.held + self.held_by_peers;
        busy == 0 && idle > 0 && idle <= ENDS
    }

    const fn are_new_work(&self) -> bool {
        self.passed > self.timeouts
    }
}

/// The run times between the sleeps of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bursts {
    count: u64,
    long: u64,
    run: Nanos,
    asleep: Nanos,
}

impl Bursts {
    /// Adds the time on the CPU between two sleeps, and the length of the second sleep.
    pub(super) fn add(&mut self, run: Nanos, asleep: Nanos) {
        self.count += 1;
        self.long += u64::from(run > TINY);
        self.run += run;
        self.asleep += asleep;
    }

    pub(super) fn are_tiny(&self) -> bool {
        self.long.saturating_mul(PER_LONG_BURST) <= self.count
            && self.run.0.saturating_mul(ASLEEP_PER_RUN) <= self.asleep.0
    }
}

/// The waits at a place where a thread may be idle: in a futex that is not a lock, or until a time.
/// A wait for a descriptor may be for the answer of a peer, which no event shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) call: Call,
    pub(super) count: u64,
    /// Median length of a wait.
    pub(super) length: Nanos,
    pub(super) period: Option<Nanos>,
    pub(super) ends: Ends,
    /// Number of waits after which the next wait was at the same place.
    pub(super) repeated: u64,
}

impl Place {
    /// Returns whether the thread usually waits here again and again.
    const fn is_loop(&self) -> bool {
        2 * self.repeated >= self.count
    }

    /// Returns whether the thread is idle here too, if it is idle at `first`.
    fn is_idle_besides(&self, first: &Self) -> bool {
        // The period of a thread that other threads release is that of their work.
        let period = first.period.filter(|_| !first.ends.are_new_work());
        let is_long = match period {
            // A wait within the job of a periodic thread is shorter than its period.
            Some(period) => self.length >= period,
            // A thread that sleeps once in a job for a time of its choice is not idle.
            None if self.ends.are_new_work() => self.length.0 >= first.length.0 / SHORT,
            // Its own timers release the thread from both waits, or it sleeps here again and again.
            None if self.is_loop() || !first.ends.are_new_work() => {
                self.length >= LOOPED || self.length.0 >= first.length.0 / SHORT
            }
            None => first.is_loop() && self.length >= first.length,
        };
        self.ends.are_idle(self.count) && is_long
    }
}

/// Returns the idle waits other than `first`. There are none if the thread does more than tiny bursts
/// of work, or if there would be more than four idle waits in total. Those in `known` stay idle waits,
/// so that the choice does not alternate.
pub(super) fn further(
    (first, known): (Call, &[Call]),
    places: &[Place],
    bursts: &Bursts,
) -> Vec<Call> {
    let Some(first) = places.iter().find(|place| place.call == first) else {
        return Vec::new();
    };
    if !bursts.are_tiny() {
        return Vec::new();
    }
    let others = places.iter().filter(|place| place.call != first.call);
    let idle = others.filter(|place| known.contains(&place.call) || place.is_idle_besides(first));
    let idle: Vec<Call> = idle.map(|place| place.call).collect();
    if idle.len() > FURTHER {
        return Vec::new();
    }
    idle
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Call = Call { id: 1, argument: 0 };

    fn ends(all: &[(End, u64)]) -> Ends {
        let mut ends = Ends::default();
        for (end, count) in all {
            for _ in 0..*count {
                ends.add(*end);
            }
        }
        ends
    }

    const PEER: End = End::Held { is_peer: true };
    const OTHER: End = End::Held { is_peer: false };

    #[test]
    fn lock_is_handed_over_by_those_who_also_wait_for_it() {
        let of_lock = |all: &[(End, u64)]| ends(all).are_of_lock();
        assert!(of_lock(&[(PEER, 3)]) && !of_lock(&[(PEER, 2)]));
        // Most of the ends must be such.
        for end in [End::Timeout, End::Passed, End::Answered, OTHER] {
            assert!(of_lock(&[(PEER, 5), (end, 4)]), "{end:?}");
            assert!(!of_lock(&[(PEER, 5), (end, 5)]), "{end:?}");
        }
        let each = [(PEER, 5), (End::Timeout, 2), (End::Passed, 2), (OTHER, 1)];
        assert!(!of_lock(&each) && of_lock(&each[..3]));
    }

    #[test]
    fn idle_waits_end_with_new_work_or_a_timeout() {
        let idle = |all: &[(End, u64)], waits| ends(all).are_idle(waits);
        for end in [End::Timeout, End::Passed] {
            assert!(idle(&[(end, 3)], 3) && !idle(&[(end, 2)], 2), "{end:?}");
        }
        assert!(idle(&[(End::Timeout, 2), (End::Passed, 1)], 3));
        // At least three quarters of the known ends.
        for end in [End::Answered, OTHER, PEER] {
            assert!(idle(&[(End::Passed, 9), (end, 3)], 12), "{end:?}");
            assert!(!idle(&[(End::Passed, 9), (end, 4)], 13), "{end:?}");
        }
        // At least half of all waits.
        assert!(idle(&[(End::Passed, 6), (OTHER, 2)], 16));
        assert!(!idle(&[(End::Passed, 6), (OTHER, 2)], 17));
    }

    #[test]
    fn few_ends_may_be_those_of_an_idle_thread() {
        let may_be = |all: &[(End, u64)]| ends(all).may_be_idle();
        assert!(!may_be(&[]) && may_be(&[(End::Timeout, 1)]));
        assert!(may_be(&[(End::Timeout, 1), (End::Passed, 2)]));
        assert!(!may_be(&[(End::Timeout, 2), (End::Passed, 2)]));
        for end in [End::Answered, OTHER, PEER] {
            assert!(!may_be(&[(End::Timeout, 1), (end, 1)]), "{end:?}");
        }
    }

    #[test]
    fn new_work_is_more_frequent_than_timeouts() {
        let new = |passed, timeouts| ends(&[(End::Passed, passed), (End::Timeout, timeouts)]);
        assert!(new(3, 2).are_new_work() && !new(2, 2).are_new_work());
    }

    /// Bursts of these lengths in µs, each before a sleep of 20 times `asleep` µs.
    fn bursts(lengths: &[u64], asleep: u64) -> Bursts {
        let mut bursts = Bursts::default();
        for length in lengths {
            bursts.add(Nanos::from_micros(*length), Nanos::from_micros(asleep * 20));
        }
        bursts
    }

    #[test]
    fn tiny_bursts_are_short_and_rare() {
        assert!(bursts(&[], 0).are_tiny());
        assert!(bursts(&[100; 5], 100).are_tiny() && !bursts(&[101; 5], 100).are_tiny());
        // A tenth of the waits may take longer than a millisecond.
        let with_long = |tiny: usize, long| {
            let mut lengths = vec![10; tiny];
            lengths.push(long);
            bursts(&lengths, 10_000).are_tiny()
        };
        assert!(with_long(9, 1_001) && !with_long(8, 1_001));
        assert!(with_long(3, 1_000));
    }

    /// A place whose waits have this median length in µs, and end with new work or timeouts.
    fn place(id: i64, length: u64, end: End) -> Place {
        Place {
            call: Call { id, argument: 0 },
            count: 10,
            length: Nanos::from_micros(length),
            period: None,
            ends: ends(&[(end, 10)]),
            repeated: 0,
        }
    }

    /// Returns whether a thread that is idle at `first` is also idle at `other`.
    fn is_idle(first: Place, other: Place) -> bool {
        let found = further((FIRST, &[]), &[first, other], &Bursts::default());
        found == [other.call]
    }

    #[test]
    fn thread_that_repeats_half_of_its_waits_is_in_a_loop() {
        let repeated = |repeated| {
            Place {
                repeated,
                ..place(1, 10, End::Passed)
            }
            .is_loop()
        };
        assert!(repeated(10) && repeated(5) && !repeated(4));
    }

    #[test]
    fn thread_is_idle_in_long_waits_only() {
        let (new, timeout) = (End::Passed, End::Timeout);
        let first = |length, end| place(1, length, end);
        // Both are for new work: the second is not much shorter.
        assert!(is_idle(first(800, new), place(2, 100, new)));
        assert!(!is_idle(first(800, new), place(2, 99, new)));
        // Its own timers end both.
        assert!(is_idle(first(80_000, timeout), place(2, 1_000, timeout)));
        assert!(!is_idle(first(80_000, timeout), place(2, 999, timeout)));
        assert!(is_idle(first(800, timeout), place(2, 100, timeout)));
        assert!(!is_idle(first(800, timeout), place(2, 99, timeout)));
        // It sleeps once in a job for a time of its choice.
        let sleep = |length| place(2, length, timeout);
        assert!(!is_idle(first(800, new), sleep(80_000)));
        // It sleeps there again and again, or waits for work again and again.
        let again = |length| Place {
            repeated: 5,
            ..sleep(length)
        };
        assert!(is_idle(first(80_000, new), again(1_000)));
        assert!(!is_idle(first(80_000, new), again(999)));
        let in_loop = Place {
            repeated: 5,
            ..first(800, new)
        };
        assert!(is_idle(in_loop, sleep(800)) && !is_idle(in_loop, sleep(799)));
        // A wait for an answer is not idle time.
        assert!(!is_idle(first(800, new), place(2, 900, End::Answered)));
    }

    #[test]
    fn wait_in_the_job_of_a_periodic_thread_is_shorter_than_its_period() {
        let periodic = |end| Place {
            period: Some(Nanos::from_micros(1_000)),
            ..place(1, 100, end)
        };
        let wait = |length| place(2, length, End::Timeout);
        assert!(is_idle(periodic(End::Timeout), wait(1_000)));
        assert!(!is_idle(periodic(End::Timeout), wait(999)));
        // The period of a thread that others release is theirs.
        let short = place(2, 20, End::Passed);
        assert!(is_idle(periodic(End::Passed), short));
    }

    #[test]
    fn thread_is_idle_in_four_waits_at_most() {
        let many = |count: i64| -> Vec<Place> {
            let all = 1..=count;
            all.map(|id| place(id, 100, End::Passed)).collect()
        };
        let tiny = Bursts::default();
        let found = |count| further((FIRST, &[]), &many(count), &tiny).len();
        assert_eq!((found(1), found(3), found(4), found(5)), (0, 2, 3, 0));
        // A thread that works is idle in one wait.
        let works = bursts(&[2_000], 1);
        assert_eq!(further((FIRST, &[]), &many(3), &works), []);
        // The first one is unknown.
        let other = Call { id: 9, ..FIRST };
        assert_eq!(further((other, &[]), &many(3), &tiny), []);
    }

    #[test]
    fn idle_wait_stays_one() {
        let busy = place(2, 1, End::Answered);
        let places = [place(1, 800, End::Passed), busy];
        let known = [busy.call];
        let found = |known: &[Call]| further((FIRST, known), &places, &Bursts::default());
        assert_eq!(found(&known), known);
        assert_eq!(found(&[]), []);
    }
}
