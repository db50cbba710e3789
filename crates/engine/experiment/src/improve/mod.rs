//! Finds out which settings help on this machine. The stages are an A/A test, a screening, a
//! confirmation, a test of all settings as a group, tests that leave out one setting at a time, and
//! a proof on fresh data. Each stage is a separate experiment.

mod application;
mod begun;
mod judging;
mod profile;
mod stages;

use punctual_model::{
    Arm, ArmAction, Experiment, ExperimentPlan, ExperimentState, IMPROVEMENT_SCHEMA, Improvement,
    ImprovementState, NotTried, Pilot, Proof, Stage, TriedSetting,
};
use punctual_stats::screening::folded_plackett_burman;

pub use self::application::{ApplicationSearch, improve_application};
use self::begun::Begun;
pub use self::begun::unfinished;
use self::judging::{
    helps, judge_recordings, least_needed, ranking, refused, survives, without_each,
};
pub use self::profile::profile;
pub use self::stages::plan_stages;
use self::stages::{
    CONFIRMATION, CONFIRMED, GROUP, LEAVE_ONE_OUT, MOST_PROOF, PROOF, PROOF_PAIRS, SCREENING,
    SLOW_CONFIRMATION, adapted, fitting, pairs, unchanged,
};
use crate::error::TrialError;
use crate::lengths::{self, least_rounds};
use crate::own::OwnExperiments;
use crate::pilot;
use crate::plots::{is_slow, slow_differs};
use crate::trial::{Bench, draft, run};

/// Returns the settings that would be tried, without measuring anything.
pub fn intended(tried: Vec<TriedSetting>, left_out: Vec<NotTried>) -> Improvement {
    Improvement {
        schema: IMPROVEMENT_SCHEMA,
        sentence: "nothing was measured".to_owned(),
        stopped: false,
        measured_on: None,
        application: None,
        threshold_ns: None,
        stages: Vec::new(),
        tried,
        left_out,
        proof: None,
    }
}

/// Tries the settings of `improvement`, stage by stage. `plan` defines how blocks are measured, but
/// its arms are not used. All settings are restored afterwards. Each stage gets an entry in `own`,
/// and a stage from the store is continued only if it has an entry there.
///
/// # Errors
/// See [`TrialError`]. If there is an error, `improvement` contains the results so far.
pub fn improve(
    improvement: &mut Improvement,
    plan: &ExperimentPlan,
    own: Option<&OwnExperiments>,
    bench: &mut Bench<'_>,
) -> Result<(), TrialError> {
    improve_by(improvement, (plan, own), bench, &mut run)
}

