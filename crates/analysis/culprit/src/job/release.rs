//! The release wait of a thread: the one that it returns to most regularly.

use std::collections::BTreeMap;

use punctual_model::Nanos;

pub use super::call::Call;
use super::idle::{self, Bursts, End, Ends, FURTHER, Place};

/// Kind of system call, as needed for the choice of the release wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// Reads or writes a file. This is a part of the job if the thread also waits elsewhere.
    Storage,
    /// Any other call.
    Other,
    /// Waits for one of many events: epoll, poll, select.
    Any,
    /// Waits until a given time, or for a given duration.
    Timer,
}

/// Returns the kind of a wait, given the thread and the call; `None` if it cannot be the release.
pub(crate) type KindOf<'a> = &'a dyn Fn(u32, Call) -> Option<CallKind>;

/// The release wait that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundRelease {
    /// Place of the wait.
    pub call: Call,
    /// Number of waits at this place before it was chosen.
    pub seen: u64,
    /// Median interval, if most intervals are close to it.
    pub period: Option<Nanos>,
}

/// The release waits of a thread: one, or several for a thread that is idle in several waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Releases {
    pub(super) first: Option<Call>,
    pub(super) others: [Option<Call>; FURTHER],
}

impl Releases {
    pub(super) fn has(self, call: Option<Call>) -> bool {
        call.is_some() && (call == self.first || self.others.contains(&call))
    }

    pub(super) const fn are_several(self) -> bool {
        self.others[0].is_some()
    }

    pub(super) fn all(self) -> impl Iterator<Item = Call> {
        [self.first].into_iter().chain(self.others).flatten()
    }
}

/// Statistics of the waits at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenWaits {
    /// Place of the waits.
    pub call: Call,
    /// Number of waits.
    pub count: u64,
    /// Total waiting time.
    pub total: Nanos,
    /// Median interval between wake-ups, if most intervals are close to it.
    pub period: Option<Nanos>,
}

/// Maximum number of places per thread, because arguments are unbounded.
const PLACES: usize = 256;

/// Maximum number of intervals that are kept.
const INTERVALS: usize = 512;

/// Minimum number of intervals for a period.
const FEWEST: usize = 4;

/// Maximum ratio between the counts of two waits. If one wait occurs more than this many times as
/// often as another, the rarer one is not a release.
const RARE: u64 = 50;

/// Maximum ratio between the lengths of an irregular and a regular wait. If the irregular wait is
/// longer than that, it is the one in which the thread is idle.
const SHORT_BESIDE_IRREGULAR: u64 = 3;

/// Minimum number of irregular waits at one place that are needed to conclude that the thread is
/// idle there.
const MANY: u64 = 10;

/// Maximum ratio between the lengths of two regular waits. If the longest regular wait takes more
/// than this many times as long as another one, the shorter one is part of a job, even if it is a
/// wait for a time.
const SHORT: u64 = 8;

/// Minimum number of waits that the thread followed by a wake-up of the next waiter, for a lock.
const HANDED_ON: u64 = 3;

/// All waits of a thread, by place.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    by_call: BTreeMap<Call, WaitStatistics>,
    pub(super) count: u64,
    pub(super) bursts: Bursts,
    /// Place of the last wait.
    last: Option<Call>,
}

#[derive(Clone, Debug, Default)]
struct WaitStatistics {
    count: u64,
    total: Nanos,
    last: Option<Nanos>,
    intervals: Vec<u64>,
    lengths: Vec<u64>,
    ends: Ends,
    /// Number of waits after which the next wait was at the same place.
    repeated: u64,
    /// Whether the thread has waited, and has not woken other waiters at this place since then.
    /// Known only if system calls are recorded.
    owes_wake: bool,
    /// Number of waits after which the thread woke other waiters at this place, and of the others.
    handed_on: u64,
    kept: u64,
    /// Whether the thread waited for a lock with priority inheritance.
    is_pi_lock: bool,
    /// Whether sibling processes end each other's waits here.
    is_mutual: bool,
}

