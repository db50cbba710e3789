//! Watchdogs and RCU.

use super::super::{Location, Risk, Scope, Setting, Values};
use super::{ALARM, BIG, ON_OFF, each, machine, up_to};

pub(super) const ROWS: &[Setting] = &[
    // Watchdogs. kernel.watchdog combines both parts. Writing to it would lose the information
    // about which part was on (kernel/watchdog.c, proc_watchdog).
    Setting {
        location: Location::Parts(&[
            ("nmi", "/proc/sys/kernel/nmi_watchdog"),
            ("soft", "/proc/sys/kernel/soft_watchdog"),
        ]),
        ..machine(
            "watchdog",
            "whether CPUs that hang are detected by a periodic NMI and by a periodic timer",
            "",
            ON_OFF,
        )
    }
    .risk(Risk::Medium, "Off: a CPU that hangs goes unnoticed.")
    .from("Documentation/admin-guide/lockup-watchdogs.rst")
    .wanted("off")
    .by_hand(ALARM),
    machine(
        "watchdog-cpus",
        "the CPUs on which the watchdogs detect hangs",
        "/proc/sys/kernel/watchdog_cpumask",
        Values::List,
    )
    .risk(Risk::Medium, "A hang of any other CPU goes unnoticed.")
    .from("Documentation/admin-guide/sysctl/kernel.rst")
    .wanted("housekeeping")
    .by_hand(ALARM),
    machine(
        "watchdog-threshold-s",
        "number of seconds after which a CPU counts as hung",
        "/proc/sys/kernel/watchdog_thresh",
        up_to(60),
    )
    .risk(Risk::Medium, "0 turns the watchdogs off.")
    .from("Documentation/admin-guide/sysctl/kernel.rst")
    .by_hand(ALARM),
    machine(
        "hung-task-timeout-s",
        "number of seconds after which a blocked task is reported; 0: never",
        "/proc/sys/kernel/hung_task_timeout_secs",
        up_to(BIG),
    )
    .risk(Risk::Low, "Tasks that hang are reported later.")
    .from("Documentation/admin-guide/sysctl/kernel.rst")
    .wanted("600")
    .by_hand(ALARM),
    each(
        "mce-ignore-corrected",
        "whether polling for corrected memory and cache errors is off",
        "/sys/devices/system/machinecheck/machinecheck#/ignore_ce",
        ON_OFF,
        Scope::Cpu,
    )
    .risk(Risk::Medium, "On: failing memory is detected late.")
    .from("Documentation/ABI/testing/sysfs-mce")
    .wanted("on")
    .boot("mce=ignore_ce")
    .by_hand(ALARM),
    machine(
        "perf-sample-rate",
        "maximum number of perf samples per second (each sample is an NMI)",
        "/proc/sys/kernel/perf_event_max_sample_rate",
        Values::Number { min: 1, max: BIG },
    )
    .risk(Risk::Low, "perf samples less often.")
    .from("Documentation/admin-guide/sysctl/kernel.rst"),
    machine(
        "split-lock-mitigation",
        "whether a program with locked accesses across cache lines is slowed down",
        "/proc/sys/kernel/split_lock_mitigate",
        ON_OFF,
    )
    .risk(
        Risk::Low,
        "Off: a program with such accesses slows down all other programs.",
    )
    .from("Documentation/admin-guide/sysctl/kernel.rst")
    .wanted("off"),
    // RCU.
    machine(
        "rcu-normal",
        "whether expedited grace periods, which interrupt all CPUs, are replaced by normal ones",
        "/sys/kernel/rcu_normal",
        ON_OFF,
    )
    .risk(Risk::Low, "On: some operations of the kernel take longer.")
    .from("Documentation/admin-guide/kernel-parameters.txt (rcupdate.rcu_normal)")
    .wanted("on")
    .boot("rcupdate.rcu_normal=1"),
    machine(
        "rcu-expedited",
        "whether all grace periods are expedited",
        "/sys/kernel/rcu_expedited",
        ON_OFF,
    )
    .risk(Risk::Low, "On: all CPUs are interrupted more often.")
    .from("Documentation/admin-guide/kernel-parameters.txt (rcupdate.rcu_expedited)")
    .wanted("off"),
    machine(
        "rcu-stall-timeout-s",
        "number of seconds after which a CPU that stalls RCU is reported",
        "/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout",
        Values::Number { min: 3, max: 300 },
    )
    .risk(Risk::Low, "Stalls are reported later.")
    .from("Documentation/RCU/stallwarn.rst")
    .by_hand(ALARM),
    machine(
        "rcu-stall-suppress",
        "whether reports of CPUs that stall RCU are suppressed",
        "/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress",
        ON_OFF,
    )
    .risk(
        Risk::Medium,
        "On: a CPU that hangs in the kernel goes unreported.",
    )
    .from("Documentation/RCU/stallwarn.rst")
    .by_hand(ALARM),
    machine(
        "perf-cpu-percent",
        "the share of CPU time that perf may take for its samples, in per cent; 0: no limit",
        "/proc/sys/kernel/perf_cpu_time_max_percent",
        up_to(100),
    )
    .risk(Risk::Low, "Low: perf samples less often.")
    .from("Documentation/admin-guide/sysctl/kernel.rst")
    .wanted("25"),
    machine(
        "bpf-statistics",
        "whether the run time of BPF programs is measured",
        "/proc/sys/kernel/bpf_stats_enabled",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: bpftool shows no run times.")
    .from("Documentation/admin-guide/sysctl/kernel.rst")
    .wanted("off"),
    machine(
        "latencytop",
        "whether each sleep is recorded with a backtrace",
        "/proc/sys/kernel/latencytop",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: latencytop shows nothing.")
    .from("kernel/latencytop.c")
    .wanted("off"),
    machine(
        "stack-tracer",
        "whether the stack depth is measured at each function",
        "/proc/sys/kernel/stack_tracer_enabled",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: the deepest stack is not recorded.")
    .from("Documentation/admin-guide/sysctl/kernel.rst")
    .wanted("off"),
    machine(
        "selinux-cache",
        "number of decisions that SELinux caches",
        "/sys/fs/selinux/avc/cache_threshold",
        up_to(BIG),
    )
    .risk(Risk::Low, "Takes memory.")
    .from("security/selinux/avc.c; tuned, profiles/network-latency")
    .wanted("8192"),
];
