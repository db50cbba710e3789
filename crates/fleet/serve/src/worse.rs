//! All series with their verdicts. They are judged periodically in the background, and pages and
//! alerts read the verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use punctual_model::{Claim, Outcome, RecordingId, SeriesProof};
use punctual_stats::discoveries;
use punctual_stats::trend::{ChangePoint, FactChange, Trend};
use punctual_store::Machine;

use crate::SourceError;
use crate::trends::{SeriesOf, Trends};

/// A judged series.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) of: SeriesOf,
    /// Its trend, or why it cannot be judged.
    pub(crate) trend: Result<Trend, SourceError>,
    /// The verdict over its runs; `None` if they were not at random times.
    pub(crate) proof: Result<Option<SeriesProof>, SourceError>,
}

impl Judged {
    /// Judges a series.
    pub(crate) fn new(trends: &dyn Trends, of: SeriesOf) -> Self {
        Self {
            trend: trends.trend(&of).map(|(trend, _)| trend),
            proof: trends.proof(&of),
            of,
        }
    }

    /// Returns the verdict over the runs, if there is one.
    pub(crate) fn proven(&self) -> Option<&SeriesProof> {
        self.proof.as_ref().ok()?.as_ref()
    }
}

/// The last change of a machine, in a few words.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LastChange {
    /// The series that shows it.
    pub(crate) of: SeriesOf,
    pub(crate) at: Timestamp,
    /// Description of the change.
    pub(crate) what: String,
    /// Whether it is a change of a level. Otherwise, only facts changed.
    is_level: bool,
    /// Whether it is an open regression.
    pub(crate) is_worse: bool,
}

impl LastChange {
    fn of_level(of: &SeriesOf, change: &ChangePoint) -> Self {
        let direction = if change.worse { "worse" } else { "better" };
        let near = change.facts.first();
        let near = near.map(|fact| format!("; {}", fact.difference.sentence()));
        Self {
            of: of.clone(),
            at: change.at,
            what: format!(
                "{direction} ×{:.2}{}",
                change.ratio,
                near.unwrap_or_default()
            ),
            is_level: true,
            is_worse: change.is_open_worsening(),
        }
    }

    fn of_facts(of: &SeriesOf, change: &FactChange) -> Option<Self> {
        let [first, more @ ..] = &*change.facts else {
            return None;
        };
        let more = match more.len() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        Some(Self {
            of: of.clone(),
            at: change.at,
            what: first.sentence() + &more,
            is_level: false,
            is_worse: false,
        })
    }

    /// The higher, the more important.
    fn rank(&self) -> (bool, bool, Timestamp) {
        (self.is_worse, self.is_level, self.at)
    }
}

/// All series, each with its latest verdict.
#[derive(Debug)]
pub(crate) struct JudgedSeries {
    pub(crate) all: Vec<Judged>,
    /// For each series, when it was judged, and which recordings its machine had at that time.
    judged: Vec<(Timestamp, Version)>,
}

/// The number of recordings of a machine, and its newest recording.
type Version = Option<(u64, Option<RecordingId>)>;

/// Share of the alarms about regressions that may be false, over all series together.
const FALSE: f64 = 0.05;

impl JudgedSeries {
    /// Returns the largest probability at which a regression raises an alarm. In many series, chance
    /// alone makes some regressions, so the limit depends on their number.
    pub(crate) fn alarm_limit(&self) -> f64 {
        let trends = || self.all.iter().filter_map(|one| one.trend.as_ref().ok());
        let judged = trends().filter(|trend| trend.groups.iter().any(|group| group.judged));
        let least = trends().filter_map(|trend| {
            let each = open(trend).map(|change| trend.p_of_any(change));
            each.min_by(f64::total_cmp)
        });
        discoveries::limit(least.collect(), judged.count(), FALSE)
    }

    /// Returns the verdicts over the runs of sampled series, with their machines.
    fn proofs(&self) -> impl Iterator<Item = (&str, &SeriesProof)> {
        let all = self.all.iter();
        all.filter_map(|one| Some((one.of.machine.as_deref()?, one.proven()?)))
    }

