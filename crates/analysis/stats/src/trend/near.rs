//! Changes of machine facts, and their distance from a change point.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::facts::differing;
use super::{FactChange, FactDifference, NearFact, Run};
use crate::changes::LEAST_RUNS;

/// Minimum number of runs that are searched before and after a change point. If counts vary a lot,
/// the position of the change point is inaccurate by a few runs.
const REACH: usize = 2 * LEAST_RUNS;

/// A fact whose value differs from its previous known value.
pub(super) struct Turn {
    /// The last run with the old value.
    last: usize,
    /// The first run with the new value. The value is unknown for the runs in between.
    first: usize,
    difference: FactDifference,
}

/// Returns each change of a known fact, in the order of the runs.
pub(super) fn turns(runs: &[&Run]) -> Vec<Turn> {
    let mut known: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    let mut turns = Vec::new();
    let mut first = 0;
    for alike in runs.chunk_by(|a, b| Arc::ptr_eq(&a.facts, &b.facts)) {
        let last = first + alike.len() - 1;
        let facts = alike.iter().take(1).flat_map(|run| run.facts.iter());
        for (name, value) in facts {
            let Some(value) = value.as_deref() else {
                continue;
            };
            let before = known.insert(name, (last, value));
            if let Some((last, before)) = before.filter(|(_, before)| *before != value) {
                turns.push(Turn {
                    last,
                    first,
                    difference: differing(name, before, value),
                });
            }
        }
        first = last + 1;
    }
    turns
}

/// Groups the changes by run.
pub(super) fn by_run(runs: &[&Run], turns: &[Turn]) -> Vec<FactChange> {
    let by_run = turns.chunk_by(|a, b| a.first == b.first);
    by_run
        .map(|turns| FactChange {
            recording: runs[turns[0].first].recording,
            at: runs[turns[0].first].started,
            facts: turns.iter().map(|turn| turn.difference.clone()).collect(),
        })
        .collect()
}

/// Returns the facts that changed near a change point, the nearest first, and the number of runs
/// that were searched. The change point is at a run, with a range of uncertainty. The number is
/// `None` if no fact is known both before and after the change point.
pub(super) fn near(
    runs: &[&Run],
    turns: &[Turn],
    (earliest, at, latest): (usize, usize, usize),
) -> (Vec<NearFact>, Option<usize>) {
    let reach = REACH
        .max(at.saturating_sub(earliest))
        .max(latest.saturating_sub(at));
    let known = |from: usize, to: usize| -> BTreeSet<&str> {
        let facts = runs[from..to].iter().flat_map(|run| run.facts.iter());
        facts
            .filter(|(_, value)| value.is_some())
            .map(|(name, _)| name.as_str())
            .collect()
    };
    let before = known(at.saturating_sub(reach), at);
    let after = known(at, (at + reach + 1).min(runs.len()));
    if before.is_disjoint(&after) {
        return (Vec::new(), None);
    }
    let mut nearest: BTreeMap<&str, NearFact> = BTreeMap::new();
    for turn in turns {
        let away = turn.away(at);
        if away.unsigned_abs() > reach as u64 {
            continue;
        }
        let found = NearFact {
            difference: turn.difference.clone(),
            runs_away: away,
            times: 1,
        };
        let known = nearest.entry(&turn.difference.fact);
        known
            .and_modify(|known| {
                known.times += 1;
                if away.abs() < known.runs_away.abs() {
                    *known = NearFact {
                        times: known.times,
                        ..found.clone()
                    };
                }
            })
            .or_insert(found);
    }
    let mut facts: Vec<NearFact> = nearest.into_values().collect();
    facts.sort_by_key(|fact| fact.runs_away.abs());
    (facts, Some(reach))
}

impl Turn {
    /// Returns the distance in runs from this run to the nearest position of the change.
    fn away(&self, at: usize) -> i64 {
        let (earliest, latest) = (self.last as i64 + 1, self.first as i64);
        let at = at as i64;
        match () {
            () if at < earliest => earliest - at,
            () if at > latest => latest - at,
            () => 0,
        }
    }
}

impl NearFact {
    /// Returns `kernel release: 6.1 → 6.12, at this run`.
    pub fn sentence(&self) -> String {
        let runs = match self.runs_away.unsigned_abs() {
            0 => "at this run".to_owned(),
            1 => "1 run".to_owned(),
            many => format!("{many} runs"),
        };
        let side = match self.runs_away {
            0 => "",
            before if before < 0 => " before",
            _ => " after",
        };
        let times = match self.times {
            0 | 1 => String::new(),
            many => format!(", changed {many} times nearby"),
        };
        format!("{}, {runs}{side}{times}", self.difference.sentence())
    }
}