impl Waits {
    /// Adds a wait. `calls`: whether the system calls of the thread are recorded.
    pub(super) fn add(&mut self, call: Option<Call>, (from, to): (Nanos, Nanos), calls: bool) {
        self.count += 1;
        let before = std::mem::replace(&mut self.last, call);
        let Some(call) = call else {
            return;
        };
        if self.by_call.len() >= PLACES && !self.by_call.contains_key(&call) {
            return;
        }
        let place = self.by_call.entry(call).or_default();
        place.count += 1;
        let length = to.saturating_sub(from);
        place.total += length;
        place.repeated += u64::from(before == Some(call));
        if place.lengths.len() < INTERVALS {
            place.lengths.push(length.0);
        }
        place.kept += u64::from(std::mem::replace(&mut place.owes_wake, calls));
        if let Some(last) = place.last.replace(to)
            && place.intervals.len() < INTERVALS
        {
            place.intervals.push(to.saturating_sub(last).0);
        }
    }

    /// Breaks the sequence, so that no interval spans the interruption.
    pub(super) fn interrupt(&mut self) {
        self.last = None;
        for place in self.by_call.values_mut() {
            (place.last, place.owes_wake) = (None, false);
        }
    }

    /// Notes what ended the last wait, which was at this place.
    pub(super) fn ended(&mut self, call: Call, end: End) {
        if let Some(place) = self.by_call.get_mut(&call) {
            place.ends.add(end);
        }
    }

    /// Returns whether the thread has waited at a place.
    pub(super) fn has(&self, call: Call) -> bool {
        self.by_call.contains_key(&call)
    }

    /// Notes that the thread itself wakes the waiters at a futex, as the owner of a lock does when
    /// it releases it.
    pub(super) fn wakes_at(&mut self, call: Call) {
        if let Some(place) = self.by_call.get_mut(&call) {
            place.handed_on += u64::from(std::mem::take(&mut place.owes_wake));
        }
    }

    /// Notes that the thread waits for a lock with priority inheritance.
    pub(super) fn locks_pi(&mut self, call: Call) {
        if let Some(place) = self.by_call.get_mut(&call) {
            place.is_pi_lock = true;
        }
    }

    /// Marks the places where sibling processes end each other's waits.
    pub(super) fn mark_mutual(&mut self, is_mutual: &dyn Fn(Call) -> bool) {
        for (call, place) in &mut self.by_call {
            place.is_mutual = is_mutual(*call);
        }
    }

    /// Returns whether the waits at a place are for a lock. A thread that had to wait for a lock
    /// wakes the next waiter when it releases the lock.
    pub(super) fn is_lock(&self, call: Call) -> bool {
        self.by_call.get(&call).is_some_and(WaitStatistics::is_lock)
    }

