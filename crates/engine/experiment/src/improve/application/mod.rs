//! Finds out which settings help a running application. The application is watched first. The
//! settings against the causes that made most of its jobs late are then compared with the current
//! ones, and those that help are proven together on fresh data.

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_host::Host;
use punctual_model::{
    Arm, ArmAction, Audit, Condition, Improvement, MeasuredOn, Nanos, NotTried, NumberEffect,
    NumberResult, NumbersExperiment, Proof, RemediedCause, Stage, TriedSetting, counted,
};
use punctual_session::{ApplicationRequest, Watcher};
use punctual_stats::shift::least_pairs;
use punctual_store::Store;

use super::judging::judge_recordings;
use super::stages::{PROOF, SCREENING, unchanged};
use crate::check::causes;
use crate::error::TrialError;
use crate::numbers::{
    CHANCE, LATE_JOBS, Meter, NumbersBench, NumbersRequest, NumbersRun, run_numbers,
};
use crate::plots::{SLOW, is_slow};

/// Maximum number of settings in the screening. More would leave few rounds for each.
const MOST: usize = 6;

/// Maximum number of rounds of the proof.
const MOST_PROOF: u32 = 20;

/// Number of rounds of the screening in addition to the minimum, so that a round with an unusual
/// result does not hide an effect.
const SPARE: u32 = 2;

const SECOND: u64 = Nanos::from_secs(1).0;

/// How the settings are tried.
#[derive(Clone, Debug)]
pub struct ApplicationSearch {
    /// The application. Its duration is the length of a block.
    pub request: ApplicationRequest,
    /// Time for the whole search.
    pub time: Nanos,
    /// Time to wait after a change before a block.
    pub wash_out: Nanos,
    /// Seed of the random order.
    pub seed: u64,
}

/// Result of the observation before the screening.
struct Looked {
    causes: Vec<RemediedCause>,
    condition: Condition,
    on: MeasuredOn,
}

/// Compares the conditions of the stage with this name, in this number of rounds.
type Compare<'a> = &'a mut dyn FnMut(&str, Vec<Arm>, u32) -> Result<NumbersRun, TrialError>;

/// Tries the settings of `improvement` on a running application. All settings are restored
/// afterwards. The experiments of both stages are stored.
///
/// # Errors
/// See [`TrialError`].
pub fn improve_application(
    improvement: &mut Improvement,
    search: &ApplicationSearch,
    audit: &Audit,
    bench: NumbersBench<'_>,
) -> Result<(), TrialError> {
    let NumbersBench {
        host,
        store,
        journal,
        stop,
        view,
        say,
        alive,
    } = bench;
    leave_slow_out(improvement, search);
    say("watching the application to find the causes of its late jobs");
    let looked = look(&search.request, audit, host, view, stop)?;
    let mut compare = |stage: &str, arms: Vec<Arm>, rounds: u32| {
        let request = NumbersRequest {
            meter: Meter::Jobs(Box::new(search.request.clone())),
            higher_is_better: false,
            margin: 0.01,
            arms,
            wash_out: search.wash_out,
            deadline: None,
            rounds: Some(rounds),
            time: search.time,
            seed: search.seed,
            label: Some(format!("improve: {stage}")),
            command_line: search.request.command_line.clone(),
        };
        let bench = NumbersBench {
            host,
            store,
            journal: journal.clone(),
            stop,
            view: &mut *view,
            say: &mut *say,
            alive,
        };
        run_numbers(&request, bench)
    };
    after(improvement, search, looked, &mut compare)?;
    if stop.load(Ordering::Relaxed) {
        improvement.stopped = true;
        improvement.sentence = "stopped: nothing is proven to help".to_owned();
        improvement
            .tried
            .iter_mut()
            .for_each(|one| one.accepted = false);
    }
    store.map_or(Ok(()), |store| judge(improvement, store))
}

/// Stores the result with each recording of both stages.
fn judge(improvement: &Improvement, store: &Store) -> Result<(), TrialError> {
    let experiments = store.experiments()?;
    for stage in &improvement.stages {
        let stored = (experiments.iter()).find(|one| stage.experiment == Some(one.id));
        if let Some(experiment) = stored {
            judge_recordings(improvement, stage, experiment, store)?;
        }
    }
    Ok(())
}

