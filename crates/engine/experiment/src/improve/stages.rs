//! The stages of a search, and the rounds of each that fit the time.

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

/// Pairs of the proof, at least and at most.
pub(super) const PROOF_PAIRS: u32 = 10;
pub(super) const MOST_PROOF: u32 = 40;

/// Pairs of the A/A stage.
const EQUAL_PAIRS: u32 = 10;

/// So many settings are confirmed; more are screened first.
pub(super) const CONFIRMED: usize = 4;

/// The least measurements of each row of the screening.
const SCREENED: u32 = 2;

/// Settings of a group for whose leaving out time is planned at least. More are tried where
/// the stages before need less than they might.
const LEFT_OUT: usize = 2;

/// Time is planned for leaving out each setting where the stages that decide on single ones
/// get so many times what they need at least.
const ENOUGH: f64 = 1.5;

/// The least that a stage needs.
struct Needed {
    name: &'static str,
    arms: usize,
    rounds: u32,
    /// Seconds of a round.
    round: f64,
    /// How much longer a block is than the pilot's.
    longer: f64,
}

/// How blocks are measured where slow settings differ: each is a whole plot.
pub(super) fn as_whole_plots(plan: &ExperimentPlan) -> ExperimentPlan {
    let wash_out = plan.wash_out_ns.max(SLOW);
    let block = Nanos(wash_out.0.saturating_mul(TIMES_WASH_OUT));
    ExperimentPlan {
        wash_out_ns: wash_out,
        block_ns: Some(plan.block_ns.unwrap_or_default().max(block)),
        ..plan.clone()
    }
}

/// As [`as_whole_plots`], where the arms need it and are tested.
pub(super) fn adapted(plan: ExperimentPlan) -> ExperimentPlan {
    match !plan.ranks_only && slow_differs(&plan.arms) {
        true => as_whole_plots(&plan),
        false => plan,
    }
}

/// The stages for so many quick and slow settings, of which so many are `left_out` one by
/// one.
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
        // The wash-out of each whole plot.
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

/// The stages for so many quick and slow settings, with the rounds that fit the time of
/// `plan`. Those that decide on single settings get all that the others can spare; the
/// rounds of the last ones are made more by [`fitting`] once it is known what is left.
///
/// # Errors
/// [`TrialError::Plan`] where the time is too short, with the time that is needed.
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
    // How many times the least the deciding stages get, and what all need.
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
            "--time {} is too short to try {} settings: give {:.0}s or more, a shorter --block, \
             or fewer with --only",
            plan.time_ns,
            quick + slow,
            (whole + pilot).ceil()
        )));
    }
    let stage = |one: &Needed| {
        let rounds = match decides(&one) {
            true => (f64::from(one.rounds) * more) as u32,
            false => one.rounds,
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

/// The rounds of so many arms that fit so many seconds, with blocks of `block` seconds in
/// all; `None` where the fewest do not.
pub(super) fn fitting(left: f64, arms: usize, block: f64) -> Option<u32> {
    let rounds = (left / (arms as f64 * block)).max(0.0) as u32;
    (rounds >= least_rounds(arms)).then_some(rounds)
}

/// Plans the stages of `improvement`. Slow settings for which the time is too short are
/// left out, the least severe first.
///
/// # Errors
/// As the time being too short for the others.
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
                        "its effect takes half a minute: --time {:.0}m would do",
                        (all / 60.0).ceil()
                    ),
                    command: Some(format!("punctual tune apply --set {}", one.assignment)),
                });
            }
        }
    }
}

/// The pairs of blocks that an effect is found from: in the screening each setting is on
/// in half of the rows.
pub(super) fn pairs(name: &str, rounds: u32) -> u32 {
    match name == SCREENING {
        true => rounds.saturating_mul(ROWS as u32 / 2),
        false => rounds,
    }
}

/// An arm without any setting.
pub(super) fn unchanged(name: &str) -> Arm {
    Arm {
        name: name.to_owned(),
        action: punctual_model::ArmAction::Unchanged,
    }
}
