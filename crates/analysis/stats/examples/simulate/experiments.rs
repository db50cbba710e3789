//! Simulated experiments: false alarms, coverage and power of each method.

use punctual_stats::pairs::{PairCounts, WEALTH_DECIDES, binomial_p, ratio, sign_flip, wealth};

use crate::machines::{Kind, exponential, normal, random};

/// Number of pairs of blocks in an experiment.
const PAIRS: usize = 12;

/// The false-alarm probabilities that `experiment` allots to the bet and to the signs.
const SHARED: [f64; 2] = [0.01, 0.04];

/// Mean number of events in a baseline block.
const EVENTS: f64 = 5.0;

const KINDS: [(&str, Kind); 5] = [
    ("independent", Kind::Independent),
    ("bursts", Kind::Bursts),
    ("drift", Kind::Drift(0.8)),
    ("wandering scale", Kind::Scale),
    ("rare mixture", Kind::Rare),
];

/// Returns the mean rate of each block of an experiment. The mean over many experiments is 1.
fn levels(kind: Kind, random: &mut fastrand::Rng) -> Vec<f64> {
    let blocks = 2 * PAIRS;
    let wander = |deviation: f64, memory: f64, random: &mut fastrand::Rng| {
        let keeps = (-1.0 / memory).exp();
        let mut now = normal(random);
        let mut step = || {
            now = keeps * now + (1.0 - keeps * keeps).sqrt() * normal(random);
            (deviation * now - deviation * deviation / 2.0).exp()
        };
        (0..blocks).map(|_| step()).collect()
    };
    match kind {
        Kind::Drift(by) => wander(by, blocks as f64 / 2.0, random),
        Kind::Scale => wander(0.5, blocks as f64 / 10.0, random),
        Kind::Independent | Kind::Bursts | Kind::Rare => vec![1.0; blocks],
    }
}

/// Returns the number of events in a block.
fn count(kind: Kind, mean: f64, random: &mut fastrand::Rng) -> u64 {
    match kind {
        // Bursts of four events on average.
        Kind::Bursts => (0..poisson(mean / 4.0, random))
            .map(|_| 1 + (3.5 * exponential(random)) as u64)
            .sum(),
        // One block in ten contains most of the events.
        Kind::Rare if random.f64() < 0.1 => poisson(mean * 5.5, random),
        Kind::Rare => poisson(mean * 0.5, random),
        Kind::Independent | Kind::Drift(_) | Kind::Scale => poisson(mean, random),
    }
}

fn poisson(mean: f64, random: &mut fastrand::Rng) -> u64 {
    let (mut count, mut left) = (0, mean - exponential(random));
    while left > 0.0 {
        count += 1;
        left -= exponential(random);
    }
    count
}

/// The results of each method for one experiment.
#[derive(Default)]
struct Said {
    consecutive: u64,
    interleaved: u64,
    signs: u64,
    bet: u64,
    both: u64,
    intervals: u64,
    covered: u64,
}

/// Simulates experiments on machines of one kind. `times` is the true ratio of rates.
fn experiments(kind: Kind, times: f64, machines: u64) -> Said {
    let mut said = Said::default();
    for seed in 0..machines {
        let random = &mut random(seed);
        let levels = levels(kind, random);
        // All blocks of one state first, then all blocks of the other.
        let mut sums = [0, 0];
        for (place, level) in levels.iter().enumerate() {
            let second = usize::from(place >= PAIRS);
            let rate = if second == 1 { times } else { 1.0 };
            sums[second] += count(kind, EVENTS * rate * level, random);
        }
        said.consecutive += u64::from(differs(sums[1], sums[0]));
        // The same machine, measured in pairs of random order.
        let pair = |levels: &[f64]| -> PairCounts {
            let first = random.bool();
            let [a, b] = if first { [0, 1] } else { [1, 0] };
            let baseline = count(kind, EVENTS * levels[a], random);
            (baseline, count(kind, EVENTS * times * levels[b], random))
        };
        let pairs: Vec<PairCounts> = levels.chunks(2).map(pair).collect();
        let sum = |of: fn(&PairCounts) -> u64| pairs.iter().map(of).sum::<u64>();
        said.interleaved += u64::from(differs(sum(|pair| pair.1), sum(|pair| pair.0)));
        let p = sign_flip(&pairs, seed);
        said.signs += u64::from(p < 0.05);
        let richest = (1..=PAIRS).map(|end| wealth(&pairs[..end]));
        let richest = richest.fold(0.0, f64::max);
        said.bet += u64::from(richest >= WEALTH_DECIDES);
        let [by_bet, by_signs] = SHARED;
        said.both += u64::from(richest * by_bet >= 1.0 || p < by_signs);
        if let Some(ratio) = ratio(&pairs, 0.95) {
            said.intervals += 1;
            said.covered += u64::from(ratio.low <= times && times <= ratio.high);
        }
    }
    said
}

/// Returns whether a test that assumes independent events finds a difference.
fn differs(b: u64, a: u64) -> bool {
    binomial_p(b, a + b, 0.5) < 0.05
}

/// Prints the table. Each figure is from `machines` experiments.
pub(crate) fn print(machines: u64) {
    println!("## experiment: false alarms, coverage and power\n");
    println!(
        "Each figure is from {machines} experiments of {PAIRS} pairs of blocks, with {EVENTS} \
         events per block of the\nbaseline. The first columns show how often equal states are \
         reported as different at 5%: with a\nPoisson test, if one state is measured after the \
         other; with a Poisson test, in random pairs; by\nthe sign-flip test; by the bet after \
         any pair; and by `experiment`, which divides the 5% between\nthe last two. The next \
         columns show how often the 95% interval contains the true ratio (1 and 2).\nThe last \
         columns show how often the sign-flip test, the bet and `experiment` detect a doubled \
         rate.\n"
    );
    println!(
        "| machine | consecutive | pairs, Poisson | sign flip | bet | experiment | covers ×1 | \
         covers ×2 | finds ×2: sign flip | bet | experiment |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, kind) in KINDS {
        let equal = experiments(kind, 1.0, machines);
        let doubled = experiments(kind, 2.0, machines);
        let share =
            |count: u64, all: u64| format!("{:.1}%", 100.0 * count as f64 / all.max(1) as f64);
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            share(equal.consecutive, machines),
            share(equal.interleaved, machines),
            share(equal.signs, machines),
            share(equal.bet, machines),
            share(equal.both, machines),
            share(equal.covered, equal.intervals),
            share(doubled.covered, doubled.intervals),
            share(doubled.signs, machines),
            share(doubled.bet, machines),
            share(doubled.both, machines),
        );
    }
}
