//! Searches the mix of loads with the highest reproducible rate of late periods: random starts,
//! successive halving, and a confirmation on fresh data. The mix is then reduced to what it needs.

use punctual_stats::shift::{least_pairs, shift};

use super::mix::{Mix, Space};

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

    /// Runs a mix for this number of blocks.
    fn measure(&mut self, mix: &Mix, blocks: u32) -> Result<Seen, Self::Error>;

    /// Reports what the search does.
    fn say(&mut self, text: &str);
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub(super) struct Worst {
    /// The smallest mix that still shows the effect; `None` if no mix was confirmed.
    pub(super) mix: Option<Mix>,
    /// Its late periods in the confirmation, and those without load, block by block.
    pub(super) confirmed: [Seen; 2],
    /// Number of pairs of blocks of the confirmation.
    pub(super) pairs: u32,
    /// Number of mixes that were measured.
    pub(super) tried: u32,
    /// The mix with the highest rate in the search, if it was not confirmed.
    pub(super) best: Option<(Mix, Seen)>,
}

/// Probability that a mix is confirmed by chance.
const CHANCE: f64 = 0.05;

/// Number of comparisons that share this probability: of the best mixes, and of the reduced one.
const COMPARISONS: f64 = CONFIRMED as f64 + 1.0;

/// Number of the best mixes that may be confirmed.
const CONFIRMED: usize = 3;

/// Share of the rate that a reduced mix must keep.
const KEPT: f64 = 0.5;

/// Number of blocks with which each step of the reduction is judged.
const STEP: u32 = 3;

/// Number of mixes that a halving leaves.
const FEWEST: u32 = 4;

/// Minimum number of blocks of a search.
pub(super) const LEAST: u32 = 200;

/// Searches with about this number of blocks.
pub(super) fn search<M: Machine>(
    machine: &mut M,
    space: &Space,
    blocks: u32,
    seed: u64,
) -> Result<Worst, M::Error> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut worst = Worst::default();
    let pairs = least_pairs(CHANCE / COMPARISONS);
    // Blocks for the comparisons, and for the reduction of a mix of five loads with three levels.
    let after = 2 * pairs * (CONFIRMED as u32 + 1) + 15 * 2 * STEP;
    let each = blocks.saturating_sub(after) / 2;
    machine.say("searching: random mixes of loads, the better half twice as long each time");
    let first = halve(
        machine,
        starts(each, |_| space.random(&mut random)),
        &mut worst,
    )?;
    let parents: Vec<Mix> = first.iter().map(|(mix, _)| mix.clone()).collect();
    // Half of the second group descends from the best mixes of the first.
    let second = starts(each, |place| {
        if parents.is_empty() || place % 2 == 1 {
            return space.random(&mut random);
        }
        let [one, other] = [0, 1].map(|_| random.usize(0..parents.len()));
        space.crossed(&parents[one], &parents[other], &mut random)
    });
    let mut found = halve(machine, second, &mut worst)?;
    found.extend(first);
    rank(&mut found);
    found.dedup_by(|one, other| one.0 == other.0);
    worst.best = found.first().cloned();
    for (mix, _) in found.into_iter().take(CONFIRMED) {
        machine.say(&format!("confirming on fresh data: {mix}"));
        if confirm(machine, &mix, pairs, &mut worst)? {
            let (smaller, whole) = (reduce(machine, &mix, &mut worst)?, worst.confirmed);
            // The reduced mix is a new claim, which needs its own data.
            worst.mix = if smaller == mix || confirm(machine, &smaller, pairs, &mut worst)? {
                Some(smaller)
            } else {
                worst.confirmed = whole;
                Some(mix)
            };
            break;
        }
    }
    Ok(worst)
}

/// Returns as many mixes as the blocks suffice for.
fn starts(blocks: u32, next: impl FnMut(u32) -> Mix) -> Vec<Mix> {
    let number = (FEWEST..)
        .take_while(|number| cost(*number) <= blocks)
        .last();
    (0..number.unwrap_or(FEWEST)).map(next).collect()
}

/// Returns the number of blocks of [`halve`].
fn cost(starts: u32) -> u32 {
    let (mut left, mut blocks, mut sum) = (starts, 1, 0u32);
    loop {
        sum = sum.saturating_add(left.saturating_mul(blocks));
        if left <= FEWEST {
            return sum;
        }
        (left, blocks) = (half(left), blocks * 2);
    }
}

