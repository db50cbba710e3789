//! Machines whose files are generated, because storing them would take thousands of files.

use std::fs;
use std::path::Path;

/// Writes a server with 64 CPUs, two nodes and two threads per core. Most CPUs of node 1 are
/// isolated for spinning threads.
pub(crate) fn server(root: &Path) {
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
        ("/sys/class/net/eth0/device/uevent", "DRIVER=ice"),
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
        for (file, text) in [
            ("related_cpus", n.to_string().as_str()),
            ("scaling_governor", "performance"),
            ("scaling_min_freq", "2600000"),
            ("scaling_max_freq", "2600000"),
        ] {
            put(format!("{cpu}/cpufreq/policy{n}/{file}"), text);
        }
        put(format!("{cpu}/cpu{n}/cpufreq/cpuinfo_max_freq"), "3100000");
        put(
            format!("/sys/class/net/eth0/queues/rx-{n}/rps_cpus"),
            "00000000,00000000",
        );
        // The card has one queue per CPU, and the kernel has set the affinity of each queue's
        // interrupt.
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
