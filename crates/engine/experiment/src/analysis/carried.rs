//! Describes carry-over, the effect of a block on the next one.

use punctual_model::{Experiment, ExperimentPlan, Nanos, counted};
use punctual_stats::carry_over::{self, CarryOver};

use super::times;
use crate::lengths::{time_for, typed};

/// Suggested block length, as a multiple of the current one.
const LONGER: u64 = 3;

/// Returns the effect of each arm except the first on the next block. The result is empty if there
/// are too few rounds, and for experiments that compare boots, where each block starts from a fresh
/// state.
pub(super) fn carry_over(experiment: &Experiment) -> Vec<CarryOver> {
    if experiment.boots.is_some() {
        return Vec::new();
    }
    let arms = experiment.plan.arms.len();
    let measured = experiment.blocks.chunks_exact(arms.max(1));
    let round = |blocks: &[punctual_model::ExperimentBlock]| {
        let each = blocks.iter().map(|block| (block.arm, block.late));
        each.collect()
    };
    let rounds: Vec<Vec<carry_over::Counted>> = measured.map(round).collect();
    carry_over::carry_over(&rounds, experiment.plan.seed)
}

/// Explains that the effect of an arm lasts longer than a block.
pub(super) fn lasting(experiment: &Experiment, arm: u32, carried: CarryOver) -> String {
    format!(
        "carry-over: blocks that follow {} have {} as many late slots as blocks that follow {} (p \
         {:.3}), so the effect lasts longer than a block{}",
        experiment.arm_name(arm),
        times(carried.found),
        experiment.arm_name(0),
        carried.p,
        longer_blocks(experiment)
    )
}

/// Explains that the effect may last longer than a block, and that the result depends on this.
pub(super) fn unsure(experiment: &Experiment, arm: u32, carried: CarryOver) -> String {
    format!(
        "the effect may last longer than a block: blocks that follow {} have {} as many late slots \
         as blocks that follow the baseline (95%: {} to {}){}",
        experiment.arm_name(arm),
        times(carried.found),
        times(carried.low),
        times(carried.high),
        longer_blocks(experiment)
    )
}

/// Returns the reason why equal blocks do not prove that the arms are equal: all blocks together
/// differ from the pilot, or the pilot is too short to show that they do not. An effect that lasts for many blocks changes all of them, also those of
/// the baseline, but not the pilot before them.
pub(super) fn unlike_pilot(experiment: &Experiment) -> Option<String> {
    let pilot = (experiment.pilot.as_ref()).filter(|_| experiment.boots.is_none())?;
    let blocks = &experiment.blocks;
    let late = blocks.iter().map(|block| block.late).sum::<u64>() as f64;
    let time = (blocks.iter()).fold(Nanos::ZERO, |sum, block| sum + block.measured_ns);
    let mean = late / blocks.len() as f64;
    let squares = blocks
        .iter()
        .map(|block| (block.late as f64 - mean).powi(2));
    let dispersion = squares.sum::<f64>() / (blocks.len() as f64 - 1.0) / mean;
    let before = pilot.late as f64;
    let found = late / time.as_secs_f64() / (before / pilot.measured_ns.as_secs_f64());
    let variance = pilot.dispersion.max(1.0) / before + dispersion.max(1.0) / late;
    let distance = found.ln().abs();
    let why = match () {
        () if found.is_finite() && distance > TWO_SIDED * variance.sqrt() => format!(
            "all blocks together have {} as many late slots as the pilot, so the machine changed or \
             an effect lasts for many blocks",
            times(found)
        ),
        () if found.is_finite() && distance + ONE_SIDED * variance.sqrt() <= ALIKE.ln() => {
            return None;
        }
        () => format!(
            "the pilot has only {}, too few to show that no effect lasts for many blocks",
            counted(pilot.late, "late slot", "late slots")
        ),
    };
    Some(why + &longer_blocks(experiment))
}

/// Maximum ratio of all blocks to the pilot if no effect lasts for many blocks. An effect that fades
/// over 30 blocks raises 40 blocks by a tenth to a sixth if it doubles the late slots.
const ALIKE: f64 = 1.125;

/// Quantiles of the normal distribution for 5%, on both sides together and on one.
const TWO_SIDED: f64 = 1.96;
const ONE_SIDED: f64 = 1.645;

/// Suggests longer blocks and the time that they need. The text is empty before the pilot.
fn longer_blocks(experiment: &Experiment) -> String {
    let Some(pilot) = &experiment.pilot else {
        return String::new();
    };
    let seconds = pilot
        .block_ns
        .0
        .saturating_mul(LONGER)
        .div_ceil(1_000_000_000);
    let plan = ExperimentPlan {
        block_ns: Some(Nanos(seconds.saturating_mul(1_000_000_000))),
        ..experiment.plan.clone()
    };
    let block = plan.block_ns.unwrap_or_default();
    let time = time_for(&plan, block).max(plan.time_ns);
    format!(": try --block {} --duration {}", typed(block), typed(time))
}
