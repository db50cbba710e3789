//! Tests of the settings of devices and caches: network cards, PCI devices, cache partitions.

use crate::apply::apply_on;
use crate::plan_tests::{
    NEVER, applied, kill_apply, line, plan, request, reverted, status, why_left_out,
};
use crate::testing::{Fault, Faulty, Machine};
use crate::{Hold, How, Options, TuneError};

const LINK: &str = "sys/bus/pci/devices/0000:01:00.0/link";
const RESCTRL: &str = "sys/fs/resctrl";

impl Machine {
    /// Devices that can sleep, and a cache with 12 ways that can be divided.
    pub(crate) fn devices(&self) {
        self.write(
            "ethtool-eee/eth0",
            "eee on, active on, tx-lpi on, tx-timer 17, advertise 0x28\n",
        );
        const PCI: &str = "sys/bus/pci/devices";
        self.write(&format!("{PCI}/0000:00:02.0/power/control"), "auto\n");
        self.write(&format!("{PCI}/0000:01:00.0/power/control"), "on\n");
        for (state, on) in [
            ("l0s_aspm", "1\n"),
            ("l1_aspm", "1\n"),
            ("l1_1_aspm", "1\n"),
            ("l1_2_aspm", "0\n"),
            ("clkpm", "1\n"),
        ] {
            self.write(&format!("{PCI}/0000:01:00.0/link/{state}"), on);
        }
        for (file, text) in [
            ("schemata", "    MB:0=100\n    L3:0=fff\n"),
            ("cpus_list", "0-3\n"),
            ("info/L3/cbm_mask", "fff\n"),
            ("info/L3/min_cbm_bits", "2\n"),
            ("info/L3/shareable_bits", "c00\n"),
        ] {
            self.write(&format!("{RESCTRL}/{file}"), text);
        }
        for cpu in 0..4 {
            for (index, level) in ["1", "1", "2", "3"].into_iter().enumerate() {
                let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
                self.write(&format!("{folder}/level"), level);
                self.write(&format!("{folder}/id"), "0\n");
            }
        }
    }
}

/// A change: the setting, a file, and the text that the file has after the change.
const CHANGES: [(&str, &str, &str); 9] = [
    (
        "eee=off",
        "ethtool-eee/eth0",
        "eee off, active off, tx-lpi on, tx-timer 17, advertise 0x0",
    ),
    (
        "tx-coalescing-us=0",
        "ethtool/eth0",
        "adaptive-rx on, rx-usecs 50, rx-frames 64, adaptive-tx off, tx-usecs 0, tx-frames 1",
    ),
    (
        "rx-coalescing-us=0",
        "ethtool/eth0",
        "adaptive-rx off, rx-usecs 0, rx-frames 1, adaptive-tx on, tx-usecs 80, tx-frames 9",
    ),
    (
        "pci-runtime-power=on",
        "sys/bus/pci/devices/0000:00:02.0/power/control",
        "on",
    ),
    (
        "pci-runtime-power@0000:01:*=auto",
        "sys/bus/pci/devices/0000:01:00.0/power/control",
        "auto",
    ),
    (
        "pci-link-power=off",
        "sys/bus/pci/devices/0000:01:00.0/link/l1_1_aspm",
        "0",
    ),
    (
        "pci-link-power@0000:01:00.0=l1_aspm,clkpm",
        "sys/bus/pci/devices/0000:01:00.0/link/l1_1_aspm",
        "0",
    ),
    (
        "cache-partition=2-3:4",
        "sys/fs/resctrl/schemata",
        "MB:0=100\n    L3:0=ff0",
    ),
    (
        "cache-partition=3:2",
        "sys/fs/resctrl/punctual/schemata",
        "MB:0=100\n    L3:0=3",
    ),
];

#[test]
fn devices_and_caches_are_restored_exactly() {
    for (wish, file, text) in CHANGES {
        let machine = Machine::controller(true);
        let before = machine.snapshot();
        applied(&machine, &request("", &[wish], "")).unwrap();
        assert_eq!(machine.get(file), text, "{wish}");
        assert!(status(&machine).unwrap().holds(), "{wish}");
        let restored = reverted(&machine).unwrap();
        assert_eq!(restored.len(), 1, "{wish}: {restored:?}");
        assert_eq!(machine.snapshot(), before, "{wish}");
    }
}

