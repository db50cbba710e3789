//! Settings of a frequency policy that depend on each other. This module puts them in order and
//! refuses invalid combinations.
//!
//! Undoing the changes reverses the order, so the constraints are also met in that case.

use crate::accessors::access;
use crate::pattern::Pattern;
use crate::target::Target;
use crate::{Step, TuneError, setting};

const GOVERNOR: &str = "governor";
const PREFERENCE: &str = "energy-preference";
const LEAST: &str = "freq-min";
const MOST: &str = "freq-max";

/// File that names the driver of a policy.
const DRIVER: Pattern = Pattern("/sys/devices/system/cpu/cpufreq/policy#/scaling_driver");
/// Drivers that set the energy preference themselves if the governor is `performance`, and then
/// refuse any other preference with EBUSY (`Documentation/admin-guide/pm/intel_pstate.rst` and
/// `amd-pstate.rst`, active mode). Not all of them restore the old preference when the governor
/// changes again.
const COUPLED: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];
const PERFORMANCE: &str = "performance";

fn is(step: &Step, name: &str, instance: &str) -> bool {
    step.setting.name == name && step.instance == instance
}

fn find(steps: &[Step], name: &str, instance: &str) -> Option<usize> {
    steps.iter().position(|step| is(step, name, instance))
}

fn policies(steps: &[Step], name: &str) -> Vec<String> {
    let of = steps.iter().filter(|step| step.setting.name == name);
    of.map(|step| step.instance.clone()).collect()
}

/// Adds the settings that the driver changes together with the governor, so that they are shown and
/// restored.
pub(crate) fn add_coupled(target: &Target<'_>, steps: &mut Vec<Step>) -> Result<(), TuneError> {
    let preference = setting(PREFERENCE)?;
    for policy in policies(steps, GOVERNOR) {
        let changes = |step: &&Step| {
            is(step, GOVERNOR, &policy) && step.changes && step.target == PERFORMANCE
        };
        let Some(wish) = steps.iter().find(changes).map(|step| step.wish) else {
            continue;
        };
        if !is_coupled(target, &policy) || find(steps, PREFERENCE, &policy).is_some() {
            continue;
        }
        // If the preference cannot be read, there is nothing to restore.
        let Ok(current) = access(preference).read(target, &policy) else {
            continue;
        };
        steps.push(Step {
            label: preference.named(&policy),
            setting: preference,
            changes: current != PERFORMANCE,
            current,
            target: PERFORMANCE.to_owned(),
            risk: preference.risk,
            caution: preference.caution,
            instance: policy,
            broad: true,
            wish,
        });
    }
    Ok(())
}

/// Returns the setting that must change before this step, so that both are restored. If the step
/// also changes the energy preference, the preference is that setting.
pub(crate) fn before(target: &Target<'_>, step: &Step) -> Option<String> {
    let changes = step.setting.name == GOVERNOR && step.target == PERFORMANCE;
    (changes && is_coupled(target, &step.instance))
        .then(|| format!("{PREFERENCE}@{}", step.instance))
}

fn is_coupled(target: &Target<'_>, policy: &str) -> bool {
    let driver = DRIVER.path(policy).and_then(|file| target.text(&file));
    driver.is_some_and(|driver| COUPLED.contains(&driver.as_str()))
}

/// Sorts steps into an order that the kernel accepts.
pub(crate) fn order(steps: &mut [Step]) {
    let number = |text: &str| text.parse::<u64>().ok();
    // The limits must not cross between two steps. Therefore, if the new maximum is below the old
    // minimum, the minimum changes first.
    for policy in policies(steps, MOST) {
        if let (Some(most), Some(least)) = (find(steps, MOST, &policy), find(steps, LEAST, &policy))
            && most < least
            && number(&steps[most].target) < number(&steps[least].current)
        {
            steps.swap(most, least);
        }
    }
    // While the governor is `performance`, the kernel accepts no other preference. The preference
    // is therefore changed before this governor is set, and restored after the governor. If the
    // governor changes from `performance` to another one, the order is reversed.
    for policy in policies(steps, GOVERNOR) {
        if let (Some(governor), Some(preference)) = (
            find(steps, GOVERNOR, &policy),
            find(steps, PREFERENCE, &policy),
        ) && governor < preference
            && steps[governor].target == PERFORMANCE
        {
            steps[governor..=preference].rotate_right(1);
        }
    }
}

