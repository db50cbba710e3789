//! A group of runs, and the series that are followed in it.

use punctual_model::{CpuClass, Nanos};

use super::near::{self, Turn};
use super::thresholds::Thresholds;
use super::{
    Acknowledgement, ChangePoint, Drifting, FactChange, Followed, Group, Run, RunFigures, Spike,
};
use crate::changes::{self, Course, LEAST_RUNS, Step, Values};

/// Minimum factor by which a step or drift must change p50 or p99 to be listed.
const LEAST_FACTOR: f64 = 1.1;
/// For counts of late periods. Nearly constant counts make even a change of a hundredth significant,
/// but both levels look the same to a reader.
const LEAST_TAIL_FACTOR: f64 = 1.01;

/// Number of families of series: the tail, p99 and p50.
pub(super) const FAMILIES: usize = 3;

/// Number of periods that event rates refer to.
const MILLION: f64 = 1e6;

/// One series that is followed.
struct Member {
    followed: Followed,
    /// The threshold, for the tail.
    threshold: Option<Nanos>,
    /// Indexes of the runs with a value.
    places: Vec<usize>,
    values: Values,
}

/// The runs of a group, and the series that are followed in it: the tail at several thresholds,
/// p99, p50.
pub(super) struct Followings<'a> {
    runs: Vec<&'a Run>,
    thresholds: Thresholds,
    families: [Vec<Member>; FAMILIES],
    turns: Vec<Turn>,
}

impl<'a> Followings<'a> {
    pub(super) fn new(runs: Vec<&'a Run>, asked: Option<Nanos>) -> Self {
        let thresholds = Thresholds::new(&runs, asked);
        let tail = thresholds.all.iter().map(|threshold| {
            let counts = runs.iter().map(|run| (run.above(*threshold), run.due));
            Member {
                followed: Followed::Tail,
                threshold: Some(*threshold),
                places: (0..runs.len()).collect(),
                values: Values::Counts(counts.collect()),
            }
        });
        let figure = |followed, figure: fn(&Run) -> Option<Nanos>| {
            let known = runs.iter().enumerate();
            let known = known.filter_map(|(place, run)| Some((place, figure(run)?.0 as f64)));
            let (places, figures): (Vec<usize>, Vec<f64>) = known.unzip();
            let values = Values::Figures(figures);
            vec![Member {
                followed,
                threshold: None,
                places,
                values,
            }]
        };
        let families = [
            tail.collect(),
            figure(Followed::P99, |run| run.p99),
            figure(Followed::P50, |run| run.p50),
        ];
        let turns = near::turns(&runs);
        Self {
            runs,
            thresholds,
            families,
            turns,
        }
    }

    /// Returns the values to judge.
    pub(super) fn values(&self) -> Vec<Vec<Values>> {
        let values = |family: &Vec<Member>| family.iter().map(|one| one.values.clone()).collect();
        self.families.iter().map(values).collect()
    }

    /// Returns the differences of facts from one run to the next.
    pub(super) fn fact_changes(&self) -> Vec<FactChange> {
        near::by_run(&self.runs, &self.turns)
    }

