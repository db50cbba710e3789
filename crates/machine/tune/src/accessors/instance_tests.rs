//! Tests of the instances of each setting, and of the remarks about them.

use punctual_model::CpuSet;

use super::value_tests::{row, with};
use super::{access, deeper_idle_states};
use crate::testing::Machine;

#[test]
fn instances_are_those_of_the_machine() {
    let machine = Machine::controller(true);
    let instances = |name: &str| {
        with(&machine, |target| {
            let access = access(row(name));
            access.instances(target).unwrap().join(" ")
        })
    };
    machine.write("proc/irq/7/spurious", "");
    machine.write("sys/class/net/eth10/x", "");
    machine.write("sys/class/net/eth9/x", "");
    for card in ["eth10", "eth9"] {
        machine.write(&format!("ethtool/{card}"), "rx-usecs 1\n");
    }
    machine.write("ethtool-eee/eth9", "tx-timer 17\n");
    machine.write("sys/bus/pci/devices/0000:00:01.0/link/other", "1\n");
    for (name, expected) in [
        ("turbo", ""),
        ("irq-affinity", "24 25 30"),
        ("pci-link-power", "0000:01:00.0"),
        ("rx-coalescing-us", "eth0 eth9 eth10"),
        ("tx-coalescing-us", "eth0"),
        ("eee", "eth0"),
        ("watchdog", "nmi soft"),
        ("governor", "policy0 policy1 policy2 policy3"),
        (
            "thread-priority",
            "20/120/ksoftirqd/0 21/121/ksoftirqd/1 22/122/ksoftirqd/2 23/123/ksoftirqd/3 \
             40/140/irq/24-eth0",
        ),
    ] {
        assert_eq!(instances(name), expected, "{name}");
    }
    let count = |name: &str| {
        with(&machine, |target| {
            access(row(name)).instances(target).unwrap().len()
        })
    };
    let whole = [
        "turbo",
        "smt",
        "dirty-limit",
        "dma-latency-us",
        "swappiness",
    ];
    let others = ["irqbalance-banned", "cpuset-partition", "cache-partition"];
    for name in whole.into_iter().chain(others) {
        assert_eq!(count(name), 1, "{name}");
    }
    for file in [
        "sys/devices/system/cpu",
        "proc/sys/vm",
        "dev/cpu_dma_latency",
        "etc/default/irqbalance",
        "sys/fs/cgroup/cgroup.controllers",
        "sys/fs/resctrl/schemata",
    ] {
        machine.remove(file);
    }
    for name in whole.into_iter().chain(others) {
        assert_eq!(count(name), 0, "{name}");
    }
}

#[test]
fn absence_is_explained() {
    let machine = Machine::new();
    for (name, why) in [
        ("smt", "control does not exist"),
        ("eee", "no driver of a network card has this setting"),
        ("rx-coalescing-us", "no driver of a network card"),
        ("pci-link-power", "pcie_aspm=off"),
        ("cache-partition", "resctrl is not mounted"),
        ("swappiness", "/proc/sys/vm/swappiness does not exist"),
        ("watchdog", "/proc/sys/kernel/nmi_watchdog, "),
    ] {
        let absence = with(&machine, |target| {
            access(row(name)).absence(row(name), target)
        });
        assert!(absence.contains(why), "{name}: {absence}");
    }
    machine.write("sys/fs/resctrl/schemata/file", "");
    let setting = row("cache-partition");
    let absence = with(&machine, |target| access(setting).absence(setting, target));
    assert!(absence.starts_with("cannot read "), "{absence}");
}

#[test]
fn names_of_devices_select_their_interrupt() {
    let machine = Machine::controller(true);
    for file in ["affinity_hint", "node", "spurious", "effective_affinity"] {
        machine.write(&format!("proc/irq/24/{file}"), "");
    }
    machine.write("proc/irq/24/a-timer/x", "");
    let aliases = |name: &str, instance: &str| {
        with(&machine, |target| {
            access(row(name)).aliases(target, instance)
        })
    };
    assert_eq!(aliases("irq-affinity", "24"), ["a-timer", "eth0-rx-0"]);
    assert_eq!(aliases("irq-affinity", "99"), [""; 0]);
    assert_eq!(
        aliases("thread-priority", "22/122/ksoftirqd/2"),
        ["ksoftirqd/2", "22"]
    );
    assert_eq!(aliases("thread-priority", "22"), [""; 0]);
    assert_eq!(aliases("governor", "policy0"), [""; 0]);
}

