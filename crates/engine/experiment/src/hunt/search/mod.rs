//! Searches the mix of loads with the highest reproducible rate of late periods: random starts,
//! successive halving, and a confirmation on fresh data. Then removes the loads that the effect does
//! not need. The rest of the time is searched for a mix with a higher rate.
//! Each part ends by the clock: if blocks take longer, fewer mixes are tried.

use std::collections::BTreeSet;

use punctual_model::Nanos;
use punctual_stats::shift::{least_pairs, shift};

use super::mix::{Mix, Space};
use super::time::{SHORTEST, Time};

/// Late periods of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) late: u64,
    pub(super) periods: u64,
    /// Largest latency, in ns. It ranks mixes without a late period.
    pub(super) max_ns: u64,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.late += other.late;
        self.periods += other.periods;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns the share of late periods.
    pub(super) fn share(self) -> f64 {
        self.late as f64 / self.periods.max(1) as f64
    }
}

/// A machine on which mixes can be measured.
pub(super) trait Machine {
    /// The reason why a search ends.
    type Error;

    /// Returns the time since the search began.
    fn elapsed(&self) -> Nanos;

    /// Waits until the machine can be loaded. This time is not counted as that of a block.
    fn rest(&mut self) -> Result<(), Self::Error>;

    /// Runs a mix for this time. Starting and ending its loads takes additional time.
    fn measure(&mut self, mix: &Mix, length: Nanos) -> Result<Seen, Self::Error>;

    /// Reports what the search does.
    fn say(&mut self, text: &str);
}

/// The part of a search that the end of its time cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The confirmation of the best mix, after this number of pairs of blocks.
    Confirmation { pairs: u32 },
    /// The reduction of a confirmed mix.
    Reduction,
}

