//! From runs to a trend.

use std::collections::BTreeMap;

use punctual_model::{CpuClass, Nanos, grouped};

use super::facts::difference;
use super::{
    Acknowledgement, ChangePoint, FactChange, Followed, Group, Question, Run, RunFigures, Spike,
    TREND_SCHEMA, Trend, TrendVerdict, short,
};
use crate::changes::{self, LEAST_RUNS, Step, Values};

/// A step of p50 or p99 by less than this factor is not listed.
const LEAST_FACTOR: f64 = 1.1;

/// The seed of all permutations: the same runs give the same trend.
const SEED: u64 = 0x7472_656e_6473;

/// Events of a million periods.
const MILLION: f64 = 1e6;

/// The trend of these runs. Their order does not matter.
pub fn judge(runs: &[Run], question: Question) -> Trend {
    let mut runs: Vec<&Run> = runs.iter().collect();
    runs.retain(|run| question.since.is_none_or(|since| run.started >= since));
    runs.sort_by_key(|run| (run.started, run.recording));
    let mut by_group: BTreeMap<(bool, String, CpuClass), Vec<&Run>> = BTreeMap::new();
    for run in runs {
        // Without load first.
        let key = (run.load != "idle", run.load.clone(), run.cpus);
        by_group.entry(key).or_default().push(run);
    }
    let groups: Vec<Followings<'_>> = by_group
        .into_values()
        .map(|runs| Followings::of(runs, &question))
        .collect();
    let all: Vec<Values> = groups
        .iter()
        .flat_map(|group| group.values.iter().cloned())
        .collect();
    let mut steps = changes::steps_of(&all, SEED).into_iter();
    let mut facts: BTreeMap<_, FactChange> = BTreeMap::new();
    let mut judged = Vec::new();
    for (place, group) in groups.iter().enumerate() {
        let of_group: Vec<Vec<Step>> = steps.by_ref().take(group.values.len()).collect();
        judged.push(group.judged(place, &of_group, &question.acknowledged));
        for change in fact_changes(&group.runs) {
            facts.entry((change.at, change.recording)).or_insert(change);
        }
    }
    let times = || {
        groups
            .iter()
            .flat_map(|group| group.runs.iter().map(|run| run.started))
    };
    let verdict = verdict(&judged);
    Trend {
        schema: TREND_SCHEMA,
        from: times().min(),
        to: times().max(),
        measured_on: None,
        verdict,
        sentence: sentence(verdict, &judged),
        series: question.series,
        groups: judged,
        facts: facts.into_values().collect(),
        holes: question.holes,
        notes: question.notes,
    }
}

/// The runs of a group, and what is followed of them.
struct Followings<'a> {
    runs: Vec<&'a Run>,
    threshold: Option<Nanos>,
    /// Each with the places of the runs that have it.
    followed: Vec<(Followed, Vec<usize>)>,
    values: Vec<Values>,
}

impl<'a> Followings<'a> {
    fn of(runs: Vec<&'a Run>, question: &Question) -> Self {
        let threshold = question.threshold.or_else(|| threshold(&runs));
        let (mut followed, mut values) = (Vec::new(), Vec::new());
        if let Some(threshold) = threshold {
            let counts = runs.iter().map(|run| (run.above(threshold), run.due));
            followed.push((Followed::Tail, (0..runs.len()).collect()));
            values.push(Values::Counts(counts.collect()));
        }
        type Figure = fn(&Run) -> Option<Nanos>;
        let figures: [(Followed, Figure); 2] = [
            (Followed::P99, |run| run.p99),
            (Followed::P50, |run| run.p50),
        ];
        for (what, figure) in figures {
            let known = runs.iter().enumerate();
            let known = known.filter_map(|(place, run)| Some((place, figure(run)?.0 as f64)));
            let (places, figures): (Vec<usize>, Vec<f64>) = known.unzip();
            followed.push((what, places));
            values.push(Values::Figures(figures));
        }
        Self {
            runs,
            threshold,
            followed,
            values,
        }
    }

