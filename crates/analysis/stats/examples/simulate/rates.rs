//! Coverage of the bounds of `check`, and the verdicts that result from them.

use punctual_model::{Decision, ERROR, LateSeconds, Looks, Nanos, Rate};

use crate::late::Late;
use crate::machines::random;

/// The kinds of machines: name, distribution of late periods, and the time between changes of the
/// rate in s.
pub(crate) const KINDS: [(&str, Late, f64); 20] = [
    ("independent", Late::Independent, 0.0),
    ("sparse bursts", Late::SparseBursts, 0.1),
    ("burst each 10 s", Late::PeriodicBursts, 10.0),
    ("self-exciting, 10 s", Late::SelfExciting, 10.0),
    (
        "bad mode, 3 s in 30 s",
        Late::BadMode(10.0, 3.0, 30.0),
        30.0,
    ),
    (
        "slow mode, 30 s in 300 s",
        Late::BadMode(10.0, 30.0, 300.0),
        300.0,
    ),
    (
        "silent but 3 s in 30 s",
        Late::BadMode(f64::INFINITY, 3.0, 30.0),
        30.0,
    ),
    ("wandering rate, 5 s", Late::Wander(0.5, 5.0), 5.0),
    ("swing of 50 s", Late::Swing(50.0), 50.0),
    ("swing of 20 min", Late::Swing(1_200.0), 1_200.0),
    ("drift, 20 min", Late::Wander(0.8, 1_200.0), 1_200.0),
    ("heavy-tailed gaps", Late::HeavyGaps, f64::INFINITY),
    ("always late", Late::Always, 0.0),
    ("late for 5 s each 5 min", Late::Cycle(5.0, 300.0), 300.0),
    (
        "dwell of 10 min in 50",
        Late::BadMode(10.0, 600.0, 3_000.0),
        3_000.0,
    ),
    (
        "dwell of 2 h in 10",
        Late::BadMode(10.0, 7_200.0, 36_000.0),
        36_000.0,
    ),
    ("warming up", Late::WarmingUp, f64::INFINITY),
    (
        "throttling after 8 to 25 min",
        Late::Throttling,
        f64::INFINITY,
    ),
    ("hot afternoon", Late::Afternoon, f64::INFINITY),
    ("1/f rate", Late::OneOverF, f64::INFINITY),
];

/// Lengths of runs, in s.
const LENGTHS: [u64; 3] = [60, 600, 3_600];

/// Ratio between a limit and the true rate.
const NEAR: f64 = 1.1;

/// Maximum length in min of a measurement that lasts until the result is proven, and the ratio
/// between its limits and the true rate.
const LONGEST: u64 = 64;
const FAR: f64 = 1.5;

/// Numbers of verdicts about one limit: held, broken and not proven.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdicts {
    pub(crate) held: u64,
    pub(crate) broken: u64,
    pub(crate) open: u64,
}

impl Verdicts {
    fn from_decisions(decisions: impl Iterator<Item = Decision>) -> Self {
        decisions.fold(Self::default(), |mut all, decision| {
            match decision {
                Decision::Held => all.held += 1,
                Decision::Broken => all.broken += 1,
                Decision::Open => all.open += 1,
            }
            all
        })
    }
}

/// The results of machines of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Mean number of late seconds in a run, which is the true value.
    pub(crate) truth: f64,
    /// Number of runs whose bounds are printed, and of those whose upper bound is at least the true
    /// value, and whose lower bound is at most the true value.
    pub(crate) printed: u64,
    pub(crate) upper: u64,
    pub(crate) lower: u64,
    /// Mean ratio of the printed upper bounds to the true value.
    pub(crate) width: f64,
    /// Verdicts if the true value is 1.1 times the limit.
    pub(crate) above: Verdicts,
    /// Verdicts if the limit is 1.1 times the true value.
    pub(crate) within: Verdicts,
}

/// Returns the late periods of each of `number` machines.
fn machines(late: Late, seconds: u64, number: u64) -> Vec<Vec<Nanos>> {
    let one = |seed| late.times(seconds as f64, &mut random(seed + 1_000_000 * seconds));
    (0..number).map(one).collect()
}

