//! Minutes of made-up machines: how often the bound of `check` holds.

use std::collections::BTreeSet;

use punctual_model::poisson_upper;
use punctual_stats::episodes::Episodes;

use crate::machines::{Kind, Wander, exponential, random};

/// Periods of a run: a minute at 1 kHz.
const PERIODS: u64 = 60_000;

/// Machines, with the episodes that they have in a minute in the mean.
const KINDS: [(&str, Kind, f64); 5] = [
    ("independent", Kind::Independent, 8.0),
    ("bursts", Kind::Bursts, 0.5),
    ("drift", Kind::Drift(0.8), 8.0),
    ("wandering scale", Kind::Scale, 8.0),
    ("rare mixture", Kind::Rare, 0.2),
];

/// What a minute of a machine had, and what such minutes have in the mean.
struct Minute {
    late: BTreeSet<u64>,
    episodes: f64,
    misses: f64,
}

/// Late periods of an episode: how many in the mean, and how many periods apart at most.
fn size(kind: Kind) -> (f64, u64) {
    match kind {
        Kind::Bursts => (20.0, 5),
        Kind::Rare => (2.0, 1),
        Kind::Independent | Kind::Drift(_) | Kind::Scale => (1.0, 1),
    }
}

fn minute(kind: Kind, rate: f64, random: &mut fastrand::Rng) -> Minute {
    let (deviation, memory) = match kind {
        Kind::Drift(by) => (by, PERIODS as f64 / 2.0),
        Kind::Scale => (0.5, PERIODS as f64 / 10.0),
        Kind::Independent | Kind::Bursts | Kind::Rare => (0.0, 1.0),
    };
    let (mean, apart) = size(kind);
    let mut level = Wander::new(memory, random);
    let mut minute = Minute {
        late: BTreeSet::new(),
        episodes: 0.0,
        misses: 0.0,
    };
    for period in 0..PERIODS {
        let wanders = match deviation > 0.0 {
            true => (deviation * level.step(random) - deviation * deviation / 2.0).exp(),
            false => 1.0,
        };
        let chance = wanders * rate / PERIODS as f64;
        minute.episodes += chance;
        minute.misses += chance * mean;
        if random.f64() < chance {
            let number = 1 + ((mean - 1.0) * exponential(random)).round() as u64;
            let mut at = period;
            for _ in 0..number {
                minute.late.insert(at);
                at += random.u64(1..=apart);
            }
        }
    }
    minute.late.retain(|at| *at < PERIODS);
    minute
}

/// Prints the table of so many minutes behind each figure.
pub(crate) fn print(machines: u64) {
    println!("## check: coverage of the bound\n");
    println!(
        "{machines} minutes at 1 kHz for each figure. How often the upper 95% bound holds the \
         rate that\nsuch a minute has in the mean: by the misses as if each came by itself, and \
         by episodes, as\n`check` does.\n"
    );
    println!("| machine | episodes a minute | bound on misses | bound on episodes |");
    println!("|---|---|---|---|");
    for (name, kind, rate) in KINDS {
        let (mut by_misses, mut by_episodes) = (0u64, 0u64);
        for seed in 0..machines {
            let one = minute(kind, rate, &mut random(seed));
            let late: Vec<u64> = one.late.iter().copied().collect();
            let found = Episodes::of(&late, PERIODS).count();
            by_misses += u64::from(poisson_upper(late.len() as u64) >= one.misses);
            by_episodes += u64::from(poisson_upper(found) >= one.episodes);
        }
        let share = |count: u64| format!("{:.1}%", 100.0 * count as f64 / machines as f64);
        println!(
            "| {name} | {rate} | {} | {} |",
            share(by_misses),
            share(by_episodes)
        );
    }
    println!();
}
