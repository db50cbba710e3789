//! The whole audit of each kind of machine.

// Helpers of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use punctual_checks::{Request, audit, patterns};
use punctual_host::Host;
use punctual_model::FactSet;

fn tree(name: &str) -> FactSet {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/trees");
    Host::new(trees.join(name)).capture(&patterns())
}

/// An audit as lines: what a change of a check shows up in.
fn lines(facts: &FactSet, role: &str, cpus: Option<&str>) -> String {
    let request = Request {
        role: role.parse().unwrap(),
        cpus: cpus.map(|list| list.parse().unwrap()),
    };
    let audit = audit(facts, &request).unwrap();
    let mut text = format!(
        "CPU {} ({})\n{}\nworst expected: {:?}\n",
        audit.cpus,
        audit.cpus_because,
        audit.summary(),
        audit.expectation.worst_ns
    );
    for finding in &audit.findings {
        let _ = writeln!(
            text,
            "{:<14} {:<6} {}: {}",
            finding.state, finding.severity, finding.id, finding.found
        );
    }
    text
}

#[test]
fn controller() {
    insta::assert_snapshot!(lines(&tree("controller"), "control", None));
}

#[test]
fn laptop() {
    insta::assert_snapshot!(lines(&tree("laptop"), "audio", None));
}

#[test]
fn cloud() {
    insta::assert_snapshot!(lines(&tree("cloud"), "control", None));
}

#[test]
fn arm_board() {
    insta::assert_snapshot!(lines(&tree("arm-board"), "control", Some("2")));
}

/// 64 CPUs, two nodes, two threads a core: most of node 1 is isolated, for
/// threads that spin.
fn server(root: &Path) {
    let put = |file: String, text: &str| {
        let path = root.join(file.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    };
    let cpu = "/sys/devices/system/cpu";
    for (file, text) in [
        ("/proc/sys/kernel/osrelease", "6.12.8"),
        ("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC"),
        ("/proc/sys/kernel/hostname", "rack-4"),
        (
            "/proc/cmdline",
            "isolcpus=managed_irq,domain,17-31,49-63 nohz_full=17-31,49-63 rcu_nocb_poll skew_tick=1 preempt=full tsc=reliable iommu=pt irqaffinity=0-16,32-48",
        ),
        (
            "/boot/config-6.12.8",
            "CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\nCONFIG_HZ=1000\nCONFIG_HIGH_RES_TIMERS=y\n# CONFIG_PREEMPT_RT is not set\n# CONFIG_PROVE_LOCKING is not set",
        ),
        ("/sys/devices/system/cpu/online", "0-63"),
        ("/sys/devices/system/cpu/present", "0-63"),
        ("/sys/devices/system/cpu/isolated", "17-31,49-63"),
        ("/sys/devices/system/cpu/nohz_full", "17-31,49-63"),
        ("/sys/devices/system/cpu/smt/control", "on"),
        ("/sys/devices/system/cpu/smt/active", "1"),
        ("/sys/devices/system/node/online", "0-1"),
        ("/sys/devices/system/node/node0/cpulist", "0-15,32-47"),
        ("/sys/devices/system/node/node1/cpulist", "16-31,48-63"),
        (
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            "tsc",
        ),
        ("/sys/class/net/eth0/device/numa_node", "0"),
        (
            "/sys/class/net/eth0/queues/rx-0/rps_cpus",
            "00000000,00000000",
        ),
        ("/sys/class/net/eth1/device/numa_node", "1"),
        (
            "/proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t: fpu constant_tsc nonstop_tsc cat_l3",
        ),
        ("/proc/irq/default_smp_affinity", "0001ffff,0001ffff"),
        ("/proc/sys/kernel/timer_migration", "1"),
        ("/proc/sys/kernel/numa_balancing", "1"),
        ("/proc/sys/kernel/watchdog", "1"),
        ("/proc/sys/kernel/soft_watchdog", "1"),
        ("/proc/sys/kernel/watchdog_cpumask", "0-16,32-48"),
        (
            "/sys/devices/virtual/workqueue/cpumask",
            "0001ffff,0001ffff",
        ),
    ] {
        put(file.to_owned(), text);
    }
    for n in 0..64 {
        let core = n % 32;
        let node = core / 16;
        put(
            format!("{cpu}/cpu{n}/topology/thread_siblings_list"),
            &format!("{core},{}", core + 32),
        );
        put(
            format!("{cpu}/cpu{n}/topology/core_id"),
            &(core % 16).to_string(),
        );
        put(
            format!("{cpu}/cpu{n}/topology/physical_package_id"),
            &node.to_string(),
        );
        put(
            format!("{cpu}/cpu{n}/cache/index3/shared_cpu_list"),
            &format!(
                "{}-{},{}-{}",
                node * 16,
                node * 16 + 15,
                node * 16 + 32,
                node * 16 + 47
            ),
        );
        put(
            format!("{cpu}/cpu{n}/cpufreq/scaling_governor"),
            "performance",
        );
        put(format!("{cpu}/cpu{n}/cpufreq/scaling_min_freq"), "2600000");
        put(format!("{cpu}/cpu{n}/cpufreq/scaling_max_freq"), "2600000");
        put(format!("{cpu}/cpu{n}/cpufreq/cpuinfo_max_freq"), "3100000");
        // A queue of the card for each CPU; the kernel placed them.
        let irq = 100 + n;
        let place = if n == 20 { n } else { n % 17 };
        put(
            format!("/proc/irq/{irq}/effective_affinity_list"),
            &place.to_string(),
        );
        put(
            format!("/proc/irq/{irq}/smp_affinity_list"),
            &place.to_string(),
        );
        put(
            format!("/sys/kernel/irq/{irq}/actions"),
            &format!("eth0-TxRx-{n}"),
        );
    }
}

#[test]
fn server_with_two_nodes() {
    let folder = tempfile::tempdir().unwrap();
    server(folder.path());
    let facts = Host::new(folder.path()).capture(&patterns());
    insta::assert_snapshot!(lines(&facts, "telco", None));
}

#[test]
fn facts_that_went_through_a_file_give_the_same_audit() {
    let folder = tempfile::tempdir().unwrap();
    server(folder.path());
    for facts in [
        tree("controller"),
        Host::new(folder.path()).capture(&patterns()),
    ] {
        let json = serde_json::to_string(&facts).unwrap();
        let again = FactSet::from_json(&json).unwrap();
        assert_eq!(
            lines(&facts, "control", None),
            lines(&again, "control", None)
        );
    }
}

#[test]
fn an_empty_folder_has_nothing_that_is_ok() {
    let folder = tempfile::tempdir().unwrap();
    let facts = Host::new(PathBuf::from(folder.path())).capture(&patterns());
    let text = lines(&facts, "control", Some("0"));
    assert!(!text.lines().any(|line| line.starts_with("ok ")), "{text}");
}
