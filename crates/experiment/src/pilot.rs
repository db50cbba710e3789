//! What a short measurement of the baseline says about the blocks to come.

use punctual_model::{ArmAction, ExperimentPlan, Nanos, Pilot, RecordingId, grouped};

use crate::analysis::{detects, least_rounds, times};
use crate::error::TrialError;
use crate::tally::Seen;

/// The fewest late slots of a block of the baseline that a threshold must give.
const LEAST: u64 = 3;

/// Those that a threshold is chosen for.
pub(crate) const GOOD: u64 = 5;

/// A block is at least so many times as long as the wash-out.
pub const TIMES_WASH_OUT: u64 = 5;

/// The shortest block where none was asked for.
const SHORTEST: Nanos = Nanos::from_secs(10);

/// What a block takes beside measuring: preparing and storing.
const OVERHEAD: Nanos = Nanos::from_millis(500);

/// The pilot where no block was asked for, at most and at least.
const PILOT: [Nanos; 2] = [Nanos::from_secs(10), Nanos::from_secs(60)];

fn shortest_block(plan: &ExperimentPlan) -> Nanos {
    let asked = plan.block_ns;
    asked.unwrap_or_else(|| SHORTEST.max(Nanos(plan.wash_out_ns.0.saturating_mul(TIMES_WASH_OUT))))
}

/// How long one block takes in all, where none was asked for as short as it may be.
pub(crate) fn block_time(plan: &ExperimentPlan) -> Nanos {
    taken(plan, shortest_block(plan))
}

/// How long a block of this length takes in all.
pub(crate) fn taken(plan: &ExperimentPlan, block: Nanos) -> Nanos {
    block + plan.wash_out_ns + OVERHEAD
}

/// What a pilot says about as many rounds of other arms, of which so many `pairs` are
/// compared.
pub(crate) fn again(pilot: Pilot, rounds: u32, pairs: u32) -> Pilot {
    let per_block =
        pilot.late as f64 * pilot.block_ns.as_secs_f64() / pilot.measured_ns.as_secs_f64();
    Pilot {
        recording: None,
        rounds,
        detects: detects(per_block, pairs, pilot.dispersion),
        ..pilot
    }
}

/// How long a round takes with blocks so long.
fn round(plan: &ExperimentPlan, block: Nanos) -> Nanos {
    let each = block
        .0
        .saturating_add(plan.wash_out_ns.0)
        .saturating_add(OVERHEAD.0);
    Nanos(each.saturating_mul(plan.arms.len() as u64))
}

/// How long the pilot is.
///
/// # Errors
/// A plan that is too short whatever the pilot finds.
pub(crate) fn length(plan: &ExperimentPlan) -> Result<Nanos, TrialError> {
    let block = shortest_block(plan);
    if block.0 < plan.wash_out_ns.0.saturating_mul(TIMES_WASH_OUT) {
        return Err(TrialError::Plan(format!(
            "a block of {block} is shorter than {TIMES_WASH_OUT} times the wash-out of {}: make \
             --block longer, or --wash-out shorter",
            plan.wash_out_ns
        )));
    }
    let length = match plan.block_ns {
        Some(block) => Nanos(block.0.saturating_mul(3)),
        None => Nanos(plan.time_ns.0 / 10).max(PILOT[0]).min(PILOT[1]),
    };
    rounds(plan, block, length)?;
    Ok(length)
}

/// The rounds that fit the time beside a pilot.
fn rounds(plan: &ExperimentPlan, block: Nanos, pilot: Nanos) -> Result<u32, TrialError> {
    let least = match plan.ranks_only {
        true => 1,
        false => least_rounds(plan.arms.len()),
    };
    let each = round(plan, block);
    let fits = plan.time_ns.0.saturating_sub(pilot.0) / each.0.max(1);
    let rounds = plan
        .rounds
        .unwrap_or(u32::try_from(fits).unwrap_or(u32::MAX));
    if rounds >= least {
        return Ok(rounds);
    }
    let needed = Nanos(each.0.saturating_mul(least.into()).saturating_add(pilot.0));
    Err(TrialError::Plan(match plan.rounds {
        Some(_) => format!(
            "{rounds} pairs can show nothing: give --pairs {least} or more for {} conditions",
            plan.arms.len()
        ),
        None => format!(
            "--time {} is enough for {rounds} pairs of blocks of {block}; at least {least} are \
             needed: give --time {} or more, or a shorter --block",
            plan.time_ns,
            Nanos(needed.0.div_ceil(1_000_000_000) * 1_000_000_000)
        ),
    }))
}

