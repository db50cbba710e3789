//! Tests of partitions of CPUs and of cache ways, step by step.

use super::access;
use crate::plan_tests::{applied, plan, request, reverted};
use crate::setting;
use crate::target::Target;
use crate::testing::{Fault, Faulty, Machine};

const V1: &str = "sys/fs/cgroup/cpuset";
const V2: &str = "sys/fs/cgroup";
const RESCTRL: &str = "sys/fs/resctrl";
const CPU: &str = "sys/devices/system/cpu";

fn read(machine: &Machine, name: &str) -> Result<String, String> {
    let files = Faulty::on(machine, Fault::EndsBefore, usize::MAX);
    let target = Target::plain(&files, machine.host());
    let value = access(setting(name).unwrap()).read(&target, "");
    value.map_err(|error| error.to_string())
}

fn write(machine: &Machine, name: &str, value: &str) -> Result<(), String> {
    let files = Faulty::on(machine, Fault::EndsBefore, usize::MAX);
    let target = Target::plain(&files, machine.host());
    let done = access(setting(name).unwrap()).write(&target, "", value);
    done.map_err(|error| error.to_string())
}

fn refusal(machine: &Machine, wish: &str) -> String {
    let error = plan(machine, &request("", &[wish], ""));
    error
        .map(|plan| format!("{plan:?}"))
        .unwrap_err()
        .to_string()
}

#[test]
fn cpuset_of_v1_takes_all_tasks_off_the_cpus() {
    let machine = Machine::controller(false);
    assert_eq!(
        read(&machine, "cpuset-partition").unwrap(),
        "none; balance=1"
    );
    applied(&machine, &request("", &["cpuset-partition=2-3"], "")).unwrap();
    for (file, text) in [
        ("cpuset.sched_load_balance", "0"),
        ("tasks", ""),
        ("punctual/cpuset.cpus", "2-3"),
        ("punctual/cpuset.mems", "0"),
        ("punctual/cpuset.sched_load_balance", "0"),
        ("punctual/tasks", ""),
        ("punctual-housekeeping/cpuset.cpus", "0-1"),
        ("punctual-housekeeping/cpuset.mems", "0"),
        ("punctual-housekeeping/cpuset.sched_load_balance", "1"),
        ("punctual-housekeeping/tasks", "1\n77\n78"),
    ] {
        assert_eq!(machine.get(&format!("{V1}/{file}")), text, "{file}");
    }
    assert_eq!(
        read(&machine, "cpuset-partition").unwrap(),
        "2-3; balance=0"
    );
    // A task that the user moved to the CPUs goes back to the root.
    machine.write(&format!("{V1}/punctual/tasks"), "99\n");
    reverted(&machine).unwrap();
    assert_eq!(machine.get(&format!("{V1}/tasks")), "1\n77\n78\n99");
    assert_eq!(machine.get(&format!("{V1}/cpuset.sched_load_balance")), "1");
}

#[test]
fn cpuset_is_complete_only_after_its_last_step() {
    let v1 = Machine::controller(false);
    let value = || read(&v1, "cpuset-partition").unwrap();
    v1.write(&format!("{V1}/punctual-housekeeping/tasks"), "");
    assert_eq!(value(), "unfinished; balance=1");
    v1.write(&format!("{V1}/punctual/cpuset.cpus"), "2\n");
    assert_eq!(value(), "unfinished; balance=1");
    v1.write(&format!("{V1}/cpuset.sched_load_balance"), "0\n");
    assert_eq!(value(), "2; balance=0");
    v1.write(&format!("{V1}/punctual/cpuset.cpus"), "\n");
    assert_eq!(value(), "unfinished; balance=0");

    let v2 = Machine::controller(true);
    let value = || read(&v2, "cpuset-partition").unwrap();
    assert_eq!(value(), "none; controller=off");
    v2.write(&format!("{V2}/cgroup.subtree_control"), "cpu cpuset\n");
    assert_eq!(value(), "none; controller=on");
    v2.write(&format!("{V2}/punctual/cpuset.cpus"), "2\n");
    assert_eq!(value(), "unfinished; controller=on");
    for (state, expected) in [
        ("member", "unfinished; controller=on"),
        ("root", "unfinished; controller=on"),
        ("isolated", "2; controller=on"),
        (
            "isolated invalid (x)",
            "isolated invalid (x); controller=on",
        ),
    ] {
        let file = format!("{V2}/punctual/cpuset.cpus.partition");
        v2.write(&file, &format!("{state}\n"));
        assert_eq!(value(), expected);
    }
}

#[test]
fn controller_of_v2_is_switched_off_only_if_it_was() {
    for (control, after) in [("cpu", "cpu"), ("cpu cpuset", "cpu cpuset")] {
        let machine = Machine::controller(true);
        let file = format!("{V2}/cgroup.subtree_control");
        machine.write(&file, &format!("{control}\n"));
        applied(&machine, &request("", &["cpuset-partition=3"], "")).unwrap();
        assert_eq!(machine.get(&file), "cpu cpuset");
        assert_eq!(machine.get(&format!("{V2}/punctual/cpuset.cpus")), "3");
        reverted(&machine).unwrap();
        assert_eq!(machine.get(&file), after);
    }
}