/// Returns the rate of late seconds in the first part of a run.
fn rate(late: &[Nanos], measured: Nanos) -> Rate {
    let mut seconds = LateSeconds::default();
    let seen = late.iter().filter(|at| **at < measured);
    seen.for_each(|at| seconds.add(*at));
    seconds.rate(measured)
}

/// Simulates `number` machines of a kind for `seconds`.
pub(crate) fn count(late: Late, seconds: u64, number: u64) -> Counted {
    let measured = Nanos::from_secs(seconds);
    let runs: Vec<Rate> = (machines(late, seconds, number).iter())
        .map(|late| rate(late, measured))
        .collect();
    let truth = runs.iter().map(|run| run.events as f64).sum::<f64>() / number as f64;
    let a_day = truth * 86_400.0 / seconds as f64;
    let of = |holds: &dyn Fn(&Rate) -> bool| runs.iter().filter(|run| holds(run)).count() as u64;
    let at = |limit: f64| Verdicts::from_decisions(runs.iter().map(|run| run.decide(limit, ERROR)));
    let printed = of(&Rate::supports_bounds);
    let width = (runs.iter().filter(|run| run.supports_bounds()))
        .map(|run| run.at_most(ERROR) / truth)
        .sum::<f64>();
    Counted {
        truth,
        printed,
        upper: of(&|run| run.supports_bounds() && run.at_most(ERROR) >= truth),
        lower: of(&|run| run.supports_bounds() && run.at_least(ERROR) <= truth),
        width: width / printed as f64,
        above: at(a_day / NEAR),
        within: at(a_day * NEAR),
    }
}

/// Simulates `number` machines, each measured until proven. The true value is 1.5 times the first
/// limit, and the second limit is 1.5 times the true value.
pub(crate) fn until_proven(late: Late, number: u64) -> [Verdicts; 2] {
    let seconds = LONGEST * 60;
    let all = machines(late, seconds, number);
    let longest = Nanos::from_secs(seconds);
    let counts = all.iter().map(|late| rate(late, longest).events);
    let truth = counts.sum::<u64>() as f64 / number as f64;
    let a_day = truth * 86_400.0 / seconds as f64;
    [a_day / FAR, a_day * FAR]
        .map(|limit| Verdicts::from_decisions(all.iter().map(|late| decided(late, limit))))
}

fn decided(late: &[Nanos], limit: f64) -> Decision {
    let mut looks = Looks::new(limit);
    let longest = Nanos::from_secs(LONGEST * 60);
    loop {
        let now = looks.next().min(longest);
        let rate = rate(late, now);
        if looks.look(&rate, Some(&rate)) || now == longest {
            return looks.end(&rate, &rate).0;
        }
    }
}

/// Prints the tables. Each figure is from `machines` machines.
pub(crate) fn print(machines: u64) {
    let part = |count: u64, of: u64| match of {
        0 => "-".to_owned(),
        of => format!("{:.1}%", 100.0 * count as f64 / of as f64),
    };
    let share = |count: u64| part(count, machines);
    println!("## check: coverage of the bounds\n");
    println!(
        "| machine | run | late seconds | no bound | upper | lower | upper/truth | held at 1.1 | not \
         proven at 1.1 | broken at 1/1.1 | not proven at 1/1.1 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, late, change) in KINDS {
        for seconds in LENGTHS {
            let found = count(late, seconds, machines);
            let slower = if change * 10.0 < seconds as f64 {
                ""
            } else {
                " *"
            };
            println!(
                "| {name}{slower} | {seconds} s | {:.1} | {} | {} | {} | {:.2} | {} | {} | {} | {} |",
                found.truth,
                share(machines - found.printed),
                part(found.upper, found.printed),
                part(found.lower, found.printed),
                found.width,
                share(found.above.held),
                share(found.above.open),
                share(found.within.broken),
                share(found.within.open),
            );
        }
    }
    println!("\n## check --until-proven={LONGEST}m\n");
    println!(
        "| machine | at 1.5: held | broken | not proven | at 1/1.5: held | broken | not proven |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, late, _) in KINDS {
        let [above, within] = until_proven(late, machines);
        let words =
            [above, within].map(|one| [one.held, one.broken, one.open].map(share).join(" | "));
        println!("| {name} | {} |", words.join(" | "));
    }
    println!();
}