    /// Returns all places in descending order of total waiting time.
    pub(super) fn seen_waits(&self) -> Vec<SeenWaits> {
        let seen = |(call, place): (&Call, &WaitStatistics)| SeenWaits {
            call: *call,
            count: place.count,
            total: place.total,
            period: place.period(),
        };
        let mut places: Vec<SeenWaits> = self.by_call.iter().map(seen).collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.total));
        places
    }

    /// Returns the places where the thread may be idle, in descending order of total time. Frequent
    /// waits for a time or for many events are included even if they are short, because a server
    /// whose clients answer immediately may spend more time waiting for locks.
    pub(super) fn candidates(&self, kind: &dyn Fn(Call) -> Option<CallKind>) -> Vec<SeenWaits> {
        let places = Self::without_storage(self.fitting(kind));
        let longest = places.first().map_or(0, |(place, _)| place.total.0);
        let most = places.iter().map(|(place, _)| place.count).max();
        let may_be_idle = |place: &SeenWaits, kind: CallKind| {
            place.total.0 >= longest / SHORT
                || (kind > CallKind::Other && place.count >= most.unwrap_or(0) / RARE)
        };
        let places = places.into_iter();
        places
            .filter(|(place, kind)| may_be_idle(place, *kind))
            .map(|(place, _)| place)
            .collect()
    }

    /// Returns the places that can be the release, with their kinds, in descending order of total
    /// waiting time.
    fn fitting(&self, kind: &dyn Fn(Call) -> Option<CallKind>) -> Vec<(SeenWaits, CallKind)> {
        let places = self.seen_waits().into_iter();
        places
            .filter_map(|place| Some((place, kind(place.call)?)))
            .collect()
    }

    /// Removes locks, if there is another place where a thread is typically idle. Workers that wake
    /// each other at one condition variable look like threads that hand on a lock.
    fn without_locks(&self, mut places: Vec<(SeenWaits, CallKind)>) -> Vec<(SeenWaits, CallKind)> {
        let is_lock = |place: &SeenWaits| self.is_lock(place.call);
        let longest = places.iter().filter(|(place, _)| is_lock(place));
        let longest = longest.map(|(place, _)| place.total.0).max().unwrap_or(0);
        let lock_call = places.iter().find(|(place, _)| is_lock(place));
        let lock_call = lock_call.map(|(place, _)| place.call.id);
        let is_idle = places.iter().any(|(place, kind)| {
            let is_typical = *kind > CallKind::Other || Some(place.call.id) == lock_call;
            is_typical && !is_lock(place) && place.total.0 >= longest / SHORT
        });
        if is_idle {
            places.retain(|(place, _)| !is_lock(place));
        }
        places
    }

    /// Removes the places where sibling processes end each other's waits, if there is another
    /// place where a thread is typically idle. The lengths prove nothing: clients that answer at
    /// once leave less idle time than locks take.
    fn without_mutual(&self, mut places: Vec<(SeenWaits, CallKind)>) -> Vec<(SeenWaits, CallKind)> {
        let is_mutual = |place: &SeenWaits| {
            let place = self.by_call.get(&place.call);
            place.is_some_and(|place| place.is_mutual)
        };
        let most = places.iter().filter(|(place, _)| is_mutual(place));
        let most = most.map(|(place, _)| place.count).max().unwrap_or(0);
        let is_idle = places.iter().any(|(place, kind)| {
            let is_other = !is_mutual(place) && !self.is_lock(place.call);
            is_other && *kind > CallKind::Other && place.count >= (most / RARE).max(2)
        });
        if is_idle {
            places.retain(|(place, _)| !is_mutual(place));
        }
        places
    }

    /// Removes the waits for files, if the thread also waits elsewhere.
    fn without_storage(mut places: Vec<(SeenWaits, CallKind)>) -> Vec<(SeenWaits, CallKind)> {
        let is_storage = |kind: &CallKind| *kind == CallKind::Storage;
        let most = places.iter().filter(|(_, kind)| is_storage(kind));
        let most = most.map(|(place, _)| place.count).max().unwrap_or(0);
        let is_idle = |(place, kind): &(SeenWaits, CallKind)| {
            !is_storage(kind) && place.count >= (most / RARE).max(2)
        };
        if places.iter().any(is_idle) {
            places.retain(|(_, kind)| !is_storage(kind));
        }
        places
    }

    /// Returns the place where a thread of a pool is parked: the longest wait in one of these calls
    /// that is not for a lock.
    pub(super) fn longest_of(
        &self,
        calls: &[i64],
        kind: &dyn Fn(Call) -> Option<CallKind>,
    ) -> Option<Call> {
        let fits = |call: Call, place: &WaitStatistics| {
            calls.contains(&call.id) && !place.is_lock() && kind(call).is_some()
        };
        let places = self.by_call.iter();
        let longest = places.filter(|(call, place)| fits(**call, place));
        longest
            .max_by_key(|(_, place)| place.total)
            .map(|(call, _)| *call)
    }

    /// Returns whether the thread waits at several places and does almost nothing in between. It may
    /// then be idle at some of them, which more waits show.
    pub(super) fn may_be_idle_elsewhere(&self) -> bool {
        self.by_call.len() > 1 && self.bursts.are_tiny()
    }

    /// Returns whether the thread may also be idle at a place: it does almost nothing between its waits,
    /// this one was at least as long as the waits at `first`, and too few have ended to tell.
    pub(super) fn may_be_idle_at(&self, call: Call, length: Nanos, first: Call) -> bool {
        let [place, first] = [call, first].map(|call| self.by_call.get(&call));
        let (Some(place), Some(first)) = (place, first) else {
            return false;
        };
        let usual = first
            .period()
            .unwrap_or_else(|| Nanos(median(first.lengths.clone())));
        let is_lock = place.is_lock() || place.is_mutual;
        !is_lock && self.bursts.are_tiny() && length >= usual && place.ends.may_be_idle()
    }

    /// Returns the idle waits other than `first`. `known` are those found before. `may_be` tells
    /// whether a wait is in a futex or until a time.
    pub(super) fn also_idle(
        &self,
        (first, known): (Call, &[Call]),
        may_be: &dyn Fn(Call) -> bool,
    ) -> Vec<Call> {
        let places = self.by_call.iter();
        let fitting =
            places.filter(|(call, place)| !place.is_lock() && !place.is_mutual && may_be(**call));
        let place = |(call, place): (&Call, &WaitStatistics)| Place {
            call: *call,
            count: place.count,
            length: Nanos(median(place.lengths.clone())),
            period: place.period(),
            ends: place.ends,
            repeated: place.repeated,
        };
        let places: Vec<Place> = fitting.map(place).collect();
        idle::further((first, known), &places, &self.bursts)
    }

    /// Returns the place as a release wait.
    pub(super) fn found(&self, call: Call) -> FoundRelease {
        let place = self.by_call.get(&call);
        FoundRelease {
            call,
            seen: place.map_or(0, |place| place.count),
            period: place.and_then(WaitStatistics::period),
        }
    }

    /// Returns the release wait. A regular wait is preferred if the thread is idle in it: a wait for
    /// a time first, then a wait for many events, then the longest. Otherwise, the wait with the
    /// longest total time is chosen. `kind` returns `None` for a wait that cannot be the release.
    pub(super) fn choose(&self, kind: &dyn Fn(Call) -> Option<CallKind>) -> Option<FoundRelease> {
        let places = Self::without_storage(self.fitting(kind));
        let places = self.without_locks(self.without_mutual(places));
        let most = places.iter().map(|(place, _)| place.count).max()?;
        let is_frequent = |place: &SeenWaits| place.count >= (most / RARE).max(2);
        let longest = |fits: &dyn Fn(&SeenWaits) -> bool| {
            let fitting = places.iter().filter(|(place, _)| fits(place));
            fitting.map(|(place, _)| place.total.0).max().unwrap_or(0)
        };
        let regular = longest(&|place| place.period.is_some());
        // A few long waits, as at the start of a program, do not count as idle time.
        let irregular =
            longest(&|place| place.period.is_none() && is_frequent(place) && place.count >= MANY);
        let least = (regular / SHORT).max(irregular / SHORT_BESIDE_IRREGULAR);
        // A few long waits within jobs, as for garbage collections, take longer in total.
        let is_usual = |place: &SeenWaits| {
            place.count >= MANY || place.total.0 / SHORT_BESIDE_IRREGULAR > irregular
        };
        let best = places
            .iter()
            .filter(|(place, _)| is_frequent(place))
            .max_by_key(|(place, kind)| {
                let is_idle = place.period.is_some() && place.total.0 >= least;
                // In comparisons, `None` is less than any kind.
                (is_idle.then_some(*kind), is_usual(place), place.total)
            });
        best.map(|(place, _)| self.found(place.call))
    }
}

