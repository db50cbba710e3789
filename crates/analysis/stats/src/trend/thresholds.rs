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