    /// Returns the start times of the group's runs.
    pub(super) fn times(&self) -> impl Iterator<Item = jiff::Timestamp> + '_ {
        self.runs.iter().map(|run| run.started)
    }

    pub(super) fn judged(
        &self,
        place: usize,
        courses: &[Vec<Course>],
        known: &[Acknowledgement],
    ) -> Group {
        let (mut changes, mut drifts, mut segments) = (Vec::new(), Vec::new(), Vec::new());
        for (family, courses) in self.families.iter().zip(courses) {
            let mut found: Vec<ChangePoint> = Vec::new();
            for (member, course) in family.iter().zip(courses) {
                let listed = course.steps.iter().copied();
                let listed: Vec<Step> = listed
                    .filter(|step| is_material(step.ratio, member.threshold.is_some()))
                    .collect();
                found.extend((0..listed.len()).map(|number| self.change(member, &listed, number)));
                segments.extend(listed.iter().map(|step| member.places[step.at]));
            }
            changes.extend(plainest(found));
        }
        let last = changes.iter().map(|change| change.run).max().unwrap_or(0);
        for (family, courses) in self.families.iter().zip(courses) {
            let moves = family.iter().zip(courses);
            let moves = moves.filter_map(|(member, course)| self.drift(member, course, last));
            drifts.extend(moves.min_by(|a, b| a.p.total_cmp(&b.p)));
        }
        changes.sort_by_key(|change| (change.run, change.followed, change.threshold_ns));
        self.name(place, &mut changes);
        for change in &mut changes {
            let meant = known.iter().find(|known| self.is_meant(change, known));
            change.acknowledged = meant.cloned();
        }
        let first = self.runs.first();
        let members = self.families.iter().flatten();
        Group {
            load: first.map(|run| run.load.clone()).unwrap_or_default(),
            cpus: first.map_or(CpuClass::General, |run| run.cpus),
            judged: members.into_iter().any(|member| member.values.is_enough()),
            threshold_ns: self.thresholds.shown,
            thresholds_ns: self.thresholds.all.clone(),
            limit_ns: self.runs.last().and_then(|run| run.limit),
            runs: (self.runs.iter())
                .map(|run| figures(run, self.thresholds.shown))
                .collect(),
            spikes: self.spikes(&segments, courses.first().map_or(&[], Vec::as_slice)),
            changes,
            drifts,
        }
    }

    fn change(&self, member: &Member, listed: &[Step], number: usize) -> ChangePoint {
        let places = &member.places;
        let step = listed[number];
        let end = |number: usize| listed.get(number).map_or(places.len(), |step| step.at);
        let start = number.checked_sub(1).map_or(0, end);
        let level = |from: usize, to: usize| level(&member.values, from, to);
        let (before, after) = (level(start, step.at), level(step.at, end(number + 1)));
        let worse = after > before;
        // The step is over as soon as a later level is closer to the old level than to the new one.
        let stands = (number + 1..listed.len()).all(|later| {
            let level = level(listed[later].at, end(later + 1)).max(f64::MIN_POSITIVE);
            let middle = before.max(f64::MIN_POSITIVE) * after;
            if worse {
                level * level >= middle
            } else {
                level * level <= middle
            }
        });
        let [run, earliest, latest] = [step.at, step.earliest, step.latest].map(|at| places[at]);
        let (facts, facts_within_runs) =
            near::near(&self.runs, &self.turns, (earliest, run, latest));
        let next = places.get(end(number + 1)).copied();
        ChangePoint {
            id: String::new(),
            followed: member.followed,
            threshold_ns: member.threshold,
            run,
            recording: self.runs[run].recording,
            at: self.runs[run].started,
            earliest: self.runs[earliest].started,
            latest: self.runs[latest].started,
            before,
            after,
            ratio: step.ratio,
            low: step.interval.0,
            high: Some(step.interval.1).filter(|high| high.is_finite()),
            max_before_ns: self.usual_max(places[start], run),
            max_after_ns: self.usual_max(run, next.unwrap_or(self.runs.len())),
            p: step.p,
            p_wandering: step.p_wandering,
            worse,
            stands,
            facts,
            facts_within_runs,
            acknowledged: None,
        }
    }

    /// Assigns each change point of the group at this index an ID, which is derived from the run
    /// and the figure.
    fn name(&self, place: usize, changes: &mut [ChangePoint]) {
        let group = match place {
            0 => String::new(),
            place => format!("-{}", place + 1),
        };
        for index in 0..changes.len() {
            let change = &changes[index];
            let mut id = format!(
                "{}-{}{group}",
                change.recording.short(),
                change.followed.name()
            );
            if changes[..index].iter().any(|other| other.id == id) {
                // The counts above two thresholds can change at the same run, in opposite
                // directions.
                id.push_str(if change.worse { "-worse" } else { "-better" });
            }
            changes[index].id = id;
        }
    }

    /// Returns the slow movement of a figure since the last step of any figure of the group, which
    /// is at run `last`. Other figures show the same step as a slow movement.
    fn drift(&self, member: &Member, course: &Course, last: usize) -> Option<Drifting> {
        let from = member.places.partition_point(|place| *place < last);
        let drift = course.drift_since(&member.values, from)?;
        if member.threshold.is_none() && !is_material(drift.ratio, false) {
            return None;
        }
        let run = member.places[drift.from];
        Some(Drifting {
            followed: member.followed,
            threshold_ns: member.threshold,
            run,
            from: self.runs[run].started,
            before: drift.before,
            after: drift.after,
            ratio: Some(drift.ratio).filter(|ratio| ratio.is_finite()),
            low: drift.interval.0,
            high: Some(drift.interval.1).filter(|high| high.is_finite()),
            p: drift.p,
            worse: drift.after > drift.before,
            may_be_step: drift.may_be_step,
        })
    }

    /// Returns whether an acknowledgement refers to this change point, which may have moved by a
    /// few runs since then.
    fn is_meant(&self, change: &ChangePoint, known: &Acknowledgement) -> bool {
        let run = self.runs[change.run];
        let near = self.runs[change.run.saturating_sub(LEAST_RUNS)].started;
        let far = self.runs[(change.run + LEAST_RUNS).min(self.runs.len() - 1)].started;
        (known.load == run.load && known.cpus == run.cpus)
            && (known.followed == change.followed && known.worse == change.worse)
            && (near..=far).contains(&known.at)
    }

    /// Returns the median of the maxima of some runs.
    fn usual_max(&self, from: usize, to: usize) -> Option<Nanos> {
        let mut maxima: Vec<Nanos> = self.runs[from..to]
            .iter()
            .filter_map(|run| run.max)
            .collect();
        maxima.sort_unstable();
        maxima.get(maxima.len().saturating_sub(1) / 2).copied()
    }

    fn spikes(&self, segments: &[usize], tail: &[Course]) -> Vec<Spike> {
        let maxima: Vec<f64> = (self.runs.iter())
            .map(|run| run.max.map_or(0.0, |max| max.0 as f64))
            .collect();
        let by_max = changes::spiked_maxima(&maxima, segments);
        let by_count = self.spiked_counts(tail);
        let mut all: Vec<usize> = by_max.iter().chain(&by_count).copied().collect();
        all.sort_unstable();
        all.dedup();
        let spike = |run: usize| {
            let end = segments.iter().copied().filter(|start| *start > run).min();
            let start = segments.iter().copied().filter(|start| *start <= run).max();
            Spike {
                run,
                recording: self.runs[run].recording,
                at: self.runs[run].started,
                max_ns: self.runs[run].max,
                usual_max_ns: self.usual_max(start.unwrap_or(0), end.unwrap_or(self.runs.len())),
                above: (self.thresholds.shown).map(|threshold| self.runs[run].above(threshold)),
                by_max: by_max.contains(&run),
                by_count: by_count.contains(&run),
            }
        };
        all.into_iter().map(spike).collect()
    }

    /// Returns the runs between two steps whose count above the shown threshold stands out.
    fn spiked_counts(&self, tail: &[Course]) -> Vec<usize> {
        let members = self.families[0].iter().zip(tail);
        let mut shown = members.filter(|(member, _)| member.threshold == self.thresholds.shown);
        let Some((Values::Counts(counts), course)) = shown
            .next()
            .map(|(member, course)| (&member.values, course))
        else {
            return Vec::new();
        };
        let (mut found, mut from) = (Vec::new(), 0);
        for to in course
            .steps
            .iter()
            .map(|step| step.at)
            .chain([counts.len()])
        {
            let spiked = changes::spiked_counts(&counts[from..to]);
            found.extend(spiked.into_iter().map(|place| from + place));
            from = to;
        }
        found
    }
}