/// Threshold, length and number of blocks by what the pilot saw.
///
/// # Errors
/// A threshold that the baseline crosses too seldom, with one that would do; a time that
/// is too short.
pub(crate) fn plan(
    plan: &ExperimentPlan,
    seen: &Seen,
    recording: Option<RecordingId>,
) -> Result<Pilot, TrialError> {
    let measured = seen.measured();
    if measured == Nanos::ZERO {
        return Err(TrialError::Plan("the pilot measured nothing".to_owned()));
    }
    let in_pilot = |block: Nanos, count: u64| {
        let share = measured.as_secs_f64() / block.as_secs_f64().max(1e-9);
        (count as f64 * share).ceil() as u64
    };
    let block = shortest_block(plan);
    let proposed = seen.threshold_for(in_pilot(block, GOOD));
    let threshold = plan.threshold_ns.or(proposed).ok_or_else(|| {
        TrialError::Plan(format!(
            "no threshold is crossed {GOOD} times in a block of {block}: give a longer --block"
        ))
    })?;
    let late = seen.slots(threshold).len() as u64;
    let block = match (plan.block_ns, late) {
        // As long as it takes for enough of them.
        (None, 1..) => {
            let needed = measured.as_secs_f64() * GOOD as f64 / late as f64;
            block.max(Nanos((needed * 1e9) as u64))
        }
        _ => block,
    };
    if late < in_pilot(block, LEAST) {
        let would = match proposed {
            Some(threshold) => format!("a threshold of {threshold} would do"),
            None => "no threshold would do: give a longer --block".to_owned(),
        };
        return Err(TrialError::Plan(format!(
            "the baseline was later than {threshold} in {} slots of {measured}; a block of {block} \
             needs {LEAST}: {would}",
            grouped(late)
        )));
    }
    let counts = seen.tenths(threshold);
    let pilot = Pilot {
        recording,
        measured_ns: measured,
        late,
        threshold_ns: threshold,
        block_ns: block,
        rounds: rounds(plan, block, measured)?,
        dispersion: dispersion(&counts),
        detects: None,
    };
    let rounds = pilot.rounds;
    Ok(Pilot {
        recording,
        ..again(pilot, rounds, rounds)
    })
}

/// Variance to mean, 1 at least.
fn dispersion(counts: &[u64]) -> f64 {
    let number = counts.len() as f64;
    let mean = counts.iter().sum::<u64>() as f64 / number;
    let square = |count: &u64| (*count as f64 - mean).powi(2);
    let variance = counts.iter().map(square).sum::<f64>() / (number - 1.0).max(1.0);
    match mean > 0.0 {
        true => (variance / mean).max(1.0),
        false => 1.0,
    }
}

/// What is about to be done.
pub(crate) fn intention(plan: &ExperimentPlan) -> String {
    let arms: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    let boots = (plan.arms.iter()).any(|arm| matches!(arm.action, ArmAction::Boot { .. }));
    let pilot = match boots {
        true => "in this boot".to_owned(),
        false => format!("of {}", arms[0]),
    };
    format!("comparing {}; first a pilot {pilot}", arms.join(", "))
}

/// What the plan can show.
pub fn sentence(plan: &ExperimentPlan, pilot: &Pilot) -> String {
    let needed = Nanos(
        round(plan, pilot.block_ns)
            .0
            .saturating_mul(pilot.rounds.into()),
    );
    let power = match pilot.detects {
        Some(ratio) => format!("finds a rate that is {} in 80% of the cases", times(ratio)),
        None => "finds no effect below ×10 in 80% of the cases".to_owned(),
    };
    format!(
        "threshold {}, {} late slots in {} of pilot; {} rounds of {} blocks of {}, {:.1} min: {power}",
        pilot.threshold_ns,
        grouped(pilot.late),
        pilot.measured_ns,
        pilot.rounds,
        plan.arms.len(),
        pilot.block_ns,
        needed.as_secs_f64() / 60.0,
    )
}
