//! Facts that separate machines, ranked by how well they explain a figure.
//!
//! For each fact, machines are grouped by its value. The share of the variance of their ranks that
//! is between groups shows how well the fact separates them (the effect size of Kruskal and Wallis,
//! J. Am. Stat. Assoc. 47, 1952). Its p-value comes from random permutations of the figures,
//! adjusted for the number of facts (Holm). Facts that split the machines in the same way form one
//! entry. Machines for which a fact is unknown are ignored for that fact.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::holm;
use crate::trend::Facts;

/// Largest number of permutations.
const MOST: u64 = 4_999;
/// Smallest number of permutations. With this number, up to 50 facts can still be significant.
const LEAST: u64 = 999;
/// Limit on machines times facts times permutations, unless [`LEAST`] requires more.
const WORK: u64 = 40_000_000;
/// A fixed seed: the same machines give the same figures.
const SEED: u64 = 0x7365_7061_7261_7465;
/// Smallest number of machines from which anything can be concluded.
pub const LEAST_MACHINES: usize = 6;

/// The machines with one value of a fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// The values of the facts, in the order of the facts.
    pub values: Vec<String>,
    /// Number of machines.
    pub machines: usize,
    /// The median of their figures.
    pub median: f64,
}

/// Facts that split the machines in the same way.
#[derive(Clone, Debug, PartialEq)]
pub struct Separator {
    /// Names of the facts.
    pub facts: Vec<String>,
    /// The share of the variance of ranks between the values, 0 to 1.
    pub explained: f64,
    /// The probability of such a share if there is no effect, adjusted for the number of facts.
    pub p: f64,
    /// The values, in descending order of the median.
    pub levels: Vec<Level>,
    /// Number of machines with an unknown value, which are ignored.
    pub unknown: usize,
}

/// Result of a search for facts that separate machines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Separation {
    /// Facts that differ between machines but have the same value on some of them, in ascending
    /// order of p-value.
    pub separators: Vec<Separator>,
    /// Number of facts with the same known value on all machines, or with a different value on
    /// each.
    pub left_out: usize,
    /// Number of permutations for the p-values.
    pub permutations: u64,
}

/// Index of each machine's value among the levels. `None` if the value is unknown.
type Split = Vec<Option<usize>>;

/// Ranks facts by how well they separate the figures of machines. Ranks nothing with fewer than
/// [`LEAST_MACHINES`].
pub fn separate(machines: &[(f64, &Facts)]) -> Separation {
    if machines.len() < LEAST_MACHINES {
        return Separation::default();
    }
    let mut names: Vec<&String> = machines
        .iter()
        .flat_map(|(_, facts)| facts.keys())
        .collect();
    names.sort_unstable();
    names.dedup();
    let all = names.len();
    let mut splits: BTreeMap<Split, Vec<String>> = BTreeMap::new();
    for name in names {
        if let Some(split) = split(machines, name) {
            splits.entry(split).or_default().push(name.clone());
        }
    }
    let kept: usize = splits.values().map(Vec::len).sum();
    let work = (machines.len() * splits.len().max(1)) as u64;
    let permutations = (WORK / work).clamp(LEAST, MOST);
    let splits: Vec<(Split, Vec<String>)> = splits.into_iter().collect();
    let figures: Vec<f64> = machines.iter().map(|(figure, _)| *figure).collect();
    let (explained, p) = test(&figures, &splits, permutations);
    let adjusted = holm::adjust(&p.into_iter().map(Some).collect::<Vec<_>>());
    let mut separators: Vec<Separator> = (splits.into_iter().zip(explained).zip(adjusted))
        .map(|(((split, facts), explained), p)| Separator {
            levels: levels(machines, &split, &facts),
            unknown: split.iter().filter(|place| place.is_none()).count(),
            facts,
            explained,
            p: p.unwrap_or(1.0),
        })
        .collect();
    separators.sort_by(|a, b| (a.p.total_cmp(&b.p)).then(b.explained.total_cmp(&a.explained)));
    Separation {
        separators,
        left_out: all - kept,
        permutations,
    }
}