#[test]
fn devices_and_caches_are_restored_after_any_kill() {
    const FAULTS: [Fault; 4] = [
        Fault::EndsBefore,
        Fault::EndsWithin,
        Fault::EndsAfter,
        Fault::Fails,
    ];
    let machine = Machine::controller(true);
    for (wish, ..) in CHANGES {
        let wish = request("", &[wish], "");
        let files = Faulty::on(&machine, Fault::EndsBefore, NEVER);
        let all = plan(&machine, &wish).unwrap();
        let (host, places) = (machine.host(), machine.places());
        apply_on(files.boxed(), &all, host, &places, Options::default()).unwrap();
        reverted(&machine).unwrap();
        for at in 0..files.steps().len() {
            for fault in FAULTS {
                kill_apply(&machine, &wish, fault, at);
            }
        }
    }
}

#[test]
fn value_in_force_is_not_changed() {
    let machine = Machine::controller(true);
    for (wish, now) in [
        ("eee=on", "eee on"),
        ("pci-runtime-power@0000:01:*=on", "on -> on"),
        ("pci-link-power=l1_1_aspm,l0s_aspm,l1_aspm,clkpm", "clkpm"),
    ] {
        let all = plan(&machine, &request("", &[wish], "")).unwrap();
        assert_eq!(all.changes().count(), 0, "{wish}");
        assert!(line(&all, &all.steps[0].label).contains(now), "{wish}");
    }
    applied(&machine, &request("", &["cache-partition=2-3:4"], "")).unwrap();
    let again = plan(&machine, &request("", &["cache-partition=2-3:4"], "")).unwrap();
    assert_eq!(again.changes().count(), 0);
    let other = plan(&machine, &request("", &["cache-partition=2:4"], "")).unwrap_err();
    assert!(other.to_string().contains("already exists"), "{other}");
    reverted(&machine).unwrap();
}

#[test]
fn missing_support_is_reported_with_reason() {
    let machine = Machine::controller(true);
    for file in ["ethtool/eth0", "ethtool-eee/eth0", "sys/bus/pci", RESCTRL] {
        machine.remove(file);
    }
    for (wish, reason) in [
        ("eee=off", "no driver of a network card"),
        ("tx-coalescing-us=0", "no driver of a network card"),
        ("pci-runtime-power=on", "power/control does not exist"),
        ("pci-link-power=off", "the firmware controls"),
        (
            "cache-partition=2:4",
            "mount -t resctrl resctrl /sys/fs/resctrl",
        ),
    ] {
        let error = plan(&machine, &request("", &[wish], "")).unwrap_err();
        assert!(matches!(error, TuneError::Absent { .. }), "{wish}: {error}");
        assert!(error.to_string().contains(reason), "{wish}: {error}");
    }
    let all = plan(&machine, &request("control", &[], "2-3")).unwrap();
    assert!(why_left_out(&all, "pci-runtime-power").contains("does not exist"));
}

#[test]
fn card_without_time_limit_refuses_a_time() {
    let machine = Machine::controller(true);
    machine.write("ethtool/eth0", "rx-usecs 3, tx-frames 9\n");
    let error = plan(&machine, &request("", &["tx-coalescing-us=5"], "")).unwrap_err();
    assert!(error.to_string().contains("only a time of 0"), "{error}");
    applied(&machine, &request("", &["tx-coalescing-us=0"], "")).unwrap();
    assert_eq!(machine.get("ethtool/eth0"), "rx-usecs 3, tx-frames 1");
    reverted(&machine).unwrap();
}

#[test]
fn link_accepts_only_its_states() {
    let machine = Machine::controller(true);
    for (wish, reason) in [
        ("pci-link-power=l1_2_pcipm", "no state l1_2_pcipm"),
        ("pci-link-power=on", "`off`, or the states"),
        ("pci-link-power@0000:09:00.0=off", "there are 0000:01:00.0"),
    ] {
        let error = plan(&machine, &request("", &[wish], "")).unwrap_err();
        assert!(error.to_string().contains(reason), "{wish}: {error}");
    }
    // A text that is neither 0 nor 1 is not taken for off.
    machine.write(&format!("{LINK}/l1_aspm"), "?\n");
    let error = plan(&machine, &request("", &["pci-link-power=off"], "")).unwrap_err();
    assert!(error.to_string().contains("reads '?'"), "{error}");
}

#[test]
fn unplugged_device_needs_no_restoring() {
    let machine = Machine::controller(true);
    applied(&machine, &request("", &["pci-link-power=off"], "")).unwrap();
    machine.remove("sys/bus/pci/devices/0000:01:00.0");
    assert_eq!(status(&machine).unwrap().settings[0].state, Hold::Gone);
    assert_eq!(reverted(&machine).unwrap()[0].how, How::Gone);
}

