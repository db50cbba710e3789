//! Comparisons of two runs: false alarms of equal machines, and detected differences.

use std::thread::available_parallelism;

use punctual_model::Nanos;
use punctual_stats::{Change, Comparison, Options, compare};

use crate::machines::{Kind, Machine, machine};

const KINDS: [(&str, Kind); 7] = [
    ("independent", Kind::Independent),
    ("bursts", Kind::Bursts),
    ("drift of 50 ns", Kind::Drift(50.0)),
    ("drift of 150 ns", Kind::Drift(150.0)),
    ("drift of 500 ns", Kind::Drift(500.0)),
    ("wandering scale", Kind::Scale),
    ("rare mixture", Kind::Rare),
];

/// Length of a run and length of a row of its time series, in ms.
const LENGTHS: [(u64, u64); 2] = [(2_500, 50), (10_000, 200)];

/// Counts of the results of many comparisons.
#[derive(Default)]
struct Tally {
    alarms: u64,
    worse: u64,
    inconclusive: u64,
}

fn compared(baseline: Machine, candidate: Machine, pair: u64) -> Comparison {
    let options = Options {
        quantiles: vec![0.5, 0.9, 0.99, 0.999],
        threshold: Some(Nanos::from_micros(6)),
        replicates: 200,
        ..Options::default()
    };
    let runs = [baseline.run(2 * pair), candidate.run(2 * pair + 1)];
    match compare(&runs[0], &runs[1], &options) {
        Ok(comparison) => comparison,
        Err(error) => panic!("{error}"),
    }
}

/// Compares `pairs` pairs, on all CPUs.
fn tally(baseline: Machine, candidate: Machine, pairs: u64) -> Tally {
    let workers = available_parallelism().map_or(1, |number| number.get() as u64);
    let work = |worker: u64| {
        let mut tally = Tally::default();
        for pair in (worker..pairs).step_by(workers as usize) {
            match compared(baseline, candidate, pair).change {
                Change::Worse => (tally.alarms, tally.worse) = (tally.alarms + 1, tally.worse + 1),
                Change::Better => tally.alarms += 1,
                Change::Unknown => tally.inconclusive += 1,
                Change::NoneFound => {}
            }
        }
        tally
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        threads.into_iter().fold(Tally::default(), |all, thread| {
            let one = thread.join().unwrap_or_default();
            Tally {
                alarms: all.alarms + one.alarms,
                worse: all.worse + one.worse,
                inconclusive: all.inconclusive + one.inconclusive,
            }
        })
    })
}

/// Prints the tables. Each figure is from `pairs` pairs of machines.
pub(crate) fn print(pairs: u64) {
    let percent = |count: u64| format!("{:.1}%", 100.0 * count as f64 / pairs as f64);
    println!(
        "compare: false alarms (and inconclusive results) in {pairs} pairs of equal machines\n"
    );
    println!("| machine | 2.5 s, rows of 50 ms | 10 s, rows of 200 ms |");
    println!("|---|---|---|");
    for (name, kind) in KINDS {
        let each = LENGTHS.map(|(length, row)| {
            let equal = machine(kind, length, row);
            let found = tally(equal, equal, pairs);
            format!(
                "{} ({})",
                percent(found.alarms),
                percent(found.inconclusive)
            )
        });
        println!("| {name} | {} |", each.join(" | "));
    }
    println!("\ncompare: how often a worse candidate is detected, in {pairs} pairs of 10 s runs\n");
    println!("| machine | noise x1.3 | noise x2 | bursts or episodes x2 | x4 |");
    println!("|---|---|---|---|---|");
    for (name, kind) in KINDS {
        let equal = machine(kind, 10_000, 200);
        let worse = |tail: f64, rate: f64| {
            let candidate = Machine {
                tail,
                rate,
                ..equal
            };
            percent(tally(equal, candidate, pairs).worse)
        };
        let rate = |times: f64| match kind {
            Kind::Bursts | Kind::Rare => worse(1.0, times),
            _ => "-".to_owned(),
        };
        let [noise, twice] = [1.3, 2.0].map(|times| worse(times, 1.0));
        println!(
            "| {name} | {noise} | {twice} | {} | {} |",
            rate(2.0),
            rate(4.0)
        );
    }
}
