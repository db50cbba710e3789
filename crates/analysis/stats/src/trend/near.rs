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

#[cfg(test)]
mod tests {
    use punctual_model::RecordingId;

    use super::*;
    use crate::trend::Facts;

    /// Runs with these values of a fact, one letter each. A dot is an unknown value.
    fn runs(facts: &[(&str, &str)]) -> Vec<Run> {
        let value = |letters: &str, run: usize| {
            let letter = letters.chars().nth(run).unwrap();
            Some(letter.to_string()).filter(|_| letter != '.')
        };
        let number = facts[0].1.len();
        (0..number)
            .map(|run| {
                let each = facts.iter();
                let known: Facts = each
                    .map(|(name, letters)| ((*name).to_owned(), value(letters, run)))
                    .collect();
                Run {
                    recording: RecordingId(uuid::Uuid::from_u128(run as u128)),
                    started: jiff::Timestamp::from_second(run as i64).unwrap(),
                    facts: Arc::new(known),
                    ..Run::bare()
                }
            })
            .collect()
    }

    /// The last run with the old value, the first with the new one, and the fact.
    fn turned(runs: &[Run]) -> Vec<(usize, usize, String)> {
        let runs: Vec<&Run> = runs.iter().collect();
        let found = turns(&runs).into_iter();
        found
            .map(|turn| (turn.last, turn.first, turn.difference.fact))
            .collect()
    }

    #[test]
    fn each_change_of_a_known_value_is_a_turn() {
        let found = turned(&runs(&[
            ("a", "xxyyy.z"),
            ("b", "..11111"),
            ("c", "2.2.3.3"),
        ]));
        let turn = |last, first, name: &str| (last, first, name.to_owned());
        assert_eq!(found, [turn(1, 2, "a"), turn(2, 4, "c"), turn(4, 6, "a")]);
        // Runs that share their facts.
        let mut shared = runs(&[("a", "xxxyyx")]);
        for (run, of) in [(1, 0), (2, 0), (4, 3)] {
            shared[run].facts = Arc::clone(&shared[of].facts);
        }
        assert_eq!(turned(&shared), [turn(2, 3, "a"), turn(4, 5, "a")]);
        assert!(turned(&[]).is_empty());
    }

    #[test]
    fn changes_of_one_run_are_listed_together() {
        let all = runs(&[("a", "xxyyz"), ("b", "11222"), ("c", "7..8.")]);
        let all: Vec<&Run> = all.iter().collect();
        let found: Vec<(RecordingId, i64, usize)> = (by_run(&all, &turns(&all)).iter())
            .map(|change| (change.recording, change.at.as_second(), change.facts.len()))
            .collect();
        let expected = [(2, 2), (3, 1), (4, 1)];
        assert_eq!(
            found,
            expected.map(|(run, facts)| (all[run].recording, run as i64, facts))
        );
    }

    #[test]
    fn distance_is_that_to_the_nearest_possible_run() {
        let difference = || differing("a", "x", "y");
        // The value changed at one of the runs 11 to 14.
        let turn = Turn {
            last: 10,
            first: 14,
            difference: difference(),
        };
        let found = [8, 10, 11, 13, 14, 15, 20].map(|at| turn.away(at));
        assert_eq!(found, [3, 1, 0, 0, 0, -1, -6]);
        let at_once = Turn {
            last: 10,
            first: 11,
            difference: difference(),
        };
        assert_eq!([10, 11, 12].map(|at| at_once.away(at)), [1, 0, -1]);
    }

    /// The change point is at run 20 of 40. Runs 12 to 28 are searched.
    #[test]
    fn facts_near_a_change_point_are_listed_by_distance() {
        let step = |at: usize| -> String {
            let letter = |run| if run < at { 'x' } else { 'y' };
            (0..40).map(letter).collect()
        };
        let names = [12, 11, 18, 20, 21, 28, 29].map(|at| (format!("at {at}"), step(at)));
        let facts: Vec<(&str, &str)> = names
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        let all = runs(&facts);
        let all: Vec<&Run> = all.iter().collect();
        let found = |range: (usize, usize, usize)| {
            let (facts, within) = near(&all, &turns(&all), range);
            let facts: Vec<(String, i64)> = (facts.into_iter())
                .map(|fact| (fact.difference.fact, fact.runs_away))
                .collect();
            (facts, within)
        };
        let row = |name: &str, away| (name.to_owned(), away);
        let nearest = [
            row("at 20", 0),
            row("at 21", 1),
            row("at 18", -2),
            row("at 12", -8),
            row("at 28", 8),
        ];
        assert_eq!(found((20, 20, 20)), (nearest.to_vec(), Some(8)));
        // An uncertain place widens the search to both sides.
        for range in [(11, 20, 22), (19, 20, 29)] {
            let (facts, within) = found(range);
            assert_eq!((facts.len(), within), (7, Some(9)), "{range:?}");
        }
        // At the ends of a series, there are fewer runs.
        let (facts, within) = found((1, 3, 3));
        assert_eq!((facts, within), (vec![row("at 11", 8)], Some(8)));
        let (facts, within) = found((38, 38, 39));
        assert_eq!((facts.len(), within), (0, Some(8)));
    }

    #[test]
    fn nearest_of_several_changes_is_told_with_their_number() {
        let mut letters: Vec<char> = "x".repeat(40).chars().collect();
        letters[17] = 'y';
        letters[21..].fill('z');
        let letters: String = letters.into_iter().collect();
        let all = runs(&[("a", &letters)]);
        let all: Vec<&Run> = all.iter().collect();
        let (facts, _) = near(&all, &turns(&all), (20, 20, 20));
        let [fact] = facts.as_slice() else {
            panic!("{facts:?}");
        };
        assert_eq!((fact.runs_away, fact.times), (1, 3));
        assert_eq!(fact.difference.after.as_deref(), Some("z"));
        assert_eq!(
            fact.sentence(),
            "a: x → z, 1 run after, changed 3 times nearby"
        );
        let sentence = |runs_away, times| {
            NearFact {
                runs_away,
                times,
                ..fact.clone()
            }
            .sentence()
        };
        assert_eq!(sentence(0, 1), "a: x → z, at this run");
        assert_eq!(sentence(-1, 0), "a: x → z, 1 run before");
        assert_eq!(sentence(-4, 1), "a: x → z, 4 runs before");
        assert_eq!(
            sentence(4, 2),
            "a: x → z, 4 runs after, changed 2 times nearby"
        );
    }

    /// The fact must be known on both sides, within the runs that are searched.
    #[test]
    fn unknown_facts_are_no_reason() {
        let within = |letters: &str| {
            let all = runs(&[("a", letters)]);
            let all: Vec<&Run> = all.iter().collect();
            near(&all, &turns(&all), (10, 10, 10)).1
        };
        assert_eq!(within("xxxxxxxxxxyyyyyyyyyy"), Some(8));
        assert_eq!(within("..x...............y."), Some(8));
        assert_eq!(within(".x................y."), None);
        assert_eq!(within("..x................y"), None);
        assert_eq!(within("..x................."), None);
    }
}