#[test]
fn unplugged_card_needs_no_restoring() {
    for wish in ["eee=off", "rx-coalescing-us=0", "tx-coalescing-us=0"] {
        let machine = Machine::controller(true);
        applied(&machine, &request("", &[wish], "")).unwrap();
        // A card whose driver does not answer is still there.
        let answer = machine.get("ethtool/eth0");
        let eee = machine.get("ethtool-eee/eth0");
        machine.remove("ethtool/eth0");
        machine.remove("ethtool-eee/eth0");
        let state = status(&machine).unwrap().settings[0].state.clone();
        assert!(matches!(state, Hold::Unknown { .. }), "{wish}: {state:?}");
        let error = reverted(&machine).unwrap_err().to_string();
        assert!(error.contains("ethtool -"), "{wish}: {error}");
        machine.write("ethtool/eth0", &answer);
        machine.write("ethtool-eee/eth0", &eee);
        machine.remove("sys/class/net/eth0");
        assert_eq!(
            status(&machine).unwrap().settings[0].state,
            Hold::Gone,
            "{wish}"
        );
        assert_eq!(reverted(&machine).unwrap()[0].how, How::Gone, "{wish}");
    }
}

#[test]
fn impossible_cache_partitions_are_refused() {
    let refused = |machine: &Machine, wish: &str| {
        let before = machine.snapshot();
        let error = applied(machine, &request("", &[wish], "")).unwrap_err();
        assert_eq!(machine.snapshot(), before, "{wish}");
        error.to_string()
    };
    let machine = Machine::controller(true);
    for (wish, reason) in [
        ("cache-partition=2-3", "a colon and a number"),
        ("cache-partition=2-3:many", "a colon and a number"),
        ("cache-partition=measured:4", "--cpus"),
        ("cache-partition=0-3:4", "contains all CPUs"),
        ("cache-partition=9:4", "not online"),
        ("cache-partition=2-3:1", "use 2 to 10"),
        ("cache-partition=2-3:11", "use 2 to 10"),
    ] {
        let error = refused(&machine, wish);
        assert!(error.contains(reason), "{wish}: {error}");
    }
    // Another group has some of the CPUs, or some of the ways.
    machine.write(&format!("{RESCTRL}/other/schemata"), "    L3:0=30\n");
    machine.write(&format!("{RESCTRL}/other/cpus_list"), "1\n");
    for (wish, reason) in [
        ("cache-partition=1-2:2", "CPU 1 is in the group other"),
        ("cache-partition=2-3:5", "the group other uses"),
    ] {
        let error = refused(&machine, wish);
        assert!(error.contains(reason), "{wish}: {error}");
    }
    applied(&machine, &request("", &["cache-partition=2-3:4"], "")).unwrap();
    reverted(&machine).unwrap();

    machine.remove(&format!("{RESCTRL}/other"));
    machine.write(&format!("{RESCTRL}/schemata"), "    L3:0=f\n");
    let error = refused(&machine, "cache-partition=2-3:3");
    assert!(error.contains("would keep too few"), "{error}");
    let cdp = "L3CODE:0=fff\nL3DATA:0=fff\n";
    machine.write(&format!("{RESCTRL}/schemata"), cdp);
    let error = refused(&machine, "cache-partition=2-3:4");
    assert!(error.contains("option cdp"), "{error}");
    machine.write(&format!("{RESCTRL}/schemata"), "    L3:0=fff\n");
    machine.remove("sys/devices/system/cpu/cpu3/cache");
    let error = refused(&machine, "cache-partition=2-3:4");
    assert!(error.contains("which L3 cache CPU 3 has"), "{error}");
}

#[test]
fn partition_returns_cpus_and_reports_shared_ways() {
    let machine = Machine::controller(true);
    let done = applied(&machine, &request("", &["cache-partition=2-3:10"], "")).unwrap();
    assert_eq!(machine.get(&format!("{RESCTRL}/cpus_list")), "0-1");
    assert_eq!(machine.get(&format!("{RESCTRL}/punctual/cpus_list")), "2-3");
    assert!(done.remarks.is_empty(), "{:?}", done.remarks);
    reverted(&machine).unwrap();
    assert_eq!(machine.get(&format!("{RESCTRL}/cpus_list")), "0-3");
    machine.write(&format!("{RESCTRL}/info/L3/shareable_bits"), "3\n");
    let done = applied(&machine, &request("", &["cache-partition=2-3:2"], "")).unwrap();
    assert!(done.remarks[0].contains("devices also use"), "{done:?}");
    reverted(&machine).unwrap();
}
