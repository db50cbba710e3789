//! The thresholds above which late periods are counted.

use punctual_model::Nanos;

use super::Run;
use crate::changes::LEAST_RUNS;

/// Maximum number of thresholds of a group's tail, not counting the limit of the requirement.
const MOST: usize = 7;

/// The thresholds of a group.
pub(super) struct Thresholds {
    /// The threshold whose counts are shown for each run.
    pub(super) shown: Option<Nanos>,
    /// All thresholds, in ascending order.
    pub(super) all: Vec<Nanos>,
}

impl Thresholds {
    /// Returns the requested threshold. If none was requested, returns the limit of the
    /// requirement, a latency that half of the runs exceed, and the steps 1, 2, 5, 10 and so on
    /// from the usual p99 to the largest latency. A rise of rare late periods is visible only above
    /// the latencies that most runs reach.
    pub(super) fn new(runs: &[&Run], asked: Option<Nanos>) -> Self {
        if let Some(asked) = asked {
            return Self {
                shown: Some(asked),
                all: vec![asked],
            };
        }
        let shown = usual(runs);
        let limit = runs.last().and_then(|run| run.limit);
        let mut all: Vec<Nanos> = limit.into_iter().chain(shown).chain(steps(runs)).collect();
        let mut known: Vec<Vec<u64>> = Vec::new();
        all.retain(|threshold| {
            let counts: Vec<u64> = runs.iter().map(|run| run.above(*threshold)).collect();
            let late = counts.iter().filter(|count| **count > 0).count();
            let is_new = Some(*threshold) == shown || !known.contains(&counts);
            // A level must contain at least this many runs with late periods. With fewer, no step
            // can exist.
            let is_followed = is_new && late >= LEAST_RUNS;
            if is_followed {
                known.push(counts);
            }
            is_followed
        });
        all.sort_unstable();
        all.dedup();
        Self { shown, all }
    }
}

/// Returns powers of ten, and 2 and 5 times those, between the median p99 and the maximum.
fn steps(runs: &[&Run]) -> Vec<Nanos> {
    let mut p99: Vec<Nanos> = runs.iter().filter_map(|run| run.p99).collect();
    p99.sort_unstable();
    let low = p99.get(p99.len() / 2).copied().unwrap_or_default();
    let high = runs
        .iter()
        .filter_map(|run| run.max)
        .max()
        .unwrap_or_default();
    let of = |factors: &[u64]| -> Vec<Nanos> {
        let powers = (0..19).map(|power| 10u64.pow(power));
        let each = powers.flat_map(|power| factors.iter().map(move |by| by.saturating_mul(power)));
        each.map(Nanos)
            .filter(|at| low < *at && *at < high)
            .collect()
    };
    let all = [[1, 2, 5].as_slice(), &[1, 5], &[1]].map(of);
    let fits = all.iter().find(|steps| steps.len() < MOST);
    fits.or(all.last()).cloned().unwrap_or_default()
}

/// Returns a latency, rounded to two digits, that half of the runs exceed several times. With fewer
/// than 0.5 late periods per run, no method finds a step. With a few late periods per run, even a
/// temporary change of the level is found.
fn usual(runs: &[&Run]) -> Option<Nanos> {
    let mut high: Vec<u64> = runs
        .iter()
        .map(|run| run.nth_highest(wanted(run)).unwrap_or(0))
        .collect();
    high.sort_unstable();
    let half = *high.get(high.len().checked_sub(1)? / 2)?;
    let below = half.checked_sub(1).filter(|below| *below > 0)?;
    let unit = 10u64.pow(below.ilog10().saturating_sub(1));
    Some(Nanos(below / unit * unit))
}