    /// Returns the time of the oldest verdict.
    pub(crate) fn at(&self) -> Timestamp {
        let times = self.judged.iter().map(|(at, _)| *at);
        times.min().unwrap_or_else(Timestamp::now)
    }
}

/// The latest verdicts of all series.
#[derive(Debug, Default)]
pub(crate) struct SeriesVerdicts(RwLock<Option<Arc<JudgedSeries>>>);

impl SeriesVerdicts {
    /// Returns the latest verdicts, or `None` until all series have been judged once.
    pub(crate) fn last(&self) -> Option<Arc<JudgedSeries>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }

    /// Returns the latest verdict of a series.
    pub(crate) fn of(&self, of: &SeriesOf) -> Option<Judged> {
        let last = self.last()?;
        last.all.iter().find(|known| known.of == *of).cloned()
    }

    /// Returns the machines with an open regression that chance does not explain among all series.
    pub(crate) fn machines(&self) -> BTreeSet<String> {
        let Some(last) = self.last() else {
            return BTreeSet::new();
        };
        let limit = last.alarm_limit();
        let is_alarm = |trend: &Trend| open(trend).any(|one| trend.p_of_any(one) <= limit);
        let worse = (last.all.iter()).filter(|one| one.trend.as_ref().is_ok_and(is_alarm));
        worse.filter_map(|one| one.of.machine.clone()).collect()
    }

    /// Returns the worst outcome over the runs of a sampled series, for each machine that has one.
    pub(crate) fn proven(&self) -> BTreeMap<String, Outcome> {
        let rank = |outcome: Outcome| (outcome.is_good(), !outcome.is_bad());
        let mut worst: BTreeMap<String, Outcome> = BTreeMap::new();
        let last = self.last();
        for (machine, proof) in last.iter().flat_map(|look| look.proofs()) {
            let known = worst.entry(machine.to_owned()).or_insert(proof.outcome);
            if rank(proof.outcome) < rank(*known) {
                *known = proof.outcome;
            }
        }
        worst
    }

    /// Returns the claims over the runs of sampled series, with their machines.
    pub(crate) fn claims(&self) -> Vec<(String, Arc<Vec<Claim>>)> {
        let last = self.last();
        let all = last.iter().flat_map(|look| look.proofs());
        all.map(|(machine, proof)| (machine.to_owned(), Arc::new(proof.claims.clone())))
            .collect()
    }

    /// Returns the last change of each machine: the newest level that still lasts or, without one,
    /// the newest change of facts.
    pub(crate) fn last_changes(&self) -> BTreeMap<String, LastChange> {
        let last = self.last();
        let mut all: BTreeMap<String, LastChange> = BTreeMap::new();
        for one in last.iter().flat_map(|look| &look.all) {
            let (Some(machine), Ok(trend)) = (&one.of.machine, &one.trend) else {
                continue;
            };
            let levels = trend.groups.iter().flat_map(|group| &group.changes);
            let levels = levels.filter(|change| change.stands);
            let levels = levels.map(|change| LastChange::of_level(&one.of, change));
            let facts = trend.facts.iter();
            let facts = facts.filter_map(|change| LastChange::of_facts(&one.of, change));
            for change in levels.chain(facts) {
                let known = all.entry(machine.clone()).or_insert_with(|| change.clone());
                if change.rank() > known.rank() {
                    *known = change;
                }
            }
        }
        all
    }

    /// Returns the number of open regressions, or `None` until all series have been judged once.
    pub(crate) fn open(&self) -> Option<usize> {
        let look = self.last()?;
        let trends = (look.all.iter()).filter_map(|judged| judged.trend.as_ref().ok());
        Some(trends.map(|trend| open(trend).count()).sum())
    }

    /// Judges new series, and series of machines with new recordings. Then judges the others, those
    /// with the oldest verdicts first, until `time_limit` is reached. Leaves out retired machines.
    ///
    /// # Errors
    /// Returns an error if the series cannot be listed.
    pub(crate) fn judge(
        &self,
        trends: &dyn Trends,
        machines: &[Machine],
        time_limit: Duration,
    ) -> Result<Arc<JudgedSeries>, SourceError> {
        let began = Instant::now();
        let marks: BTreeMap<&str, Version> = machines.iter().map(version).collect();
        let last = self.last();
        let mut known: BTreeMap<&SeriesOf, (&Judged, (Timestamp, Version))> = BTreeMap::new();
        if let Some(last) = &last {
            let each = last.all.iter().zip(&last.judged);
            known.extend(each.map(|(one, judged)| (&one.of, (one, *judged))));
        }
        let retired: BTreeSet<&str> = (machines.iter())
            .filter(|machine| machine.retired.is_some())
            .map(|machine| machine.name.as_str())
            .collect();
        let is_in_service = |of: &SeriesOf| {
            let machine = of.machine.as_deref();
            machine.is_none_or(|name| !retired.contains(name))
        };
        let mut series: Vec<(Option<Timestamp>, Version, SeriesOf)> =
            (trends.series()?.into_iter())
                .filter(is_in_service)
                .map(|of| {
                    let name = of.machine.as_deref().unwrap_or_default();
                    let mark = marks.get(name).copied().flatten();
                    let unchanged = known.get(&of).filter(|(_, (_, seen))| *seen == mark);
                    (unchanged.map(|(_, (at, _))| *at), mark, of)
                })
                .collect();
        // New and changed series first, then those with the oldest verdicts.
        series.sort_by(|a, b| (a.0, &a.2).cmp(&(b.0, &b.2)));
        let judged = series.into_iter().map(|(at, mark, of)| {
            if let (Some(at), true) = (at, began.elapsed() >= time_limit)
                && let Some((kept, _)) = known.get(&of)
            {
                return ((*kept).clone(), (at, mark));
            }
            (Judged::new(trends, of), (Timestamp::now(), mark))
        });
        let mut judged: Vec<(Judged, (Timestamp, Version))> = judged.collect();
        judged.sort_by(|(a, _), (b, _)| a.of.cmp(&b.of));
        let (all, judged) = judged.into_iter().unzip();
        let look = Arc::new(JudgedSeries { all, judged });
        self.set(&look);
        Ok(look)
    }

    /// Judges one series again, such as after a decision.
    pub(crate) fn rejudge(&self, trends: &dyn Trends, of: &SeriesOf) {
        let Some(last) = self.last() else { return };
        let (mut all, mut judged) = (last.all.clone(), last.judged.clone());
        if let Some(place) = all.iter().position(|known| known.of == *of) {
            all[place] = Judged::new(trends, of.clone());
            judged[place].0 = Timestamp::now();
        }
        self.set(&Arc::new(JudgedSeries { all, judged }));
    }

    fn set(&self, judged: &Arc<JudgedSeries>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(judged));
    }
}

