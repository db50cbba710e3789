//! Tests that the side effects of a write in the kernel, and values that the kernel does not keep,
//! are restored or reported.

use crate::plan_tests::{applied, request, reverted, status};
use crate::testing::Machine;

#[test]
fn kernel_side_effects_are_restored() {
    let cpufreq = "sys/devices/system/cpu/cpufreq";
    for sets in [
        &["governor=performance"][..],
        &["governor=performance", "energy-preference=performance"],
        &[
            "governor@policy1=performance",
            "energy-preference@policy2=power",
        ],
        // The minimum frequency is above this maximum, so the kernel lowers it while the maximum is
        // in force.
        &["freq-max=1000000"],
        &["freq-max=1000000", "freq-min=800000"],
        &["turbo=off"],
        &["turbo=on"],
    ] {
        let machine = Machine::controller(false);
        machine.remove("sys/devices/system/cpu/intel_pstate/no_turbo");
        machine.write(&format!("{cpufreq}/boost"), "1\n");
        for (policy, boost) in [(0, "1\n"), (1, "0\n"), (2, "1\n"), (3, "0\n")] {
            machine.write(&format!("{cpufreq}/policy{policy}/boost"), boost);
        }
        let before = machine.snapshot();
        applied(&machine, &request("", sets, "")).unwrap();
        assert_ne!(machine.snapshot(), before, "{sets:?}");
        assert!(status(&machine).unwrap().holds(), "{sets:?}");
        reverted(&machine).unwrap();
        assert_eq!(machine.snapshot(), before, "{sets:?}");
    }
}

#[test]
fn crossing_limits_are_avoided_on_refusing_kernels() {
    for sets in [
        ["freq-max=1000000", "freq-min=800000"],
        ["freq-min=max", "freq-max=max"],
        ["freq-min=900000", "freq-max=2600000"],
    ] {
        let machine = Machine::controller(false);
        for policy in 0..4 {
            let file = format!("sys/devices/system/cpu/cpufreq/policy{policy}/old_kernel");
            machine.write(&file, "");
        }
        let before = machine.snapshot();
        applied(&machine, &request("", &sets, "")).unwrap();
        reverted(&machine).unwrap();
        assert_eq!(machine.snapshot(), before, "{sets:?}");
    }
}

#[test]
fn invalid_partition_is_reported_with_reason() {
    let machine = Machine::controller(true);
    machine.write("sys/fs/cgroup/other/cpuset.cpus.exclusive", "3\n");
    machine.write("sys/fs/cgroup/other/cgroup.procs", "");
    let before = machine.snapshot();
    let wish = request("", &["cpuset-partition=2-3"], "");
    let error = applied(&machine, &wish).unwrap_err().to_string();
    assert!(
        error.contains("isolated invalid (Cpu list in cpuset.cpus not exclusive)"),
        "{error}"
    );
    assert_eq!(machine.snapshot(), before);
    machine.remove("sys/fs/cgroup/other");

    // The partition becomes invalid only later, when a CPU goes offline.
    applied(&machine, &wish).unwrap();
    let invalid = "isolated invalid (No cpu available due to hotplug)";
    machine.write(
        "sys/fs/cgroup/punctual/cpuset.cpus.partition",
        &format!("{invalid}\n"),
    );
    let now = status(&machine).unwrap();
    assert!(!now.holds());
    let seen = now.settings[0].now.clone().unwrap();
    assert!(seen.contains(invalid), "{seen}");
    reverted(&machine).unwrap();
}