/// Refuses a minimum frequency above the maximum. The kernel would accept such a minimum and use
/// another value. Since Linux 5.3, reading a limit returns the value in force, so a request beyond
/// the other limit could be neither detected nor restored.
pub(crate) fn check(target: &Target<'_>, steps: &[Step]) -> Result<(), TuneError> {
    let most_of = setting(MOST)?;
    for step in steps.iter().filter(|step| step.setting.name == LEAST) {
        let most = match find(steps, MOST, &step.instance) {
            Some(most) => steps[most].target.clone(),
            None => access(most_of)
                .read(target, &step.instance)
                .unwrap_or_default(),
        };
        let number = |text: &str| text.parse::<u64>().ok();
        if let (Some(least), Some(highest)) = (number(&step.target), number(&most))
            && least > highest
        {
            return Err(TuneError::Invalid {
                setting: step.label.clone(),
                value: step.target.clone(),
                expected: format!("the maximum of this policy ({MOST}) is {highest}"),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Plan;
    use crate::plan_tests::{line, plan, request};
    use crate::testing::Machine;

    const CPU: &str = "sys/devices/system/cpu";

    fn labels(plan: &Plan) -> Vec<&str> {
        plan.steps.iter().map(|step| step.label.as_str()).collect()
    }

    #[test]
    fn preference_that_the_driver_sets_is_part_of_the_plan() {
        let machine = Machine::controller(false);
        machine.write(
            &format!("{CPU}/cpufreq/policy1/scaling_driver"),
            "amd-pstate-epp\n",
        );
        machine.remove(&format!(
            "{CPU}/cpufreq/policy2/energy_performance_preference"
        ));
        let all = plan(&machine, &request("", &["governor=performance"], "")).unwrap();
        for (policy, preference) in [
            (0, "balance_power -> performance"),
            (1, "balance_power -> performance"),
            (2, "no energy-preference@policy2"),
        ] {
            let name = format!("energy-preference@policy{policy}");
            assert_eq!(line(&all, &name), preference);
        }
        // What is already in force is not changed again.
        machine.write(
            &format!("{CPU}/cpufreq/policy0/energy_performance_preference"),
            "performance\n",
        );
        let all = plan(
            &machine,
            &request("", &["governor@policy0=performance"], ""),
        )
        .unwrap();
        let changes: Vec<_> = all.changes().map(|step| step.setting.name).collect();
        assert_eq!(changes, ["governor"]);
        // A governor that is in force changes no preference.
        machine.write(
            &format!("{CPU}/cpufreq/policy1/scaling_governor"),
            "performance\n",
        );
        let all = plan(
            &machine,
            &request("", &["governor@policy1=performance"], ""),
        )
        .unwrap();
        assert_eq!(labels(&all), ["governor@policy1"]);
    }

    #[test]
    fn limits_of_each_policy_are_ordered_and_compared() {
        let machine = Machine::controller(false);
        let steps = |sets: &[&str]| {
            let all = plan(&machine, &request("", sets, ""));
            all.map(|all| labels(&all).join(" "))
                .map_err(|error| error.to_string())
        };
        // The current minimum is 2.5 GHz. Only a maximum below it needs the other order.
        for (most, order) in [
            ("2499999", "freq-min@policy0 freq-max@policy0"),
            ("2500000", "freq-max@policy0 freq-min@policy0"),
            ("2500001", "freq-max@policy0 freq-min@policy0"),
        ] {
            let most = format!("freq-max@policy0={most}");
            let found = steps(&[&most, "freq-min@policy0=min"]);
            assert_eq!(found.as_deref(), Ok(order), "{most}");
        }
        // The maximum that is not part of the plan is that in force.
        assert!(steps(&["freq-min@policy0=3500000"]).is_ok());
        machine.write(
            &format!("{CPU}/cpufreq/policy0/scaling_max_freq"),
            "3000000\n",
        );
        assert!(steps(&["freq-min@policy0=3000000"]).is_ok());
        let error = steps(&["freq-min@policy0=3000001"]).unwrap_err();
        assert!(error.contains("(freq-max) is 3000000"), "{error}");
        assert!(steps(&["freq-min@policy0=1000000", "freq-max@policy0=1000000"]).is_ok());
        let error = steps(&["freq-min@policy0=1000001", "freq-max@policy0=1000000"]).unwrap_err();
        assert!(
            error.starts_with("freq-min@policy0: '1000001' is not valid"),
            "{error}"
        );
    }
}
