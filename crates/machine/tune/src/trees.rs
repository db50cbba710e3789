//! Trees of other machines, and tests of the plans for these machines.

use std::fmt::Write;

use crate::plan_tests::{cpus, line, plan, request, why_left_out};
use crate::testing::Machine;

const CPU: &str = "sys/devices/system/cpu";

impl Machine {
    /// The files that every machine has.
    fn common(&self, online: &str) {
        for (file, text) in [
            ("proc/sys/vm/swappiness", "60\n"),
            ("proc/sys/vm/stat_interval", "1\n"),
            ("proc/sys/vm/dirty_ratio", "20\n"),
            ("proc/sys/vm/dirty_bytes", "0\n"),
            ("proc/sys/vm/dirty_background_ratio", "0\n"),
            ("proc/sys/vm/dirty_background_bytes", "1048576\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("proc/sys/kernel/timer_migration", "1\n"),
            ("proc/sys/kernel/nmi_watchdog", "1\n"),
            ("proc/sys/kernel/soft_watchdog", "1\n"),
            ("proc/sys/kernel/watchdog_cpumask", "0-3\n"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            ),
            ("sys/kernel/mm/ksm/run", "0\n"),
            ("sys/kernel/rcu_normal", "0\n"),
            ("sys/kernel/rcu_expedited", "1\n"),
            ("proc/cmdline", "quiet skew_tick=1 isolcpus=1\n"),
        ] {
            self.write(file, text);
        }
        self.write(&format!("{CPU}/online"), &format!("{online}\n"));
    }

    fn policy(&self, n: u32, serves: &str, governor: &str) {
        let folder = format!("{CPU}/cpufreq/policy{n}");
        for (file, text) in [
            ("scaling_governor", governor),
            ("scaling_available_governors", "performance powersave"),
            ("energy_performance_preference", "balance_power"),
            (
                "energy_performance_available_preferences",
                "default performance balance_performance balance_power power",
            ),
            ("scaling_min_freq", "2500000"),
            ("scaling_max_freq", "3500000"),
            // The kernel stores the requested limits in addition to the limits in force.
            ("request_min_freq", "2500000"),
            ("request_max_freq", "3500000"),
            ("cpuinfo_min_freq", "800000"),
            ("cpuinfo_max_freq", "3500000"),
            ("related_cpus", serves),
        ] {
            self.write(&format!("{folder}/{file}"), &format!("{text}\n"));
        }
    }

    fn idle_states(&self, cpu: u32, latencies: &[u32]) {
        for (state, latency) in latencies.iter().enumerate() {
            let folder = format!("{CPU}/cpu{cpu}/cpuidle/state{state}");
            self.write(&format!("{folder}/disable"), "0\n");
            self.write(&format!("{folder}/latency"), &format!("{latency}\n"));
        }
    }

    fn irq(&self, number: u32, affinity: &str, effective: &str, device: &str) {
        let folder = format!("proc/irq/{number}");
        self.write(&format!("{folder}/smp_affinity_list"), affinity);
        self.write(&format!("{folder}/effective_affinity_list"), effective);
        self.write(&format!("{folder}/{device}/name"), "");
    }

    fn kernel_thread(&self, tid: u32, name: &str, bound: &str) {
        let started = 100 + tid;
        let mut stat = format!("{tid} ({name}) S 2 0 0 0 -1 69238848");
        // Fields 10 to 22.
        let _ = write!(stat, " 0 0 0 0 0 0 0 0 20 0 1 0 {started}");
        // Fields 23 to 39 follow, then priority and policy.
        let _ = write!(stat, "{} 0 0 0 0 0", " 9".repeat(17));
        self.write(&format!("proc/{tid}/stat"), &stat);
        let status = format!("Name:\t{name}\nCpus_allowed_list:\t{bound}\n");
        self.write(&format!("proc/{tid}/status"), &status);
    }

    /// A controller on bare metal: two cores with four threads, and intel_pstate.
    pub(crate) fn controller(v2: bool) -> Self {
        let machine = Self::new();
        machine.common("0-3");
        for cpu in 0..4 {
            machine.policy(cpu, &cpu.to_string(), "powersave");
            let driver = format!("{CPU}/cpufreq/policy{cpu}/scaling_driver");
            machine.write(&driver, "intel_pstate\n");
            machine.idle_states(cpu, &[0, 2, 33, 133]);
            let siblings = format!("{CPU}/cpu{cpu}/topology/thread_siblings_list");
            // The sibling of thread N is thread N+2.
            machine.write(&siblings, &format!("{cpu}\n"));
            machine.write(&format!("{CPU}/cpu{cpu}/power/energy_perf_bias"), "6\n");
            machine.kernel_thread(20 + cpu, &format!("ksoftirqd/{cpu}"), &cpu.to_string());
        }
        machine.kernel_thread(40, "irq/24-eth0", "0-3");
        for (irq, device) in [(24, "eth0-rx-0"), (25, "ahci"), (30, "nvme0q1")] {
            machine.irq(irq, "0-3\n", "3\n", device);
        }
        machine.set_mode("proc/irq/30/smp_affinity_list", 0o444);
        for (file, text) in [
            (format!("{CPU}/intel_pstate/no_turbo"), "0\n"),
            (format!("{CPU}/intel_pstate/min_perf_pct"), "22\n"),
            (format!("{CPU}/smt/control"), "on\n"),
            ("sys/kernel/realtime".to_owned(), "1\n"),
            ("proc/irq/default_smp_affinity".to_owned(), "f\n"),
            (
                "sys/devices/virtual/workqueue/cpumask".to_owned(),
                "0000000f\n",
            ),
            ("sys/class/net/eth0/queues/rx-0/rps_cpus".to_owned(), "0\n"),
            (
                "ethtool/eth0".to_owned(),
                "adaptive-rx on, rx-usecs 50, rx-frames 64, adaptive-tx on, tx-usecs 80, tx-frames 9\n",
            ),
            (
                "etc/default/irqbalance".to_owned(),
                "# what irqbalance does\nIRQBALANCE_ONESHOT=\n",
            ),
            ("etc/os-release".to_owned(), "ID=debian\n"),
        ] {
            machine.write(&file, text);
        }
        machine.devices();
        machine.write("dev/cpu_dma_latency", "");
        std::fs::write(
            machine.host().root().join("dev/cpu_dma_latency"),
            2_000_000_000_i32.to_ne_bytes(),
        )
        .unwrap();
        if v2 {
            for (file, text) in [
                ("cgroup.controllers", "cpuset cpu memory\n"),
                ("cgroup.subtree_control", "cpu\n"),
                ("cgroup.procs", "1\n77\n"),
            ] {
                machine.write(&format!("sys/fs/cgroup/{file}"), text);
            }
        } else {
            for (file, text) in [
                ("cpuset.cpus", "0-3\n"),
                ("cpuset.mems", "0\n"),
                ("cpuset.sched_load_balance", "1\n"),
                ("tasks", "1\n77\n78\n"),
            ] {
                machine.write(&format!("sys/fs/cgroup/cpuset/{file}"), text);
            }
        }
        machine
    }

    /// A laptop: acpi-cpufreq, one policy for all CPUs, no real-time features.
    fn laptop() -> Self {
        let machine = Self::new();
        machine.common("0-3");
        machine.policy(0, "0 1 2 3", "powersave");
        machine.write(&format!("{CPU}/cpufreq/boost"), "1\n");
        machine.write(&format!("{CPU}/smt/control"), "notsupported\n");
        machine.write("proc/300/comm", "power-profiles-\n");
        machine.write("etc/os-release", "ID=fedora\n");
        machine
    }

    /// A server: 64 CPUs on 32 cores and two nodes.
    fn server() -> Self {
        let machine = Self::new();
        machine.common("0-63");
        for cpu in 0..64 {
            machine.policy(cpu, &cpu.to_string(), "performance");
            machine.idle_states(cpu, &[0, 2, 133]);
            let core = cpu % 32;
            machine.write(
                &format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"),
                &format!("{core},{}\n", core + 32),
            );
        }
        for irq in 100..228 {
            machine.irq(irq, "0-63\n", "5\n", "eth0-TxRx");
        }
        machine.write(&format!("{CPU}/smt/control"), "on\n");
        machine.write("proc/irq/default_smp_affinity", "ffffffff,ffffffff\n");
        machine.write("proc/400/comm", "irqbalance\n");
        machine.write("etc/os-release", "ID=\"rhel\"\n");
        machine
    }
}

#[test]
fn a_controller_gets_all_of_the_profile() {
    let machine = Machine::controller(true);
    let plan = plan(&machine, &request("control", &[], "2-3")).unwrap();
    for (setting, expected) in [
        ("governor@policy2", "powersave -> performance"),
        ("governor@policy0", "no governor@policy0"),
        ("idle-limit-us@cpu2/state2", "0 -> 1"),
        ("idle-limit-us@cpu2/state1", "no idle-limit-us@cpu2/state1"),
        ("irq-affinity@24", "0-3 -> 0-1"),
        ("default-irq-affinity", "f -> 3"),
        ("workqueue-cpus", "0000000f -> 3"),
        ("irqbalance-banned", "none -> 2-3"),
        // Throttling protects the machine, so the profile does not switch it off. Only an explicit
        // request does.
        ("rt-runtime-us", "no rt-runtime-us"),
        ("thp", "madvise -> never"),
        ("ksm", "0 -> 0"),
    ] {
        assert_eq!(line(&plan, setting), expected, "{setting}");
    }
    assert!(why_left_out(&plan, "compaction").contains("does not exist"));
    let boot: Vec<&str> = plan.boot.iter().map(|one| one.argument.as_str()).collect();
    assert_eq!(
        boot,
        [
            "isolcpus=managed_irq,domain,2-3",
            "irqaffinity=0-1",
            "rcu_nocbs=2-3",
            "threadirqs",
            "skew_tick=1"
        ]
    );
    assert_eq!(plan.boot[0].instead.as_deref(), Some("isolcpus=1"));
    assert!(plan.boot[4].present);
    assert!(plan.boot_instructions[1].contains("update-grub"));
}

#[test]
fn laptop_reports_missing_settings_and_other_tuners() {
    let machine = Machine::laptop();
    let low = plan(&machine, &request("low-latency", &["turbo=off"], "2")).unwrap();
    assert_eq!(line(&low, "turbo"), "on -> off");
    assert_eq!(line(&low, "governor@policy0"), "powersave -> performance");
    assert!(
        low.remarks
            .contains(&"policy0 also applies to CPU 0-1,3".to_owned())
    );
    assert!(
        low.remarks
            .iter()
            .any(|text| text.starts_with("power-profiles-"))
    );
    assert!(low.boot_instructions[1].contains("grubby"));
    for missing in ["irq-affinity", "dma-latency-us", "irqbalance-banned"] {
        assert!(!why_left_out(&low, missing).is_empty(), "{missing}");
    }
    let error = plan(&machine, &request("", &["smt=off"], "")).unwrap_err();
    assert!(
        error.to_string().contains("reads 'notsupported'"),
        "{error}"
    );
}

#[test]
fn a_server_is_planned_cpu_by_cpu() {
    let machine = Machine::server();
    let on = "8-31";
    let low = plan(&machine, &request("low-latency", &["smt=off"], on)).unwrap();
    let count = |name: &str| {
        low.steps
            .iter()
            .filter(|step| step.setting.name == name)
            .count()
    };
    assert_eq!(count("governor"), 24);
    assert_eq!(count("irq-affinity"), 128);
    // The plan also takes the cores' second threads offline.
    assert_eq!(line(&low, "irq-affinity@100"), "0-63 -> 0-7");
    assert_eq!(
        line(&low, "default-irq-affinity"),
        "ffffffff,ffffffff -> ff"
    );
    assert_eq!(low.steps.last().unwrap().setting.name, "smt");
    assert!(
        low.remarks
            .iter()
            .any(|text| text.starts_with("irqbalance is running (process 400)"))
    );
    let mask = plan(
        &machine,
        &request("", &["default-irq-affinity=housekeeping"], on),
    )
    .unwrap();
    assert_eq!(
        line(&mask, "default-irq-affinity"),
        "ffffffff,ffffffff -> ffffffff,000000ff"
    );
    let error = plan(&machine, &request("", &["smt=off"], "40")).unwrap_err();
    assert!(error.to_string().contains("second thread"), "{error}");
    assert_eq!(cpus("8-31").len(), 24);
}

#[test]
fn frequency_limits_never_cross() {
    let machine = Machine::controller(false);
    let names = |sets: &[&str]| {
        let plan = plan(&machine, &request("", sets, "")).unwrap();
        let steps = plan.steps.iter().filter(|step| step.instance == "policy1");
        steps.map(|step| step.setting.name).collect::<Vec<_>>()
    };
    // The current limits are 2.5 and 3.5 GHz.
    assert_eq!(
        names(&["freq-max=1000000", "freq-min=800000"]),
        ["freq-min", "freq-max"]
    );
    assert_eq!(
        names(&["freq-max=max", "freq-min=max"]),
        ["freq-max", "freq-min"]
    );
    let error = plan(&machine, &request("", &["freq-max=1"], "")).unwrap_err();
    assert!(error.to_string().contains("800000 to 3500000"), "{error}");
}

#[test]
fn the_narrower_wish_wins_wherever_it_stands() {
    let machine = Machine::controller(false);
    let plan = plan(
        &machine,
        &request("", &["irq-affinity@eth0*=1", "irq-affinity=0"], ""),
    )
    .unwrap();
    assert_eq!(line(&plan, "irq-affinity@24"), "0-3 -> 1");
    assert_eq!(line(&plan, "irq-affinity@25"), "0-3 -> 0");
}

#[test]
fn threads_bound_elsewhere_are_left_alone() {
    let machine = Machine::controller(false);
    let wish = ["thread-priority@*=fifo:3"];
    let plan = plan(&machine, &request("", &wish, "2")).unwrap();
    let names: Vec<&str> = plan.steps.iter().map(|step| step.label.as_str()).collect();
    assert_eq!(
        names,
        [
            "thread-priority@ksoftirqd/2 (22)",
            "thread-priority@irq/24-eth0 (40)"
        ]
    );
}

#[test]
fn out_of_range_profile_value_is_located() {
    let machine = Machine::controller(false);
    let profile = crate::Profile::parse(
        "mine.toml",
        "summary = \"x\"\n[settings]\nswappiness = 10\nstat-interval-s = 0\n",
    )
    .unwrap();
    let request = crate::Request {
        profile: Some(profile),
        ..crate::Request::default()
    };
    let error = plan(&machine, &request).unwrap_err().to_string();
    insta::assert_snapshot!(error, @r"
    mine.toml:4:19: stat-interval-s: '0' is not valid: it takes a number from 1 to 86400
      stat-interval-s = 0
                        ^
    ");
}

#[test]
fn crossed_frequency_limits_are_refused_before_writing() {
    let machine = Machine::controller(false);
    for sets in [
        &["freq-max=1000000", "freq-min=1200000"][..],
        &["freq-max=1000000", "freq-min@policy2=max"],
    ] {
        let error = plan(&machine, &request("", sets, "")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("(freq-max) is 1000000"), "{text}");
    }
    // If the maximum is set below the minimum, the kernel lowers the minimum.
    assert!(plan(&machine, &request("", &["freq-max=1000000"], "")).is_ok());
}

#[test]
fn preference_follows_governor_visibly() {
    let machine = Machine::controller(false);
    let names = |sets: &[&str]| {
        let plan = plan(&machine, &request("", sets, "")).unwrap();
        let steps = plan.changes().filter(|step| step.instance == "policy1");
        steps
            .map(|step| format!("{} {}", step.setting.name, step.target))
            .collect::<Vec<_>>()
    };
    let performance = ["energy-preference performance", "governor performance"];
    assert_eq!(names(&["governor=performance"]), performance);
    assert_eq!(
        names(&["governor=performance", "energy-preference=performance"]),
        performance
    );
    assert_eq!(names(&["governor=powersave"]), [""; 0]);
    let policy = "sys/devices/system/cpu/cpufreq/policy1";
    machine.write(&format!("{policy}/scaling_governor"), "performance\n");
    machine.write(
        &format!("{policy}/energy_performance_preference"),
        "performance\n",
    );
    assert_eq!(
        names(&["governor=powersave", "energy-preference=power"]),
        ["governor powersave", "energy-preference power"]
    );
    // If the driver does not couple the preference to the governor, no preference is added to the
    // plan.
    machine.write(&format!("{policy}/scaling_governor"), "powersave\n");
    machine.write(&format!("{policy}/scaling_driver"), "intel_cpufreq\n");
    assert_eq!(names(&["governor=performance"]), ["governor performance"]);
}

#[test]
fn forbidden_smt_is_absent() {
    let machine = Machine::controller(false);
    for state in ["forceoff", "notsupported", "notimplemented"] {
        machine.write(&format!("{CPU}/smt/control"), &format!("{state}\n"));
        let error = plan(&machine, &request("", &["smt=on"], "")).unwrap_err();
        assert!(error.to_string().contains(state), "{error}");
    }
}

#[test]
fn kernel_version_decides_spinning_thread_safeguard() {
    let fair = "sys/kernel/debug/sched/fair_server";
    let of = |release: &str, groups: bool, debugfs: bool| {
        let machine = Machine::controller(true);
        machine.write("proc/sys/kernel/osrelease", &format!("{release}\n"));
        if groups {
            machine.write("sys/fs/cgroup/cpu/cpu.rt_runtime_us", "950000\n");
        }
        for cpu in (0..4).filter(|_| debugfs) {
            machine.write(&format!("{fair}/cpu{cpu}/runtime"), "50000000\n");
        }
        plan(&machine, &request("low-latency", &[], "2-3")).unwrap()
    };
    let keeps = |plan: &crate::Plan| {
        plan.remarks
            .iter()
            .any(|text| text.contains("reserves a share"))
    };
    let throttle = "950000 -> -1";

    let old = of("6.1.0-rt5", false, false);
    assert_eq!(line(&old, "rt-runtime-us"), throttle);
    assert!(why_left_out(&old, "fair-server-runtime-ns").contains("6.1 has no fair server"));
    assert!(!keeps(&old));

    let new = of("6.12.8", false, true);
    assert!(why_left_out(&new, "rt-runtime-us").contains("fair server applies"));
    assert_eq!(line(&new, "fair-server-runtime-ns@cpu2"), "50000000 -> 0");
    assert_eq!(
        line(&new, "fair-server-runtime-ns@cpu0"),
        "no fair-server-runtime-ns@cpu0"
    );
    assert!(!keeps(&new));

    // Without debugfs, the fair server's share cannot be removed, and a remark says so.
    assert!(keeps(&of("7.0.1-arch1", false, false)));
    // Both mechanisms are in effect if each control group has its own share.
    let grouped = of("6.18.44", true, true);
    assert_eq!(line(&grouped, "rt-runtime-us"), throttle);
    assert_eq!(
        line(&grouped, "fair-server-runtime-ns@cpu2"),
        "50000000 -> 0"
    );
    assert!(!keeps(&grouped));
    // A setting that is named explicitly is changed, and the same remark is added.
    let machine = Machine::controller(true);
    machine.write("proc/sys/kernel/osrelease", "6.12.8\n");
    let named = plan(&machine, &request("control", &["rt-runtime-us=-1"], "2-3")).unwrap();
    assert_eq!(line(&named, "rt-runtime-us"), throttle);
    assert!(keeps(&named));
}

#[test]
fn ext_server_is_set_beside_the_fair_server() {
    let of = |release: &str, state: &str, has_file: bool| {
        let machine = Machine::controller(true);
        machine.write("proc/sys/kernel/osrelease", &format!("{release}\n"));
        machine.write("sys/kernel/sched_ext/state", &format!("{state}\n"));
        for cpu in (0..4).filter(|_| has_file) {
            let file = format!("sys/kernel/debug/sched/ext_server/cpu{cpu}/runtime");
            machine.write(&file, "50000000\n");
        }
        plan(
            &machine,
            &request("low-latency", &["rt-runtime-us=-1"], "2-3"),
        )
        .unwrap()
    };
    let remark = |plan: &crate::Plan| {
        let of_ext = |text: &String| text.contains("for threads of a sched_ext scheduler");
        plan.remarks.iter().any(of_ext)
    };
    let old = of("6.18.44", "enabled", false);
    assert!(why_left_out(&old, "ext-server-runtime-ns").contains("no ext server, which needs 7.0"));
    assert!(!remark(&old));

    let new = of("7.0.1", "enabled", true);
    assert_eq!(line(&new, "ext-server-runtime-ns@cpu3"), "50000000 -> 0");
    assert!(!remark(&new));
    assert!(remark(&of("7.0.1", "enabled", false)));
    assert!(!remark(&of("7.0.1", "disabled", false)));
}
