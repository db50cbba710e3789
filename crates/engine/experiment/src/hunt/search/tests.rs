//! Tests the search on a simulated machine, with a simulated clock.

use punctual_model::CpuSet;

use super::*;
use crate::analysis::tests::poisson;

/// Returns the time that a block takes in addition to its length. Gets the number of blocks before it,
/// and the time.
type Cost<'a> = &'a dyn Fn(u32, Nanos, &mut fastrand::Rng) -> Nanos;

/// A machine with a rate of late periods that depends on the mix, and with blocks of random cost.
struct Fake<'a> {
    rate: &'a dyn Fn(&Mix) -> f64,
    cost: Cost<'a>,
    random: fastrand::Rng,
    now: Nanos,
    /// All blocks: the mix, and what was seen.
    blocks: Vec<(Mix, Seen)>,
    /// The longest block.
    longest: Nanos,
}

const PERIOD: Nanos = Nanos::from_millis(1);

impl Machine for Fake<'_> {
    type Error = std::convert::Infallible;

    fn elapsed(&self) -> Nanos {
        self.now
    }

    fn rest(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn measure(&mut self, mix: &Mix, length: Nanos) -> Result<Seen, Self::Error> {
        assert!(length >= SHORTEST, "{length}");
        let periods = length.0 / PERIOD.0;
        let seen = Seen {
            late: poisson((self.rate)(mix) * periods as f64, &mut self.random),
            periods,
            max_ns: self.random.u64(10_000..20_000),
        };
        let number = self.blocks.len() as u32;
        let took = length + (self.cost)(number, self.now, &mut self.random);
        self.now += took;
        self.longest = self.longest.max(took);
        self.blocks.push((mix.clone(), seen));
        Ok(seen)
    }

    fn say(&mut self, _: &str) {}
}

fn millis(from: u64, to: u64, random: &mut fastrand::Rng) -> Nanos {
    Nanos::from_millis(random.u64(from..=to))
}

/// Loads that start and end quickly.
fn quick(_: u32, _: Nanos, random: &mut fastrand::Rng) -> Nanos {
    millis(300, 1_000, random)
}

/// Searches for this time, and checks what holds for each search.
fn hunted<'a>(
    seconds: u64,
    seed: u64,
    rate: &'a dyn Fn(&Mix) -> f64,
    cost: Cost<'a>,
) -> (Worst, Fake<'a>) {
    let space = Space::new(&CpuSet::from_iter([0, 1]), PERIOD, &[]);
    let mut machine = Fake {
        rate,
        cost,
        random: fastrand::Rng::with_seed(seed),
        now: Nanos::ZERO,
        blocks: Vec::new(),
        longest: Nanos::ZERO,
    };
    let (length, mut worst) = (Nanos::from_secs(seconds), Worst::default());
    let Ok(()) = search(&mut machine, &space, (length, seed), &mut worst);
    let most = length + machine.longest;
    assert!(machine.now <= most, "{} of {length}", machine.now);
    check_counts(&machine, &worst);
    if let Some(found) = &worst.confirmed {
        check_confirmation(&machine, found);
    }
    (worst, machine)
}

/// The result states each mix and each block once.
fn check_counts(machine: &Fake<'_>, worst: &Worst) {
    let mut mixes: Vec<&Mix> = Vec::new();
    for (mix, _) in machine.blocks.iter().filter(|(mix, _)| !mix.0.is_empty()) {
        if !mixes.contains(&mix) {
            mixes.push(mix);
        }
    }
    assert_eq!(worst.tried as usize, mixes.len());
    assert_eq!(worst.blocks as usize, machine.blocks.len());
    let took = worst.means[1].0 * u64::from(worst.blocks);
    assert!(machine.now.0 - took <= u64::from(worst.blocks) * 2);
}

/// Returns where each complete confirmation of a mix begins among the blocks.
fn confirmations(machine: &Fake<'_>, mix: &Mix) -> Vec<usize> {
    let number = 2 * pairs() as usize;
    let is_one = |blocks: &[(Mix, Seen)]| {
        blocks.chunks(2).all(|pair| {
            let idle = pair.iter().filter(|(mix, _)| mix.0.is_empty());
            let own = pair.iter().filter(|(other, _)| other == mix);
            idle.count() == 1 && own.count() == 1
        })
    };
    let windows = machine.blocks.windows(number).enumerate();
    windows
        .filter(|(_, blocks)| is_one(blocks))
        .map(|(place, _)| place)
        .collect()
}

/// The figures of a confirmed mix are those of pairs of blocks of equal length, and of nothing that
/// was seen before.
fn check_confirmation(machine: &Fake<'_>, found: &Confirmed) {
    let all = confirmations(machine, &found.mix);
    let sum = |place: usize| {
        let mut both = [Seen::default(); 2];
        for (mix, seen) in &machine.blocks[place..place + 2 * pairs() as usize] {
            both[usize::from(mix.0.is_empty())].add(*seen);
        }
        both
    };
    // A reduced mix may have been compared as a candidate before.
    assert!((1..=2).contains(&all.len()), "{}", found.mix);
    assert!(all.into_iter().any(|place| sum(place) == found.seen));
    assert_eq!(found.seen[0].periods, found.seen[1].periods);
    assert_eq!(found.pairs, pairs());
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
        let (worst, _) = hunted(1_200, place as u64, &rate, &quick);
        if let Some(one) = worst.confirmed.filter(|one| trap(&one.mix)) {
            found += 1;
            assert_eq!(one.mix.0.len(), 2, "trap {place}: {}", one.mix);
            let [with, without] = one.seen.map(Seen::share);
            assert!(with > 10.0 * without, "{:?}", one.seen);
        }
    }
    assert!(found >= 5, "{found} of 6");
}