impl WaitStatistics {
    const fn is_lock(&self) -> bool {
        self.is_pi_lock
            || self.ends.are_of_lock()
            || (self.handed_on >= HANDED_ON && self.handed_on > self.kept)
    }

    /// Returns the median interval, if the median deviation is at most a quarter of it.
    fn period(&self) -> Option<Nanos> {
        if self.intervals.len() < FEWEST {
            return None;
        }
        let median = median(self.intervals.clone());
        let off = self.intervals.iter().map(|one| one.abs_diff(median));
        (median > 0 && self::median(off.collect()) <= median / 4).then_some(Nanos(median))
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
#[path = "release_tests.rs"]
mod limit_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: i64) -> Call {
        Call { id, argument: 0 }
    }

    /// Adds ten waits at `id`, between these offsets in microseconds of each 1 ms period.
    fn periodic(waits: &mut Waits, id: i64, from: u64, to: u64) {
        for turn in 0..10 {
            let at = |us: u64| Nanos::from_micros(turn * 1_000 + us);
            waits.add(Some(call(id)), (at(from), at(to)), true);
        }
    }

    #[test]
    fn regular_timer_wait_is_preferred() {
        let mut waits = Waits::default();
        // The wait for the pipe is longer than the wait for the timer.
        periodic(&mut waits, 1, 100, 800);
        periodic(&mut waits, 2, 850, 1_000);
        for (turn, at) in [3_u64, 1_900, 2_400, 9_000, 30_000].into_iter().enumerate() {
            let at = Nanos::from_micros(at + turn as u64);
            waits.add(Some(call(3)), (at, at + Nanos::from_millis(20)), true);
        }
        waits.add(None, (Nanos::ZERO, Nanos::from_secs(1)), true);
        let found = waits.choose(&|call| {
            Some(if call.id == 2 {
                CallKind::Timer
            } else {
                CallKind::Other
            })
        });
        let found = found.unwrap();
        assert_eq!((found.call.id, found.seen), (2, 10));
        assert_eq!(found.period, Some(Nanos::from_millis(1)));
        // An explicitly requested wait is chosen even if it is irregular.
        let asked = waits
            .choose(&|call| (call.id == 3).then_some(CallKind::Other))
            .unwrap();
        assert_eq!((asked.call.id, asked.period), (3, None));
        assert_eq!(waits.choose(&|_| None), None);
        assert_eq!(waits.count, 26);
    }

