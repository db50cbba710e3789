//! A simulated series of a machine over a month, with a regression, one outlying run, and a note.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_model::{Nanos, Recording, SeriesRun, SignedNanos, run_groups};
use punctual_serve::SourceError;
use punctual_serve::trends::{Decided, Noted, SeriesOf, TrendSource, Trends};
use punctual_stats::trend::{
    Acknowledgement, Note, Question, Run, Setup, Trend, TrendQuery, facts_of, judge, runs_of,
};

use crate::place::recording;

/// Number of runs per machine.
pub(crate) const RUNS: u128 = 60;

/// Returns the runs of a machine, twice a day. If it `worsens`, runs from the 40th on are late more
/// often.
pub(crate) fn runs(machine: &str, first: u128, worsens: bool) -> Vec<Recording> {
    let one = |number: u128| {
        let mut one = recording(first + number, machine);
        one.started += Duration::from_secs(number as u64 * 43_200);
        one.label = Some("nightly".to_owned());
        let late = match (worsens && number >= 40, number) {
            (_, 21) => vec![460_000],
            (true, _) => (0..40).map(|each| 110_000 + each * 900).collect(),
            (false, _) => vec![70_000 + number as i64 * 131],
        };
        for ns in late {
            let thread = &mut one.threads[0];
            thread.histogram.record(SignedNanos(ns));
            thread.accounting.recorded += 1;
            thread.accounting.expected += 1;
            thread.usage.switches_voluntary += 1;
        }
        one.series.rows = Default::default();
        one
    };
    (0..RUNS).map(one).collect()
}

/// The series `nightly` of some machines, with decisions in memory.
#[derive(Default)]
pub(crate) struct Nightly {
    runs: BTreeMap<String, Vec<Run>>,
    pub(crate) decided: Mutex<Vec<Acknowledgement>>,
}

impl Nightly {
    pub(crate) fn add(&mut self, machine: &str, recordings: &[Recording]) {
        let as_runs = recordings.iter().flat_map(|recording| {
            let run = SeriesRun {
                recording: recording.id,
                epoch: 1,
                host: Some(machine.to_owned()),
                started: recording.started,
                duration_ns: recording.duration_ns,
                completion: recording.completion,
                outcome: recording.verdict.outcome,
                facts: None,
                program: "0.1.0".to_owned(),
                groups: run_groups(recording),
            };
            let setup = Setup {
                load: "idle".to_owned(),
                limit: Some(Nanos::from_micros(200)),
                facts: Arc::new(facts_of(&recording.host)),
            };
            runs_of(&run, &setup)
        });
        self.runs.insert(machine.to_owned(), as_runs.collect());
    }

    pub(crate) fn source(self) -> (Arc<Self>, TrendSource) {
        let own = Arc::new(self);
        (Arc::clone(&own), TrendSource(Some(own as Arc<dyn Trends>)))
    }
}

impl Trends for Nightly {
    fn series(&self) -> Result<Vec<SeriesOf>, SourceError> {
        let of = |machine: &String| SeriesOf {
            series: "nightly".to_owned(),
            machine: Some(machine.clone()),
        };
        Ok(self.runs.keys().map(of).collect())
    }

    fn trend(&self, of: &SeriesOf) -> Result<(Trend, Vec<Run>), SourceError> {
        let machine = of.machine.as_deref().unwrap_or_default();
        let runs = self
            .runs
            .get(machine)
            .ok_or_else(|| SourceError::new("no such series"))?;
        let question = Question {
            series: of.series.clone(),
            notes: runs.get(30).map_or_else(Vec::new, |run| {
                vec![Note {
                    at: run.started,
                    recording: Some(run.recording),
                    who: "kim".to_owned(),
                    text: "<script>alert(3)</script> new fan".to_owned(),
                }]
            }),
            acknowledged: self.decided.lock().unwrap().clone(),
            ..Question::default()
        };
        Ok((judge(runs, question), runs.clone()))
    }

    fn note(&self, _: &SeriesOf, _: &Noted) -> Result<(), SourceError> {
        Err(SourceError::new("no notes are kept"))
    }

    fn decide(&self, of: &SeriesOf, decided: &Decided) -> Result<(), SourceError> {
        let (trend, runs) = self.trend(of)?;
        let question = Question {
            asked: TrendQuery {
                threshold_ns: decided.threshold,
                ..trend.asked
            },
            ..Question::default()
        };
        let trend = judge(&runs, question);
        let of_groups = trend.groups.iter().flat_map(|group| {
            let changes = group.changes.iter();
            changes.map(move |change| (group, change))
        });
        let mut found = of_groups.filter(|(_, change)| change.id == decided.change);
        let (group, change) = found
            .next()
            .ok_or_else(|| SourceError::new("no such change point"))?;
        self.decided.lock().unwrap().push(Acknowledgement {
            load: group.load.clone(),
            cpus: group.cpus,
            followed: change.followed,
            worse: change.worse,
            recording: change.recording,
            at: change.at,
            who: decided.who.clone(),
            why: decided.why.clone(),
        });
        Ok(())
    }
}
