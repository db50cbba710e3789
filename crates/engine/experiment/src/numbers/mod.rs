//! Experiments on the numbers that a command prints, or on the late jobs of an application: runs in
//! random order, with and without a change.

mod judge;
mod kept;
mod meter;
mod printed;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use punctual_host::Host;
use punctual_model::{
    Arm, ArmAction, ExperimentState, NUMBERS_SCHEMA, Nanos, NumbersBlock, NumbersExperiment,
    RecordingId,
};
use punctual_session::{RecordingSink, Watcher};
use punctual_stats::shift::least_pairs;
use punctual_store::Store;

pub(crate) use self::judge::CHANCE;
use self::judge::answer;
pub(crate) use self::judge::results;
#[cfg(test)]
pub(crate) use self::judge::tests::of_jobs;
use self::kept::Kept;
pub(crate) use self::meter::LATE_JOBS;
pub use self::meter::Meter;
use self::meter::{Bench, Measured};
use self::printed::Printed;
use crate::error::TrialError;
use crate::order::round_order;
use crate::sides::Sides;

/// Maximum number of rounds, if the time allows more.
const MOST: u32 = 30;

/// The request for an experiment on numbers.
#[derive(Clone, Debug)]
pub struct NumbersRequest {
    /// The source of the numbers.
    pub meter: Meter,
    /// Whether a higher number is better.
    pub higher_is_better: bool,
    /// Largest relative difference that counts as no difference.
    pub margin: f64,
    /// The conditions. The first is the baseline.
    pub arms: Vec<Arm>,
    /// Time to wait after a change before the command runs.
    pub wash_out: Nanos,
    /// Longest run of a command of a condition; `None` for the default.
    pub deadline: Option<Nanos>,
    /// Number of rounds; `None` for as many as fit into the time, at most 30.
    pub rounds: Option<u32>,
    /// Time for the whole experiment.
    pub time: Nanos,
    /// Seed of the random order.
    pub seed: u64,
    /// A name for the stored experiment.
    pub label: Option<String>,
    /// The command line as the program received it.
    pub command_line: Vec<String>,
}

/// The environment of an experiment on numbers.
pub struct NumbersBench<'a> {
    /// The machine.
    pub host: &'a Host,
    /// The store for the experiment and the recordings of its blocks; `None` to discard them.
    pub store: Option<&'a Store>,
    /// The journal of settings; `None` if no setting can be changed.
    pub journal: Option<PathBuf>,
    /// Set when the user stops the experiment.
    pub stop: &'a AtomicBool,
    /// Shows the progress of watching an application.
    pub view: &'a mut dyn Watcher,
    /// Receives the progress.
    pub say: &'a mut dyn FnMut(&str),
    /// Called several times a second, to report that this program is alive.
    pub alive: &'a dyn Fn(),
}

/// An experiment on numbers that was carried out.
#[derive(Debug)]
pub struct NumbersRun {
    /// The runs and the results.
    pub experiment: NumbersExperiment,
    /// Its ID in the store; `None` if it is not stored.
    pub id: Option<RecordingId>,
}

/// Runs the command in each condition, pair by pair in random order, and compares its numbers. A
/// first run of the baseline is discarded. Settings are restored at the end, also after an error.
///
/// # Errors
/// Returns an error if a run fails, hangs or prints something else than numbers, with its output;
/// or if the plan cannot show anything.
pub fn run_numbers(
    asked: &NumbersRequest,
    bench: NumbersBench<'_>,
) -> Result<NumbersRun, TrialError> {
    let mut experiment = draft(asked, bench.host);
    let sides = Sides::new(bench.host, &asked.arms, None, bench.journal.clone())?;
    let mut sides = sides.with_deadline(asked.deadline);
    sides.rehearse()?;
    let kept = (bench.store)
        .map(|store| Kept::begin(asked, &experiment, store, bench.host))
        .transpose()?;
    let mut runs = Runs {
        asked,
        bench,
        sides: Some(sides),
        kept,
    };
    let measured = runs.measure(&mut experiment);
    let restored = match runs.sides.take() {
        Some(sides) => sides.finish(&AtomicBool::new(false)),
        None => Ok(()),
    };
    experiment.stopped = matches!(measured, Err(TrialError::Stopped));
    experiment.results = results(&experiment);
    experiment.sentence = answer(&experiment, &experiment.results);
    let state = match (&measured, &restored) {
        (Ok(()), Ok(())) => ExperimentState::Finished,
        (Err(TrialError::Stopped), Ok(())) => ExperimentState::Stopped,
        _ => ExperimentState::Failed,
    };
    let saved = match runs.kept {
        Some(kept) => kept.end(&experiment, state),
        None => Ok(None),
    };
    match measured {
        Err(TrialError::Stopped) | Ok(()) => {}
        Err(error) => return Err(error),
    }
    restored?;
    Ok(NumbersRun {
        experiment,
        id: saved?,
    })
}

fn draft(asked: &NumbersRequest, host: &Host) -> NumbersExperiment {
    NumbersExperiment {
        schema: NUMBERS_SCHEMA,
        program: format!("punctual {}", env!("CARGO_PKG_VERSION")),
        command_line: asked.command_line.clone(),
        host: host.facts().hostname.get().cloned(),
        started: Timestamp::now(),
        command: asked.meter.name(),
        higher_is_better: asked.higher_is_better,
        arms: asked.arms.clone(),
        seed: asked.seed,
        rounds: 0,
        margin: asked.margin,
        confidence: 1.0 - CHANCE,
        units: BTreeMap::new(),
        blocks: Vec::new(),
        results: Vec::new(),
        sentence: String::new(),
        stopped: false,
    }
}

