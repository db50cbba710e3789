//! Computes the duration of an experiment and the shortest possible duration.

use punctual_model::{ExperimentPlan, Nanos};
use punctual_stats::pairs::LEAST_PAIRS;

/// False alarm rate of the randomisation test.
pub(crate) const BY_SIGNS: f64 = 0.04;

/// Minimum number of rounds with several arms. It is enough for Holm's method with 10 arms.
const LEAST_WITH_HOLM: u32 = 9;

/// The length of a block is at least this multiple of the wash-out.
pub const TIMES_WASH_OUT: u64 = 5;

/// The shortest block length if none was given.
const SHORTEST: Nanos = Nanos::from_secs(10);

/// Overhead of a block in addition to measuring, for preparing and storing it.
const OVERHEAD: Nanos = Nanos::from_millis(500);

/// Limits of the pilot's length if no block length was given.
const PILOT: [Nanos; 2] = [Nanos::from_secs(10), Nanos::from_secs(60)];

pub(crate) fn shortest_block(plan: &ExperimentPlan) -> Nanos {
    let asked = plan.block_ns;
    asked.unwrap_or_else(|| SHORTEST.max(Nanos(plan.wash_out_ns.0.saturating_mul(TIMES_WASH_OUT))))
}

/// Returns the total time of one block. If no length was given, the shortest one is assumed.
pub(crate) fn block_time(plan: &ExperimentPlan) -> Nanos {
    taken(plan, shortest_block(plan))
}

/// Returns the total time of one block of this length.
pub(crate) fn taken(plan: &ExperimentPlan, block: Nanos) -> Nanos {
    block + plan.wash_out_ns + OVERHEAD
}

/// Returns the time of a round with blocks of this length.
pub(crate) fn round(plan: &ExperimentPlan, block: Nanos) -> Nanos {
    let each = block
        .0
        .saturating_add(plan.wash_out_ns.0)
        .saturating_add(OVERHEAD.0);
    Nanos(each.saturating_mul(plan.arms.len() as u64))
}

/// Returns the length of the pilot of an experiment that takes `time`.
pub(crate) fn pilot_of(plan: &ExperimentPlan, time: Nanos) -> Nanos {
    match plan.block_ns {
        Some(block) => Nanos(block.0.saturating_mul(3)),
        None => Nanos(time.0 / 10).max(PILOT[0]).min(PILOT[1]),
    }
}

/// Returns the smallest number of rounds that can show a difference with this number of arms.
pub fn least_rounds(arms: usize) -> u32 {
    match arms {
        0..=2 => LEAST_PAIRS as u32,
        _ => {
            let tests = arms.saturating_sub(1) as f64;
            // If all differences have the same sign, 2 of the 2^n arrangements are as extreme as
            // the observed one. This probability is multiplied by the number of tests.
            let needed = (2.0 * tests / BY_SIGNS).log2().ceil() as u32;
            needed.max(LEAST_WITH_HOLM)
        }
    }
}

/// Returns the smallest number of rounds that the plan may have.
pub(crate) fn fewest(plan: &ExperimentPlan) -> u32 {
    if plan.ranks_only {
        1
    } else {
        least_rounds(plan.arms.len())
    }
}

/// Returns the shortest block that the wash-out allows.
pub(crate) fn least_block(plan: &ExperimentPlan) -> Nanos {
    Nanos(plan.wash_out_ns.0.saturating_mul(TIMES_WASH_OUT))
}

/// Returns the shortest `--duration` for blocks of this length, in whole seconds.
pub(crate) fn time_for(plan: &ExperimentPlan, block: Nanos) -> Nanos {
    const SECOND: u64 = 1_000_000_000;
    let blocks = round(plan, block).0.saturating_mul(fewest(plan).into());
    // A longer experiment has a longer pilot, so several steps are needed.
    let mut time = Nanos(blocks);
    for _ in 0..50 {
        let needed = blocks.saturating_add(pilot_of(plan, time).0);
        let whole = Nanos(needed.div_ceil(SECOND).saturating_mul(SECOND));
        if whole <= time {
            break;
        }
        time = whole;
    }
    time
}

/// Returns the shortest time for a plan. It is not sufficient if the pilot shows that longer blocks
/// are needed.
pub fn shortest_time(plan: &ExperimentPlan) -> Nanos {
    time_for(plan, shortest_block(plan).max(least_block(plan)))
}

/// Formats a time as it is written on the command line, such as `20m`, `37m8s` or `90s`.
pub(crate) fn typed(time: Nanos) -> String {
    let seconds = time.0 / 1_000_000_000;
    match (time.0 % 1_000_000_000, seconds / 60, seconds % 60) {
        (0, minutes @ 2.., 0) => format!("{minutes}m"),
        (0, minutes @ 2.., rest) => format!("{minutes}m{rest}s"),
        (0, ..) => format!("{seconds}s"),
        _ => format!("{}ms", time.0.div_ceil(1_000_000)),
    }
}

/// Returns the longest block with which a pilot of this length and the smallest number of rounds
/// still fit into the time.
pub(crate) fn longest_that_fits(plan: &ExperimentPlan, pilot: Nanos) -> Nanos {
    let blocks = u64::from(fewest(plan)) * plan.arms.len() as u64;
    let each = plan.time_ns.0.saturating_sub(pilot.0) / blocks.max(1);
    let beside = plan.wash_out_ns.0.saturating_add(OVERHEAD.0);
    Nanos(each.saturating_sub(beside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_they_are_typed() {
        let of = |seconds| typed(Nanos::from_secs(seconds));
        assert_eq!([of(90), of(1_200), of(2_227)], ["90s", "20m", "37m7s"]);
        for seconds in [1, 59, 61, 120, 121, 3_600, 86_401] {
            let typed = of(seconds);
            assert_eq!(typed.parse(), Ok(Nanos::from_secs(seconds)), "{typed}");
        }
    }
}
