//! How often the bounds of `check` hold, and what its verdicts are.

use punctual_model::{Decision, EPISODE_GAP, ERROR, Episodes, Looks, Nanos, Rate};

use crate::late::Late;
use crate::machines::random;

/// A kind of machine: its name, how its late periods come, and the time after which it has
/// forgotten how it was, s.
pub(crate) const KINDS: [(&str, Late, f64); 13] = [
    ("independent", Late::Independent, 0.0),
    ("sparse bursts", Late::SparseBursts, 0.1),
    ("periodic bursts", Late::PeriodicBursts, 10.0),
    ("self-exciting", Late::SelfExciting, 10.0),
    (
        "bad mode, 3 s in 30 s",
        Late::BadMode(10.0, 3.0, 30.0),
        30.0,
    ),
    (
        "bad mode, 30 s in 300 s",
        Late::BadMode(10.0, 30.0, 300.0),
        300.0,
    ),
    (
        "silent but 3 s in 30 s",
        Late::BadMode(f64::INFINITY, 3.0, 30.0),
        30.0,
    ),
    (
        "silent but 30 s in 300 s",
        Late::BadMode(f64::INFINITY, 30.0, 300.0),
        300.0,
    ),
    ("wandering, 5 s", Late::Wander(0.5, 5.0), 5.0),
    ("drift, 20 min", Late::Wander(0.8, 1_200.0), 1_200.0),
    ("swing, 50 s", Late::Swing(50.0), 50.0),
    ("swing, 20 min", Late::Swing(1_200.0), 1_200.0),
    ("heavy-tailed gaps", Late::HeavyGaps, f64::INFINITY),
];

/// What was counted of the machines of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) upper: u64,
    pub(crate) lower: u64,
    pub(crate) slow: u64,
    /// At a limit of the truth / 1.1: said to be held, and not proven.
    pub(crate) held_above: u64,
    pub(crate) open_above: u64,
    /// At a limit of 1.1 times the truth: said to be broken, and not proven.
    pub(crate) broken_within: u64,
    pub(crate) open_within: u64,
    pub(crate) held_at_double: u64,
    pub(crate) broken_at_half: u64,
    pub(crate) width: f64,
    pub(crate) truth: f64,
}

pub(crate) fn runs(late: Late, seconds: u64, machines: u64) -> Vec<Rate> {
    let measured = Nanos::from_secs(seconds);
    (0..machines)
        .map(|seed| {
            let times = late.times(seconds as f64, &mut random(seed + 1_000_000 * seconds));
            let episodes = Episodes::of(&times, EPISODE_GAP);
            Rate::of(&episodes.begins(Nanos::ZERO), measured, EPISODE_GAP)
        })
        .collect()
}

pub(crate) fn count(runs: &[Rate]) -> Counted {
    let truth = runs.iter().map(|run| run.events as f64).sum::<f64>() / runs.len() as f64;
    let mut counted = Counted {
        truth,
        ..Counted::default()
    };
    let day = runs[0].per_day(truth).unwrap_or_default();
    for run in runs {
        counted.upper += u64::from(run.at_most(ERROR) >= truth || run.is_slow);
        counted.lower += u64::from(run.at_least(ERROR) <= truth || run.is_slow);
        counted.slow += u64::from(run.is_slow);
        counted.width += run.at_most(ERROR) / truth;
        let decide = |limit| match run.decide(limit, ERROR) {
            Decision::Held if run.unsteady().is_some() => Decision::Open,
            other => other,
        };
        match decide(day / 1.1) {
            Decision::Held => counted.held_above += 1,
            Decision::Open => counted.open_above += 1,
            Decision::Broken => {}
        }
        match decide(day * 1.1) {
            Decision::Broken => counted.broken_within += 1,
            Decision::Open => counted.open_within += 1,
            Decision::Held => {}
        }
        counted.held_at_double += u64::from(decide(day * 2.0) == Decision::Held);
        counted.broken_at_half += u64::from(decide(day / 2.0) == Decision::Broken);
    }
    counted
}

/// Prints the table of so many minutes behind each figure.
pub(crate) fn print(machines: u64) {
    println!(
        "| machine | run | upper | lower | slow | held 1.1 | open 1.1 | broken .9 | open .9| held at 2 | broken at 1/2 | width | N |"
    );
    for (name, late, memory) in KINDS {
        for seconds in [60, 600, 3_600] {
            let c = count(&runs(late, seconds, machines));
            let p = |n: u64| format!("{:.1}", 100.0 * n as f64 / machines as f64);
            println!(
                "| {name} | {seconds} {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.2} | {:.1} |",
                if memory * 10.0 < seconds as f64 {
                    "fast"
                } else {
                    "slow"
                },
                p(c.upper),
                p(c.lower),
                p(c.slow),
                p(c.held_above),
                p(c.open_above),
                p(c.broken_within),
                p(c.open_within),
                p(c.held_at_double),
                p(c.broken_at_half),
                c.width / machines as f64,
                c.truth
            );
        }
    }
    let _ = Looks::default();
}
