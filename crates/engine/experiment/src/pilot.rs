//! Plans the blocks of an experiment from a short measurement of the baseline.

use punctual_model::{ArmAction, ExperimentPlan, Nanos, Pilot, RecordingId, grouped};

use crate::analysis::{detects, times};
use crate::error::TrialError;
use crate::lengths::{
    TIMES_WASH_OUT, fewest, least_block, longest_that_fits, pilot_of, round, shortest_block,
    time_for, typed,
};
use crate::tally::LateCandidates;

/// Minimum number of late slots per block that the baseline must have with a threshold.
const LEAST: u64 = 3;

/// The preferred number of late slots per block when a threshold is chosen.
pub(crate) const GOOD: u64 = 5;

/// Returns the predictions of the pilot for different arms, with this number of rounds and this
/// number of compared `pairs`.
pub(crate) fn rescaled(pilot: Pilot, rounds: u32, pairs: u32) -> Pilot {
    let per_block =
        pilot.late as f64 * pilot.block_ns.as_secs_f64() / pilot.measured_ns.as_secs_f64();
    Pilot {
        recording: None,
        rounds,
        detects: detects(per_block, pairs, pilot.dispersion),
        ..pilot
    }
}

/// Returns the length of the pilot.
///
/// # Errors
/// Returns an error if the plan is too short no matter what the pilot finds.
pub(crate) fn length(plan: &ExperimentPlan) -> Result<Nanos, TrialError> {
    let block = shortest_block(plan);
    let least = least_block(plan);
    if block < least {
        return Err(TrialError::Plan(format!(
            "a block of {block} is shorter than {TIMES_WASH_OUT} times the wash-out of {}: give \
             --block {} or more",
            plan.wash_out_ns,
            typed(least),
        )));
    }
    let length = pilot_of(plan, plan.time_ns);
    rounds(plan, block, length)?;
    Ok(length)
}

/// Returns the number of rounds that fit into the time after the pilot.
fn rounds(plan: &ExperimentPlan, block: Nanos, pilot: Nanos) -> Result<u32, TrialError> {
    let least = fewest(plan);
    let fits = plan.time_ns.0.saturating_sub(pilot.0) / round(plan, block).0.max(1);
    let rounds = plan
        .rounds
        .unwrap_or(u32::try_from(fits).unwrap_or(u32::MAX));
    if rounds >= least {
        return Ok(rounds);
    }
    Err(TrialError::Plan(match plan.rounds {
        Some(_) => format!(
            "{rounds} pairs are too few to show a difference: give --pairs {least} or more for {} \
             conditions",
            plan.arms.len()
        ),
        None => format!(
            "--duration {} is enough for only {rounds} pairs of blocks of {block}, but at least \
             {least} are needed: give --duration {} or more{}",
            typed(plan.time_ns),
            typed(time_for(plan, block)),
            // Suggest a shorter block only if the wash-out allows it.
            if block > least_block(plan) && plan.block_ns.is_some() {
                ", or a shorter --block"
            } else {
                ""
            }
        ),
    }))
}