/// A mix that has more late periods than no load.
#[derive(Clone, Debug)]
pub(super) struct Confirmed {
    pub(super) mix: Mix,
    /// Late periods with the mix, and those without load, block by block.
    pub(super) seen: [Seen; 2],
    /// Number of pairs of blocks.
    pub(super) pairs: u32,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub(super) struct Worst {
    /// The smallest mix that still shows the effect; `None` if no mix was confirmed.
    pub(super) confirmed: Option<Confirmed>,
    /// Number of different mixes that were measured.
    pub(super) tried: u32,
    /// Number of pairs of loads that were in a mix together.
    pub(super) together: u32,
    /// The mix with the highest rate in the search.
    pub(super) best: Option<(Mix, Seen)>,
    /// Number of mixes that had not more late periods than no load on fresh data.
    pub(super) refuted: u32,
    /// The part that the end of the time cut off.
    pub(super) cut: Option<Cut>,
    /// Number of blocks, and the means of their lengths and of the times that they took.
    pub(super) blocks: u32,
    pub(super) means: [Nanos; 2],
}

/// The reason why a part of a search ends early.
enum End<E> {
    /// The rest of the time is shorter than a block.
    Time,
    Failed(E),
}

/// Probability that a mix is confirmed by chance.
const CHANCE: f64 = 0.05;

/// Number of comparisons that share this probability, those of reduced mixes included.
const COMPARISONS: u32 = 6;

/// Number of mixes of the first groups that may be compared with no load.
const CANDIDATES_AT_FIRST: usize = 3;

/// Share of the rate that a reduced mix must keep. A mix replaces the confirmed one only if its rate is so
/// high that the confirmed one has less than this share of it.
const KEPT: f64 = 0.5;

/// Number of pairs of blocks that judge each step of the reduction.
const STEP: u32 = 3;

/// Number of mixes that a halving leaves.
const FEWEST: usize = 4;

/// Number of random mixes to choose from: the one with the most new pairs of loads is tried.
const CANDIDATES: usize = 10;

/// Number of pairs of blocks of a confirmation.
fn pairs() -> u32 {
    least_pairs(CHANCE / f64::from(COMPARISONS))
}

/// Number of blocks of the comparisons of the first candidates, and of the reduction of a mix of five
/// loads with three levels.
fn most_after() -> u32 {
    2 * pairs() * (CANDIDATES_AT_FIRST as u32 + 1) + 15 * 2 * STEP
}

/// Number of blocks of one confirmation, a usual reduction, and the confirmation of its result.
fn usual_after() -> u32 {
    4 * pairs() + 8 * 2 * STEP
}

/// Returns the shortest time that suffices to measure four mixes and to confirm one of them, if loads
/// start and end in no time.
pub(super) fn least() -> Nanos {
    Nanos(SHORTEST.0 * (FEWEST as u64 + 2 * u64::from(pairs())))
}

/// Searches for this time. `worst` has what was found by the end, also after an error.
pub(super) fn search<M: Machine>(
    machine: &mut M,
    space: &Space,
    (length, seed): (Nanos, u64),
    worst: &mut Worst,
) -> Result<(), M::Error> {
    let mut search = Search {
        machine,
        space,
        time: Time::new(length),
        random: fastrand::Rng::with_seed(seed),
        measured: Vec::new(),
        together: BTreeSet::new(),
        compared: Vec::new(),
        worst,
    };
    let ended = search.all();
    let Search {
        time,
        measured,
        together,
        worst,
        ..
    } = search;
    worst.tried = measured.len() as u32;
    worst.together = together.len() as u32;
    (worst.blocks, worst.means) = (time.blocks(), time.means());
    match ended {
        Ok(()) | Err(End::Time) => Ok(()),
        Err(End::Failed(error)) => Err(error),
    }
}

struct Search<'a, M> {
    machine: &'a mut M,
    space: &'a Space,
    time: Time,
    random: fastrand::Rng,
    /// All mixes so far.
    measured: Vec<Mix>,
    /// Pairs of loads that were in a mix together.
    together: BTreeSet<[&'static str; 2]>,
    /// Mixes that were compared with no load.
    compared: Vec<Mix>,
    worst: &'a mut Worst,
}

/// Mixes with all that was seen of them, the worst first.
type Ranked = Vec<(Mix, Seen)>;

impl<M: Machine> Search<'_, M> {
    fn all(&mut self) -> Result<(), End<M::Error>> {
        self.machine
            .say("searching: random mixes of loads, the better half longer each time");
        // The end moves as the times of the blocks become known.
        let end = |search: &Self| search.time.search_end(most_after(), 2 * pairs());
        let middle = |search: &Self| Nanos(end(search).0 / 2);
        let mut found = self.group(&middle, |search, _| search.unlike())?;
        self.descend(&mut found, &end)?;
        self.judge(&found, CANDIDATES_AT_FIRST)?;
        loop {
            let (now, least) = (self.machine.elapsed(), 2 * pairs() + FEWEST as u32);
            let is_over = self.time.of_blocks(least, self.time.block()) > self.left();
            // A mix is compared with no load once, and once more when it is reduced.
            if is_over || self.compared.len() as u32 + 2 > COMPARISONS {
                return Ok(());
            }
            self.machine.say("searching: a mix with more late periods");
            let half = now + Nanos(self.left().0 / 2);
            self.descend(&mut found, &|_: &Self| half)?;
            self.judge(&found, 1)?;
        }
    }

    /// Measures another group until this time, and adds it to the mixes that were found. Half of it
    /// descends from the best of these.
    fn descend(
        &mut self,
        found: &mut Ranked,
        end: &dyn Fn(&Self) -> Nanos,
    ) -> Result<(), End<M::Error>> {
        let best = found.iter().take(FEWEST);
        let parents: Vec<Mix> = best.map(|(mix, _)| mix.clone()).collect();
        let more = self.group(end, |search, place| {
            if parents.is_empty() || place % 2 == 1 {
                return search.unlike();
            }
            let [one, other] = [0, 1].map(|_| search.random.usize(0..parents.len()));
            search
                .space
                .crossed(&parents[one], &parents[other], &mut search.random)
        })?;
        found.extend(more);
        rank(found);
        found.dedup_by(|one, other| one.0 == other.0);
        self.worst.best = found.first().cloned();
        Ok(())
    }

    /// Compares the best mixes with no load, at most this number, until one is confirmed, and reduces it.
    fn judge(&mut self, found: &Ranked, most: usize) -> Result<(), End<M::Error>> {
        let candidates: Vec<Mix> = found
            .iter()
            .filter(|(mix, seen)| !self.compared.contains(mix) && self.is_worse(*seen))
            .map(|(mix, _)| mix.clone())
            .take(most)
            .collect();
        for mix in candidates {
            match self.confirm(&mix)? {
                Some(whole) if self.is_worse(whole.seen[0]) => {
                    self.worst.confirmed = Some(whole);
                    // The reduction of the mix before it does not matter any more.
                    self.worst.cut = None;
                    return self.shrink(&mix);
                }
                Some(_) => {}
                None => self.worst.refuted += 1,
            }
        }
        Ok(())
    }

