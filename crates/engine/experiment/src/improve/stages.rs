//! The stages of a search, and how many rounds of each fit into the time.

use punctual_model::{Arm, ExperimentPlan, Improvement, Nanos, NotTried, Stage, TriedSetting};
use punctual_stats::screening::ROWS;

use crate::analysis::detects;
use crate::error::TrialError;
use crate::lengths::{TIMES_WASH_OUT, block_time, least_rounds, pilot_of};
use crate::pilot;
use crate::plots::{SLOW, is_slow, slow_differs};

pub(super) const EQUAL: &str = "A/A";
pub(super) const SCREENING: &str = "screening";
pub(super) const CONFIRMATION: &str = "confirmation";
pub(super) const SLOW_CONFIRMATION: &str = "confirmation (slow)";
pub(super) const GROUP: &str = "group";
pub(super) const LEAVE_ONE_OUT: &str = "leave one out";
pub(super) const PROOF: &str = "proof";

/// Minimum and maximum number of pairs in the proof.
pub(super) const PROOF_PAIRS: u32 = 10;
pub(super) const MOST_PROOF: u32 = 40;

/// Number of pairs in the A/A stage.
const EQUAL_PAIRS: u32 = 10;

/// Maximum number of settings that are confirmed. If there are more, they are screened first.
pub(super) const CONFIRMED: usize = 4;

/// Minimum number of measurements of each row of the screening.
const SCREENED: u32 = 2;

/// Minimum number of settings for which time is planned for leaving them out one by one. If the
/// earlier stages finish early, more are tried.
const LEFT_OUT: usize = 2;

/// Time is planned for leaving out every setting if the stages that decide on single settings still
/// get at least this multiple of their minimum time.
const ENOUGH: f64 = 1.5;

/// The minimum that a stage needs.
struct Needed {
    name: &'static str,
    arms: usize,
    rounds: u32,
    /// Duration of a round in seconds.
    round: f64,
    /// Length of a block, as a multiple of the block length from the pilot.
    longer: f64,
}

/// Returns how blocks are measured if slow settings differ, in which case each block is a whole
/// plot.
pub(super) fn as_whole_plots(plan: &ExperimentPlan) -> ExperimentPlan {
    let wash_out = plan.wash_out_ns.max(SLOW);
    let block = Nanos(wash_out.0.saturating_mul(TIMES_WASH_OUT));
    ExperimentPlan {
        wash_out_ns: wash_out,
        block_ns: Some(plan.block_ns.unwrap_or_default().max(block)),
        ..plan.clone()
    }
}

/// Applies [`as_whole_plots`] if the arms differ in slow settings and are tested, not only ranked.
pub(super) fn adapted(plan: ExperimentPlan) -> ExperimentPlan {
    if !plan.ranks_only && slow_differs(&plan.arms) {
        as_whole_plots(&plan)
    } else {
        plan
    }
}

/// Returns the stages for a number of quick and slow settings, with time for leaving out `left_out`
/// of the quick ones one by one.
fn needed(plan: &ExperimentPlan, quick: usize, slow: usize, left_out: usize) -> Vec<Needed> {
    let all = quick + slow;
    let short = block_time(plan).as_secs_f64();
    let whole = as_whole_plots(plan);
    let long = block_time(&whole).as_secs_f64();
    let blocks = |name, arms: usize, rounds, long_blocks: bool| Needed {
        name,
        arms,
        rounds,
        round: arms as f64 * if long_blocks { long } else { short },
        longer: if long_blocks { long / short } else { 1.0 },
    };
    let tested = |name, arms, long_blocks| blocks(name, arms, least_rounds(arms), long_blocks);
    let mut stages = vec![blocks(EQUAL, 2, EQUAL_PAIRS, false)];
    if all > CONFIRMED {
        // The total time of the wash-outs of all whole plots.
        let plots = SLOW.as_secs_f64() * f64::from(1u32 << slow.min(ROWS / 2));
        let mut screening = blocks(SCREENING, ROWS, SCREENED, false);
        screening.round += if slow > 0 { plots } else { 0.0 };
        stages.push(screening);
    }
    if quick > 0 {
        stages.push(tested(CONFIRMATION, quick.min(CONFIRMED) + 1, false));
    }
    if slow > 0 {
        stages.push(tested(SLOW_CONFIRMATION, slow.min(CONFIRMED) + 1, true));
    }
    if all > 1 {
        stages.push(tested(GROUP, 2, slow > 0));
    }
    if all > 1 && quick > 0 {
        stages.push(tested(LEAVE_ONE_OUT, quick.min(left_out) + 1, false));
    }
    stages.push(blocks(PROOF, 2, PROOF_PAIRS, slow > 0));
    stages
}