/// Returns the desired number of late periods in a run: a thousandth of its periods, 1 to 5.
fn wanted(run: &Run) -> u64 {
    (run.due / 1_000).clamp(1, 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(p99: Option<u64>, max: u64, rows: &[(u64, u64)]) -> Run {
        Run {
            rows: rows.iter().copied().collect(),
            due: rows.iter().map(|row| row.1).sum(),
            p99: p99.map(Nanos),
            max: Some(Nanos(max)),
            ..Run::bare()
        }
    }

    fn of(runs: &[Run], of: impl Fn(&[&Run]) -> Vec<Nanos>) -> Vec<u64> {
        let runs: Vec<&Run> = runs.iter().collect();
        of(&runs).into_iter().map(|threshold| threshold.0).collect()
    }

    /// The steps are 1, 2, 5, 10 and so on. A wide range has fewer of them.
    #[test]
    fn steps_are_between_the_usual_p99_and_the_maximum() {
        let runs = |p99: [u64; 3], max: u64| p99.map(|p99| run(Some(p99), max, &[]));
        assert_eq!(of(&runs([30, 10, 20], 500), steps), [50, 100, 200]);
        assert_eq!(of(&runs([50; 3], 501), steps), [100, 200, 500]);
        assert_eq!(of(&runs([400; 3], 400), steps), [0u64; 0]);
        // Seven steps of 1, 2 and 5 are too many, so there are 1 and 5, or only powers of ten.
        assert_eq!(of(&runs([9, 4, 4], 1_000), steps), [5, 10, 50, 100, 500]);
        assert_eq!(
            of(&runs([40; 3], 6_000), steps),
            [50, 100, 500, 1_000, 5_000]
        );
        assert_eq!(
            of(&runs([60; 3], 3_000), steps),
            [100, 200, 500, 1_000, 2_000]
        );
        assert_eq!(
            of(&runs([60; 3], 6_000), steps),
            [100, 200, 500, 1_000, 2_000, 5_000]
        );
        assert_eq!(
            of(&runs([60; 3], 600_000), steps),
            [100, 1_000, 10_000, 100_000]
        );
        assert_eq!(of(&[], steps), [0u64; 0]);
        // A run without p99 does not count for the median.
        let mixed = [run(None, 900, &[]), run(Some(300), 700, &[])];
        assert_eq!(of(&mixed, steps), [500]);
    }

    /// The wanted rank is a thousandth of the periods, from 1 to 5.
    #[test]
    fn usual_latency_is_exceeded_by_half_of_the_runs() {
        let due = |due: u64| {
            wanted(&Run {
                due,
                ..run(None, 0, &[])
            })
        };
        assert_eq!(
            [0, 999, 2_000, 4_999, 5_000, 90_000].map(due),
            [1, 1, 2, 4, 5, 5]
        );
        // 3,000 periods each: the third highest latency is 7_890, 5_430 or 9_990.
        let runs = [7_890, 5_430, 9_990]
            .map(|high| run(None, 90_000, &[(100, 2_997), (high, 2), (90_000, 1)]));
        let found = |runs: &[Run]| usual(&runs.iter().collect::<Vec<_>>()).map(|one| one.0);
        assert_eq!(found(&runs), Some(7_800));
        // With an even number, the lower one of the two in the middle.
        assert_eq!(found(&runs[..2]), Some(5_400));
        assert_eq!(found(&runs[2..]), Some(9_900));
        let round = |high: u64| found(&[run(None, high, &[(high, 9)])]);
        let cases = [
            (7, 6),
            (10, 9),
            (11, 10),
            (100, 99),
            (101, 100),
            (5_000, 4_900),
            (123_456, 120_000),
        ];
        for (high, expected) in cases {
            assert_eq!(round(high), Some(expected), "{high}");
        }
        // No latency is below 1 ns.
        assert_eq!(
            [round(0), round(1), round(2), found(&[])],
            [None, None, Some(1), None]
        );
    }

    #[test]
    fn thresholds_have_late_periods_in_enough_runs() {
        let late = |number: usize, high: u64| {
            let rows = [(100, 2_990), (1_000, 8), (high, 2)];
            run(Some(900), high, &rows[..if number > 0 { 3 } else { 2 }])
        };
        let mut runs: Vec<Run> = (0..8).map(|number| late(number % 2, 30_000)).collect();
        let of_all = |runs: &[Run]| {
            let found = Thresholds::new(&runs.iter().collect::<Vec<_>>(), None);
            let all: Vec<u64> = found.all.iter().map(|one| one.0).collect();
            (found.shown.map(|one| one.0), all)
        };
        // Four of eight runs exceed 1 to 20 µs. All of these thresholds have the same counts.
        assert_eq!(of_all(&runs), (Some(990), vec![990, 1_000]));
        // With another limit in the last run, the limit comes first.
        runs[7].limit = Some(Nanos(25_000));
        assert_eq!(of_all(&runs), (Some(990), vec![990, 25_000]));
        // Three runs are too few for a level.
        runs[7] = late(0, 30_000);
        assert_eq!(of_all(&runs), (Some(990), vec![990]));
        let asked = Thresholds::new(&runs.iter().collect::<Vec<_>>(), Some(Nanos(77)));
        assert_eq!((asked.shown, asked.all), (Some(Nanos(77)), vec![Nanos(77)]));
        let none = Thresholds::new(&[], None);
        assert_eq!((none.shown, none.all), (None, Vec::new()));
    }
}