/// The runs of an experiment.
struct Runs<'a, 'b> {
    asked: &'b NumbersRequest,
    bench: NumbersBench<'a>,
    sides: Option<Sides<'b>>,
    /// The experiment in the store.
    kept: Option<Kept<'a>>,
}

impl Runs<'_, '_> {
    fn measure(&mut self, experiment: &mut NumbersExperiment) -> Result<(), TrialError> {
        let begun = Instant::now();
        let first = self.block(0, "pilot")?;
        let took = first.took;
        let unit = |(name, (_, unit)): (&String, &(f64, String))| (name.clone(), unit.clone());
        experiment.units = first.judged.iter().map(unit).collect();
        experiment.rounds = self.rounds(experiment, took, begun.elapsed())?;
        let said = format!(
            "{} of {} runs each, in random order; the first run of the baseline took {took} and is \
             not counted",
            punctual_model::counted(u64::from(experiment.rounds), "round", "rounds"),
            self.asked.arms.len(),
        );
        (self.bench.say)(&said);
        for round in 0..experiment.rounds {
            for arm in round_order(self.asked.seed, round, self.asked.arms.len()) {
                let measured = self.block(arm, &round.to_string())?;
                let printed = measured.judged;
                same_names(&experiment.units, &printed)
                    .map_err(|why| self.asked.meter.failed(why, &printed_text(&printed)))?;
                let values = printed.into_iter().map(|(name, (value, _))| (name, value));
                experiment.blocks.push(NumbersBlock {
                    round,
                    arm,
                    took_ns: measured.took,
                    values: values.chain(measured.others).collect(),
                    recording: measured.recording,
                    notes: measured.notes,
                });
            }
            if let Some(kept) = &mut self.kept {
                experiment.sentence = answer(experiment, &results(experiment));
                kept.save(experiment, ExperimentState::Running)?;
            }
            let done = format!("round {} of {}", round + 1, experiment.rounds);
            (self.bench.say)(&format!(
                "{done}: {}",
                answer(experiment, &results(experiment))
            ));
        }
        Ok(())
    }

    /// Returns the number of rounds.
    fn rounds(
        &self,
        experiment: &NumbersExperiment,
        took: Nanos,
        spent: Duration,
    ) -> Result<u32, TrialError> {
        let arms = self.asked.arms.len() as u64;
        let tests = (arms.saturating_sub(1) * experiment.units.len() as u64).max(1);
        let least = least_pairs(CHANCE / tests as f64);
        let round = (took + self.asked.wash_out).0.saturating_mul(arms).max(1);
        let left = self.asked.time.saturating_sub(Nanos::from(spent));
        let fits = u32::try_from(left.0 / round).unwrap_or(u32::MAX).min(MOST);
        let rounds = self.asked.rounds.unwrap_or(fits);
        if rounds >= least {
            return Ok(rounds);
        }
        let needed = Nanos(round.saturating_mul(u64::from(least)));
        let needed = needed.as_secs_f64() + spent.as_secs_f64();
        Err(TrialError::Plan(match self.asked.rounds {
            Some(_) => format!(
                "--pairs {rounds} is too few to show a difference: pass --pairs {least} or more"
            ),
            None => format!(
                "--duration is enough for only {rounds} pairs of runs of {took}, but at least {least} \
                 are needed: pass --duration {}s or more",
                (needed * 1.1).ceil()
            ),
        }))
    }

    /// Brings the machine into a condition, and measures.
    fn block(&mut self, arm: u32, block: &str) -> Result<Measured, TrialError> {
        let stop = self.bench.stop;
        let changes = (self.asked.arms.get(arm as usize))
            .is_some_and(|arm| arm.action != ArmAction::Unchanged);
        if let Some(sides) = &mut self.sides {
            sides.switch(arm, block, stop)?;
        }
        if changes || block != "pilot" {
            wait(self.asked.wash_out, stop, self.bench.alive)?;
        }
        let named = self.asked.arms.get(arm as usize);
        let name = named.map_or("", |arm| arm.name.as_str());
        let label = self.asked.label.as_deref().unwrap_or("experiment");
        let kept = self.kept.as_ref().filter(|_| block != "pilot");
        let measured = self.asked.meter.measure(
            (crate::sides::side_name(arm), block),
            Bench {
                host: self.bench.host,
                view: &mut *self.bench.view,
                alive: self.bench.alive,
                sink: kept.map(|kept| &kept.blocks as &dyn RecordingSink),
                label: format!("{label}: {name}"),
            },
            stop,
        )?;
        if let Some(sides) = &mut self.sides {
            sides.leave(arm)?;
        }
        Ok(measured)
    }
}

/// Waits until a change has taken effect.
fn wait(time: Nanos, stop: &AtomicBool, alive: &dyn Fn()) -> Result<(), TrialError> {
    let end = Instant::now() + Duration::from(time);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(TrialError::Stopped);
        }
        alive();
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Fails if a run printed other names or units than the first one.
fn same_names(units: &BTreeMap<String, String>, printed: &Printed) -> Result<(), String> {
    let same = units.len() == printed.len()
        && (units.iter().zip(printed))
            .all(|((name, unit), (other, (_, of)))| name == other && unit == of);
    let list = |names: Vec<String>| names.join(", ");
    let first = units
        .iter()
        .map(|(name, unit)| format!("{name} {unit}").trim().to_owned());
    if same {
        Ok(())
    } else {
        Err(format!(
            "the first run printed other numbers ({})",
            list(first.collect())
        ))
    }
}

fn printed_text(printed: &Printed) -> String {
    let line = |(name, (value, unit)): (&String, &(f64, String))| format!("{name} {value} {unit}");
    printed.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
