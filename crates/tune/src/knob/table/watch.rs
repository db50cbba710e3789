//! Watchdogs and RCU.

use super::super::{Knob, Place, Risk, Scope, Values};
use super::{BIG, ON_OFF, each, machine, up_to};

pub(super) const ROWS: &[Knob] = &[
    // Watchdogs. kernel.watchdog is both of the two parts: set by itself, it
    // would lose which of them was on (kernel/watchdog.c, proc_watchdog).
    Knob {
        place: Place::Parts(&[
            ("nmi", "/proc/sys/kernel/nmi_watchdog"),
            ("soft", "/proc/sys/kernel/soft_watchdog"),
        ]),
        ..machine(
            "watchdog",
            "whether CPUs that hang are noticed: by a periodic NMI, by a periodic timer",
            "",
            ON_OFF,
        )
    }
    .risk(Risk::Medium, "Off: a CPU that hangs goes unnoticed.")
    .from("Documentation/admin-guide/lockup-watchdogs.rst"),
    machine(
        "watchdog-cpus",
        "the CPUs that are watched for hanging",
        "/proc/sys/kernel/watchdog_cpumask",
        Values::List,
    )
    .risk(Risk::Medium, "Other CPUs that hang go unnoticed.")
    .from("Documentation/admin-guide/sysctl/kernel.rst"),
    machine(
        "watchdog-threshold-s",
        "after how many seconds a CPU counts as hanging",
        "/proc/sys/kernel/watchdog_thresh",
        up_to(60),
    )
    .risk(Risk::Medium, "0 turns the watchdogs off.")
    .from("Documentation/admin-guide/sysctl/kernel.rst"),
    machine(
        "hung-task-timeout-s",
        "after how many seconds a blocked task is reported; 0: never",
        "/proc/sys/kernel/hung_task_timeout_secs",
        up_to(BIG),
    )
    .risk(Risk::Low, "Tasks that hang are reported later.")
    .from("Documentation/admin-guide/sysctl/kernel.rst"),
    each(
        "mce-ignore-corrected",
        "whether errors of memory and caches that were corrected are left unpolled",
        "/sys/devices/system/machinecheck/machinecheck#/ignore_ce",
        ON_OFF,
        Scope::Cpu,
    )
    .risk(
        Risk::Medium,
        "On: memory that begins to fail is noticed late.",
    )
    .from("Documentation/ABI/testing/sysfs-mce"),
    machine(
        "perf-sample-rate",
        "how many samples a second perf may take, each an NMI",
        "/proc/sys/kernel/perf_event_max_sample_rate",
        Values::Number { min: 1, max: BIG },
    )
    .risk(Risk::Low, "perf samples less often.")
    .from("Documentation/admin-guide/sysctl/kernel.rst"),
    machine(
        "split-lock-mitigation",
        "whether a program that locks across cache lines is made to wait",
        "/proc/sys/kernel/split_lock_mitigate",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: such a program slows all others down.")
    .from("Documentation/admin-guide/sysctl/kernel.rst"),
    // RCU.
    machine(
        "rcu-normal",
        "whether expedited grace periods, which interrupt all CPUs, are made normal ones",
        "/sys/kernel/rcu_normal",
        ON_OFF,
    )
    .risk(Risk::Low, "On: some operations of the kernel take longer.")
    .from("Documentation/admin-guide/kernel-parameters.txt (rcupdate.rcu_normal)"),
    machine(
        "rcu-expedited",
        "whether all grace periods are expedited",
        "/sys/kernel/rcu_expedited",
        ON_OFF,
    )
    .risk(Risk::Low, "On: all CPUs are interrupted more often.")
    .from("Documentation/admin-guide/kernel-parameters.txt (rcupdate.rcu_expedited)"),
    machine(
        "rcu-stall-timeout-s",
        "after how many seconds a CPU that holds RCU up is reported",
        "/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout",
        Values::Number { min: 3, max: 300 },
    )
    .risk(Risk::Low, "Stalls are reported later.")
    .from("Documentation/RCU/stallwarn.rst"),
    machine(
        "rcu-stall-suppress",
        "whether CPUs that hold RCU up go unreported",
        "/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress",
        ON_OFF,
    )
    .risk(
        Risk::Medium,
        "On: a CPU that hangs in the kernel goes unreported.",
    )
    .from("Documentation/RCU/stallwarn.rst"),
];