    /// Returns whether the confirmed mix has less than half of this rate, or there is none.
    fn is_worse(&self, seen: Seen) -> bool {
        let confirmed = self.worst.confirmed.as_ref();
        confirmed.is_none_or(|one| one.seen[0].share() < KEPT * seen.share())
    }

    /// Measures a block. The time is over if the block would end after it.
    fn block(&mut self, mix: &Mix, length: Nanos) -> Result<Seen, End<M::Error>> {
        self.machine.rest().map_err(End::Failed)?;
        let begun = self.machine.elapsed();
        if self.time.left(begun) < length {
            return Err(End::Time);
        }
        let seen = self.machine.measure(mix, length).map_err(End::Failed)?;
        self.time
            .note(length, self.machine.elapsed().saturating_sub(begun));
        if !mix.0.is_empty() && !self.measured.contains(mix) {
            self.measured.push(mix.clone());
            self.together.extend(mix.pairs());
        }
        Ok(seen)
    }

    fn left(&self) -> Nanos {
        self.time.left(self.machine.elapsed())
    }

    /// Returns a random mix with many pairs of loads that were not in a mix together before.
    fn unlike(&mut self) -> Mix {
        let (space, random) = (self.space, &mut self.random);
        let mut best = space.random(random);
        let new = |mix: &Mix| {
            let pairs = mix.pairs().into_iter();
            pairs.filter(|pair| !self.together.contains(pair)).count()
        };
        for _ in 1..CANDIDATES {
            let other = space.random(random);
            if new(&other) > new(&best) {
                best = other;
            }
        }
        best
    }

    /// Measures as many mixes as the time until `end` suffices for, then halves them until at most four
    /// are left.
    fn group(
        &mut self,
        end: &dyn Fn(&Self) -> Nanos,
        next: impl Fn(&mut Self, usize) -> Mix,
    ) -> Result<Ranked, End<M::Error>> {
        let begun = self.machine.elapsed();
        let room = |search: &Self| end(search).saturating_sub(begun);
        let mut all: Ranked = Vec::new();
        loop {
            let spent = self.machine.elapsed().saturating_sub(begun);
            let length = self.time.block();
            // This block, and the rounds with it.
            let more = all.len() as u32 + 1;
            let blocks = 1 + (rounds(more as usize) as u32 - 1) * more;
            let fits = spent + self.time.of_blocks(blocks, length) <= room(self);
            // Without any mix, there is nothing to confirm.
            let is_first = self.measured.is_empty();
            if !fits && !is_first {
                break;
            }
            let mix = next(self, all.len());
            match self.block(&mix, length) {
                Ok(seen) => all.push((mix, seen)),
                Err(End::Time) => break,
                Err(failed) => return Err(failed),
            }
        }
        for left in (1..rounds(all.len())).rev() {
            self.tell(&mut all);
            all.truncate(half(all.len()));
            let now = self.machine.elapsed();
            let share = room(self).saturating_sub(now.saturating_sub(begun)).0 / left;
            self.round(&mut all, Nanos(share))?;
        }
        self.tell(&mut all);
        Ok(all)
    }

    /// Measures the mixes again in this time, the best first, and drops those that it does not suffice
    /// for.
    fn round(&mut self, all: &mut Ranked, time: Nanos) -> Result<(), End<M::Error>> {
        let length = self.time.spread(all.len() as u32, time);
        let end = self.machine.elapsed() + time;
        let mut done = 0;
        for (mix, seen) in all.iter_mut() {
            if self.machine.elapsed() + length > end {
                break;
            }
            match self.block(mix, length) {
                Ok(more) => seen.add(more),
                Err(End::Time) => break,
                Err(failed) => return Err(failed),
            }
            done += 1;
        }
        // Without a new measurement, the former ones still rank the mixes.
        if done > 0 {
            all.truncate(done);
        }
        Ok(())
    }

    /// Ranks the mixes, and reports the best.
    fn tell(&mut self, all: &mut Ranked) {
        rank(all);
        if let Some((mix, seen)) = all.first() {
            let (left, Seen { late, periods, .. }) = (all.len(), *seen);
            self.machine.say(&format!(
                "{left} mixes left; {late} of {periods} periods late with {mix}"
            ));
        }
    }