fn half(number: u32) -> u32 {
    number.div_ceil(2).max(FEWEST)
}

/// Measures all mixes for one block, then the better half for two, and so on, until at most four are
/// left. Returns these, with all that was seen of them.
fn halve<M: Machine>(
    machine: &mut M,
    mixes: Vec<Mix>,
    worst: &mut Worst,
) -> Result<Vec<(Mix, Seen)>, M::Error> {
    worst.tried += mixes.len() as u32;
    let mut all: Vec<(Mix, Seen)> = mixes
        .into_iter()
        .map(|mix| (mix, Seen::default()))
        .collect();
    let mut blocks = 1;
    loop {
        for (mix, seen) in &mut all {
            seen.add(machine.measure(mix, blocks)?);
        }
        rank(&mut all);
        if let Some((mix, seen)) = all.first() {
            let (late, periods) = (seen.late, seen.periods);
            let left = all.len();
            machine.say(&format!(
                "{left} mixes left; {late} of {periods} periods late with {mix}"
            ));
        }
        if all.len() <= FEWEST as usize {
            return Ok(all);
        }
        all.truncate(half(all.len() as u32) as usize);
        blocks *= 2;
    }
}

/// Sorts by the share of late periods, then by the largest latency, the worst first.
fn rank(all: &mut [(Mix, Seen)]) {
    all.sort_by(|(_, one), (_, other)| {
        let by_share = other.share().total_cmp(&one.share());
        by_share.then(other.max_ns.cmp(&one.max_ns))
    });
}

/// Compares a mix with no load on fresh data, in alternating blocks. The interval of the difference
/// is exact. Returns whether the mix has more late periods.
fn confirm<M: Machine>(
    machine: &mut M,
    mix: &Mix,
    pairs: u32,
    worst: &mut Worst,
) -> Result<bool, M::Error> {
    let mut both = [Seen::default(); 2];
    let mut differences = Vec::new();
    for pair in 0..pairs {
        let mut block = [Seen::default(); 2];
        // The order changes, so that a slow change of the machine does not favour one side.
        let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            let seen = match side {
                0 => machine.measure(mix, 1)?,
                _ => machine.measure(&Mix::default(), 1)?,
            };
            block[side] = seen;
            both[side].add(seen);
        }
        differences.push(block[0].share() - block[1].share());
    }
    worst.confirmed = both;
    worst.pairs = pairs;
    Ok(shift(&differences, CHANCE / COMPARISONS, 1).is_some_and(|found| found.low > 0.0))
}

/// Removes loads and lowers intensities as long as at least half of the rate of the whole mix is
/// left.
fn reduce<M: Machine>(machine: &mut M, whole: &Mix, worst: &mut Worst) -> Result<Mix, M::Error> {
    machine.say("removing the loads that are not needed");
    let mut mix = whole.clone();
    let mut place = 0;
    while place < mix.0.len() && mix.0.len() > 1 {
        let smaller = mix.without(place);
        if keeps(machine, whole, &smaller, worst)? {
            mix = smaller;
        } else {
            place += 1;
        }
    }
    for place in 0..mix.0.len() {
        while let Some(weaker) = mix.weaker(place) {
            if !keeps(machine, whole, &weaker, worst)? {
                break;
            }
            mix = weaker;
        }
    }
    Ok(mix)
}

/// Returns whether a reduced mix has at least half of the rate of the whole one, measured next to it.
fn keeps<M: Machine>(
    machine: &mut M,
    whole: &Mix,
    smaller: &Mix,
    worst: &mut Worst,
) -> Result<bool, M::Error> {
    worst.tried += 1;
    let mut both = [Seen::default(); 2];
    for _ in 0..STEP {
        both[0].add(machine.measure(whole, 1)?);
        both[1].add(machine.measure(smaller, 1)?);
    }
    Ok(both[1].late > 0 && both[1].share() >= KEPT * both[0].share())
}

#[cfg(test)]
mod tests {
    use punctual_model::{CpuSet, Nanos};

    use super::*;
    use crate::analysis::tests::poisson;