    /// A thread that is released by another one, and sleeps briefly in each job.
    #[test]
    fn short_sleep_in_job_is_no_release() {
        let mut waits = Waits::default();
        periodic(&mut waits, 1, 100, 950);
        periodic(&mut waits, 2, 20, 70);
        let kind = |call: Call| match call.id {
            2 => Some(CallKind::Timer),
            _ => Some(CallKind::Other),
        };
        assert_eq!(waits.choose(&kind).unwrap().call.id, 1);
    }

    /// A server that reads its socket in bursts, with short regular waits in each burst.
    #[test]
    fn idle_wait_wins_over_short_regular_waits() {
        for (reads, read_us, chosen) in [(20, 60, 1), (20, 600, 1), (200, 600, 2)] {
            let waits = bursts(reads, read_us);
            let found = waits.choose(&|_| Some(CallKind::Other)).unwrap();
            assert_eq!(found.call.id, chosen, "{reads} reads of {read_us} us");
            // Both waits are shown as candidates if the choice is close, or if both are typical
            // idle waits.
            for (kind, count) in [
                (CallKind::Other, if read_us == 600 { 2 } else { 1 }),
                (CallKind::Any, 2),
            ] {
                let candidates = waits.candidates(&|_| Some(kind));
                assert_eq!(candidates.len(), count, "{reads} reads of {read_us} us");
            }
        }
    }

    /// Idle waits of about 50 ms in call 1, each followed by reads in call 2.
    fn bursts(reads: u64, read_us: u64) -> Waits {
        let mut waits = Waits::default();
        let mut at = 0;
        for turn in 1..20_u64 {
            let idle = 20_000 + turn * turn * 137 % 70_000;
            let idle_wait = (Nanos::from_micros(at), Nanos::from_micros(at + idle));
            waits.add(Some(call(1)), idle_wait, true);
            at += idle;
            for _ in 0..reads {
                at += read_us + 40;
                let since = Nanos::from_micros(at - read_us);
                waits.add(Some(call(2)), (since, Nanos::from_micros(at)), true);
            }
        }
        waits
    }

    /// The waits of a Java thread in 0.4 s, with two garbage collections.
    #[test]
    fn few_long_waits_are_no_release() {
        for (collection_ms, chosen) in [(67, 1), (150, 2)] {
            let mut waits = Waits::default();
            let mut at = 0;
            for turn in 1..=25_u64 {
                at += turn * turn * 1_370 % 20_000;
                let woken = Nanos::from_micros(at + 3_000);
                waits.add(Some(call(1)), (Nanos::from_micros(at), woken), true);
                at += 3_000;
                if turn % 10 == 0 {
                    let since = Nanos::from_micros(at);
                    let to = since + Nanos::from_millis(collection_ms);
                    waits.add(Some(call(2)), (since, to), true);
                    at += collection_ms * 1_000;
                }
            }
            let found = waits.choose(&|_| Some(CallKind::Other)).unwrap();
            assert_eq!(found.call.id, chosen, "{collection_ms} ms");
        }
    }

    #[test]
    fn of_irregular_waits_the_longest_is_chosen() {
        let mut waits = Waits::default();
        let mut at = 0;
        for turn in 1..20_u64 {
            at += turn * turn * 137 % 5_000;
            let (short, long) = (Nanos::from_micros(at), Nanos::from_micros(at + 10));
            waits.add(Some(call(7)), (short, long), true);
            waits.add(Some(call(8)), (long, Nanos::from_micros(at + 90)), true);
            at += 100;
        }
        let found = waits.choose(&|_| Some(CallKind::Other)).unwrap();
        assert_eq!((found.call.id, found.period), (8, None));
    }
}
