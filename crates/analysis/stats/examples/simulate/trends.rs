//! Change points of simulated series: false alarms in series without a step, and detections of a
//! step.

use fastrand::Rng;
use punctual_stats::changes::{LEAST_RUNS, Values};

use crate::counts::{Kind, count};

/// Runs of a series: 112 days, twice a day.
const RUNS: usize = 224;
/// The first run of the new level.
const STEP: usize = 112;
/// Ratio of the new level to the old one.
const RATIO: f64 = 5.0;
/// Number of periods in a run.
const EXPOSURE: u64 = 7_200_000;

const KINDS: [(&str, Kind); 3] = [
    ("Poisson", Kind::Poisson),
    ("negative binomial, k = 1", Kind::Mixed(1.0)),
    ("negative binomial, k = 0.3", Kind::Mixed(0.3)),
];

const MEANS: [f64; 4] = [0.05, 0.5, 5.0, 50.0];

/// Results of many series with the same kind and mean of counts.
#[derive(Default)]
struct Row {
    false_points: f64,
    of_a_spike: f64,
    found: f64,
    late: Vec<f64>,
    after_each: f64,
}

/// Maximum number of series that are judged again after each run, which takes 70 times as long.
const AFTER_EACH: u64 = 20;

pub(crate) fn print(series: u64) {
    println!("\n## trend: {series} series of {RUNS} runs, with a step of x{RATIO} at run {STEP}\n");
    println!(
        "| counts | mean | false points | of a spike | step found | runs off | after each run |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, kind) in KINDS {
        for mean in MEANS {
            let mut row = row(kind, mean, series);
            row.late.sort_by(f64::total_cmp);
            let late = row.late.get(row.late.len() / 2);
            println!(
                "| {name} | {mean} | {:.2} | {:.2} | {:.0}% | {} | {:.2} |",
                row.false_points / series as f64,
                row.of_a_spike / series as f64,
                100.0 * row.found / series as f64,
                late.map_or_else(|| "-".to_owned(), |late| format!("{late:.0}")),
                row.after_each / series.min(AFTER_EACH) as f64,
            );
        }
    }
}

/// Simulated series of one condition: the counts of each run.
struct Made {
    null: Vec<u64>,
    /// The same series with one run far above the others.
    spiked: Vec<u64>,
    stepped: Vec<u64>,
}

impl Made {
    fn new(kind: Kind, mean: f64, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed ^ 0x7e57);
        let null: Vec<u64> = (0..RUNS).map(|_| count(kind, mean, &mut random)).collect();
        let mut spiked = null.clone();
        spiked[STEP] += (mean * 100.0) as u64 + 100;
        let mean_of = |run| if run < STEP { mean } else { mean * RATIO };
        let stepped = (0..RUNS).map(|run| count(kind, mean_of(run), &mut random));
        Self {
            stepped: stepped.collect(),
            null,
            spiked,
        }
    }
}

/// Writes the series for another detector (benches/change_points.py), one line of JSON each.
pub(crate) fn write(series: u64) {
    for (name, kind) in KINDS {
        for mean in MEANS {
            for seed in 0..series {
                let made = Made::new(kind, mean, seed);
                for (what, counts) in [
                    ("null", &made.null),
                    ("spiked", &made.spiked),
                    ("stepped", &made.stepped),
                ] {
                    println!(
                        "{{\"counts\": \"{name}\", \"mean\": {mean}, \"what\": \"{what}\", \"runs\": {counts:?}}}"
                    );
                }
            }
        }
    }
}

fn row(kind: Kind, mean: f64, series: u64) -> Row {
    let mut row = Row::default();
    for seed in 0..series {
        let made = Made::new(kind, mean, seed);
        row.false_points += points(&made.null, seed).len() as f64;
        row.of_a_spike += points(&made.spiked, seed).len() as f64;
        let near = |at: &usize| at.abs_diff(STEP) <= 2 * LEAST_RUNS;
        if let Some(at) = points(&made.stepped, seed).into_iter().find(near) {
            row.found += 1.0;
            row.late.push(at.abs_diff(STEP) as f64);
        }
        if seed < AFTER_EACH {
            row.after_each += after_each(&made.null, seed) as f64;
        }
    }
    row
}

/// Counts new change points in a series that is judged after each run: those that were not found
/// before that run.
fn after_each(counts: &[u64], seed: u64) -> usize {
    let mut known: Vec<usize> = Vec::new();
    let mut alarms = 0;
    for runs in 2 * LEAST_RUNS..=counts.len() {
        for at in points(&counts[..runs], seed) {
            if !known.iter().any(|other| at.abs_diff(*other) <= LEAST_RUNS) {
                alarms += 1;
                known.push(at);
            }
        }
    }
    alarms
}

fn points(counts: &[u64], seed: u64) -> Vec<usize> {
    let exposed = counts.iter().map(|count| (*count, EXPOSURE));
    let course = crate::wandering::course(Values::Counts(exposed.collect()), seed);
    course.steps.iter().map(|step| step.at).collect()
}