    /// Compares a mix with no load on fresh data, in alternating blocks. The interval of the
    /// difference is exact. Returns the data if the mix has more late periods.
    fn confirm(&mut self, mix: &Mix) -> Result<Option<Confirmed>, End<M::Error>> {
        let pairs = pairs();
        self.compared.push(mix.clone());
        self.machine
            .say(&format!("confirming on fresh data: {mix}"));
        let length = self.time.fitting(usual_after(), self.left());
        let mut both = [Seen::default(); 2];
        let mut differences = Vec::new();
        for pair in 0..pairs {
            let mut block = [Seen::default(); 2];
            // The order is random, so that no change of the machine favours one side. The interval is exact
            // for this order.
            let order = if self.random.bool() { [0, 1] } else { [1, 0] };
            for side in order {
                let seen = match side {
                    0 => self.block(mix, length),
                    _ => self.block(&Mix::default(), length),
                };
                if matches!(seen, Err(End::Time)) && self.worst.confirmed.is_none() {
                    self.worst.cut = Some(Cut::Confirmation { pairs: pair });
                }
                block[side] = seen?;
                both[side].add(block[side]);
            }
            differences.push(block[0].share() - block[1].share());
        }
        let chance = CHANCE / f64::from(COMPARISONS);
        let found = shift(&differences, chance, 1);
        Ok(found
            .is_some_and(|found| found.low > 0.0)
            .then(|| Confirmed {
                mix: mix.clone(),
                seen: both,
                pairs,
            }))
    }

    /// Reduces the confirmed mix. The result is a new claim, which needs its own data; without them,
    /// the confirmed mix stays.
    fn shrink(&mut self, whole: &Mix) -> Result<(), End<M::Error>> {
        self.machine.say("removing the loads that are not needed");
        let mut mix = whole.clone();
        let done = self.reduce(whole, &mut mix);
        if let Err(End::Failed(_)) = done {
            return done;
        }
        let reduced = if mix == *whole {
            Ok(None)
        } else {
            self.confirm(&mix)
        };
        if matches!(done, Err(End::Time)) || matches!(reduced, Err(End::Time)) {
            self.worst.cut = Some(Cut::Reduction);
        }
        if let Some(reduced) = reduced? {
            self.worst.confirmed = Some(reduced);
        }
        Ok(())
    }

    /// Removes loads and lowers intensities as long as at least half of the rate of the whole mix is
    /// left.
    fn reduce(&mut self, whole: &Mix, mix: &mut Mix) -> Result<(), End<M::Error>> {
        let mut place = 0;
        while place < mix.0.len() && mix.0.len() > 1 {
            let smaller = mix.without(place);
            if self.keeps(whole, &smaller)? {
                *mix = smaller;
            } else {
                place += 1;
            }
        }
        for place in 0..mix.0.len() {
            while let Some(weaker) = mix.weaker(place) {
                if !self.keeps(whole, &weaker)? {
                    break;
                }
                *mix = weaker;
            }
        }
        Ok(())
    }

    /// Returns whether a reduced mix has at least half of the rate of the whole one, measured next to
    /// it. The time is over if it does not suffice to confirm the reduced mix afterwards.
    fn keeps(&mut self, whole: &Mix, smaller: &Mix) -> Result<bool, End<M::Error>> {
        let (length, left) = (self.time.block(), self.left());
        if self.time.of_blocks(2 * (STEP + pairs()), length) > left {
            return Err(End::Time);
        }
        let mut both = [Seen::default(); 2];
        for _ in 0..STEP {
            both[0].add(self.block(whole, length)?);
            both[1].add(self.block(smaller, length)?);
        }
        Ok(both[1].late > 0 && both[1].share() >= KEPT * both[0].share())
    }
}

/// Returns the number of rounds that halve this number of mixes until at most four are left.
fn rounds(mixes: usize) -> u64 {
    let (mut left, mut number) = (mixes, 1);
    while left > FEWEST {
        (left, number) = (half(left), number + 1);
    }
    number
}

fn half(number: usize) -> usize {
    number.div_ceil(2).max(FEWEST)
}

/// Sorts by the share of late periods, then by the largest latency, the worst first.
fn rank(all: &mut [(Mix, Seen)]) {
    all.sort_by(|(_, one), (_, other)| {
        let by_share = other.share().total_cmp(&one.share());
        by_share.then(other.max_ns.cmp(&one.max_ns))
    });
}

#[cfg(test)]
mod tests;