/// Determines the threshold and the length and number of blocks from the samples of the pilot.
///
/// # Errors
/// Returns an error if the baseline exceeds the threshold too rarely (the error suggests a
/// threshold that works), or if the time is too short.
pub(crate) fn plan(
    plan: &ExperimentPlan,
    seen: &LateCandidates,
    recording: Option<RecordingId>,
) -> Result<Pilot, TrialError> {
    let measured = seen.measured();
    if measured == Nanos::ZERO {
        return Err(TrialError::Plan("the pilot measured nothing".to_owned()));
    }
    // The pilot ends with a wake-up, which may be slightly late.
    let pilot_ns = measured.min(pilot_of(plan, plan.time_ns));
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
    let lengthened = |late: u64, count: u64| {
        let needed = measured.as_secs_f64() * count as f64 / late as f64;
        block.max(Nanos((needed * 1e9) as u64))
    };
    let block = match (plan.block_ns, late) {
        // The block is long enough for the preferred number of late slots. If there is not enough
        // time for this, it is somewhat shorter.
        (None, 1..) => {
            let [good, least] = [GOOD, LEAST].map(|count| lengthened(late, count));
            let fits = |block| rounds(plan, block, pilot_ns).is_ok();
            match (fits(good), fits(least)) {
                (false, true) => longest_that_fits(plan, pilot_ns).clamp(least, good),
                _ => good,
            }
        }
        _ => block,
    };
    if late < in_pilot(block, LEAST) {
        let would = match proposed {
            Some(threshold) => format!("a threshold of {threshold} would suffice"),
            None => "no threshold is exceeded often enough: give a longer --block".to_owned(),
        };
        return Err(TrialError::Plan(format!(
            "the baseline was later than {threshold} in {} slots during {measured}, but a block of \
             {block} needs {LEAST} late slots: {would}",
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
        rounds: rounds(plan, block, pilot_ns).map_err(|error| match proposed {
            Some(lower) if lower < threshold => TrialError::Plan(format!(
                "{error}; with a --threshold of {lower}, shorter blocks suffice"
            )),
            _ => error,
        })?,
        dispersion: dispersion(&counts),
        detects: None,
    };
    let rounds = pilot.rounds;
    Ok(Pilot {
        recording,
        ..rescaled(pilot, rounds, rounds)
    })
}

/// Returns the ratio of the variance to the mean, but at least 1.
fn dispersion(counts: &[u64]) -> f64 {
    let number = counts.len() as f64;
    let mean = counts.iter().sum::<u64>() as f64 / number;
    let square = |count: &u64| (*count as f64 - mean).powi(2);
    let variance = counts.iter().map(square).sum::<f64>() / (number - 1.0).max(1.0);
    if mean > 0.0 {
        (variance / mean).max(1.0)
    } else {
        1.0
    }
}

/// Describes the plan before the experiment starts.
pub(crate) fn intention(plan: &ExperimentPlan) -> String {
    let arms: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    let boots = (plan.arms.iter()).any(|arm| matches!(arm.action, ArmAction::Boot { .. }));
    let pilot = if boots {
        "in this boot".to_owned()
    } else {
        format!("of {}", arms[0])
    };
    format!("comparing {}; first a pilot {pilot}", arms.join(", "))
}

/// Describes the plan and the effects that it can show.
pub fn sentence(plan: &ExperimentPlan, pilot: &Pilot) -> String {
    let needed = Nanos(
        round(plan, pilot.block_ns)
            .0
            .saturating_mul(pilot.rounds.into()),
    );
    let power = match pilot.detects {
        Some(ratio) => format!("a rate of {} is detected in 80% of the cases", times(ratio)),
        None => "even a rate of ×10 is detected in less than 80% of the cases".to_owned(),
    };
    format!(
        "threshold {}, {} late slots in a pilot of {}; {} rounds of {} blocks of {}, {:.1} min: \
         {power}",
        pilot.threshold_ns,
        grouped(pilot.late),
        pilot.measured_ns,
        pilot.rounds,
        plan.arms.len(),
        pilot.block_ns,
        needed.as_secs_f64() / 60.0,
    )
}

#[cfg(test)]
mod tests {
    use punctual_model::{Sample, SignedNanos};

    use super::*;
    use crate::analysis::tests::experiment;
    use crate::lengths::shortest_time;

    /// Returns the `--duration` that an error suggests.
    fn named(error: &TrialError) -> Nanos {
        let text = error.to_string();
        let (_, rest) = text.split_once("give --duration ").unwrap();
        rest.split([' ', ',', ';'])
            .next()
            .unwrap()
            .parse()
            .unwrap_or_else(|_| panic!("{text}"))
    }

    /// The time that an error suggests is the shortest sufficient time. No suggestion is rejected
    /// when it is followed.
    #[test]
    fn refusal_suggests_the_shortest_sufficient_time() {
        for (arms, wash_out, block) in [
            (2, 2, None),
            (2, 30, None),
            (3, 2, None),
            (5, 30, None),
            (2, 2, Some(10)),
            (2, 2, Some(60)),
            (2, 30, Some(150)),
        ] {
            let mut plan = experiment(arms, 1).plan;
            plan.wash_out_ns = Nanos::from_secs(wash_out);
            plan.block_ns = block.map(Nanos::from_secs);
            plan.time_ns = Nanos::from_secs(60);
            let error = length(&plan).unwrap_err();
            let shorter = block.is_some_and(|block| block > TIMES_WASH_OUT * wash_out);
            assert_eq!(error.to_string().contains("shorter --block"), shorter);
            plan.time_ns = named(&error);
            assert_eq!(plan.time_ns, shortest_time(&plan), "{error}");
            length(&plan).unwrap_or_else(|again| panic!("{error}, then {again}"));
            plan.time_ns = Nanos(plan.time_ns.0 - 1_000_000_000);
            length(&plan).unwrap_err();
        }
        let mut plan = experiment(2, 1).plan;
        plan.block_ns = Some(Nanos::from_secs(3));
        let error = length(&plan).unwrap_err().to_string();
        assert!(error.contains("give --block 10s or more"), "{error}");
    }

    /// Simulates a pilot of one minute with a sample every millisecond. `late` of the samples, one
    /// second apart, are late.
    fn seen(late: u64) -> LateCandidates {
        let mut seen = LateCandidates::default();
        for ms in 0..60_000u64 {
            let is_late = ms % 1_000 == 500 && ms / 1_000 < late;
            let sample = Sample {
                expected: Nanos::from_millis(ms),
                latency: SignedNanos(if is_late {
                    80_000
                } else {
                    5_000 + ms as i64 % 997
                }),
            };
            seen.add(sample, Nanos::ZERO);
        }
        seen
    }

    /// If late slots are rare, blocks are as long as the time allows. If too few blocks fit, a time
    /// is suggested that is sufficient with the same pilot.
    #[test]
    fn block_length_uses_the_available_time() {
        let mut asked = experiment(2, 1).plan;
        asked.threshold_ns = Some(Nanos(50_000));
        let length = |asked: &ExperimentPlan, late| plan(asked, &seen(late), None);
        // 5 late slots take 150 s, and 3 take 90 s.
        asked.time_ns = Nanos::from_secs(3_600);
        let good = length(&asked, 2).unwrap();
        assert!(good.block_ns >= Nanos::from_millis(149_900), "{good:?}");
        asked.time_ns = Nanos::from_secs(1_500);
        let shorter = length(&asked, 2).unwrap();
        assert_eq!(shorter.rounds, 6);
        let seconds = shorter.block_ns.as_secs_f64();
        assert!((90.0..149.0).contains(&seconds), "{shorter:?}");
        asked.time_ns = Nanos::from_secs(600);
        let error = length(&asked, 2).unwrap_err();
        assert!(error.to_string().contains("--threshold of"), "{error}");
        asked.time_ns = named(&error);
        length(&asked, 2).unwrap();
    }
}