fn version(machine: &Machine) -> (&str, Version) {
    let latest = machine.latest.as_ref().map(|latest| latest.id);
    (&machine.name, Some((machine.recordings, latest)))
}

/// Returns whether a series has an open regression.
pub(crate) fn is_worse(trend: &Trend) -> bool {
    open(trend).next().is_some()
}

/// Returns the open regressions of a series.
fn open(trend: &Trend) -> impl Iterator<Item = &ChangePoint> {
    let changes = trend.groups.iter().flat_map(|group| &group.changes);
    changes.filter(|change| change.is_open_worsening())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use punctual_stats::trend::{Followed, Group, Question, Run, judge};

    use super::*;
    use crate::trends::{Decided, Noted};

    /// Counts how often each series is judged.
    #[derive(Default)]
    struct Counted(Mutex<Vec<String>>);

    impl Trends for Counted {
        fn series(&self) -> Result<Vec<SeriesOf>, SourceError> {
            let of = |machine: &str| SeriesOf {
                series: "s".to_owned(),
                machine: Some(machine.to_owned()),
            };
            Ok(["a", "b", "c"].map(of).to_vec())
        }

        fn trend(&self, of: &SeriesOf) -> Result<(Trend, Vec<Run>), SourceError> {
            let machine = of.machine.clone().unwrap_or_default();
            self.0.lock().unwrap().push(machine);
            Ok((judge(&[], Question::default()), Vec::new()))
        }

        fn decide(&self, _: &SeriesOf, _: &Decided) -> Result<(), SourceError> {
            Ok(())
        }

        fn note(&self, _: &SeriesOf, _: &Noted) -> Result<(), SourceError> {
            Ok(())
        }
    }

    /// A judged series with an open regression of this probability, or without one.
    fn series(machine: usize, p: Option<f64>) -> Judged {
        let mut trend = judge(&[], Question::default());
        let at = Timestamp::UNIX_EPOCH;
        let change = |p| ChangePoint {
            id: String::new(),
            followed: Followed::P99,
            threshold_ns: None,
            run: 0,
            recording: RecordingId::new(),
            at,
            earliest: at,
            latest: at,
            before: 1.0,
            after: 2.0,
            ratio: 2.0,
            low: 1.5,
            high: Some(2.5),
            max_before_ns: None,
            max_after_ns: None,
            p,
            p_wandering: p,
            worse: true,
            stands: true,
            facts: Vec::new(),
            facts_within_runs: None,
            acknowledged: None,
        };
        trend.groups.push(Group {
            load: "idle".to_owned(),
            cpus: punctual_model::CpuClass::General,
            judged: true,
            threshold_ns: None,
            thresholds_ns: Vec::new(),
            limit_ns: None,
            runs: Vec::new(),
            changes: p.map(change).into_iter().collect(),
            drifts: Vec::new(),
            spikes: Vec::new(),
        });
        Judged {
            of: SeriesOf {
                series: "s".to_owned(),
                machine: Some(format!("m{machine}")),
            },
            trend: Ok(trend),
            proof: Ok(None),
        }
    }

    #[test]
    fn alarms_need_more_in_many_series() {
        let alarms = |number: usize, p: f64| {
            let all = (0..number).map(|place| series(place, (place == 0).then_some(p)));
            let worse = SeriesVerdicts::default();
            worse.set(&Arc::new(JudgedSeries {
                all: all.collect(),
                judged: Vec::new(),
            }));
            assert_eq!(worse.open(), Some(1));
            worse.machines().len()
        };
        // Two figures are followed, so the p-value counts twice.
        assert_eq!([alarms(1, 0.02), alarms(1, 0.03)], [1, 0]);
        assert_eq!([alarms(200, 0.02), alarms(200, 2e-4)], [0, 0]);
        assert_eq!(alarms(200, 1e-4), 1);
    }

    #[test]
    fn exhausted_time_rejudges_only_changes() {
        let machine = |name: &str, recordings| Machine {
            name: name.to_owned(),
            recordings,
            last_seen: None,
            latest: None,
            retired: None,
        };
        let (worse, trends) = (SeriesVerdicts::default(), Counted::default());
        let judged = |machines: &[Machine], time_limit| {
            let look = worse.judge(&trends, machines, time_limit).unwrap();
            assert_eq!(look.all.len(), 3);
            std::mem::take(&mut *trends.0.lock().unwrap())
        };
        let before = [machine("a", 1), machine("b", 1)];
        assert_eq!(judged(&before, Duration::ZERO), ["a", "b", "c"]);
        assert_eq!(judged(&before, Duration::ZERO), [""; 0]);
        let after = [machine("a", 1), machine("b", 2)];
        assert_eq!(judged(&after, Duration::ZERO), ["b"]);
        // Over time, all series are judged, those with the oldest verdicts first.
        assert_eq!(judged(&after, Duration::MAX), ["a", "c", "b"]);
    }
}
