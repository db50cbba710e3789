//! Coverage of the bounds of `check --series`: runs at random times of a week.

use fastrand::Rng;
use jiff::Timestamp;
use punctual_model::{Decision, ERROR, Nanos, SampledRuns, Sampling};

use crate::machines::random;

const DAY: f64 = 86_400.0;
const HOUR: f64 = 3_600.0;
const WEEK: f64 = 7.0 * DAY;

/// Mean share of late seconds in a week.
const MEAN: f64 = 0.02;

/// How the rate of late seconds changes over a week.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Week {
    /// It does not change.
    Steady,
    /// It swings by 90% around its mean each day.
    Daily,
    /// It is ten times as high on two days.
    BadDays,
    /// Late only in the hot afternoon: within 4 h of each day.
    Afternoons,
    /// It is ten times as high in a mode that lasts for this time on average, and takes a fifth of
    /// the time.
    Dwell(f64),
    /// Late for 5 s each 5 min.
    Cycle,
    /// Late in each second.
    Always,
    /// Late only within one stretch of this length each week, in each second.
    Once(f64),
}

/// The kinds of machines. The last ones are disturbances that the runs are unlikely to meet.
pub(crate) const KINDS: [(&str, Week); 12] = [
    ("steady", Week::Steady),
    ("daily swing", Week::Daily),
    ("two bad days", Week::BadDays),
    ("hot afternoons", Week::Afternoons),
    ("dwell of 10 min in 50", Week::Dwell(600.0)),
    ("dwell of 2 h in 10", Week::Dwell(2.0 * HOUR)),
    ("dwell of 10 h in 50", Week::Dwell(10.0 * HOUR)),
    ("late for 5 s each 5 min", Week::Cycle),
    ("always late", Week::Always),
    ("16 h once a week", Week::Once(16.0 * HOUR)),
    ("8 h once a week", Week::Once(8.0 * HOUR)),
    ("1 h once a week", Week::Once(HOUR)),
];

/// Number of kinds whose disturbances take at least 5% of the week.
pub(crate) const MET: usize = 10;

/// One machine: the probability of each second of a week to be late.
struct Machine {
    kind: Week,
    phase: f64,
    /// Times at which the mode changes. The mode is bad after an odd number of changes.
    changes: Vec<f64>,
}

impl Machine {
    fn new(kind: Week, random: &mut Rng) -> Self {
        let mut changes = Vec::new();
        if let Week::Dwell(length) = kind {
            // The week begins in the bad mode with the probability of its share.
            let mut is_bad = random.f64() < 0.2;
            if is_bad {
                changes.push(0.0);
            }
            let mut at = 0.0;
            while at < WEEK {
                let mean = if is_bad { length } else { 4.0 * length };
                at -= mean * (1.0 - random.f64()).ln();
                changes.push(at);
                is_bad = !is_bad;
            }
        }
        Self {
            kind,
            phase: random.f64(),
            changes,
        }
    }

    fn chance(&self, at: f64) -> f64 {
        let within = |share: f64, is_bad: bool| {
            // A bad time with ten times the rate keeps the mean of the week.
            let good = MEAN / (1.0 - share + share * 10.0);
            if is_bad { 10.0 * good } else { good }
        };
        match self.kind {
            Week::Steady => MEAN,
            Week::Daily => {
                MEAN * (1.0 + 0.9 * (std::f64::consts::TAU * (at / DAY + self.phase)).sin())
            }
            Week::BadDays => {
                let day = (at + self.phase * WEEK) % WEEK / DAY;
                within(2.0 / 7.0, day < 2.0)
            }
            Week::Afternoons => {
                let hour = (at + self.phase * DAY) % DAY / HOUR;
                if hour < 4.0 { MEAN * 6.0 } else { 0.0 }
            }
            Week::Dwell(_) => {
                let changes = self.changes.partition_point(|change| *change <= at);
                within(0.2, changes % 2 == 1)
            }
            Week::Cycle => f64::from(u8::from((at + self.phase * 300.0) % 300.0 < 5.0)),
            Week::Always => 1.0,
            Week::Once(length) => {
                let since = (at + self.phase * WEEK) % WEEK;
                f64::from(u8::from(since < length))
            }
        }
    }