/// Returns the split, or `None` if all known values are equal or all are different.
fn split(machines: &[(f64, &Facts)], name: &str) -> Option<Split> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let split: Split = (machines.iter())
        .map(|(_, facts)| {
            let value = facts.get(name)?.as_deref()?;
            let next = places.len();
            Some(*places.entry(value).or_insert(next))
        })
        .collect();
    let known = split.iter().flatten().count();
    (places.len() > 1 && places.len() < known).then_some(split)
}

/// Returns the share of variance between the levels of each split, and its p-value.
fn test(
    figures: &[f64],
    splits: &[(Split, Vec<String>)],
    permutations: u64,
) -> (Vec<f64>, Vec<f64>) {
    let mut ranks = ranks(figures);
    let measured: Vec<f64> = splits
        .iter()
        .map(|(split, _)| share(&ranks, split))
        .collect();
    let mut reached = vec![1u64; splits.len()];
    let mut rng = Rng::with_seed(SEED);
    for _ in 0..permutations {
        rng.shuffle(&mut ranks);
        for ((split, _), (measured, reached)) in
            splits.iter().zip(measured.iter().zip(&mut reached))
        {
            // The sum of the same values may differ in the last digits if they are added in another
            // order.
            *reached += u64::from(share(&ranks, split) >= measured - 1e-9);
        }
    }
    let p = reached
        .iter()
        .map(|reached| *reached as f64 / (permutations + 1) as f64);
    (measured, p.collect())
}

/// Returns mean ranks, starting at 0.
fn ranks(figures: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..figures.len()).collect();
    order.sort_by(|a, b| figures[*a].total_cmp(&figures[*b]));
    let mut ranks = vec![0.0; figures.len()];
    let mut place = 0;
    for tied in order.chunk_by(|a, b| figures[*a] == figures[*b]) {
        let mean = place as f64 + (tied.len() - 1) as f64 / 2.0;
        tied.iter().for_each(|index| ranks[*index] = mean);
        place += tied.len();
    }
    ranks
}