type CostFn = fn(u32, Nanos, &mut fastrand::Rng) -> Nanos;

/// Costs that no plan would expect.
const COSTS: [(&str, CostFn); 7] = [
    ("quick", quick),
    ("none", |_, _, _| Nanos::ZERO),
    ("the first is slow", |number, _, random| {
        millis(0, if number == 0 { 60_000 } else { 800 }, random)
    }),
    ("all are slow", |_, _, random| millis(3_000, 5_000, random)),
    ("they become slower", |_, now, random| {
        millis(0, now.0 / 100_000_000, random)
    }),
    ("some are slow", |_, _, random| {
        let most = if random.u8(0..10) == 0 { 20_000 } else { 300 };
        millis(0, most, random)
    }),
    ("from quick to slow", |number, _, random| {
        millis(100, if number > 60 { 4_000 } else { 200 }, random)
    }),
];

/// Each search obeys the rules of [`hunted`], and confirms if its time suffices for the confirmation, for
/// any cost of its blocks.
#[test]
fn searches_end_in_time_and_confirm_at_any_cost() {
    for (name, cost) in COSTS {
        for seed in 0..10 {
            let rate = |mix: &Mix| {
                if has(mix, "disk", 0) {
                    2e-2
                } else {
                    usual(mix)
                }
            };
            for seconds in [10, 30, 60, 180] {
                hunted(seconds, seed, &rate, &cost);
            }
            let (worst, machine) = hunted(600, seed, &rate, &cost);
            let one = worst.confirmed.unwrap_or_else(|| {
                panic!("{name}, seed {seed}: {:?} {}", worst.cut, machine.now);
            });
            assert!(has(&one.mix, "disk", 0), "{name}, seed {seed}: {}", one.mix);
        }
    }
}

/// With a cost that leaves time for only a few blocks, the result states what could not be done.
#[test]
fn time_that_suffices_for_no_confirmation_is_stated() {
    let rate = |_: &Mix| 0.5;
    let (worst, machine) = hunted(60, 1, &rate, &|_, _, _| Nanos::from_secs(20));
    assert_eq!((worst.tried, machine.blocks.len()), (2, 3));
    assert!(worst.confirmed.is_none());
    assert_eq!(worst.cut, Some(Cut::Confirmation { pairs: 0 }));
    let (worst, machine) = hunted(60, 1, &rate, &|_, _, _| Nanos::from_secs(100));
    assert_eq!((worst.tried, machine.blocks.len()), (1, 1));
    assert_eq!(worst.cut, Some(Cut::Confirmation { pairs: 0 }));
}

/// If the time is over before the mix is reduced, the confirmed mix is kept as it is.
#[test]
fn reduction_that_is_cut_off_keeps_the_confirmed_mix() {
    let rate = |mix: &Mix| if mix.0.is_empty() { 1e-3 } else { 0.5 };
    let mut cut = 0;
    for seed in 0..20 {
        let (worst, _) = hunted(60, seed, &rate, &|_, _, _| Nanos::from_millis(1_500));
        assert!(worst.confirmed.is_some(), "{seed}: {:?}", worst.cut);
        cut += usize::from(worst.cut == Some(Cut::Reduction));
    }
    assert!(cut > 10, "{cut}");
}

/// The shortest search that is not refused can confirm, if its blocks take no additional time.
#[test]
fn shortest_search_confirms() {
    let rate = |mix: &Mix| if mix.0.is_empty() { 0.0 } else { 0.5 };
    let seconds = least().0.div_ceil(1_000_000_000);
    assert_eq!(seconds, 10);
    let (worst, _) = hunted(seconds, 3, &rate, &|_, _, _| Nanos::ZERO);
    assert!(worst.confirmed.is_some() && worst.tried >= 4, "{worst:?}");
}

/// A machine on which no load matters: at most 5% of the searches may claim one.
#[test]
fn chance_is_not_confirmed() {
    for cost in [COSTS[0].1, COSTS[5].1] {
        let claims = (0..60).filter(|seed| {
            let (worst, _) = hunted(600, *seed, &|_| 5e-4, &cost);
            worst.confirmed.is_some()
        });
        let claims = claims.count();
        // Three are expected at most, and eight are improbable (1%).
        assert!(claims < 8, "{claims} of 60");
    }
}

/// A weak effect that is confirmed first does not end the search for a stronger one.
#[test]
fn weak_effect_does_not_hide_a_strong_one() {
    let mut found = 0;
    for trap in TRAPS {
        let rate = |mix: &Mix| match (trap(mix), has(mix, "timers", 0)) {
            (true, _) => 1e-2,
            (false, true) => 2e-3,
            (false, false) => usual(mix),
        };
        for seed in 0..20 {
            let (worst, _) = hunted(540, seed, &rate, &quick);
            found += u32::from(worst.confirmed.is_some_and(|one| trap(&one.mix)));
        }
    }
    // A search that ends with the first confirmed mix finds 113.
    assert!(found >= 116, "{found} of 120");
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
    let (worst, _) = hunted(1_200, 4, &rate, &quick);
    let mix = worst.confirmed.unwrap().mix;
    assert_eq!(
        (mix.0.len(), mix.0[0].kind.name, mix.0[0].level),
        (1, "disk", 0)
    );
    assert_eq!(worst.cut, None);
}

/// Few mixes contain all pairs of loads.
#[test]
fn pairs_of_loads_are_tried_early() {
    let (worst, _) = hunted(180, 1, &usual, &quick);
    assert!(worst.tried < 40, "{}", worst.tried);
    assert_eq!(worst.together, 45);
}

#[test]
fn halvings_are_counted() {
    assert_eq!([1, 4, 5, 8, 9, 32, 33].map(rounds), [1, 1, 2, 2, 3, 4, 5]);
}