/// A function that carries out one experiment.
type CarryOut<'a> = &'a mut dyn FnMut(&mut Experiment, Bench<'_>) -> Result<(), TrialError>;

/// Like [`improve`], but the experiments are carried out by `carry_out`.
fn improve_by(
    improvement: &mut Improvement,
    (plan, own): (&ExperimentPlan, Option<&OwnExperiments>),
    bench: &mut Bench<'_>,
    carry_out: CarryOut<'_>,
) -> Result<(), TrialError> {
    let mut work = Work {
        improvement,
        plan,
        begun: Begun::new(bench.store, own),
        bench,
        carry_out,
        pilot: None,
        spent: 0.0,
    };
    let done = work.all();
    match done {
        Err(TrialError::Stopped) => {
            improvement.stopped = true;
            improvement
                .tried
                .iter_mut()
                .for_each(|one| one.accepted = false);
            improvement.sentence = "stopped: nothing is proven to help".to_owned();
            Ok(())
        }
        other => other,
    }
}

struct Work<'a, 'b> {
    improvement: &'a mut Improvement,
    plan: &'a ExperimentPlan,
    begun: Begun<'a>,
    bench: &'a mut Bench<'b>,
    carry_out: CarryOut<'a>,
    pilot: Option<Pilot>,
    /// Seconds that the stages have taken so far. This is computed from their blocks, so that a
    /// search that is continued gets the same value.
    spent: f64,
}

impl Work<'_, '_> {
    fn all(&mut self) -> Result<(), TrialError> {
        self.stages()?;
        self.save(true)?;
        self.judge_recordings()?;
        self.begun.forget(&self.improvement.stages);
        Ok(())
    }

    /// Stores the result with each recording of each stage.
    fn judge_recordings(&self) -> Result<(), TrialError> {
        let Some(store) = self.bench.store else {
            return Ok(());
        };
        for stage in &self.improvement.stages {
            let Some(experiment) = self.begun.stored(stage.experiment)? else {
                continue;
            };
            judge_recordings(self.improvement, stage, &experiment, store)?;
        }
        Ok(())
    }

    fn stages(&mut self) -> Result<(), TrialError> {
        let equal = self.stage(0, vec![unchanged("current"), unchanged("current again")])?;
        self.improvement.threshold_ns = self.pilot.as_ref().map(|pilot| pilot.threshold_ns);
        if let Some(why) = refused(&equal) {
            self.improvement.sentence = why;
            return Ok(());
        }
        let chosen = self.screen()?;
        let confirmed = self.confirm(&chosen)?;
        let group = self.group(confirmed)?;
        let left = self.eliminate(group)?;
        let found = !left.is_empty();
        let kept = self.prove(left)?;
        for one in &kept {
            self.improvement.tried[*one].accepted = true;
        }
        self.improvement.sentence = match kept.len() {
            0 if found => {
                "not proven: the settings that seemed to help were not confirmed on fresh data"
                    .to_owned()
            }
            0 => "no setting is proven to help".to_owned(),
            1 => "1 setting is proven to help".to_owned(),
            number => format!("{number} settings are proven to help"),
        };
        Ok(())
    }

    /// Returns the settings to confirm, as indexes into `tried`.
    fn screen(&mut self) -> Result<Vec<usize>, TrialError> {
        let number = self.improvement.tried.len();
        let Some(stage) = self.index_of(SCREENING) else {
            return Ok((0..number).collect());
        };
        let rows = folded_plackett_burman().into_iter().enumerate();
        let arms = rows.map(|(row, on)| {
            let on = (0..number).filter(|factor| on[*factor]);
            self.together(format!("row {}", row + 1), on)
        });
        let experiment = self.stage(stage, arms.collect())?;
        let ranked = ranking(&experiment);
        let mut chosen = Vec::new();
        for (factor, effect) in ranked.into_iter().filter(|(factor, _)| *factor < number) {
            let tried = &mut self.improvement.tried[factor];
            // A screening only ranks the effects. It does not measure their size.
            tried.why = if effect < 0.0 && chosen.len() < CONFIRMED {
                "screened".to_owned()
            } else {
                "not among the best settings in the screening".to_owned()
            };
            if effect < 0.0 && chosen.len() < CONFIRMED {
                chosen.push(factor);
            }
        }
        Ok(chosen)
    }

    /// Returns those settings in `chosen` that are proven to help. Quick and slow settings are
    /// tested separately, because each block of a slow setting is a whole plot.
    fn confirm(&mut self, chosen: &[usize]) -> Result<Vec<usize>, TrialError> {
        let (slow, quick): (Vec<usize>, Vec<usize>) =
            (chosen.iter()).partition(|one| self.is_slow(**one));
        let families = [&slow, &quick].iter().filter(|one| !one.is_empty()).count();
        let mut kept = self.confirm_in(CONFIRMATION, &quick, families)?;
        kept.extend(self.confirm_in(SLOW_CONFIRMATION, &slow, families)?);
        Ok(kept)
    }

    fn is_slow(&self, one: usize) -> bool {
        is_slow(&self.improvement.tried[one].assignment)
    }

    /// Like [`confirm`](Self::confirm), but for a single stage, which is one of `families` stages
    /// that share the 5%.
    fn confirm_in(
        &mut self,
        name: &str,
        chosen: &[usize],
        families: usize,
    ) -> Result<Vec<usize>, TrialError> {
        let Some(stage) = self.index_of(name).filter(|_| !chosen.is_empty()) else {
            return Ok(Vec::new());
        };
        let alone = |one: &usize| {
            let name = self.improvement.tried[*one].assignment.clone();
            self.together(name, std::iter::once(*one))
        };
        let arms: Vec<Arm> = std::iter::once(unchanged("current"))
            .chain(chosen.iter().map(alone))
            .collect();
        let experiment = self.stage(stage, arms)?;
        let mut kept = Vec::new();
        for (one, result) in chosen.iter().zip(&experiment.results) {
            let tried = &mut self.improvement.tried[*one];
            (tried.ratio, tried.low, tried.high) = (result.ratio, result.low, result.high);
            match helps(result).and_then(|()| survives(result, families)) {
                Ok(()) => {
                    tried.why = "proven to help".to_owned();
                    kept.push(*one);
                }
                Err(why) => tried.why = why.to_string(),
            }
        }
        Ok(kept)
    }

    /// Returns the settings in `kept` that remain after testing them as a group: all of them if
    /// they are proven to help together, or otherwise only the best one.
    fn group(&mut self, mut kept: Vec<usize>) -> Result<Vec<usize>, TrialError> {
        let Some(group) = self.index_of(GROUP).filter(|_| kept.len() > 1) else {
            return Ok(kept);
        };
        let arms = vec![unchanged("current"), self.all_of(&kept)];
        // Half of the remaining time is reserved for leave-one-out, or more if that stage needs
        // more.
        let each = 1 + kept.iter().filter(|one| !self.is_slow(**one)).count();
        let later = f64::from(least_rounds(each)) * each as f64 * self.block(&arms);
        let left = self.left() - self.proof_time(&arms);
        if let Some(rounds) = fitting(
            (left / 2.0).min(left - later),
            arms.len(),
            self.block(&arms),
        ) {
            self.plan_stage(group, arms.len(), rounds);
        }
        let experiment = self.stage(group, arms)?;
        if !experiment
            .results
            .iter()
            .all(|result| helps(result).is_ok())
        {
            // The settings are proven to help separately, but not together, so only the best one is
            // kept.
            let ratio = |one: &usize| self.improvement.tried[*one].high.unwrap_or(f64::MAX);
            kept.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
            for one in kept.drain(1..) {
                self.improvement.tried[one].why =
                    "not proven to help together with the other settings".to_owned();
            }
        }
        Ok(kept)
    }

    /// Removes settings that are redundant given the others, one at a time. The remaining group is
    /// an arm of the previous stage, and is measured again without each of its settings. Slow
    /// settings stay in force throughout, so that a stage is one whole plot.
    fn eliminate(&mut self, mut kept: Vec<usize>) -> Result<Vec<usize>, TrialError> {
        for step in 1.. {
            let quick: Vec<usize> = (kept.iter().copied())
                .filter(|one| !self.is_slow(*one))
                .collect();
            if quick.is_empty() || kept.len() < 2 {
                break;
            }
            let together = self.all_of(&kept);
            let without = |one: &usize| {
                let rest = kept.iter().copied().filter(|other| other != one);
                let name = format!("without {}", self.improvement.tried[*one].assignment);
                self.together(name, rest)
            };
            let arms: Vec<Arm> = std::iter::once(together)
                .chain(quick.iter().map(without))
                .collect();
            let left = self.left() - self.proof_time(&arms);
            let fits = |time| fitting(time, arms.len(), self.block(&arms));
            let Some(rounds) = fits(left / 2.0).or(fits(left)) else {
                for one in &quick {
                    self.improvement.tried[*one].why =
                        "proven to help; no time was left for a test without it".to_owned();
                }
                break;
            };
            let Some(stage) = self.leave_one_out(step) else {
                break;
            };
            self.plan_stage(stage, arms.len(), rounds);
            let experiment = self.stage(stage, arms)?;
            let Some(place) = least_needed(&without_each(&experiment)) else {
                break;
            };
            self.improvement.tried[quick[place]].why =
                "not needed in addition to the other settings".to_owned();
            kept.retain(|one| *one != quick[place]);
        }
        Ok(kept)
    }

    /// Returns the index of the leave-one-out stage for this step, and inserts the stage if it was
    /// not planned.
    fn leave_one_out(&mut self, step: usize) -> Option<usize> {
        let name = match step {
            1 => LEAVE_ONE_OUT.to_owned(),
            step => format!("{LEAVE_ONE_OUT} {step}"),
        };
        if let Some(place) = self.index_of(&name) {
            return Some(place);
        }
        let place = self.index_of(PROOF).filter(|_| step > 1)?;
        let stage = Stage {
            name,
            arms: 0,
            rounds: 0,
            detects: None,
            experiment: None,
        };
        self.improvement.stages.insert(place, stage);
        Some(place)
    }

    /// Compares the remaining group with the baseline, using fresh data and without an early end,
    /// so that the reported effect has not been selected for being large.
    fn prove(&mut self, kept: Vec<usize>) -> Result<Vec<usize>, TrialError> {
        let Some(stage) = self.index_of(PROOF).filter(|_| !kept.is_empty()) else {
            return Ok(Vec::new());
        };
        let arms = vec![unchanged("current"), self.all_of(&kept)];
        if let Some(rounds) = fitting(self.left(), arms.len(), self.block(&arms)) {
            self.plan_stage(stage, arms.len(), rounds.min(MOST_PROOF));
        }
        let experiment = self.stage(stage, arms)?;
        let Some(result) = experiment.results.first() else {
            return Ok(Vec::new());
        };
        let settings = kept
            .iter()
            .map(|one| &self.improvement.tried[*one].assignment);
        self.improvement.proof = Some(Proof {
            settings: settings.cloned().collect(),
            ratio: result.ratio,
            low: result.low,
            high: result.high,
            pairs: result.pairs,
            power: result.power.clone(),
        });
        let proven = helps(result);
        for one in &kept {
            let tried = &mut self.improvement.tried[*one];
            if kept.len() == 1 {
                (tried.ratio, tried.low, tried.high) = (result.ratio, result.low, result.high);
            }
            if let Err(why) = &proven {
                tried.why = format!("not confirmed on fresh data: {why}");
            }
        }
        Ok(if proven.is_ok() { kept } else { Vec::new() })
    }

    /// Returns the duration in seconds of the shortest proof whose blocks are as long as those of
    /// `arms`.
    fn proof_time(&self, arms: &[Arm]) -> f64 {
        f64::from(PROOF_PAIRS) * 2.0 * self.block(arms)
    }

    fn all_of(&self, kept: &[usize]) -> Arm {
        let name = match kept {
            [one] => self.improvement.tried[*one].assignment.clone(),
            _ => "group".to_owned(),
        };
        self.together(name, kept.iter().copied())
    }

    fn state(&self, ended: bool) -> ImprovementState {
        ImprovementState {
            plan: self.plan.clone(),
            improvement: self.improvement.clone(),
            ended,
        }
    }

    /// Saves the progress in the first stage.
    fn save(&self, ended: bool) -> Result<(), TrialError> {
        let first = self
            .improvement
            .stages
            .first()
            .and_then(|stage| stage.experiment);
        if let (Some(store), Some(mut first)) = (self.bench.store, self.begun.stored(first)?) {
            first.improvement = Some(Box::new(self.state(ended)));
            store.put_experiment(&first)?;
        }
        Ok(())
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.improvement
            .stages
            .iter()
            .position(|stage| stage.name == name)
    }

    /// Builds an arm that consists of several settings.
    fn together(&self, name: String, which: impl Iterator<Item = usize>) -> Arm {
        let tried = &self.improvement.tried;
        let assignments: Vec<String> = which.map(|one| tried[one].assignment.clone()).collect();
        Arm {
            name,
            action: if assignments.is_empty() {
                ArmAction::Unchanged
            } else {
                ArmAction::Settings { assignments }
            },
        }
    }

    /// Returns the remaining time in seconds.
    fn left(&self) -> f64 {
        self.plan.time_ns.as_secs_f64() - self.spent
    }

    /// Returns the total time in seconds that a block of these arms takes.
    fn block(&self, arms: &[Arm]) -> f64 {
        let plan = adapted(ExperimentPlan {
            arms: arms.to_vec(),
            ..self.plan.clone()
        });
        let block = self
            .pilot
            .as_ref()
            .map_or(lengths::block_time(&plan), |seen| {
                lengths::taken(&plan, seen.block_ns.max(plan.block_ns.unwrap_or_default()))
            });
        block.as_secs_f64()
    }

    fn plan_stage(&mut self, place: usize, arms: usize, rounds: u32) {
        let stage = &mut self.improvement.stages[place];
        (stage.arms, stage.rounds) = (arms as u32, rounds);
    }

    /// Carries out one stage.
    fn stage(&mut self, place: usize, arms: Vec<Arm>) -> Result<Experiment, TrialError> {
        let stage = &mut self.improvement.stages[place];
        let ranks_only = stage.name == SCREENING;
        let plan = adapted(ExperimentPlan {
            ends_early: !ranks_only && place > 0 && stage.name != PROOF,
            ranks_only,
            rounds: Some(stage.rounds),
            // Each stage uses a different random order.
            seed: self.plan.seed.wrapping_add(place as u64),
            arms,
            ..self.plan.clone()
        });
        let label = format!("improve: {}", stage.name);
        let (stage, known) = (stage.clone(), stage.experiment);
        let known = self.begun.stored(known)?.filter(|known| known.plan == plan);
        let is_new = known.is_none();
        let mut experiment = match known {
            Some(known) => known,
            None => {
                let number = pairs(&stage.name, stage.rounds);
                let pilot = self.pilot.clone().map(|pilot| Pilot {
                    block_ns: if slow_differs(&plan.arms) && !ranks_only {
                        pilot.block_ns.max(plan.block_ns.unwrap_or_default())
                    } else {
                        pilot.block_ns
                    },
                    ..pilot
                });
                let mut new = draft(plan, Some(label), std::env::args().collect());
                new.pilot = pilot.map(|pilot| pilot::rescaled(pilot, stage.rounds, number));
                self.improvement.stages[place].experiment = self.bench.store.map(|_| new.id);
                new
            }
        };
        if place == 0 {
            experiment.improvement = Some(Box::new(self.state(false)));
        }
        if is_new {
            self.begun.enter(&experiment)?;
        }
        if place > 0 {
            self.save(false)?;
        }
        let ran = match experiment.state {
            // All blocks had already been measured when the program last ended.
            ExperimentState::Finished => Ok(()),
            _ => (self.carry_out)(&mut experiment, self.bench.reborrow()),
        };
        if let Some(pilot) = &experiment.pilot {
            self.improvement.stages[place].detects = pilot.detects;
            let first = self.pilot.is_none();
            self.pilot.get_or_insert_with(|| pilot.clone());
            let block = lengths::taken(&experiment.plan, pilot.block_ns);
            self.spent += block.as_secs_f64() * experiment.blocks.len() as f64;
            if first {
                self.spent += pilot.measured_ns.as_secs_f64();
            }
        }
        ran?;
        let measured_on = &mut self.improvement.measured_on;
        if measured_on.is_none() {
            measured_on.clone_from(&experiment.measured_on);
        }
        match experiment.state {
            ExperimentState::Stopped => Err(TrialError::Stopped),
            _ => Ok(experiment),
        }
    }
}

#[cfg(test)]
mod resume_tests;
#[cfg(test)]
mod tests;