fn share(ranks: &[f64], split: &Split) -> f64 {
    let levels = split.iter().flatten().max().map_or(0, |last| last + 1);
    let mut sums = vec![(0.0, 0.0); levels];
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for (rank, place) in ranks.iter().zip(split) {
        let Some(place) = place else { continue };
        sums[*place].0 += 1.0;
        sums[*place].1 += rank;
        count += 1.0;
        sum += rank;
        squares += rank * rank;
    }
    let middle = sum * sum / count;
    let total: f64 = squares - middle;
    let between: f64 = sums.iter().map(|(count, sum)| sum * sum / count).sum();
    if total > 0.0 {
        ((between - middle) / total).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

fn levels(machines: &[(f64, &Facts)], split: &Split, facts: &[String]) -> Vec<Level> {
    let mut of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (machine, place) in split.iter().enumerate() {
        if let Some(place) = place {
            of.entry(*place).or_default().push(machine);
        }
    }
    let level = |members: Vec<usize>| {
        let mut figures: Vec<f64> = members.iter().map(|machine| machines[*machine].0).collect();
        figures.sort_by(f64::total_cmp);
        let value = |name: &String| {
            let value = machines[members[0]].1.get(name);
            value.cloned().flatten().unwrap_or_default()
        };
        Level {
            values: facts.iter().map(value).collect(),
            machines: members.len(),
            median: (figures[(figures.len() - 1) / 2] + figures[figures.len() / 2]) / 2.0,
        }
    };
    let mut levels: Vec<Level> = of.into_values().map(level).collect();
    levels.sort_by(|a, b| b.median.total_cmp(&a.median));
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pairs: &[(&str, Option<&str>)]) -> Facts {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned)))
            .collect()
    }

    /// 40 machines: the kernel doubles the figure, and the board has no effect.
    fn fleet() -> Vec<(f64, Facts)> {
        let mut rng = Rng::with_seed(7);
        let machine = |number: usize| {
            let new = number.is_multiple_of(2);
            let figure = (if new { 20.0 } else { 40.0 }) + 10.0 * rng.f64();
            let board = rng.usize(..4).to_string();
            let microcode = (!number.is_multiple_of(8)).then_some("0xf6");
            let facts = facts(&[
                ("kernel", Some(if new { "6.12" } else { "6.1" })),
                ("hz", Some(if new { "1000" } else { "250" })),
                ("board", Some(&board)),
                ("microcode", microcode),
                ("serial", Some(&number.to_string())),
            ]);
            (figure, facts)
        };
        (0..40).map(machine).collect()
    }

    #[test]
    fn relevant_fact_ranks_first_others_insignificant() {
        let fleet = fleet();
        let machines: Vec<(f64, &Facts)> = fleet.iter().map(|(f, facts)| (*f, facts)).collect();
        let found = separate(&machines);
        // The same known value on all machines, and a different one on each.
        assert_eq!(found.left_out, 2);
        let names: Vec<&[String]> = (found.separators.iter())
            .map(|one| one.facts.as_slice())
            .collect();
        assert_eq!(names, [&["hz", "kernel"][..], &["board"]]);
        let first = &found.separators[0];
        assert!(first.p < 0.01 && first.explained > 0.6, "{first:?}");
        assert_eq!(first.levels[0].values, ["250", "6.1"]);
        assert_eq!(first.levels[0].machines, 20);
        assert!(found.separators[1].p > 0.05, "{found:?}");
    }

    #[test]
    fn irrelevant_facts_are_seldom_significant() {
        let mut rng = Rng::with_seed(3);
        let mut wrong = 0;
        for _ in 0..40 {
            let facts: Vec<Facts> = (0..16)
                .map(|_| {
                    let names = ["a", "b", "c", "d", "e"];
                    let value = |rng: &mut Rng| Some(if rng.bool() { "x" } else { "y" });
                    facts(&names.map(|name| (name, value(&mut rng))))
                })
                .collect();
            let machines: Vec<(f64, &Facts)> = facts.iter().map(|one| (rng.f64(), one)).collect();
            let found = separate(&machines);
            wrong += usize::from(found.separators.iter().any(|one| one.p < 0.05));
        }
        // At 5%, 2 of 40 are expected. The probability of 7 or more is below 1%.
        assert!(wrong < 7, "{wrong}");
    }

    #[test]
    fn unknown_facts_and_few_machines_separate_nothing() {
        let all = [
            facts(&[("a", Some("x"))]),
            facts(&[("a", Some("y"))]),
            facts(&[("a", None)]),
        ];
        let machine = |place: usize| (place as f64, &all[place % 3]);
        assert!(separate(&[machine(0), machine(1)]).separators.is_empty());
        let nine: Vec<_> = (0..9).map(machine).collect();
        let found = separate(&nine);
        assert_eq!(found.separators[0].unknown, 3);
        assert_eq!(found.separators[0].levels.len(), 2);
    }

    #[test]
    fn ranks_of_equal_figures_are_their_mean() {
        assert_eq!(ranks(&[10.0, 30.0, 20.0, 20.0]), [0.0, 3.0, 1.5, 1.5]);
        assert_eq!(ranks(&[5.0, 5.0, 5.0, 1.0]), [2.0, 2.0, 2.0, 0.0]);
        assert!(ranks(&[]).is_empty());
    }

    /// The squares between groups, by their means, of all squares about the mean.
    #[test]
    fn share_is_the_variance_between_groups() {
        let near = |found: f64, known: f64| assert!((found - known).abs() < 1e-12, "{found}");
        let of = |ranks: &[f64], groups: &[i32]| {
            let place = |group: &i32| usize::try_from(*group).ok();
            share(ranks, &groups.iter().map(place).collect())
        };
        // Means 0.5 and 2.5 about 1.5: 4 of 5.
        near(of(&[0.0, 1.0, 2.0, 3.0], &[0, 0, 1, 1]), 0.8);
        near(of(&[0.0, 1.0, 2.0, 3.0], &[1, 0, 0, 1]), 0.0);
        // Unknown values (-1) are ignored: means 0.5 and 2 about 1, which is 1.5 of 2.
        near(of(&[0.0, 1.0, 2.0, 9.0], &[0, 0, 1, -1]), 0.75);
        // Three groups: means 0, 2 and 4.5 of 0 to 5, with 1, 3 and 2 members. 17.5 in all.
        near(
            of(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 0, 0, 0, 1, 1]),
            (6.25 + 0.75 + 8.0) / 17.5,
        );
        near(of(&[3.0, 3.0, 3.0], &[0, 1, 1]), 0.0);
    }

    /// Three of six machines are slower. Of the 20 ways to choose three, 2 separate as much.
    #[test]
    fn probability_is_that_of_random_groups() {
        let all = ["x", "y"].map(|value| facts(&[("kernel", Some(value)), ("same", Some("1"))]));
        let machines: Vec<(f64, &Facts)> = (0..6)
            .map(|number| (f64::from(number) * 10.0, &all[usize::from(number >= 3)]))
            .collect();
        let found = separate(&machines);
        let [one] = found.separators.as_slice() else {
            panic!("{found:?}");
        };
        assert!((one.p - 0.1).abs() < 0.015, "{one:?}");
        assert!((one.explained - 13.5 / 17.5).abs() < 1e-12, "{one:?}");
        assert_eq!(
            (found.left_out, found.permutations, one.unknown),
            (1, 4_999, 0)
        );
        let levels = ["y", "x"].map(|value| vec![value.to_owned()]);
        let expected = levels.into_iter().zip([40.0, 10.0]);
        let expected: Vec<Level> = expected
            .map(|(values, median)| Level {
                values,
                machines: 3,
                median,
            })
            .collect();
        assert_eq!(one.levels, expected);
        assert_eq!(separate(&machines[..5]), Separation::default());
    }

    #[test]
    fn levels_have_the_median_of_their_machines() {
        let all = ["a", "b"].map(|value| facts(&[("board", Some(value))]));
        let figures = [
            (7.0, 0),
            (1.0, 1),
            (3.0, 0),
            (100.0, 0),
            (2.0, 1),
            (5.0, 0),
            (30.0, 1),
        ];
        let machines = figures.map(|(figure, place): (f64, usize)| (figure, &all[place]));
        let found = separate(&machines);
        let levels: Vec<(usize, f64)> = (found.separators[0].levels.iter())
            .map(|level| (level.machines, level.median))
            .collect();
        assert_eq!(levels, [(4, 6.0), (3, 2.0)]);
    }

    /// The permutations of a fact are the same as those of equal machines, so a fact that splits them
    /// evenly reaches its share in each of them.
    #[test]
    fn fact_without_effect_has_a_probability_of_one() {
        let all = ["a", "b"].map(|value| facts(&[("board", Some(value))]));
        let machines: Vec<(f64, &Facts)> = (0..8).map(|number| (4.0, &all[number % 2])).collect();
        let found = separate(&machines);
        assert_eq!(
            (found.separators[0].p, found.separators[0].explained),
            (1.0, 0.0)
        );
        let splits = [(vec![Some(0), Some(0), Some(1), Some(1)], Vec::new())];
        let (explained, p) = test(&[1.0, 2.0, 2.0, 1.0], &splits, 99);
        assert_eq!((explained, p), (vec![0.0], vec![1.0]));
    }

    /// 40,000,000 by 400 machines and 30 facts. With 5 facts, there would be 20,000.
    #[test]
    fn large_fleets_have_fewer_permutations() {
        let permutations = |names: usize| {
            let facts_of = |number: usize| -> Facts {
                let value = |name: usize| Some((number / (name + 1) % 2).to_string());
                (0..names)
                    .map(|name| (format!("fact {name}"), value(name)))
                    .collect()
            };
            let facts: Vec<Facts> = (0..400).map(facts_of).collect();
            let machines: Vec<(f64, &Facts)> = facts.iter().map(|one| (1.0, one)).collect();
            let found = separate(&machines);
            assert_eq!((found.separators.len(), found.left_out), (names, 0));
            found.permutations
        };
        assert_eq!([permutations(30), permutations(5)], [3_333, 4_999]);
    }
}
