//! Tests of the values of each setting: which ones it accepts, keeps and shows.

use punctual_model::Setting;

use super::access;
use crate::access::Ask;
use crate::context::Context;
use crate::setting;
use crate::target::Target;
use crate::testing::{Fault, Faulty, Machine};

const CPU: &str = "sys/devices/system/cpu";

pub(super) fn row(name: &str) -> &'static Setting {
    setting(name).unwrap()
}

/// Calls a function with access to a machine.
pub(super) fn with<T>(machine: &Machine, use_it: impl FnOnce(&Target<'_>) -> T) -> T {
    let files = Faulty::on(machine, Fault::EndsBefore, usize::MAX);
    let journal = machine.journal();
    use_it(&Target {
        files: &files,
        host: machine.host(),
        journal: &journal,
    })
}

/// Returns the value to write for a request, or the error.
fn resolved(machine: &Machine, name: &str, instance: &str, asked: &str) -> String {
    let context = Context {
        online: "0-3".parse().unwrap(),
        measured: Some("2-3".parse().unwrap()),
        ..Context::default()
    };
    with(machine, |target| {
        let ask = Ask {
            setting: row(name),
            target,
            instance,
            asked,
            context: &context,
        };
        match access(row(name)).resolve(ask) {
            Ok(Some(value)) => value,
            Ok(None) => "does not apply".to_owned(),
            Err(error) => error.to_string(),
        }
    })
}

#[test]
fn requests_become_the_values_to_write() {
    let machine = Machine::controller(true);
    let link = "0000:01:00.0";
    for (name, instance, asked, value) in [
        ("turbo", "", "on", "on"),
        ("turbo", "", "no", "off"),
        ("smt", "", "on", "on"),
        ("smt", "", "true", "on"),
        ("smt", "", "off", "off"),
        ("smt", "", "0", "off"),
        ("eee", "eth0", "yes", "eee on"),
        ("eee", "eth0", "false", "eee off"),
        ("dma-latency-us", "", "0", "0"),
        ("dma-latency-us", "", "2000000000", "2000000000"),
        ("dirty-limit", "", "0%", "0%"),
        ("dirty-limit", "", "100%", "100%"),
        ("dirty-limit", "", "8192", "8192"),
        ("dirty-limit", "", "+9000", "9000"),
        ("dirty-background-limit", "", "1", "1"),
        ("idle-limit-us", "cpu1/state2", "32", "1"),
        ("idle-limit-us", "cpu1/state2", "33", "does not apply"),
        ("idle-limit-us", "cpu1/state3", "33", "1"),
        ("idle-limit-us", "cpu1/state0", "0", "does not apply"),
        ("idle-limit-us", "cpu1/state1", "1000000", "does not apply"),
        ("irq-affinity", "24", "housekeeping", "0-1"),
        ("irq-affinity", "24", "3,1", "1,3"),
        ("irqbalance-banned", "", "measured", "2-3"),
        ("irqbalance-banned", "", "none", "none"),
        ("cpuset-partition", "", "measured", "2-3"),
        ("thread-priority", "22/122/x", "fifo:3", "fifo:3"),
        ("thread-priority", "22/122/x", "other:0", "other"),
        // The thread is bound to CPU 1, which is not measured.
        ("thread-priority", "21/121/x", "rr:3", "does not apply"),
        (
            "rx-coalescing-us",
            "eth0",
            "1000000",
            "adaptive-rx off, rx-usecs 1000000, rx-frames 64",
        ),
        (
            "tx-coalescing-us",
            "eth0",
            "0",
            "adaptive-tx off, tx-usecs 0, tx-frames 1",
        ),
        ("pci-link-power", link, "clkpm,l0s_aspm", "l0s_aspm,clkpm"),
        ("pci-link-power", link, "off", "off"),
        ("freq-min", "policy1", "min", "800000"),
        ("freq-min", "policy1", "max", "3500000"),
        ("freq-min", "policy1", "800000", "800000"),
        ("freq-max", "policy1", "3500000", "3500000"),
        ("governor", "policy1", "performance", "performance"),
        ("default-irq-affinity", "", "housekeeping", "3"),
        ("thp", "", "never", "never"),
    ] {
        assert_eq!(
            resolved(&machine, name, instance, asked),
            value,
            "{name} {asked}"
        );
    }
}

#[test]
fn impossible_requests_are_refused_with_what_is_possible() {
    let machine = Machine::controller(true);
    machine.remove(&format!("{CPU}/cpu0/cpuidle/state1/latency"));
    machine.write(
        &format!("{CPU}/cpu3/topology/thread_siblings_list"),
        "1,3\n",
    );
    for (name, instance, asked, why) in [
        ("turbo", "", "maybe", "'maybe' is not valid"),
        ("smt", "", "forceoff", "is not valid"),
        (
            "smt",
            "",
            "off",
            "CPU 3 of --cpus is the second thread of its core",
        ),
        ("eee", "eth0", "2", "is not valid"),
        ("dma-latency-us", "", "-1", "is not valid"),
        ("dma-latency-us", "", "2000000001", "is not valid"),
        ("dma-latency-us", "", "none", "is not valid"),
        ("dirty-limit", "", "101%", "is not valid"),
        ("dirty-limit", "", "8191", "is not valid"),
        ("dirty-limit", "", "x%", "is not valid"),
        ("dirty-background-limit", "", "0", "is not valid"),
        ("idle-limit-us", "cpu1/state2", "1000001", "is not valid"),
        ("idle-limit-us", "cpu1/state2", "-1", "is not valid"),
        ("idle-limit-us", "cpu0/state1", "5", "no exit latency"),
        ("irq-affinity", "24", "4", "CPU 4 is not online"),
        ("irq-affinity", "24", "", "is not valid"),
        ("irqbalance-banned", "", "x", "use one of all"),
        ("cpuset-partition", "", "", "is not valid"),
        ("cpuset-partition", "", "all", "leave at least one CPU"),
        ("thread-priority", "22/122/x", "fifo:0", "is not valid"),
        ("thread-priority", "22/122/x", "deadline", "is not valid"),
        ("rx-coalescing-us", "eth0", "1000001", "is not valid"),
        ("pci-link-power", "0000:01:00.0", "l1", "is not valid"),
        ("freq-min", "policy1", "799999", "from 800000 to 3500000"),
        ("freq-max", "policy1", "3500001", "from 800000 to 3500000"),
        (
            "governor",
            "policy1",
            "ondemand",
            "choose one of performance, powersave",
        ),
        (
            "thp",
            "",
            "sometimes",
            "choose one of always, madvise, never",
        ),
        ("swappiness", "", "201", "is not valid"),
    ] {
        let error = resolved(&machine, name, instance, asked);
        assert!(error.contains(why), "{name} {asked}: {error}");
    }
    // A limit that is not a number is reported with its file.
    machine.write(&format!("{CPU}/cpufreq/policy1/cpuinfo_min_freq"), "?\n");
    let error = resolved(&machine, "freq-min", "policy1", "min");
    assert!(
        error.contains("cpuinfo_min_freq should contain a number"),
        "{error}"
    );
}

#[test]
fn only_values_that_can_be_restored_are_kept() {
    for (name, instance, good, bad) in [
        (
            "turbo",
            "",
            &["on", "off", "on but policy1 policy2"][..],
            &["", "1", "on but", "on but x"][..],
        ),
        ("smt", "", &["on", "off"], &["forceoff", "", "1"]),
        (
            "dma-latency-us",
            "",
            &["none", "0", "2000000000"],
            &["-1", "2000000001", ""],
        ),
        (
            "dirty-limit",
            "",
            &["20%", "0", "8192"],
            &["", "%", "-1", "1 2"],
        ),
        (
            "idle-limit-us",
            "cpu0/state1",
            &["0", "1"],
            &["", "-1", "on"],
        ),
        ("idle-limit-us", "cpu0", &[], &["0"]),
        ("irq-affinity", "24", &["0", "0-3"], &["", "x"]),
        ("irq-affinity", "x", &[], &["0"]),
        (
            "irqbalance-banned",
            "",
            &["none", "", "2-3,5", "\"1\"", "'1'"],
            &["\"1", "'1\"", "a", "1;2", "$1"],
        ),
        (
            "cpuset-partition",
            "",
            &[
                "none",
                "2-3",
                "none; controller=on",
                "2; balance=0",
                "2; controller=off",
                "none; balance=1",
            ],
            &[
                "",
                "unfinished",
                "2; balance=2",
                "2; x",
                "isolated invalid (x)",
            ],
        ),
        (
            "cache-partition",
            "",
            &["none; L3:0=f", "1 L3:0=f; L3:0=f0"],
            &["none", "unfinished; L3:0=f"],
        ),
        ("cache-partition", "x", &[], &["none; L3:0=f"]),
        (
            "thread-priority",
            "1/2/x",
            &["other", "fifo:1", "batch:-20"],
            &["fifo:100", "", "x"],
        ),
        ("thread-priority", "1/2", &[], &["other"]),
        (
            "pci-link-power",
            "0000:01:00.0",
            &["off", "l1_aspm,clkpm"],
            &["", "l1", "l1_aspm,l1_aspm"],
        ),
        (
            "rx-coalescing-us",
            "eth0",
            &["rx-usecs 1"],
            &["tx-usecs 1", "x"],
        ),
        ("eee", "eth0", &["eee on"], &["tx-timer 1"]),
        ("swappiness", "", &["0", "60"], &["", "-1", "a"]),
        ("swappiness", "x", &[], &["60"]),
        ("governor", "policy0", &["powersave"], &["", "a b"]),
        ("governor", "cpu0", &[], &["powersave"]),
        ("watchdog", "nmi", &["0", "1"], &["on", ""]),
        ("watchdog", "x", &[], &["0"]),
    ] {
        let access = access(row(name));
        for value in good {
            assert!(access.holds(instance, value), "{name}@{instance} {value:?}");
        }
        for value in bad {
            assert!(
                !access.holds(instance, value),
                "{name}@{instance} {value:?}"
            );
        }
    }
}

#[test]
fn values_are_compared_by_their_meaning() {
    for (name, found, wanted, same) in [
        ("irq-affinity", "0-1", "0,1", true),
        ("irq-affinity", "0-1", "0", false),
        ("irq-affinity", "x", "x", false),
        ("irqbalance-banned", "none", "none", true),
        ("irqbalance-banned", "\"0-1\"", "0,1", true),
        ("irqbalance-banned", "none", "0", false),
        ("irqbalance-banned", "0", "1", false),
        ("cpuset-partition", "2-3; balance=0", "2,3", true),
        ("cpuset-partition", "2-3; balance=0", "2-3; balance=0", true),
        (
            "cpuset-partition",
            "2-3; balance=0",
            "2-3; balance=1",
            false,
        ),
        ("cpuset-partition", "none; balance=1", "none", true),
        ("cpuset-partition", "unfinished; balance=1", "none", false),
        ("cpuset-partition", "2; balance=0", "3", false),
        ("cpuset-partition", "; balance=0", "none", false),
        ("pci-link-power", "clkpm,l1_aspm", "l1_aspm,clkpm", true),
        ("pci-link-power", "off", "clkpm", false),
        ("pci-link-power", "x", "x", true),
        ("pci-link-power", "x", "y", false),
        ("cache-partition", "x", "x", false),
        ("default-irq-affinity", "0000000f", "f", true),
        ("default-irq-affinity", "f", "7", false),
        ("swappiness", "60", "060", true),
        ("thp", "never", "always", false),
    ] {
        let found_same = access(row(name)).same(found, wanted);
        assert_eq!(found_same, same, "{name} {found} {wanted}");
    }
}

#[test]
fn values_are_shown_in_words() {
    for (name, value, shown) in [
        ("idle-limit-us", "0", "allowed"),
        ("idle-limit-us", "1", "disabled"),
        ("idle-limit-us", "2", "2"),
        ("dma-latency-us", "none", "not held"),
        ("dma-latency-us", "5", "5 held"),
        ("dirty-limit", "20%", "20%"),
        ("dirty-limit", "8192", "8192 B"),
        ("irq-affinity", "0-1", "CPU 0-1"),
        ("cpuset-partition", "none; balance=1", "none"),
        ("cpuset-partition", "unfinished; balance=1", "unfinished"),
        ("cpuset-partition", "2-3; balance=0", "CPU 2-3"),
        (
            "cpuset-partition",
            "isolated invalid (x); controller=on",
            "isolated invalid (x)",
        ),
        ("default-irq-affinity", "f", "CPU 0-3"),
        ("rcu-normal", "1", "on"),
        ("thp", "never", "never"),
    ] {
        assert_eq!(crate::readable(row(name), value), shown, "{name} {value}");
    }
    for (name, instance, shown) in [
        ("thread-priority", "22/122/ksoftirqd/2", "ksoftirqd/2 (22)"),
        ("thread-priority", "22", "22"),
        ("irq-affinity", "24", "24"),
    ] {
        assert_eq!(access(row(name)).shown(instance), shown);
    }
}

#[test]
fn files_of_other_distributions_are_used() {
    let machine = Machine::new();
    machine.write("etc/sysconfig/irqbalance", "IRQBALANCE_BANNED_CPULIST=1\n");
    let ban = access(row("irqbalance-banned"));
    with(&machine, |target| {
        assert_eq!(ban.read(target, "").unwrap(), "1");
        ban.write(target, "", "2").unwrap();
    });
    let text = machine.get("etc/sysconfig/irqbalance");
    assert_eq!(text, "IRQBALANCE_BANNED_CPULIST=2");
    // The file of Debian has priority.
    machine.write("etc/default/irqbalance", "");
    let now = with(&machine, |target| ban.read(target, "").unwrap());
    assert_eq!(now, "none");
}

#[test]
fn turbo_is_read_from_the_file_of_the_driver() {
    let machine = Machine::new();
    let turbo = access(row("turbo"));
    let read = |machine: &Machine| with(machine, |target| turbo.read(target, "").unwrap());
    machine.write(&format!("{CPU}/cpufreq/boost"), "0\n");
    assert_eq!(read(&machine), "off");
    machine.write(&format!("{CPU}/cpufreq/boost"), "1\n");
    assert_eq!(read(&machine), "on");
    for (policy, boost) in [(0, "1"), (2, "0"), (10, "0")] {
        machine.write(&format!("{CPU}/cpufreq/policy{policy}/boost"), boost);
    }
    assert_eq!(read(&machine), "on but policy2 policy10");
    with(&machine, |target| {
        turbo.write(target, "", "off but policy0").unwrap()
    });
    let boosts = [0, 2, 10].map(|n| machine.get(&format!("{CPU}/cpufreq/policy{n}/boost")));
    assert_eq!(boosts, ["1", "0", "0"]);
    // The file of intel_pstate has the inverted meaning, and priority.
    for (text, word) in [("0\n", "on"), ("1\n", "off")] {
        machine.write(&format!("{CPU}/intel_pstate/no_turbo"), text);
        assert_eq!(read(&machine), word);
    }
}
