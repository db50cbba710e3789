//! Carries out an experiment: the pilot, the rounds of blocks, and an early end.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use punctual_host::Host;
use punctual_loads::LoadRequest;
use punctual_model::{
    Arguments, EXPERIMENT_SCHEMA, Experiment, ExperimentBlock, ExperimentPlan, ExperimentState,
    MeasuredOn, Nanos, Recording, RecordingId,
};
use punctual_session::{
    MachineRequest, PhaseRequest, RecordingRequest, RecordingSink, Request, RunLength, Session,
    ThreadRequest, Watcher,
};
use punctual_store::Store;

use crate::analysis::{answer, early_end, results};
use crate::block_store::BlockStore;
use crate::error::TrialError;
use crate::pilot;
use crate::plots::{self, parts};
use crate::sides::Sides;
use crate::tally::{Heat, LateCandidates, Tally};

/// The environment of an experiment.
pub struct Bench<'a> {
    /// The machine.
    pub host: &'a Host,
    /// The store for the experiment and its blocks; `None` to discard them.
    pub store: Option<&'a Store>,
    /// The journal of settings; `None` if no setting can be changed.
    pub journal: Option<PathBuf>,
    /// See [`Request::partner`].
    pub partner: Option<Vec<std::ffi::OsString>>,
    /// Changes a load so that it runs in a separate process.
    pub isolate: &'a dyn Fn(LoadRequest) -> LoadRequest,
    /// Shows the progress of each block.
    pub view: &'a mut dyn Watcher,
    /// Set when the user stops the run.
    pub stop: &'a Arc<AtomicBool>,
    /// Whether to measure even if another measurement is running on this machine.
    pub shared: bool,
    /// Receives a line after the pilot and, from time to time, the progress.
    pub say: &'a mut dyn FnMut(&Progress),
}

impl Bench<'_> {
    /// Reborrows the bench.
    pub(crate) fn reborrow(&mut self) -> Bench<'_> {
        Bench {
            host: self.host,
            store: self.store,
            journal: self.journal.clone(),
            partner: self.partner.clone(),
            isolate: self.isolate,
            view: &mut *self.view,
            stop: self.stop,
            shared: self.shared,
            say: &mut *self.say,
        }
    }
}

/// The progress of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// One sentence.
    pub text: String,
    /// Whether this must always be shown. Otherwise, one line per minute is enough.
    pub important: bool,
}

/// Returns a new experiment without any measurements.
pub fn draft(plan: ExperimentPlan, label: Option<String>, command_line: Vec<String>) -> Experiment {
    Experiment {
        schema: EXPERIMENT_SCHEMA,
        id: RecordingId::new(),
        label,
        program: format!("punctual {}", env!("CARGO_PKG_VERSION")),
        command_line,
        host: None,
        started: Timestamp::now(),
        measured_on: None,
        state: ExperimentState::Running,
        plan,
        pilot: None,
        blocks: Vec::new(),
        results: Vec::new(),
        sentence: String::new(),
        warnings: Vec::new(),
        numbers: None,
        boots: None,
        improvement: None,
    }
}

/// Carries out or continues an experiment. Rounds that were not completed are measured again. Even
/// after an error, `experiment` and the store contain the results so far. Settings are restored.
///
/// # Errors
/// See [`TrialError`].
pub fn run(experiment: &mut Experiment, mut bench: Bench<'_>) -> Result<(), TrialError> {
    refuse_shared(experiment, &bench)?;
    let _lease = lease(experiment, bench.store, bench.host)?;
    let arms = experiment.plan.arms.clone();
    let cpus = experiment.plan.cpus.clone();
    let sides = Sides::new(bench.host, &arms, cpus, bench.journal.clone())?;
    let mut sides = sides.with_deadline(experiment.plan.deadline_ns);
    // The journal can be open only once, so a probe that changes settings is rejected.
    if sides.holds_journal() {
        bench.journal = None;
    }
    sides.rehearse()?;
    experiment.state = ExperimentState::Running;
    if let Some(store) = bench.store {
        store.put_experiment(experiment)?;
    }
    let mut trial = Trial {
        begun: Instant::now(),
        bench,
        sides: Some(sides),
        plot: None,
    };
    let measured = trial.measure(experiment);
    let stopped = AtomicBool::new(false);
    let restored = match trial.sides.take() {
        Some(sides) => sides.finish(&stopped),
        None => Ok(()),
    };
    experiment.state = match (&measured, &restored) {
        (Ok(_), Ok(())) => ExperimentState::Finished,
        (Err(TrialError::Stopped), Ok(())) => ExperimentState::Stopped,
        _ => ExperimentState::Failed,
    };
    // If the experiment was ended by the user or by an interim result, only the betting test may
    // decide.
    let as_planned = matches!(measured, Ok(End::AsPlanned));
    experiment.results = results(experiment, as_planned);
    experiment.sentence = answer(&experiment.results);
    let saved = match (trial.bench.store, &experiment.pilot) {
        // The experiment was rejected before its first block, so it is removed from the store.
        (Some(store), None) => store
            .delete_experiment(experiment.id)
            .map_err(TrialError::from),
        _ => trial
            .save(experiment)
            .and_then(|()| judge_recordings(experiment, trial.bench.store)),
    };
    match measured {
        Err(TrialError::Stopped) | Ok(_) => {}
        Err(error) => return Err(error),
    }
    restored.and(saved)
}