#[test]
fn remarks_name_what_is_still_to_do() {
    let machine = Machine::controller(true);
    let remark = |name: &str, instance: &str, value: &str| {
        with(&machine, |target| {
            let found = access(row(name)).remark(target, instance, value);
            found.unwrap_or_default()
        })
    };
    let irq = remark("irq-affinity", "24", "0-1");
    assert!(irq.starts_with("interrupt 24 is still on CPU 3"), "{irq}");
    for value in ["3", "2-3"] {
        assert_eq!(remark("irq-affinity", "24", value), "", "{value}");
    }
    assert_eq!(remark("irqbalance-banned", "", "2"), "");
    machine.write("proc/400/comm", "irqbalance\n");
    let ban = remark("irqbalance-banned", "", "2");
    assert!(
        ban.starts_with("irqbalance (process 400) read /etc/default/irqbalance"),
        "{ban}"
    );
    let v2 = remark("cpuset-partition", "", "2-3; controller=on");
    assert!(
        v2.contains("on CPU 2-3, move") && v2.ends_with("/sys/fs/cgroup/punctual/cgroup.procs"),
        "{v2}"
    );
    assert_eq!(remark("cache-partition", "", "none; L3:0=fff"), "");
    assert_eq!(remark("dma-latency-us", "", "5"), "");
    let v1 = Machine::controller(false);
    let v1 = with(&v1, |target| {
        access(row("cpuset-partition")).remark(target, "", "2")
    });
    assert!(
        v1.unwrap()
            .ends_with("> /sys/fs/cgroup/cpuset/punctual/tasks")
    );
    let none = Machine::new();
    let none = with(&none, |target| {
        access(row("cpuset-partition")).remark(target, "", "2")
    });
    assert_eq!(none, None);
}

#[test]
fn deeper_idle_states_are_those_of_the_cpus() {
    let machine = Machine::controller(true);
    let deeper = |cpus: &str, deepest: i64| {
        let cpus: CpuSet = cpus.parse().unwrap();
        let (setting, states, all) = deeper_idle_states(machine.host(), &cpus, deepest);
        assert_eq!(setting.name, "idle-limit-us");
        (states.join(" "), all)
    };
    assert_eq!(deeper("1", 1), ("cpu1/state2 cpu1/state3".to_owned(), 4));
    assert_eq!(deeper("1,3", 2), ("cpu1/state3 cpu3/state3".to_owned(), 8));
    assert_eq!(deeper("0", 3), (String::new(), 4));
    assert_eq!(deeper("9", -1), (String::new(), 0));
    let (all, count) = deeper("2", -1);
    assert_eq!((all.split(' ').count(), count), (4, 4));
}

#[test]
fn invalid_names_lead_to_no_file() {
    let machine = Machine::controller(true);
    for (name, instance) in [
        ("idle-limit-us", "cpu1"),
        ("idle-limit-us", "../state1"),
        ("irq-affinity", ""),
        ("irq-affinity", "2x"),
        ("irq-affinity", "../1"),
        ("pci-link-power", "../x"),
        ("governor", "policyx"),
        ("watchdog", "x"),
        ("swappiness", "x"),
    ] {
        with(&machine, |target| {
            let access = access(row(name));
            for error in [
                access.read(target, instance).unwrap_err(),
                access.write(target, instance, "1").unwrap_err(),
            ] {
                let value = matches!(error, crate::TuneError::Value { .. });
                let none = matches!(error, crate::TuneError::NoInstance { .. });
                assert!(none || value, "{name}@{instance}: {error}");
            }
        });
    }
}

#[test]
fn vanished_file_is_known_from_the_error() {
    let machine = Machine::controller(true);
    let vanished = |name: &str, errno: i32| {
        let error = with(&machine, |target| {
            let source = std::io::Error::from_raw_os_error(errno);
            target.not_written("x".into(), source)
        });
        access(row(name)).has_vanished(&error)
    };
    assert!(vanished("swappiness", 2) && vanished("swappiness", 19));
    assert!(!vanished("swappiness", 5) && !vanished("swappiness", 13));
    assert!(!vanished("irq-affinity", 2));
    let other = crate::TuneError::Read {
        path: "x".into(),
        source: std::io::ErrorKind::NotFound.into(),
    };
    assert!(!access(row("swappiness")).has_vanished(&other));
}

#[test]
fn file_without_write_bit_is_read_only() {
    let machine = Machine::controller(true);
    let refusal = |name: &str, instance: &str| {
        with(&machine, |target| {
            access(row(name)).refusal(target, instance)
        })
    };
    assert_eq!(refusal("swappiness", ""), None);
    assert_eq!(refusal("irq-affinity", "24"), None);
    assert!(refusal("irq-affinity", "30").unwrap().contains("manages"));
    machine.set_mode("proc/sys/vm/swappiness", 0o444);
    let why = refusal("swappiness", "").unwrap();
    assert!(
        why.ends_with("proc/sys/vm/swappiness is read-only on this machine"),
        "{why}"
    );
    // A file that does not exist is reported when it is read.
    machine.remove("proc/sys/vm/swappiness");
    assert_eq!(refusal("swappiness", ""), None);
    assert_eq!(refusal("irq-affinity", "99"), None);
}
