//! Finds out which settings help on this machine: A/A, screening, confirmation, the
//! group, leave one out. Each stage is an experiment of its own.

use punctual_model::{
    Arm, ArmAction, ArmResult, Effect, Experiment, ExperimentPlan, ExperimentState,
    IMPROVEMENT_SCHEMA, Improvement, ImprovementState, NotTried, Pilot, RecordingId, Stage,
    TriedSetting,
};
use punctual_stats::screening::{FACTORS, ROWS, effects, folded_plackett_burman};
use punctual_store::Store;

use crate::analysis::{detects, least_rounds, times};
use crate::error::TrialError;
use crate::pilot;
use crate::trial::{Bench, draft, run};

/// Pairs of the A/A stage.
const EQUAL: u32 = 10;

/// So many settings are confirmed; more are screened first.
const CONFIRMED: usize = 4;

/// The least measurements of each row of the screening.
const SCREENED: u32 = 2;

const NAMES: [&str; 5] = ["A/A", "screening", "confirmation", "group", "leave one out"];

/// The stages for so many settings, with the rounds that fit the time of `plan`.
///
/// # Errors
/// [`TrialError::Plan`] where the time is too short, with the time that is needed.
pub fn stages(plan: &ExperimentPlan, settings: usize) -> Result<Vec<Stage>, TrialError> {
    let confirmed = settings.min(CONFIRMED);
    let least = |arms: usize| (arms, least_rounds(arms));
    let mut all = vec![(NAMES[0], (2, EQUAL))];
    if settings > CONFIRMED {
        all.push((NAMES[1], (ROWS, SCREENED)));
    }
    all.push((NAMES[2], least(confirmed + 1)));
    if confirmed > 1 {
        all.push((NAMES[3], least(2)));
        all.push((NAMES[4], least(confirmed + 1)));
    }
    let block = pilot::block_time(plan);
    let blocks = |(arms, rounds): (usize, u32)| arms as f64 * f64::from(rounds);
    let equal = blocks(all[0].1);
    let others: f64 = all.iter().skip(1).map(|(_, stage)| blocks(*stage)).sum();
    let fits = plan.time_ns.as_secs_f64() / block.as_secs_f64();
    if fits < equal + others {
        let needed = ((equal + others) * block.as_secs_f64()).ceil();
        return Err(TrialError::Plan(format!(
            "--time {} is too short to try {settings} settings: give {needed:.0}s or more, or a \
             shorter --block",
            plan.time_ns
        )));
    }
    let more = (fits - equal) / others;
    let stage = |(place, (name, (arms, rounds))): (usize, (&str, (usize, u32)))| Stage {
        name: name.to_owned(),
        arms: arms as u32,
        rounds: match place {
            0 => rounds,
            _ => (f64::from(rounds) * more) as u32,
        },
        detects: None,
        experiment: None,
    };
    let stages = all.into_iter().enumerate().map(stage).map(|stage| Stage {
        detects: detects(pilot::GOOD as f64, pairs(&stage), 1.0),
        ..stage
    });
    Ok(stages.collect())
}

/// What would be tried; nothing is measured.
pub fn intended(tried: Vec<TriedSetting>, left_out: Vec<NotTried>) -> Improvement {
    Improvement {
        schema: IMPROVEMENT_SCHEMA,
        sentence: "nothing was measured".to_owned(),
        stopped: false,
        threshold_ns: None,
        stages: Vec::new(),
        tried,
        left_out,
    }
}

/// Tries the settings of `improvement` stage by stage. `plan` is how blocks are measured;
/// its arms are not used. All settings are as before afterwards.
///
/// # Errors
/// See [`TrialError`]; what was measured until then is in `improvement`.
pub fn improve(
    improvement: &mut Improvement,
    plan: &ExperimentPlan,
    bench: &mut Bench<'_>,
) -> Result<(), TrialError> {
    improve_by(improvement, plan, bench, &mut run)
}