    /// Returns the number of late seconds per day in this week.
    fn truth(&self) -> f64 {
        // The step divides no cycle.
        let step = 37.0;
        let steps = (WEEK / step) as u32;
        let sum: f64 = (0..steps).map(|n| self.chance(f64::from(n) * step)).sum();
        sum / f64::from(steps) * DAY
    }

    /// Measures the week.
    fn runs(&self, sampling: &Sampling, random: &mut Rng) -> SampledRuns {
        let seed = random.u64(..);
        let begun = Timestamp::UNIX_EPOCH;
        let mut runs = SampledRuns::new(sampling.length_ns, sampling.length_ns);
        for number in 0..u64::from(sampling.runs) {
            let due = sampling.due(seed, begun, number);
            let due = due.map_or(0.0, |due| due.as_nanosecond() as f64 / 1e9);
            let seconds = sampling.length_ns.0 / Nanos::from_secs(1).0;
            let is_late = |second: &u64| random.f64() < self.chance(due + *second as f64);
            let late = (0..seconds).filter(is_late).count() as u64;
            runs.add(late, late);
        }
        runs
    }
}

/// The results of machines of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// Number of machines whose upper bound is at least the true value, and of those whose lower
    /// bound is at most the true value.
    pub(crate) upper: u64,
    pub(crate) lower: u64,
    /// Mean ratio of the upper bounds to the true value.
    pub(crate) width: f64,
    /// Number of wrong verdicts *held* if the true value is 1.1 times the limit, and of wrong
    /// verdicts *broken* if the limit is 1.1 times the true value.
    pub(crate) held: u64,
    pub(crate) broken: u64,
}

/// Simulates `number` weeks of machines of a kind, each with its own true value.
pub(crate) fn count(kind: Week, runs: u32, number: u64) -> Counted {
    let week = Nanos::from_secs(WEEK as u64);
    let mut all = Counted::default();
    let Some(sampling) = Sampling::new(runs, Nanos::from_secs(60), week) else {
        return all;
    };
    for seed in 0..number {
        let mut random = random(seed + 1_000_000 * u64::from(runs));
        let machine = Machine::new(kind, &mut random);
        let truth = machine.truth();
        let found = machine.runs(&sampling, &mut random);
        let (most, least) = (found.per_day_at_most(ERROR), found.per_day_at_least(ERROR));
        // The truth of a machine that is always late is a sum of rounded numbers.
        all.upper += u64::from(most.is_none_or(|most| most * (1.0 + 1e-9) >= truth));
        all.lower += u64::from(least.is_none_or(|least| least <= truth));
        all.width += most.unwrap_or(DAY) / truth / number as f64;
        let decide = |limit: f64| found.decide(limit, week, ERROR);
        all.held += u64::from(decide(truth / 1.1) == Decision::Held);
        all.broken += u64::from(decide(truth * 1.1) == Decision::Broken);
    }
    all
}

/// Prints the table. Each figure is from `machines` weeks.
pub(crate) fn print(machines: u64) {
    println!("## check --series: runs at random times of a week\n");
    println!(
        "| machine | runs of 60 s | upper | lower | upper/truth | held at 1.1 | broken at 1/1.1 |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (place, (name, kind)) in KINDS.into_iter().enumerate() {
        let rare = if place < MET { "" } else { " *" };
        for runs in [20, 60, 432] {
            let found = count(kind, runs, machines);
            let share = |count: u64| format!("{:.1}%", 100.0 * count as f64 / machines as f64);
            println!(
                "| {name}{rare} | {runs} | {} | {} | {:.2} | {} | {} |",
                share(found.upper),
                share(found.lower),
                found.width,
                share(found.held),
                share(found.broken),
            );
        }
    }
    println!();
}