/// Fails if the store shows that another process is measuring on this machine.
pub(crate) fn refuse_shared(experiment: &Experiment, bench: &Bench<'_>) -> Result<(), TrialError> {
    let Some(store) = bench.store.filter(|_| !bench.shared) else {
        return Ok(());
    };
    let running = punctual_store::Filter {
        completion: Some(punctual_model::Completion::Running),
        ..punctual_store::Filter::default()
    };
    if let Some(one) = store.list_by(&running)?.first() {
        return Err(TrialError::Shared {
            what: format!("recording {}", one.id.short()),
        });
    }
    let other = store
        .experiments()?
        .into_iter()
        .find(|other| other.id != experiment.id && other.state == ExperimentState::Running);
    other.map_or(Ok(()), |other| {
        Err(TrialError::Shared {
            what: format!("experiment {}", other.id.short()),
        })
    })
}

pub(crate) fn lease(
    experiment: &Experiment,
    store: Option<&Store>,
    host: &Host,
) -> Result<Option<punctual_store::ExperimentLease>, TrialError> {
    let Some(store) = store else {
        return Ok(None);
    };
    let own = host.lease();
    match store.lease_experiment(experiment.id, &own) {
        Some(lease) => Ok(Some(lease)),
        None => Err(TrialError::Shared {
            what: "this experiment".to_owned(),
        }),
    }
}

/// Stores the answer with each recording.
pub(crate) fn judge_recordings(
    experiment: &Experiment,
    store: Option<&Store>,
) -> Result<(), TrialError> {
    let Some(store) = store else {
        return Ok(());
    };
    let judgement = experiment.judgement();
    for id in experiment.recordings() {
        store.put_judgement(id, &judgement)?;
    }
    Ok(())
}

/// The reason why an experiment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// All rounds had been measured, or the time was up.
    AsPlanned,
    /// An interim result ended the experiment.
    ByResult,
}

/// A running experiment.
pub(crate) struct Trial<'a, 'b> {
    pub(crate) begun: Instant,
    pub(crate) bench: Bench<'a>,
    pub(crate) sides: Option<Sides<'b>>,
    /// The slow settings of the previous block; `None` before the first block.
    pub(crate) plot: Option<Vec<String>>,
}

impl Trial<'_, '_> {
    fn measure(&mut self, experiment: &mut Experiment) -> Result<End, TrialError> {
        let before: Duration = elapsed(experiment);
        if experiment.pilot.is_none() {
            self.begin(experiment)?;
        }
        let Some(pilot) = experiment.pilot.clone() else {
            return Ok(End::AsPlanned);
        };
        let arms = experiment.plan.arms.len();
        experiment
            .blocks
            .truncate(experiment.complete_rounds() as usize * arms);
        for round in experiment.complete_rounds()..pilot.rounds {
            for arm in plots::order(&experiment.plan, round) {
                let block = self.block(experiment, &pilot, round, arm)?;
                experiment.blocks.push(block);
                self.save(experiment)?;
            }
            experiment.results = results(experiment, false);
            experiment.sentence = answer(&experiment.results);
            self.say(progress(experiment, pilot.rounds), false);
            if let Some((end, why)) = self.end(experiment, &pilot, before) {
                let done = round + 1;
                let text = format!("ended after {done} of {} rounds: {why}", pilot.rounds);
                self.say(text, true);
                return Ok(end);
            }
        }
        Ok(End::AsPlanned)
    }

    /// Runs the pilot and reports the plan that results from it.
    pub(crate) fn begin(&mut self, experiment: &mut Experiment) -> Result<(), TrialError> {
        // Check the plan first, so that it is not announced and then rejected.
        pilot::length(&experiment.plan)?;
        self.say(pilot::intention(&experiment.plan), true);
        self.pilot(experiment)?;
        if let Some(pilot) = &experiment.pilot {
            self.say(pilot::sentence(&experiment.plan, pilot), true);
        }
        Ok(())
    }

