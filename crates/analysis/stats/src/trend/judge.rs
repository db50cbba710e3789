//! Derives a trend from runs.

use std::collections::BTreeMap;

use punctual_model::CpuClass;

use super::followings::{FAMILIES, Followings};
use super::sentence::sentence;
use super::{ChangePoint, FactChange, Group, Question, Run, TREND_SCHEMA, Trend, TrendVerdict};
use crate::changes;

/// The seed of all permutations: the same runs give the same trend.
const SEED: u64 = 0x7472_656e_6473;

/// Returns the trend of these runs. Their order does not matter.
pub fn judge(runs: &[Run], question: Question) -> Trend {
    let asked = &question.asked;
    let mut runs: Vec<&Run> = runs.iter().collect();
    runs.retain(|run| asked.since.is_none_or(|since| run.started >= since));
    runs.sort_by_key(|run| (run.started, run.recording));
    let mut by_group: BTreeMap<(bool, String, CpuClass), Vec<&Run>> = BTreeMap::new();
    for run in runs {
        // Runs without load come first.
        let key = (run.load != "idle", run.load.clone(), run.cpus);
        by_group.entry(key).or_default().push(run);
    }
    let groups: Vec<Followings<'_>> = (by_group.into_values())
        .map(|runs| Followings::new(runs, asked.threshold_ns))
        .collect();
    let families = groups.iter().flat_map(Followings::values);
    let courses = changes::courses_of(&families.collect::<Vec<_>>(), SEED);
    let mut courses = courses.chunks(FAMILIES);
    let mut facts: BTreeMap<_, FactChange> = BTreeMap::new();
    let mut judged = Vec::new();
    for (place, group) in groups.iter().enumerate() {
        let of_group = courses.next().unwrap_or_default();
        judged.push(group.judged(place, of_group, &question.acknowledged));
        for change in group.fact_changes() {
            facts.entry((change.at, change.recording)).or_insert(change);
        }
    }
    let times = || groups.iter().flat_map(Followings::times);
    let verdict = verdict(&judged);
    Trend {
        schema: TREND_SCHEMA,
        from: times().min(),
        to: times().max(),
        measured_on: None,
        verdict,
        sentence: sentence(verdict, &judged),
        series: question.series,
        asked: question.asked,
        groups: judged,
        facts: facts.into_values().collect(),
        holes: question.holes,
        notes: question.notes,
        acknowledged: question.acknowledged,
    }
}

fn verdict(groups: &[Group]) -> TrendVerdict {
    let changes = || groups.iter().flat_map(|group| &group.changes);
    let drifts = || groups.iter().flat_map(|group| &group.drifts);
    match () {
        () if changes().any(ChangePoint::is_open_worsening) => TrendVerdict::Worse,
        () if drifts().any(|drift| drift.worse) => TrendVerdict::Drifting,
        () if groups.iter().any(|group| group.judged) => TrendVerdict::NoWorsening,
        () => TrendVerdict::NotJudged,
    }
}