#[test]
fn hierarchy_with_the_controller_is_used() {
    let machine = Machine::new();
    machine.write(&format!("{CPU}/online"), "0-3\n");
    let absent = refusal(&machine, "cpuset-partition=1");
    assert!(
        absent.starts_with("this machine has no cpuset-partition"),
        "{absent}"
    );
    // cgroup v2 without this controller is not enough.
    machine.write(&format!("{V2}/cgroup.controllers"), "cpu memory\n");
    let error = read(&machine, "cpuset-partition").unwrap_err();
    assert!(
        error.contains("neither cgroup v2 with the cpuset controller"),
        "{error}"
    );
    assert!(write(&machine, "cpuset-partition", "1").is_err());
    machine.write(&format!("{V2}/unified/cgroup.controllers"), "cpuset\n");
    machine.write(&format!("{V2}/unified/cgroup.subtree_control"), "\n");
    assert_eq!(
        read(&machine, "cpuset-partition").unwrap(),
        "none; controller=off"
    );
    // With v1 alone, its root must have the CPUs.
    let machine = Machine::controller(false);
    machine.remove(&format!("{V1}/cpuset.cpus"));
    assert!(read(&machine, "cpuset-partition").is_err());
}

/// Two caches with 12 ways; CPUs 0 and 1 have the first one.
fn two_caches() -> Machine {
    let machine = Machine::controller(true);
    machine.write(&format!("{RESCTRL}/schemata"), "    L3:0=fff;1=fff\n");
    for cpu in [2, 3] {
        machine.write(&format!("{CPU}/cpu{cpu}/cache/index3/id"), "1\n");
    }
    machine
}

#[test]
fn ways_are_taken_only_from_the_caches_of_the_cpus() {
    for (cpus, own, rest) in [
        ("3", "L3:1=f", "L3:0=fff;1=ff0"),
        ("0-1", "L3:0=f", "L3:0=ff0;1=fff"),
        ("1-2", "L3:0=f;1=f", "L3:0=ff0;1=ff0"),
    ] {
        let machine = two_caches();
        let before = machine.snapshot();
        let wish = format!("cache-partition={cpus}:4");
        let all = plan(&machine, &request("", &[&wish], "")).unwrap();
        let differing: Vec<&str> = rest[3..]
            .split(';')
            .filter(|one| !one.ends_with("fff"))
            .collect();
        assert_eq!(
            all.steps[0].target,
            format!("{cpus} {own}; L3:{}", differing.join(";"))
        );
        applied(&machine, &request("", &[&wish], "")).unwrap();
        assert_eq!(machine.get(&format!("{RESCTRL}/schemata")), rest);
        let group = machine.get(&format!("{RESCTRL}/punctual/schemata"));
        for one in own[3..].split(';') {
            assert!(group.contains(one), "{group}");
        }
        reverted(&machine).unwrap();
        assert_eq!(machine.snapshot(), before);
    }
}

#[test]
fn number_of_ways_is_limited_by_the_cache() {
    // The lowest way of this cache is the fifth bit, and a group needs at least three ways.
    let machine = two_caches();
    machine.write(&format!("{RESCTRL}/info/L3/cbm_mask"), "ff0\n");
    machine.write(&format!("{RESCTRL}/info/L3/min_cbm_bits"), "3\n");
    machine.write(&format!("{RESCTRL}/schemata"), "L3:0=ff0;1=ff0\n");
    let planned = |ways: u32| {
        let wish = format!("cache-partition=3:{ways}");
        let all = plan(&machine, &request("", &[&wish], ""));
        all.map(|all| all.steps[0].target.clone())
            .map_err(|error| error.to_string())
    };
    assert_eq!(planned(3).unwrap(), "3 L3:1=70; L3:1=f80");
    assert_eq!(planned(5).unwrap(), "3 L3:1=1f0; L3:1=e00");
    for wrong in [0, 2, 6, 99] {
        let error = planned(wrong).unwrap_err();
        let why = "the L3 cache has 8 ways, and each group needs at least 3: use 3 to 5";
        assert!(error.contains(why), "{wrong}: {error}");
    }
    // A processor that reports no minimum needs at least one way.
    machine.write(&format!("{RESCTRL}/info/L3/min_cbm_bits"), "0\n");
    assert_eq!(planned(7).unwrap(), "3 L3:1=7f0; L3:1=800");
    assert!(planned(8).is_err() && planned(0).is_err());
    machine.write(&format!("{RESCTRL}/info/L3/cbm_mask"), "?\n");
    let error = planned(3).unwrap_err();
    assert!(
        error.contains("info/L3/cbm_mask should contain a number"),
        "{error}"
    );
}

