//! The release wait of a thread: the one that it comes back to most regularly.

use std::collections::BTreeMap;

use punctual_model::Nanos;

/// A place where a thread waits: a system call and its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// The number of the call.
    pub id: i64,
    /// A file descriptor, the address of a futex, a clock; of a futex in steps of eight
    /// bytes, for a condition of glibc waits on two neighbours in turns.
    pub argument: u64,
}

/// What a call waits for, as far as the choice of the release wait needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// Anything else.
    Other,
    /// One of many events: epoll, poll, select.
    Any,
    /// A time.
    Timer,
}

/// The release wait that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundRelease {
    /// Where.
    pub call: Call,
    /// Waits there until it was chosen.
    pub seen: u64,
    /// The median interval, where most are close to it.
    pub period: Option<Nanos>,
}

/// What is known of the waits at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenWaits {
    /// Where.
    pub call: Call,
    /// How often.
    pub count: u64,
    /// How long, all together.
    pub total: Nanos,
    /// The median interval between wake-ups, where they are regular.
    pub period: Option<Nanos>,
}

/// Places of one thread that are distinguished: arguments may be any number.
const PLACES: usize = 256;

/// Intervals that are looked at.
const INTERVALS: usize = 512;

/// Fewer show no period.
const FEWEST: usize = 4;

/// A wait that is rarer than one in so many of the most frequent one is no release.
const RARE: u64 = 50;

/// A regular wait that is shorter than one part in so many of the longest is part of a
/// job, also where it is for a time.
const SHORT: u64 = 8;

/// All waits of a thread, by their place.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    places: BTreeMap<Call, Place>,
    pub(super) count: u64,
}

#[derive(Clone, Debug, Default)]
struct Place {
    count: u64,
    total: Nanos,
    last: Option<Nanos>,
    intervals: Vec<u64>,
}

impl Waits {
    pub(super) fn add(&mut self, call: Option<Call>, from: Nanos, to: Nanos) {
        self.count += 1;
        let Some(call) = call else {
            return;
        };
        if self.places.len() >= PLACES && !self.places.contains_key(&call) {
            return;
        }
        let place = self.places.entry(call).or_default();
        place.count += 1;
        place.total += to.saturating_sub(from);
        if let Some(last) = place.last.replace(to)
            && place.intervals.len() < INTERVALS
        {
            place.intervals.push(to.saturating_sub(last).0);
        }
    }

    /// What comes next does not follow what was seen: between them is no interval.
    pub(super) fn interrupt(&mut self) {
        for place in self.places.values_mut() {
            place.last = None;
        }
    }

    /// All places, by falling time.
    pub(super) fn places(&self) -> Vec<SeenWaits> {
        let seen = |(call, place): (&Call, &Place)| SeenWaits {
            call: *call,
            count: place.count,
            total: place.total,
            period: place.period(),
        };
        let mut places: Vec<SeenWaits> = self.places.iter().map(seen).collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.total));
        places
    }

    /// The release wait. A regular one is preferred, of these one for a time unless others
    /// are far longer; of equals the one in which the thread spent the most time. `kind`: `None` for a wait that
    /// cannot be it.
    pub(super) fn choose(&self, kind: &dyn Fn(Call) -> Option<CallKind>) -> Option<FoundRelease> {
        let fits = |(call, place): (&Call, &Place)| Some((*call, place.clone(), kind(*call)?));
        let fitting: Vec<(Call, Place, CallKind)> = self.places.iter().filter_map(fits).collect();
        let most = fitting.iter().map(|(_, place, _)| place.count).max()?;
        let often = |place: &Place| place.count >= 2 && place.count >= most / RARE;
        let regular = fitting
            .iter()
            .filter(|(_, place, _)| place.period().is_some());
        let longest = regular
            .map(|(_, place, _)| place.total.0)
            .max()
            .unwrap_or(0);
        let best = fitting
            .into_iter()
            .filter(|(_, place, _)| often(place))
            .max_by_key(|(_, place, kind)| {
                let regular = place.period().is_some();
                let long = place.total.0 >= longest / SHORT;
                let kind = (regular && long).then_some(*kind);
                (regular && long, kind, regular, place.total)
            });
        best.map(|(call, place, _)| FoundRelease {
            call,
            seen: place.count,
            period: place.period(),
        })
    }
}

impl Place {
    /// The median interval, where the median deviation is at most a quarter of it.
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
mod tests {
    use super::*;

    fn call(id: i64) -> Call {
        Call { id, argument: 0 }
    }

    /// A wait at `id` from and to so many microseconds after each of ten periods of 1 ms.
    fn periodic(waits: &mut Waits, id: i64, from: u64, to: u64) {
        for turn in 0..10 {
            let at = |us: u64| Nanos::from_micros(turn * 1_000 + us);
            waits.add(Some(call(id)), at(from), at(to));
        }
    }

    #[test]
    fn the_regular_wait_is_chosen_and_of_these_the_timer() {
        let mut waits = Waits::default();
        // A pipe is waited for longer than the timer.
        periodic(&mut waits, 1, 100, 800);
        periodic(&mut waits, 2, 850, 1_000);
        for (turn, at) in [3_u64, 1_900, 2_400, 9_000, 30_000].into_iter().enumerate() {
            let at = Nanos::from_micros(at + turn as u64);
            waits.add(Some(call(3)), at, at + Nanos::from_millis(20));
        }
        waits.add(None, Nanos::ZERO, Nanos::from_secs(1));
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
        // What was asked for, though irregular.
        let asked = waits
            .choose(&|call| (call.id == 3).then_some(CallKind::Other))
            .unwrap();
        assert_eq!((asked.call.id, asked.period), (3, None));
        assert_eq!(waits.choose(&|_| None), None);
        assert_eq!(waits.count, 26);
    }

    /// A thread that is released by another and sleeps for a moment in each job.
    #[test]
    fn a_short_sleep_in_a_job_is_no_release() {
        let mut waits = Waits::default();
        periodic(&mut waits, 1, 100, 950);
        periodic(&mut waits, 2, 20, 70);
        let kind = |call: Call| match call.id {
            2 => Some(CallKind::Timer),
            _ => Some(CallKind::Other),
        };
        assert_eq!(waits.choose(&kind).unwrap().call.id, 1);
    }

    #[test]
    fn of_irregular_waits_the_longest_is_chosen() {
        let mut waits = Waits::default();
        let mut at = 0;
        for turn in 1..20_u64 {
            at += turn * turn * 137 % 5_000;
            let (short, long) = (Nanos::from_micros(at), Nanos::from_micros(at + 10));
            waits.add(Some(call(7)), short, long);
            waits.add(Some(call(8)), long, Nanos::from_micros(at + 90));
            at += 100;
        }
        let found = waits.choose(&|_| Some(CallKind::Other)).unwrap();
        assert_eq!((found.call.id, found.period), (8, None));
    }
}