    /// Returns the reason why no further round is measured, if there is one.
    fn end(
        &self,
        experiment: &Experiment,
        pilot: &punctual_model::Pilot,
        before: Duration,
    ) -> Option<(End, String)> {
        let plan = &experiment.plan;
        if plan.ends_early
            && let Some(why) = early_end(experiment, &experiment.results, pilot.rounds)
        {
            return Some((End::ByResult, why));
        }
        let done = experiment.complete_rounds();
        let spent = before + self.begun.elapsed();
        let enough = done >= crate::lengths::least_rounds(plan.arms.len());
        let over = plan.rounds.is_none() && spent > Duration::from(plan.time_ns);
        let over = enough && over && done < pilot.rounds;
        over.then(|| (End::AsPlanned, "the time is over".to_owned()))
    }

    /// Measures the baseline and plans the blocks based on it.
    fn pilot(&mut self, experiment: &mut Experiment) -> Result<(), TrialError> {
        let length = pilot::length(&experiment.plan)?;
        self.switch(0, "pilot")?;
        let (outcome, seen) = self.one(
            experiment,
            [experiment.plan.wash_out_ns, length],
            Nanos::ZERO,
            "pilot",
        )?;
        self.leave(0)?;
        experiment.host = outcome.host.hostname.get().cloned();
        experiment.measured_on = Some(MeasuredOn::from_recording(&outcome));
        experiment.warnings = outcome.warnings.clone();
        let zones = self.bench.host.thermal_zones();
        if self.sides.as_ref().is_some_and(Sides::holds_journal)
            && zones.iter().all(|zone| zone.trip_milli_celsius.is_none())
        {
            experiment.warnings.push(
                "no thermal zone with a limit can be read, so no block ends early if the processor \
                 becomes too hot"
                    .to_owned(),
            );
        }
        let recording = self.bench.store.map(|_| outcome.id);
        let planned = pilot::plan(&experiment.plan, &seen, recording)?;
        experiment.pilot = Some(planned);
        self.save(experiment)
    }

    pub(crate) fn block(
        &mut self,
        experiment: &Experiment,
        pilot: &punctual_model::Pilot,
        round: u32,
        arm: u32,
    ) -> Result<ExperimentBlock, TrialError> {
        let number = experiment.blocks.len().to_string();
        self.switch(arm, &number)?;
        let name = experiment.arm_name(arm).to_owned();
        let times = [self.wash_out(&experiment.plan, arm), pilot.block_ns];
        let (recording, seen) = self.one(experiment, times, pilot.threshold_ns, &name)?;
        let output = self.leave(arm)?;
        let all = recording.all_latencies();
        let achieved = recording.load.iter().flat_map(|load| &load.achieved);
        let work: Vec<u64> = achieved.map(|done| done.count).collect();
        Ok(ExperimentBlock {
            round,
            arm,
            recording: self.bench.store.map(|_| recording.id),
            measured_ns: seen.measured(),
            late: seen.slots(pilot.threshold_ns).len() as u64,
            halves: seen.halves(pilot.threshold_ns),
            very_late: seen
                .slots(Nanos(pilot.threshold_ns.0.saturating_mul(2)))
                .len() as u64,
            median_ns: all.quantile(0.5),
            max_ns: all.max(),
            work: (!work.is_empty())
                .then(|| work.iter().fold(0u64, |sum, one| sum.saturating_add(*one))),
            milli_celsius: power(&recording).and_then(|power| {
                let sensors = power.temperature.iter();
                sensors.map(|sensor| sensor.end_milli_celsius).max()
            }),
            khz: power(&recording).and_then(|power| {
                let all: Vec<u64> = power.frequency.iter().map(|cpu| cpu.end_khz).collect();
                all.iter().sum::<u64>().checked_div(all.len() as u64)
            }),
            milliwatts: power(&recording)
                .and_then(|power| power.milliwatts(recording.interference.duration_ns)),
            flawed: is_flawed(&recording),
            output,
        })
    }

    fn switch(&mut self, arm: u32, block: &str) -> Result<(), TrialError> {
        let stop = self.bench.stop;
        match &mut self.sides {
            Some(sides) => sides.switch(arm, block, stop),
            None => Ok(()),
        }
    }

    fn leave(&mut self, arm: u32) -> Result<Option<String>, TrialError> {
        self.sides
            .as_mut()
            .map_or(Ok(None), |sides| sides.leave(arm))
    }

    /// Returns the wash-out of the next block. The short blocks of a screening get a longer one if
    /// slow settings have changed. In other experiments, the plan already includes a long enough
    /// wash-out.
    fn wash_out(&mut self, plan: &ExperimentPlan, arm: u32) -> Nanos {
        let slow = plan.arms.get(arm as usize).map(|arm| parts(arm)[0].clone());
        let slow = slow.unwrap_or_default();
        let changed = match &self.plot {
            Some(before) => *before != slow,
            None => !slow.is_empty(),
        };
        self.plot = Some(slow);
        if changed && plan.ranks_only {
            plan.wash_out_ns.max(plots::SLOW)
        } else {
            plan.wash_out_ns
        }
    }

