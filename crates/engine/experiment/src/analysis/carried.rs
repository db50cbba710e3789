//! Describes carry-over, the effect of a block on the next one.

use punctual_model::{Experiment, ExperimentPlan, Nanos};
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
