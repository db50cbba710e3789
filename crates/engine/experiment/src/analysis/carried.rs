//! Carry-over in words: a block that acts on the one after it.

use punctual_model::{Experiment, ExperimentPlan, Nanos};
use punctual_stats::carry_over::{self, CarryOver};

use super::times;
use crate::lengths::{time_for, typed};

/// A block that is longer by so much is offered.
const LONGER: u64 = 3;

/// What each arm but the first does to the block after it; empty of boots, which begin
/// anew, and where there are too few rounds.
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

/// That an effect lasts longer than a block.
pub(super) fn lasting(experiment: &Experiment, arm: u32, carried: CarryOver) -> String {
    format!(
        "carry-over: blocks after one of {} have {} as many late slots as blocks after one of {} \
         (p {:.3}), so its effect lasts longer than a block{}",
        experiment.arm_name(arm),
        times(carried.found),
        experiment.arm_name(0),
        carried.p,
        longer_blocks(experiment)
    )
}

/// That it may, and that the answer depends on it.
pub(super) fn unsure(experiment: &Experiment, arm: u32, carried: CarryOver) -> String {
    format!(
        "its effect may last longer than a block: blocks after one of {} have {} as many late \
         slots (95%: {} to {}){}",
        experiment.arm_name(arm),
        times(carried.found),
        times(carried.low),
        times(carried.high),
        longer_blocks(experiment)
    )
}

/// Blocks that are longer, and the time that they take; nothing before the pilot.
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
    format!(": try --block {} --time {}", typed(block), typed(time))
}