/// Leaves out the settings that take effect more slowly than the search waits.
fn leave_slow_out(improvement: &mut Improvement, search: &ApplicationSearch) {
    if search.wash_out >= SLOW {
        return;
    }
    let is_late = |one: &TriedSetting| is_slow(&one.assignment);
    let (slow, quick) = improvement.tried.drain(..).partition(is_late);
    improvement.tried = quick;
    let slow: Vec<TriedSetting> = slow;
    improvement
        .left_out
        .extend(slow.into_iter().map(|one| NotTried {
            finding: one.finding,
            reason: format!(
                "it takes effect only after {SLOW}: pass --wash-out {}s",
                SLOW.0 / SECOND
            ),
            command: Some(format!("punctual tune apply --set {}", one.assignment)),
        }));
}

/// Watches the application for two blocks.
fn look(
    request: &ApplicationRequest,
    audit: &Audit,
    host: &Host,
    view: &mut dyn Watcher,
    stop: &AtomicBool,
) -> Result<Looked, TrialError> {
    let longer = ApplicationRequest {
        duration: Nanos(request.duration.0.saturating_mul(2)),
        ..request.clone()
    };
    let recording = longer.observe("improve", host, None, view, stop)?.recording;
    Ok(Looked {
        causes: causes(&recording, audit, &|_| String::new()),
        condition: Condition::of_jobs(&recording, &request.requirement),
        on: MeasuredOn::from_recording(&recording),
    })
}

/// Tries the settings after the first observation.
fn after(
    improvement: &mut Improvement,
    search: &ApplicationSearch,
    looked: Looked,
    compare: Compare<'_>,
) -> Result<(), TrialError> {
    let Looked {
        causes,
        condition,
        on,
    } = looked;
    improvement.measured_on = Some(on);
    if condition.late == 0 {
        improvement.sentence = match condition.periods {
            0 => format!("not measured: {}", condition.lacking.join("; ")),
            jobs => format!(
                "nothing to improve: none of {} was late in {}",
                counted(jobs, "job", "jobs"),
                condition.measured_ns
            ),
        };
        return Ok(());
    }
    order(&mut improvement.tried, &causes);
    let block = search.request.duration + search.wash_out;
    let spent = block.0.saturating_mul(2);
    let planned = planned(
        improvement.tried.len(),
        search.time.0.saturating_sub(spent) / block.0.max(1),
    );
    let Some(planned) = planned else {
        let needed = (blocks(1, least_pairs(CHANCE) + SPARE, least_pairs(CHANCE)) + 2) * block.0;
        return Err(TrialError::Plan(format!(
            "--duration {} is too short: pass {}s or more, or a shorter --block",
            search.time,
            Nanos(needed).as_secs_f64().ceil()
        )));
    };
    for left in improvement.tried.iter_mut().skip(planned.settings) {
        left.why =
            "not tried: the settings before it are against causes that made more jobs late, \
                    and the time suffices for these only"
                .to_owned();
    }
    let good = screen(improvement, &planned, compare)?;
    if good.is_empty() {
        improvement.sentence = "no setting is proven to help".to_owned();
        return Ok(());
    }
    prove(improvement, &planned, good, compare)
}

/// Moves the settings against the causes with the most benefit to the front. The order of the others
/// stays: the most severe findings come first.
fn order(tried: &mut [TriedSetting], causes: &[RemediedCause]) {
    let rank = |one: &TriedSetting| {
        let against = |cause: &RemediedCause| cause.settings.contains(&one.assignment);
        causes.iter().position(against).unwrap_or(usize::MAX)
    };
    tried.sort_by_key(rank);
}

/// The planned experiments.
#[derive(Debug, PartialEq, Eq)]
struct Planned {
    /// Number of settings in the screening.
    settings: usize,
    /// Rounds of the screening and of the proof.
    rounds: [u32; 2],
}

/// Number of blocks of both experiments, with their first blocks, which are discarded.
fn blocks(settings: usize, screening: u32, proof: u32) -> u64 {
    u64::from(screening) * (settings as u64 + 1) + u64::from(proof) * 2 + 2
}

/// Plans as many settings as fit, with 40% of the blocks for the proof. Returns `None` if the time is
/// too short for one setting.
fn planned(settings: usize, available: u64) -> Option<Planned> {
    let least = least_pairs(CHANCE);
    let proof = u32::try_from(available * 2 / 10).unwrap_or(MOST_PROOF);
    let proof = proof.clamp(least, MOST_PROOF);
    let fits = |settings: usize| {
        let needed = least_pairs(CHANCE / settings as f64) + SPARE;
        (blocks(settings, needed, proof) <= available).then(|| {
            let rest = available.saturating_sub(blocks(settings, 0, proof));
            let rounds = rest / (settings as u64 + 1);
            Planned {
                settings,
                rounds: [
                    u32::try_from(rounds).unwrap_or(needed).min(2 * needed),
                    proof,
                ],
            }
        })
    };
    (1..=settings.min(MOST)).rev().find_map(fits)
}