/// Returns the stages for a number of quick and slow settings, with the rounds that fit into the
/// time of `plan`. Stages that decide on single settings get all the time that the others can
/// spare. [`fitting`] adds rounds to the last stages once the remaining time is known.
///
/// # Errors
/// Returns [`TrialError::Plan`] with the required time if the time is too short.
pub(super) fn stages(
    plan: &ExperimentPlan,
    quick: usize,
    slow: usize,
) -> Result<Vec<Stage>, TrialError> {
    let decides =
        |stage: &&Needed| [SCREENING, CONFIRMATION, SLOW_CONFIRMATION].contains(&stage.name);
    let least = |stage: &Needed| stage.round * f64::from(stage.rounds);
    let pilot = pilot_of(plan, plan.time_ns).as_secs_f64();
    let time = plan.time_ns.as_secs_f64() - pilot;
    // Returns the time for the deciding stages as a multiple of their minimum, and the minimum time
    // of all stages.
    let planned = |all: &[Needed]| {
        let whole: f64 = all.iter().map(least).sum();
        let deciding: f64 = all.iter().filter(decides).map(least).sum();
        ((time - whole + deciding) / deciding, whole)
    };
    let mut all = needed(plan, quick, slow, CONFIRMED);
    if planned(&all).0 < ENOUGH {
        all = needed(plan, quick, slow, LEFT_OUT);
    }
    let (more, whole) = planned(&all);
    if more < 1.0 {
        return Err(TrialError::Plan(format!(
            "--duration {} is too short to try {} settings: give {:.0}s or more, a shorter \
             --block, or fewer settings with --only",
            plan.time_ns,
            quick + slow,
            (whole + pilot).ceil()
        )));
    }
    let stage = |one: &Needed| {
        let rounds = if decides(&one) {
            (f64::from(one.rounds) * more) as u32
        } else {
            one.rounds
        };
        let late = pilot::GOOD as f64 * one.longer;
        Stage {
            name: one.name.to_owned(),
            arms: one.arms as u32,
            rounds,
            detects: detects(late, pairs(one.name, rounds), 1.0),
            experiment: None,
        }
    };
    Ok(all.iter().map(stage).collect())
}

/// Returns how many rounds of `arms` arms fit into `left` seconds, if a block takes `block` seconds
/// in total. Returns `None` if the minimum does not fit.
pub(super) fn fitting(left: f64, arms: usize, block: f64) -> Option<u32> {
    let rounds = (left / (arms as f64 * block)).max(0.0) as u32;
    (rounds >= least_rounds(arms)).then_some(rounds)
}

/// Plans the stages of `improvement`. If the time is too short for the slow settings, they are left
/// out, starting with the least severe.
///
/// # Errors
/// Returns an error if the time is too short even without the slow settings.
pub fn plan_stages(improvement: &mut Improvement, plan: &ExperimentPlan) -> Result<(), TrialError> {
    loop {
        let tried = &mut improvement.tried;
        let slow = |one: &TriedSetting| is_slow(&one.assignment);
        let number = tried.iter().filter(|one| slow(one)).count();
        match (stages(plan, tried.len() - number, number), number) {
            (Ok(stages), _) => {
                improvement.stages = stages;
                return Ok(());
            }
            (Err(error), 0) => return Err(error),
            (Err(_), _) => {
                let all: f64 = needed(plan, tried.len() - number, number, LEFT_OUT)
                    .iter()
                    .map(|stage| stage.round * f64::from(stage.rounds))
                    .sum();
                let Some(last) = tried.iter().rposition(slow) else {
                    continue;
                };
                let one = tried.remove(last);
                improvement.left_out.push(NotTried {
                    finding: one.finding,
                    reason: format!(
                        "it takes effect only after half a minute: --duration {:.0}m would suffice",
                        (all / 60.0).ceil()
                    ),
                    command: Some(format!("punctual tune apply --set {}", one.assignment)),
                });
            }
        }
    }
}

/// Returns the number of block pairs from which an effect is computed. In the screening, each
/// setting is on in half of the rows.
pub(super) fn pairs(name: &str, rounds: u32) -> u32 {
    if name == SCREENING {
        rounds.saturating_mul(ROWS as u32 / 2)
    } else {
        rounds
    }
}

/// Returns an arm that does not change any setting.
pub(super) fn unchanged(name: &str) -> Arm {
    Arm {
        name: name.to_owned(),
        action: punctual_model::ArmAction::Unchanged,
    }
}