/// Carries one experiment out.
type CarryOut<'a> = &'a mut dyn FnMut(&mut Experiment, Bench<'_>) -> Result<(), TrialError>;

/// As [`improve`], with experiments that are carried out by `carry_out`.
fn improve_by(
    improvement: &mut Improvement,
    plan: &ExperimentPlan,
    bench: &mut Bench<'_>,
    carry_out: CarryOut<'_>,
) -> Result<(), TrialError> {
    let mut work = Work {
        improvement,
        plan,
        bench,
        carry_out,
        pilot: None,
    };
    let done = work.all();
    match done {
        Err(TrialError::Stopped) => {
            improvement.stopped = true;
            improvement
                .tried
                .iter_mut()
                .for_each(|one| one.kept = false);
            improvement.sentence = "stopped: nothing is proven to help".to_owned();
            Ok(())
        }
        other => other,
    }
}

struct Work<'a, 'b> {
    improvement: &'a mut Improvement,
    plan: &'a ExperimentPlan,
    bench: &'a mut Bench<'b>,
    carry_out: CarryOut<'a>,
    pilot: Option<Pilot>,
}

impl Work<'_, '_> {
    fn all(&mut self) -> Result<(), TrialError> {
        self.stages()?;
        self.save(true)
    }

    fn stages(&mut self) -> Result<(), TrialError> {
        let equal = self.stage(0, vec![unchanged("current"), unchanged("current again")])?;
        self.improvement.threshold_ns = self.pilot.as_ref().map(|pilot| pilot.threshold_ns);
        if let Some(why) = refused(&equal) {
            self.improvement.sentence = why;
            return Ok(());
        }
        let chosen = self.screen()?;
        let mut kept = self.confirm(&chosen)?;
        if kept.len() > 1 {
            kept = self.group(kept)?;
        }
        for one in &kept {
            self.improvement.tried[*one].kept = true;
        }
        self.improvement.sentence = match kept.len() {
            0 => "no setting is proven to help".to_owned(),
            1 => "1 setting is proven to help".to_owned(),
            number => format!("{number} settings are proven to help"),
        };
        Ok(())
    }

    /// The settings to confirm, as places in `tried`.
    fn screen(&mut self) -> Result<Vec<usize>, TrialError> {
        let number = self.improvement.tried.len();
        let Some(stage) = self.place(NAMES[1]) else {
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
            tried.ratio = Some(effect.exp());
            tried.why = match effect < 0.0 && chosen.len() < CONFIRMED {
                true => "screened".to_owned(),
                false => "not among the best of the screening".to_owned(),
            };
            if effect < 0.0 && chosen.len() < CONFIRMED {
                chosen.push(factor);
            }
        }
        Ok(chosen)
    }

    /// Those of `chosen` that are proven to help.
    fn confirm(&mut self, chosen: &[usize]) -> Result<Vec<usize>, TrialError> {
        let Some(stage) = self.place(NAMES[2]).filter(|_| !chosen.is_empty()) else {
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
            match helps(result) {
                Ok(()) => {
                    tried.why = "proven to help".to_owned();
                    kept.push(*one);
                }
                Err(why) => tried.why = why,
            }
        }
        Ok(kept)
    }

    /// All that was kept against the baseline, then without each of them.
    fn group(&mut self, mut kept: Vec<usize>) -> Result<Vec<usize>, TrialError> {
        let (Some(group), Some(leaving)) = (self.place(NAMES[3]), self.place(NAMES[4])) else {
            return Ok(kept);
        };
        let together = self.together("group".to_owned(), kept.iter().copied());
        let experiment = self.stage(group, vec![unchanged("current"), together.clone()])?;
        if !experiment
            .results
            .iter()
            .all(|result| helps(result).is_ok())
        {
            // Proven alone, not together: the best of them stays.
            let ratio = |one: &usize| self.improvement.tried[*one].high.unwrap_or(f64::MAX);
            kept.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
            for one in kept.drain(1..) {
                self.improvement.tried[one].why = "not proven together with the others".to_owned();
            }
            return Ok(kept);
        }
        let without = |one: &usize| {
            let rest = kept.iter().copied().filter(|other| other != one);
            self.together(
                format!("without {}", self.improvement.tried[*one].assignment),
                rest,
            )
        };
        let arms = std::iter::once(together).chain(kept.iter().map(without));
        let experiment = self.stage(leaving, arms.collect())?;
        let effect_without: Vec<Effect> = experiment.results.iter().map(|one| one.effect).collect();
        let passengers = passengers(&effect_without);
        for place in &passengers {
            self.improvement.tried[kept[*place]].why = "not needed beside the others".to_owned();
        }
        let stays = kept
            .iter()
            .enumerate()
            .filter(|(place, _)| !passengers.contains(place));
        Ok(stays.map(|(_, one)| *one).collect())
    }

    fn state(&self, ended: bool) -> ImprovementState {
        ImprovementState {
            plan: self.plan.clone(),
            improvement: self.improvement.clone(),
            ended,
        }
    }

    /// Keeps how far it is beside the first stage.
    fn save(&self, ended: bool) -> Result<(), TrialError> {
        let first = self
            .improvement
            .stages
            .first()
            .and_then(|stage| stage.experiment);
        if let (Some(store), Some(mut first)) = (self.bench.store, stored(self.bench.store, first)?)
        {
            first.improvement = Some(Box::new(self.state(ended)));
            store.put_experiment(&first)?;
        }
        Ok(())
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.improvement
            .stages
            .iter()
            .position(|stage| stage.name == name)
    }

    /// An arm of several settings.
    fn together(&self, name: String, which: impl Iterator<Item = usize>) -> Arm {
        let tried = &self.improvement.tried;
        let assignments: Vec<String> = which.map(|one| tried[one].assignment.clone()).collect();
        Arm {
            name,
            action: match assignments.is_empty() {
                true => ArmAction::Unchanged,
                false => ArmAction::Settings { assignments },
            },
        }
    }

    /// Carries out one stage.
    fn stage(&mut self, place: usize, arms: Vec<Arm>) -> Result<Experiment, TrialError> {
        let stage = &mut self.improvement.stages[place];
        let ranks_only = stage.name == NAMES[1];
        let plan = ExperimentPlan {
            ends_early: !ranks_only && place > 0,
            ranks_only,
            rounds: Some(stage.rounds),
            // Each stage in an order of its own.
            seed: self.plan.seed.wrapping_add(place as u64),
            arms,
            ..self.plan.clone()
        };
        let label = format!("improve: {}", stage.name);
        let known = stored(self.bench.store, stage.experiment)?;
        let mut experiment = match known.filter(|known| known.plan == plan) {
            Some(known) => known,
            None => {
                let mut new = draft(plan, Some(label), std::env::args().collect());
                new.pilot = (self.pilot.clone())
                    .map(|pilot| pilot::again(pilot, stage.rounds, pairs(stage)));
                stage.experiment = self.bench.store.map(|_| new.id);
                new
            }
        };
        match place {
            0 => experiment.improvement = Some(Box::new(self.state(false))),
            _ => self.save(false)?,
        }
        let ran = match experiment.state {
            // Measured before the program ended.
            ExperimentState::Finished => Ok(()),
            _ => (self.carry_out)(&mut experiment, self.bench.again()),
        };
        if let Some(pilot) = &experiment.pilot {
            self.improvement.stages[place].detects = pilot.detects;
            self.pilot.get_or_insert_with(|| pilot.clone());
        }
        ran?;
        match experiment.state {
            ExperimentState::Stopped => Err(TrialError::Stopped),
            _ => Ok(experiment),
        }
    }
}

/// A search in the store that did not come to its end: the newest, or the one whose first
/// experiment is named.
///
/// # Errors
/// [`TrialError::Plan`] where there is none; what reading can fail with.
pub fn unfinished(store: &Store, selector: &str) -> Result<ImprovementState, TrialError> {
    let open = |one: Experiment| one.improvement.filter(|state| !state.ended);
    let found = match selector {
        "last" => store.experiments()?.into_iter().find_map(open),
        selector => open(store.find_experiment(selector)?),
    };
    found.map(|state| *state).ok_or_else(|| {
        TrialError::Plan(
            "no unfinished search for settings in the store: run punctual improve".to_owned(),
        )
    })
}

/// An experiment that was begun before.
fn stored(
    store: Option<&Store>,
    id: Option<RecordingId>,
) -> Result<Option<Experiment>, TrialError> {
    let (Some(store), Some(id)) = (store, id) else {
        return Ok(None);
    };
    Ok(store.experiments()?.into_iter().find(|one| one.id == id))
}

/// The pairs of blocks that an effect is found from: in the screening each setting is on
/// in half of the rows.
fn pairs(stage: &Stage) -> u32 {
    match stage.name == NAMES[1] {
        true => stage.rounds.saturating_mul(ROWS as u32 / 2),
        false => stage.rounds,
    }
}

fn unchanged(name: &str) -> Arm {
    Arm {
        name: name.to_owned(),
        action: ArmAction::Unchanged,
    }
}

/// Why nothing can be found out here, by an experiment of equal conditions.
fn refused(equal: &Experiment) -> Option<String> {
    let differs = |result: &ArmResult| matches!(result.effect, Effect::Fewer | Effect::More);
    if let Some(result) = equal.results.iter().find(|result| differs(result)) {
        return Some(format!(
            "not proven: equal conditions seemed to differ ({}); try again when the machine does \
             what it always does",
            result.sentence
        ));
    }
    let detects = equal.pilot.as_ref().and_then(|pilot| pilot.detects);
    match detects {
        Some(_) => None,
        None => Some(
            "not proven: too few wake-ups are late, or they come in bursts: not even a rate of ×10 \
             would be found; give a lower --budget, more --time or a --load"
                .to_owned(),
        ),
    }
}

/// Factors and their effects on the logarithm of the rate, the best first.
fn ranking(experiment: &Experiment) -> Vec<(usize, f64)> {
    let values: [f64; ROWS] = std::array::from_fn(|row| {
        let own = experiment
            .blocks
            .iter()
            .filter(|block| block.arm as usize == row);
        // Half an event more: a row without any has a logarithm, too.
        (own.map(|block| block.late).sum::<u64>() as f64 + 0.5).ln()
    });
    let effects: [f64; FACTORS] = effects(&values);
    let mut ranked: Vec<(usize, f64)> = effects.into_iter().enumerate().collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    ranked
}

/// Whether an arm is proven to help; else why it is not kept.
fn helps(result: &ArmResult) -> Result<(), String> {
    if let Some(guard) = result.guards.iter().find(|guard| guard.worse) {
        return Err(format!("{} is worse", guard.name));
    }
    match (result.effect, result.high) {
        // Without any late slot there is no ratio, and none can be lower.
        (Effect::Fewer, high) if high.is_none_or(|high| high < 1.0) => Ok(()),
        (Effect::Fewer | Effect::NotProven, _) => Err("not proven to help".to_owned()),
        (Effect::More, _) => Err("proven to be worse".to_owned()),
        (Effect::Equivalent, _) => Err("makes no difference".to_owned()),
    }
}

/// What is not needed: without it the group is shown to be as good or better. One at
/// least stays.
fn passengers(without: &[Effect]) -> Vec<usize> {
    let not_needed = |effect: &Effect| matches!(effect, Effect::Equivalent | Effect::Fewer);
    let each = without.iter().enumerate();
    let all: Vec<usize> = each
        .filter(|(_, effect)| not_needed(effect))
        .map(|(place, _)| place)
        .collect();
    // Each is not needed beside the others: all but one may go.
    match all.len() == without.len() {
        true => all.into_iter().skip(1).collect(),
        false => all,
    }
}

/// The settings that help, as a profile of `punctual tune`; `None` without any. `date`:
/// when they were measured.
pub fn profile(improvement: &Improvement, date: &str) -> Option<String> {
    let kept = || improvement.tried.iter().filter(|one| one.kept);
    kept().next()?;
    let mut text = format!(
        "# Made by punctual improve on {date}; prove it once more after a reboot.\n\
         summary = \"Settings that punctual improve has proven to help on this machine\"\n\n\
         [settings]\n"
    );
    for one in kept() {
        let (name, value) = one
            .assignment
            .split_once('=')
            .unwrap_or((&one.assignment, ""));
        let effect = match (one.ratio, one.low, one.high) {
            (Some(ratio), Some(low), Some(high)) => {
                let [ratio, low, high] = [ratio, low, high].map(times);
                format!("rate of late slots {ratio} (95%: {low} to {high}), {date}")
            }
            _ => format!("no late slot with it, {date}"),
        };
        text.push_str(&format!("# {effect}\n\"{name}\" = \"{value}\"\n"));
    }
    Some(text)
}

#[cfg(test)]
mod tests;