    fn judged(&self, place: usize, steps: &[Vec<Step>], known: &[Acknowledgement]) -> Group {
        let mut changes = Vec::new();
        let mut segments = Vec::new();
        for (index, found) in steps.iter().enumerate() {
            let listed: Vec<Step> = (found.iter().copied())
                .filter(|step| matches!(self.values[index], Values::Counts(_)) || is_material(step))
                .collect();
            for number in 0..listed.len() {
                changes.push(self.change(place, index, &listed, number, known));
            }
            segments.extend(listed.iter().map(|step| self.followed[index].1[step.at]));
        }
        changes.sort_by_key(|change| (change.run, change.followed));
        let tail = steps.first().filter(|_| self.threshold.is_some());
        let tail: Vec<usize> = tail.into_iter().flatten().map(|step| step.at).collect();
        let first = self.runs.first();
        Group {
            load: first.map(|run| run.load.clone()).unwrap_or_default(),
            cpus: first.map_or(CpuClass::General, |run| run.cpus),
            judged: self.values.iter().any(Values::is_enough),
            threshold_ns: self.threshold,
            limit_ns: self.runs.last().and_then(|run| run.limit),
            runs: self
                .runs
                .iter()
                .map(|run| figures(run, self.threshold))
                .collect(),
            spikes: self.spikes(&segments, &tail),
            changes,
        }
    }

    fn change(
        &self,
        place: usize,
        index: usize,
        listed: &[Step],
        number: usize,
        known: &[Acknowledgement],
    ) -> ChangePoint {
        let (followed, places) = &self.followed[index];
        let step = listed[number];
        let end = |number: usize| listed.get(number).map_or(places.len(), |step| step.at);
        let start = number.checked_sub(1).map_or(0, end);
        let level = |from: usize, to: usize| level(&self.values[index], from, to);
        let (before, after) = (level(start, step.at), level(step.at, end(number + 1)));
        let worse = after > before;
        // Over, once a later level is nearer to the old one than to this one.
        let stands = (number + 1..listed.len()).all(|later| {
            let level = level(listed[later].at, end(later + 1)).max(f64::MIN_POSITIVE);
            let middle = before.max(f64::MIN_POSITIVE) * after;
            match worse {
                true => level * level >= middle,
                false => level * level <= middle,
            }
        });
        let [run, earliest, latest] = [step.at, step.earliest, step.latest].map(|at| places[at]);
        let of_run = self.runs[run];
        let surely_before = self.runs[places[step.earliest.saturating_sub(1)]];
        let group = if place == 0 {
            String::new()
        } else {
            format!("-{}", place + 1)
        };
        let mut change = ChangePoint {
            id: format!("{}-{}{group}", of_run.recording.short(), followed.name()),
            followed: *followed,
            run,
            recording: of_run.recording,
            at: of_run.started,
            earliest: self.runs[earliest].started,
            latest: self.runs[latest].started,
            before,
            after,
            ratio: step.ratio,
            low: step.interval.0,
            high: Some(step.interval.1).filter(|high| high.is_finite()),
            max_before_ns: self.usual_max(places[start], run),
            max_after_ns: self.usual_max(
                run,
                places
                    .get(end(number + 1))
                    .copied()
                    .unwrap_or(self.runs.len()),
            ),
            p: step.p,
            worse,
            stands,
            facts: difference(&surely_before.facts, &self.runs[latest].facts),
            acknowledged: None,
        };
        change.acknowledged = known
            .iter()
            .find(|known| self.is_meant(&change, known))
            .cloned();
        change
    }

    /// Whether an acknowledgement is about this change point, which may have moved by a
    /// few runs since.
    fn is_meant(&self, change: &ChangePoint, known: &Acknowledgement) -> bool {
        let run = self.runs[change.run];
        let near = self.runs[change.run.saturating_sub(LEAST_RUNS)].started;
        let far = self.runs[(change.run + LEAST_RUNS).min(self.runs.len() - 1)].started;
        (known.load == run.load && known.cpus == run.cpus)
            && (known.followed == change.followed && known.worse == change.worse)
            && (near..=far).contains(&known.at)
    }

    /// The median of the maxima of some runs.
    fn usual_max(&self, from: usize, to: usize) -> Option<Nanos> {
        let mut maxima: Vec<Nanos> = self.runs[from..to]
            .iter()
            .filter_map(|run| run.max)
            .collect();
        maxima.sort_unstable();
        maxima.get(maxima.len().saturating_sub(1) / 2).copied()
    }