    /// Makes one measurement, which consists of a wash-out, used as the warm-up, and the part that
    /// counts.
    fn one(
        &mut self,
        experiment: &Experiment,
        times: [Nanos; 2],
        floor: Nanos,
        name: &str,
    ) -> Result<(Recording, LateCandidates), TrialError> {
        let request = self.request(experiment, times, name)?;
        let session = Session::prepare(request, self.bench.host.clone())?;
        let keep = self.bench.store.map(|store| BlockStore {
            store,
            experiment: experiment.id,
        });
        let heat = Heat::new(self.bench.host, self.bench.stop);
        let mut tally = Tally::new(floor, self.bench.view, heat);
        let keep = keep.as_ref().map(|keep| keep as &dyn RecordingSink);
        let outcome = session.run(keep, &mut tally, self.bench.stop)?;
        if let Some(error) = outcome.store_error {
            return Err(error.into());
        }
        let seen = tally.end()?;
        if self.bench.stop.load(Ordering::Relaxed) {
            return Err(TrialError::Stopped);
        }
        Ok((outcome.recording, seen))
    }

    fn request(
        &self,
        experiment: &Experiment,
        [wash_out, length]: [Nanos; 2],
        name: &str,
    ) -> Result<Request, TrialError> {
        let plan = &experiment.plan;
        let probe = punctual_probes::probe(&plan.probe)
            .map_err(|error| TrialError::Parameter(error.to_string()))?;
        let given = plan.parameters.iter();
        let arguments = Arguments::check(
            probe.parameters,
            given.map(|(name, value)| (name.as_str(), value.as_str())),
        )
        .map_err(|error| TrialError::Parameter(error.to_string()))?;
        (probe.check_repeatable(&arguments))
            .map_err(|error| TrialError::Parameter(error.to_string()))?;
        let loads = plan
            .loads
            .iter()
            .map(|load| load.parse().map(self.bench.isolate));
        let loads = loads
            .collect::<Result<_, punctual_loads::LoadError>>()
            .map_err(|error| TrialError::Session(error.into()))?;
        let label = experiment.label.as_deref().unwrap_or("experiment");
        let length = RunLength::For(wash_out + length);
        Ok(Request {
            partner: self.bench.partner.clone(),
            threads: ThreadRequest {
                cpus: plan.cpus.clone(),
                policy: plan.policy,
                priority: plan.priority,
                group: None,
            },
            warm_up: Some(wash_out),
            machine: MachineRequest {
                journal: self.bench.journal.clone(),
                ..MachineRequest::default()
            },
            recording: RecordingRequest {
                label: Some(format!("{label}: {name}")),
                command_line: experiment.command_line.clone(),
            },
            ..Request::new(probe, arguments, vec![PhaseRequest::only(length, loads)])
        })
    }

    fn save(&self, experiment: &Experiment) -> Result<(), TrialError> {
        match self.bench.store {
            Some(store) => Ok(store.put_experiment(experiment)?),
            None => Ok(()),
        }
    }

    pub(crate) fn say(&mut self, text: String, important: bool) {
        (self.bench.say)(&Progress { text, important });
    }
}

/// Returns the time spent on the blocks so far.
fn elapsed(experiment: &Experiment) -> Duration {
    let wash_out = Duration::from(experiment.plan.wash_out_ns);
    let each = |block: &ExperimentBlock| Duration::from(block.measured_ns) + wash_out;
    experiment.blocks.iter().map(each).sum()
}

fn power(recording: &Recording) -> Option<&punctual_model::Power> {
    recording.interference.power.as_ref()
}

fn is_flawed(recording: &Recording) -> bool {
    let mut loads = recording.load.iter();
    recording.series.dropped > 0
        || !recording.suspensions.is_empty()
        || loads.any(|load| load.lacking().is_some())
}

/// Formats the progress, such as `round 7 of 30, 9.3 min left; thp=never: not proven: ...`.
fn progress(experiment: &Experiment, rounds: u32) -> String {
    let left = rounds.saturating_sub(experiment.complete_rounds());
    let block = experiment
        .pilot
        .as_ref()
        .map_or(Nanos::ZERO, |pilot| pilot.block_ns);
    let each = (block + experiment.plan.wash_out_ns).as_secs_f64();
    let minutes = each * f64::from(left) * experiment.plan.arms.len() as f64 / 60.0;
    format!(
        "round {} of {rounds} measured, {minutes:.1} min left; {}",
        experiment.complete_rounds(),
        experiment.sentence
    )
}