#[test]
fn ways_of_all_other_programs_stay_one_block_of_enough_ways() {
    let machine = two_caches();
    let root = |mask: &str| {
        machine.write(
            &format!("{RESCTRL}/schemata"),
            &format!("L3:0=fff;1={mask}\n"),
        );
        plan(&machine, &request("", &["cache-partition=3:4"], "")).is_ok()
    };
    assert!(root("3f"), "two ways are left");
    assert!(!root("1f"), "one way is left");
    assert!(!root("f"), "no way is left");
    assert!(root("f0"), "nothing is taken from them");
    // Without a mask of the cache, nothing is known about it.
    machine.write(&format!("{RESCTRL}/schemata"), "L3:0=fff\n");
    let error = refusal(&machine, "cache-partition=3:4");
    assert!(error.contains("no ways of the cache with ID 1"), "{error}");
}

#[test]
fn groups_of_others_are_respected() {
    let machine = two_caches();
    let group = |name: &str, cpus: &str, masks: &str| {
        machine.write(&format!("{RESCTRL}/{name}/cpus_list"), &format!("{cpus}\n"));
        machine.write(
            &format!("{RESCTRL}/{name}/schemata"),
            &format!("L3:{masks}\n"),
        );
    };
    let planned = |cpus: &str| {
        let wish = format!("cache-partition={cpus}:4");
        let all = plan(&machine, &request("", &[&wish], ""));
        all.map(drop).map_err(|error| error.to_string())
    };
    // These folders are not groups.
    for folder in ["info", "mon_groups", "mon_data"] {
        group(folder, "3", "1=f");
    }
    machine.write(&format!("{RESCTRL}/file"), "");
    assert_eq!(planned("3"), Ok(()));
    // A group with other CPUs, and other ways or another cache, does not matter.
    group("other", "0", "0=f;1=ff0");
    assert_eq!(planned("3"), Ok(()));
    group("other", "0", "0=f;1=8");
    let error = planned("3").unwrap_err();
    assert!(
        error.contains("the group other uses some of these cache ways"),
        "{error}"
    );
    group("other", "2-3", "0=f00;1=f00");
    let error = planned("1-2").unwrap_err();
    assert!(error.contains("CPU 2 is in the group other"), "{error}");
}

#[test]
fn existing_partition_is_kept_or_refused() {
    let machine = two_caches();
    applied(&machine, &request("", &["cache-partition=3:4"], "")).unwrap();
    let value = "3 L3:0=fff;1=f; L3:0=fff;1=ff0";
    assert_eq!(read(&machine, "cache-partition").unwrap(), value);
    let again = plan(&machine, &request("", &["cache-partition=3:4"], "")).unwrap();
    assert_eq!(again.changes().count(), 0);
    for other in ["cache-partition=2:4", "cache-partition=3:5"] {
        let error = refusal(&machine, other);
        assert!(
            error.contains("already exists, with CPU 3 and L3:"),
            "{error}"
        );
    }
    machine.write(&format!("{RESCTRL}/punctual/cpus_list"), "\n");
    let unfinished = "unfinished; L3:0=fff;1=ff0";
    assert_eq!(read(&machine, "cache-partition").unwrap(), unfinished);
    for value in ["unfinished; L3:0=fff", "x", ""] {
        let error = write(&machine, "cache-partition", value).unwrap_err();
        assert!(error.contains("is not valid"), "{error}");
    }
    machine.remove(&format!("{RESCTRL}/punctual/schemata"));
    assert_eq!(read(&machine, "cache-partition").unwrap(), unfinished);
    write(&machine, "cache-partition", "none; L3:0=fff;1=fff").unwrap();
    assert_eq!(
        read(&machine, "cache-partition").unwrap(),
        "none; L3:0=fff;1=fff"
    );
    // What is as it should be is not written again.
    write(&machine, "cache-partition", "none; L3:1=fff").unwrap();
    assert_eq!(
        machine.get(&format!("{RESCTRL}/schemata")),
        "L3:0=fff;1=fff"
    );
}

#[test]
fn shared_ways_are_reported() {
    let machine = two_caches();
    let remark = |shared: &str, value: &str| {
        machine.write(
            &format!("{RESCTRL}/info/L3/shareable_bits"),
            &format!("{shared}\n"),
        );
        let files = Faulty::on(&machine, Fault::EndsBefore, usize::MAX);
        let target = Target::plain(&files, machine.host());
        access(setting("cache-partition").unwrap()).remark(&target, "", value)
    };
    let value = "2-3 L3:0=f;1=f0; L3:0=ff0;1=f";
    for (shared, some) in [
        ("1", true),
        ("80", true),
        ("f00", false),
        ("0", false),
        ("?", false),
    ] {
        let found = remark(shared, value);
        assert_eq!(found.is_some(), some, "{shared}: {found:?}");
    }
    let text = remark("c0", value).unwrap();
    assert!(
        text.contains("cache ways of CPU 2-3") && text.contains("is c0"),
        "{text}"
    );
}
