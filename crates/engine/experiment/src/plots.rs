//! Arranges blocks into whole plots, so that settings that take effect slowly are changed only
//! rarely.
//!
//! In a screening, the rows with the same slow settings are measured one after the other. Together
//! they are a whole plot, which has the long wash-out only at its start. The order of the plots in
//! a round is random, and so is the order of the rows in each plot (split-plot design: Jones and
//! Nachtsheim, Journal of Quality Technology 41, 2009).

use punctual_model::{Arm, ArmAction, ExperimentPlan, Nanos, WashOut};

use crate::order::round_order;

/// The wash-out after a change of a slow setting.
pub(crate) const SLOW: Nanos = Nanos::from_secs(30);

/// Returns whether a setting (`name=value` or `name@instance=value`) takes effect slowly.
pub(crate) fn is_slow(assignment: &str) -> bool {
    let name = assignment.split(['=', '@']).next().unwrap_or_default();
    punctual_model::setting(name).is_some_and(|setting| setting.wash_out == WashOut::Long)
}

/// Returns the slow settings of an arm, followed by the others.
pub(crate) fn parts(arm: &Arm) -> [Vec<String>; 2] {
    match &arm.action {
        ArmAction::Settings { assignments } => {
            let (slow, quick) = assignments.iter().cloned().partition(|one| is_slow(one));
            [slow, quick]
        }
        _ => [Vec::new(), Vec::new()],
    }
}

/// Returns whether the arms differ in slow settings.
pub(crate) fn slow_differs(arms: &[Arm]) -> bool {
    let first = arms.first().map(parts);
    arms.iter()
        .any(|arm| Some(&parts(arm)[0]) != first.as_ref().map(|[slow, _]| slow))
}

/// Returns the order of the arms in a round.
pub(crate) fn order(plan: &ExperimentPlan, round: u32) -> Vec<u32> {
    let order = round_order(plan.seed, round, plan.arms.len());
    // Plots are used only for a design that ranks settings, because a test that compares pairs
    // needs all arms in random order.
    if !plan.ranks_only {
        return order;
    }
    let slow = |arm: &u32| {
        plan.arms
            .get(*arm as usize)
            .map(|arm| parts(arm)[0].clone())
    };
    let mut plots: Vec<(Option<Vec<String>>, Vec<u32>)> = Vec::new();
    for arm in order {
        let own = slow(&arm);
        match plots.iter_mut().find(|(slow, _)| *slow == own) {
            Some((_, arms)) => arms.push(arm),
            None => plots.push((own, vec![arm])),
        }
    }
    plots.into_iter().flat_map(|(_, arms)| arms).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::experiment;

    fn settings(assignments: &[&str]) -> ArmAction {
        ArmAction::Settings {
            assignments: assignments.iter().map(|one| (*one).to_owned()).collect(),
        }
    }

    /// With rows of two slow settings and a quick one, each round has four plots in a changing
    /// order, and contains each row once.
    #[test]
    fn equal_slow_settings_share_a_plot() {
        let mut plan = experiment(24, 5).plan;
        plan.ranks_only = true;
        for (row, arm) in plan.arms.iter_mut().enumerate() {
            let mut own = Vec::new();
            own.extend((row % 2 == 1).then_some("swappiness=10"));
            own.extend((row % 3 == 0).then_some("thp=never"));
            own.extend((row % 4 < 2).then_some("timer-migration=off"));
            arm.action = settings(&own);
        }
        assert!(slow_differs(&plan.arms));
        let (mut firsts, mut within) = (Vec::new(), Vec::new());
        for round in 0..20 {
            let order = order(&plan, round);
            let mut each = order.clone();
            each.sort_unstable();
            assert_eq!(each, (0..24).collect::<Vec<_>>());
            let slow: Vec<Vec<String>> = order
                .iter()
                .map(|arm| parts(&plan.arms[*arm as usize])[0].clone())
                .collect();
            let changes = slow.windows(2).filter(|two| two[0] != two[1]).count();
            assert_eq!(changes, 3, "{slow:?}");
            firsts.push(slow[0].clone());
            within.push(order);
        }
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 4, "the plots come in random order");
        within.sort_unstable();
        within.dedup();
        assert_eq!(within.len(), 20, "so do the rows");
        // A test that compares pairs does not use plots.
        plan.ranks_only = false;
        assert_eq!(order(&plan, 3), round_order(5, 3, 24));
    }

    #[test]
    fn slow_settings_and_quick_ones_differ() {
        assert!(is_slow("swappiness=10") && is_slow("thp@defrag=never"));
        assert!(!is_slow("timer-migration=off") && !is_slow("nothing"));
        let mut arms = experiment(2, 1).plan.arms;
        assert!(!slow_differs(&arms));
        arms[1].action = settings(&["timer-migration=off"]);
        assert!(!slow_differs(&arms));
        arms[0].action = settings(&["swappiness=10"]);
        assert!(slow_differs(&arms));
    }
}