/// Returns one change point for a step that is found above several thresholds: the one with the
/// confidence interval of the ratio that is farthest from 1.
fn plainest(mut found: Vec<ChangePoint>) -> Vec<ChangePoint> {
    let surely = |change: &ChangePoint| {
        if change.worse {
            change.low
        } else {
            change.high.map_or(0.0, |high| 1.0 / high)
        }
    };
    found.sort_by(|a, b| surely(b).total_cmp(&surely(a)));
    let mut kept: Vec<ChangePoint> = Vec::new();
    for change in found {
        let is_known = kept.iter().any(|other| {
            other.worse == change.worse && other.run.abs_diff(change.run) <= LEAST_RUNS
        });
        if !is_known {
            kept.push(change);
        }
    }
    kept
}

fn is_material(ratio: f64, is_tail: bool) -> bool {
    let least = if is_tail {
        LEAST_TAIL_FACTOR
    } else {
        LEAST_FACTOR
    };
    !(1.0 / least..least).contains(&ratio)
}

/// Returns events per million periods, or the median figure.
fn level(values: &Values, from: usize, to: usize) -> f64 {
    match values {
        Values::Counts(each) => {
            let sum = |pick: fn(&(u64, u64)) -> u64| {
                each[from..to]
                    .iter()
                    .map(|one| pick(one) as f64)
                    .sum::<f64>()
            };
            MILLION * sum(|one| one.0) / sum(|one| one.1).max(1.0)
        }
        Values::Figures(each) => changes::median(&each[from..to]),
    }
}

fn figures(run: &Run, threshold: Option<Nanos>) -> RunFigures {
    RunFigures {
        recording: run.recording,
        started: run.started,
        due: run.due,
        above: threshold.map(|threshold| run.above(threshold)),
        unknown: run.unknown,
        p50_ns: run.p50,
        p99_ns: run.p99,
        max_ns: run.max,
        complete: run.complete,
    }
}

#[cfg(test)]
#[path = "followings_tests.rs"]
mod tests;