    fn spikes(&self, segments: &[usize], tail: &[usize]) -> Vec<Spike> {
        let maxima: Vec<f64> = (self.runs.iter())
            .map(|run| run.max.map_or(0.0, |max| max.0 as f64))
            .collect();
        let by_max = changes::spiked_maxima(&maxima, segments);
        let mut by_count = Vec::new();
        if let (Some(_), Some(Values::Counts(counts))) = (self.threshold, self.values.first()) {
            let ends = tail.iter().copied().chain([counts.len()]);
            let mut from = 0;
            for to in ends {
                let spiked = changes::spiked_counts(&counts[from..to]);
                by_count.extend(spiked.into_iter().map(|place| from + place));
                from = to;
            }
        }
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
                above: self
                    .threshold
                    .map(|threshold| self.runs[run].above(threshold)),
                by_max: by_max.contains(&run),
                by_count: by_count.contains(&run),
            }
        };
        all.into_iter().map(spike).collect()
    }
}

fn is_material(step: &Step) -> bool {
    step.ratio >= LEAST_FACTOR || step.ratio <= 1.0 / LEAST_FACTOR
}

/// Events per million periods, or the median figure.
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

/// A latency of two digits that half of the runs exceed some times: with less than 0.5
/// late periods a run no method finds a step, and with some a period between two
/// levels is found as well.
fn threshold(runs: &[&Run]) -> Option<Nanos> {
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

/// Late periods that a run is to have: a thousandth of its periods, 1 to 5.
fn wanted(run: &Run) -> u64 {
    (run.due / 1_000).clamp(1, 5)
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

fn fact_changes(runs: &[&Run]) -> Vec<FactChange> {
    (runs.windows(2))
        .filter(|pair| !std::sync::Arc::ptr_eq(&pair[0].facts, &pair[1].facts))
        .map(|pair| FactChange {
            recording: pair[1].recording,
            at: pair[1].started,
            facts: difference(&pair[0].facts, &pair[1].facts),
        })
        .filter(|change| !change.facts.is_empty())
        .collect()
}

fn verdict(groups: &[Group]) -> TrendVerdict {
    let changes = || groups.iter().flat_map(|group| &group.changes);
    match () {
        () if changes().any(ChangePoint::is_open_worsening) => TrendVerdict::Worse,
        () if groups.iter().any(|group| group.judged) => TrendVerdict::NoWorsening,
        () => TrendVerdict::NotJudged,
    }
}

fn sentence(verdict: TrendVerdict, groups: &[Group]) -> String {
    let runs = groups
        .iter()
        .map(|group| group.runs.len())
        .max()
        .unwrap_or(0);
    let counted = |number: usize, one: &str, many: &str| {
        format!(
            "{} {}",
            grouped(number as u64),
            if number == 1 { one } else { many }
        )
    };
    let of = counted(runs, "run", "runs");
    match verdict {
        TrendVerdict::NotJudged => format!(
            "not judged: {of}, change points need {} of one load",
            2 * LEAST_RUNS
        ),
        TrendVerdict::NoWorsening => {
            let changes: usize = groups.iter().map(|group| group.changes.len()).sum();
            let spikes: usize = groups.iter().map(|group| group.spikes.len()).sum();
            let short = groups.iter().filter(|group| !group.judged).count();
            let mut text = format!(
                "no unacknowledged worsening stands: {}, {} in {of}",
                counted(changes, "change point", "change points"),
                counted(spikes, "spike", "spikes"),
            );
            if short > 0 {
                text += &format!("; {} with too few runs", counted(short, "group", "groups"));
            }
            text
        }
        TrendVerdict::Worse => {
            let open = groups
                .iter()
                .flat_map(|group| group.changes.iter().map(move |change| (group, change)));
            let open: Vec<_> = open
                .filter(|(_, change)| change.is_open_worsening())
                .collect();
            let (group, newest) = match open.iter().max_by_key(|(_, change)| change.at) {
                Some(newest) => *newest,
                None => return String::new(),
            };
            let what = match newest.followed {
                Followed::Tail => format!(
                    "{} periods above {} a run, before {}",
                    short(group.a_run(newest.after)),
                    group.threshold_ns.unwrap_or_default(),
                    short(group.a_run(newest.before)),
                ),
                figure => format!(
                    "{} is {:.0}% higher",
                    figure.name(),
                    100.0 * (newest.ratio - 1.0)
                ),
            };
            let more = match open.len() {
                1 => String::new(),
                several => format!(" ({} in all)", counted(several, "worsening", "worsenings")),
            };
            let day: String = newest.at.to_string().chars().take(10).collect();
            format!("worse since {day}: {what}, load {}{more}", group.name())
        }
    }
}
