//! Evaluates the experiments of a search.

use punctual_model::{
    ArmResult, Effect, Experiment, Improvement, JudgedBy, Judgement, Outcome, RecordingId, Stage,
};
use punctual_stats::pairs::equivalent;
use punctual_stats::screening::{FACTORS, ROWS, effects};
use punctual_store::Store;

use crate::error::TrialError;

/// Returns the reason why no search is possible on this machine, based on an experiment with equal
/// conditions. Returns `None` if a search is possible.
pub(super) fn refused(equal: &Experiment) -> Option<String> {
    let differs = |result: &ArmResult| matches!(result.effect, Effect::Fewer | Effect::More);
    if let Some(result) = equal.results.iter().find(|result| differs(result)) {
        return Some(format!(
            "not proven: equal conditions seemed to differ ({}); try again when the machine has \
             its usual load",
            result.sentence
        ));
    }
    let detects = equal.pilot.as_ref().and_then(|pilot| pilot.detects);
    match detects {
        Some(_) => None,
        None => Some(
            "not proven: too few wake-ups are late, or they come in bursts, so not even a rate of \
             ×10 would be detected; give a lower --budget, a longer --duration, or a --load"
                .to_owned(),
        ),
    }
}

/// Returns the factors with their effects on the logarithm of the rate, best first.
pub(super) fn ranking(experiment: &Experiment) -> Vec<(usize, f64)> {
    let values: [f64; ROWS] = std::array::from_fn(|row| {
        let own = experiment
            .blocks
            .iter()
            .filter(|block| block.arm as usize == row);
        // Half an event is added so that the logarithm exists even for a row without events.
        (own.map(|block| block.late).sum::<u64>() as f64 + 0.5).ln()
    });
    let effects: [f64; FACTORS] = effects(&values);
    let mut ranked: Vec<(usize, f64)> = effects.into_iter().enumerate().collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    ranked
}

/// The reason why a setting is not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RejectReason {
    /// Another figure is worse with the setting.
    #[error("{0} is worse")]
    Guard(String),
    #[error("not proven to help")]
    NotProven,
    #[error("proven to be worse")]
    Worse,
    #[error("makes no difference")]
    NoDifference,
    /// The proof does not hold if two stages share the 5%.
    #[error("not proven to help in addition to the slow settings")]
    NotProvenOfSeveral,
}

/// Returns `Ok` if an arm is proven to help, or otherwise the reason why it is not kept.
pub(super) fn helps(result: &ArmResult) -> Result<(), RejectReason> {
    if let Some(guard) = result.guards.iter().find(|guard| guard.worse) {
        return Err(RejectReason::Guard(guard.name.clone()));
    }
    match (result.effect, result.high) {
        // Without any late slots, the ratio is undefined, and no rate can be lower.
        (Effect::Fewer, high) if high.is_none_or(|high| high < 1.0) => Ok(()),
        (Effect::Fewer | Effect::NotProven, _) => Err(RejectReason::NotProven),
        (Effect::More, _) => Err(RejectReason::Worse),
        (Effect::Equivalent, _) => Err(RejectReason::NoDifference),
    }
}

/// Returns whether the proof still holds if `families` experiments share the 5%.
pub(super) fn survives(result: &ArmResult, families: usize) -> Result<(), RejectReason> {
    let families = families as f64;
    if families <= 1.0 || result.p * families < 0.05 || result.wealth * 0.01 >= families {
        Ok(())
    } else {
        Err(RejectReason::NotProvenOfSeveral)
    }
}

/// Returns the results of omitting each of the settings, from which the one to remove is chosen.
/// Equivalence in late slots is sufficient even if carry-over has not been excluded, because the
/// remaining group is compared with the baseline again.
pub(super) fn without_each(experiment: &Experiment) -> Vec<ArmResult> {
    let whole = !experiment.blocks.iter().any(|block| block.flawed);
    let each = experiment.results.iter().cloned().map(|mut result| {
        let pairs = experiment.pairs_of(result.arm, |block| block.late);
        // A missing interval means that the effect carries over to the next block.
        if result.effect == Effect::NotProven
            && whole
            && result.high.is_some()
            && equivalent(&pairs)
        {
            result.effect = Effect::Equivalent;
        }
        result
    });
    each.collect()
}

/// Returns the setting that is needed least. Candidates are the settings without which the group is
/// proven to be as good or better. The one whose arm has the lowest rate is chosen.
pub(super) fn least_needed(without: &[ArmResult]) -> Option<usize> {
    let not_needed = |one: &ArmResult| matches!(one.effect, Effect::Equivalent | Effect::Fewer);
    let ratio = |place: &usize| without[*place].ratio.unwrap_or(0.0);
    let all = (0..without.len()).filter(|place| not_needed(&without[*place]));
    all.min_by(|a, b| ratio(a).total_cmp(&ratio(b)))
}

/// Stores the result of a search with each recording of a stage.
pub(super) fn judge_recordings(
    improvement: &Improvement,
    stage: &Stage,
    experiment: &Experiment,
    store: &Store,
) -> Result<(), TrialError> {
    let judgement = judgement(improvement, stage, experiment.id);
    for id in experiment.recordings() {
        store.put_judgement(id, &judgement)?;
    }
    Ok(())
}

fn judgement(improvement: &Improvement, stage: &Stage, experiment: RecordingId) -> Judgement {
    let kept = improvement.tried.iter().any(|one| one.accepted);
    Judgement {
        by: JudgedBy::Improve,
        experiment: Some(experiment),
        outcome: if kept {
            Outcome::NoRequirement
        } else {
            Outcome::NotProven
        },
        sentence: format!("improve, stage {}: {}", stage.name, improvement.sentence),
        asked: None,
        claims: Vec::new(),
    }
}