/// Compares each setting with the current ones. Returns the settings that help, as indices.
fn screen(
    improvement: &mut Improvement,
    planned: &Planned,
    compare: Compare<'_>,
) -> Result<Vec<usize>, TrialError> {
    let alone = improvement.tried.iter().take(planned.settings);
    let alone = alone.map(|one| together(one.assignment.clone(), std::iter::once(one)));
    let arms: Vec<Arm> = std::iter::once(unchanged("current")).chain(alone).collect();
    let found = stage(improvement, (SCREENING, arms, planned.rounds[0]), compare)?;
    let mut good = Vec::new();
    for (place, tried) in improvement
        .tried
        .iter_mut()
        .take(planned.settings)
        .enumerate()
    {
        let Some(result) = of_arm(&found, place as u32 + 1) else {
            tried.why = "not measured".to_owned();
            continue;
        };
        [tried.ratio, tried.low, tried.high] = ratios(result);
        tried.why = match result.effect {
            NumberEffect::Better => {
                good.push(place);
                "fewer late jobs in the screening".to_owned()
            }
            NumberEffect::Worse => "proven to be worse".to_owned(),
            NumberEffect::Equivalent => "makes no difference".to_owned(),
            NumberEffect::NotProven => "not proven to help".to_owned(),
        };
    }
    Ok(good)
}

/// Compares the settings that help, all together, with the current ones on fresh data.
fn prove(
    improvement: &mut Improvement,
    planned: &Planned,
    good: Vec<usize>,
    compare: Compare<'_>,
) -> Result<(), TrialError> {
    let kept = good.iter().map(|place| &improvement.tried[*place]);
    let name = match good.len() {
        1 => improvement.tried[good[0]].assignment.clone(),
        number => format!("{number} settings"),
    };
    let arms = vec![unchanged("current"), together(name, kept)];
    let found = stage(improvement, (PROOF, arms, planned.rounds[1]), compare)?;
    let Some(result) = of_arm(&found, 1) else {
        improvement.sentence = "not proven: the proof has no complete pair of blocks".to_owned();
        return Ok(());
    };
    let [ratio, low, high] = ratios(result);
    let settings = good
        .iter()
        .map(|place| improvement.tried[*place].assignment.clone());
    improvement.proof = Some(Proof {
        settings: settings.collect(),
        ratio,
        low,
        high,
        pairs: result.pairs,
        power: None,
    });
    let proven = result.effect == NumberEffect::Better;
    for place in &good {
        let tried = &mut improvement.tried[*place];
        tried.accepted = proven;
        if !proven {
            tried.why = "not confirmed on fresh data".to_owned();
        } else {
            tried.why = "proven to help".to_owned();
        }
    }
    improvement.sentence = match (proven, good.len()) {
        (false, _) => "not proven: the settings that seemed to help were not confirmed on fresh \
                       data"
            .to_owned(),
        (true, 1) => "1 setting is proven to help".to_owned(),
        (true, number) => format!("{number} settings are proven to help together"),
    };
    Ok(())
}

/// Carries out a stage, and notes its experiment.
fn stage(
    improvement: &mut Improvement,
    (name, arms, rounds): (&str, Vec<Arm>, u32),
    compare: Compare<'_>,
) -> Result<NumbersExperiment, TrialError> {
    let number = arms.len() as u32;
    let NumbersRun { experiment, id } = compare(name, arms, rounds)?;
    improvement.stages.push(Stage {
        name: name.to_owned(),
        arms: number,
        rounds,
        detects: None,
        experiment: id,
    });
    Ok(experiment)
}

fn together<'a>(name: String, settings: impl Iterator<Item = &'a TriedSetting>) -> Arm {
    let assignments = settings.map(|one| one.assignment.clone()).collect();
    Arm {
        name,
        action: ArmAction::Settings { assignments },
    }
}

fn of_arm(found: &NumbersExperiment, arm: u32) -> Option<&NumberResult> {
    let mut results = found.results.iter();
    results.find(|result| result.arm == arm && result.name == LATE_JOBS)
}

/// Returns the share of late jobs with a setting, divided by the share without it, with the interval.
/// `None` if a block had no late job.
fn ratios(result: &NumberResult) -> [Option<f64>; 3] {
    let of = |difference: Option<f64>| difference.filter(|_| result.relative).map(|one| 1.0 + one);
    [of(Some(result.difference)), of(result.low), of(result.high)]
}

#[cfg(test)]
mod tests;