    /// A machine with a rate of late periods that depends on the mix.
    struct Fake<'a> {
        rate: &'a dyn Fn(&Mix) -> f64,
        random: fastrand::Rng,
        blocks: u32,
    }

    /// Periods of a block.
    const PERIODS: u64 = 2_000;

    impl Machine for Fake<'_> {
        type Error = std::convert::Infallible;

        fn measure(&mut self, mix: &Mix, blocks: u32) -> Result<Seen, Self::Error> {
            self.blocks += blocks;
            let periods = PERIODS * u64::from(blocks);
            let late = poisson((self.rate)(mix) * periods as f64, &mut self.random);
            Ok(Seen {
                late,
                periods,
                max_ns: self.random.u64(10_000..20_000),
            })
        }

        fn say(&mut self, _: &str) {}
    }

    /// Blocks of 2 s that fit into 20 minutes.
    const BLOCKS: u32 = 450;

    fn hunt(seed: u64, rate: &dyn Fn(&Mix) -> f64) -> (Worst, u32) {
        let space = Space::new(&CpuSet::from_iter([0, 1]), Nanos::from_millis(1), &[]);
        let mut machine = Fake {
            rate,
            random: fastrand::Rng::with_seed(seed),
            blocks: 0,
        };
        let Ok(worst) = search(&mut machine, &space, BLOCKS, seed);
        (worst, machine.blocks)
    }

    fn has(mix: &Mix, name: &str, level: usize) -> bool {
        mix.0
            .iter()
            .any(|part| part.kind.name == name && part.level >= level)
    }

    /// Late periods without a trap: one in 20,000, and three times as many under any load.
    fn usual(mix: &Mix) -> f64 {
        if mix.0.is_empty() { 5e-5 } else { 1.5e-4 }
    }

    /// Six traps that need two loads at once.
    const TRAPS: [fn(&Mix) -> bool; 6] = [
        |mix| has(mix, "disk", 0) && has(mix, "cpu", 0),
        |mix| has(mix, "memory", 0) && has(mix, "messages", 1),
        |mix| has(mix, "fork", 0) && has(mix, "faults", 0),
        |mix| has(mix, "network", 1) && has(mix, "timers", 0),
        |mix| {
            let on = |part: &super::super::mix::Part| part.cpu != Some(0);
            has(mix, "syscalls", 0)
                && mix
                    .0
                    .iter()
                    .any(|part| part.kind.name == "cache" && on(part))
        },
        |mix| has(mix, "disk", 1) && has(mix, "network", 0),
    ];

    /// At least five of the six traps are found, and the result contains nothing but the two loads.
    #[test]
    fn traps_of_two_loads_are_found_and_reduced() {
        let mut found = 0;
        for (place, trap) in TRAPS.iter().enumerate() {
            let rate = |mix: &Mix| if trap(mix) { 5e-3 } else { usual(mix) };
            let (worst, blocks) = hunt(place as u64, &rate);
            assert!(blocks <= BLOCKS, "{blocks} blocks");
            if let Some(mix) = worst.mix.filter(trap) {
                found += 1;
                assert_eq!(mix.0.len(), 2, "trap {place}: {mix}");
                let [with, without] = worst.confirmed.map(Seen::share);
                assert!(with > 10.0 * without, "{:?}", worst.confirmed);
            }
        }
        assert!(found >= 5, "{found} of 6");
    }

    /// A machine on which no load matters: at most 5% of the searches may claim one.
    #[test]
    fn chance_is_not_confirmed() {
        let claims = (0..60).filter(|seed| hunt(*seed, &|_| 5e-4).0.mix.is_some());
        let claims = claims.count();
        // Three are expected at most, and eight are improbable (1%).
        assert!(claims < 8, "{claims} of 60");
    }

    #[test]
    fn weaker_loads_are_preferred() {
        let rate = |mix: &Mix| {
            if has(mix, "disk", 0) {
                5e-3
            } else {
                usual(mix)
            }
        };
        let (worst, _) = hunt(4, &rate);
        let mix = worst.mix.unwrap();
        assert_eq!(
            (mix.0.len(), mix.0[0].kind.name, mix.0[0].level),
            (1, "disk", 0)
        );
    }

    #[test]
    fn number_of_starts_follows_the_blocks() {
        assert_eq!([4, 8, 32, 33].map(cost), [4, 16, 128, 207]);
        for blocks in 4..2_000 {
            let made = starts(blocks, |_| Mix::default()).len() as u32;
            assert!(
                cost(made) <= blocks && cost(made + 1) > blocks,
                "{blocks}: {made}"
            );
        }
    }
}
