//! Interrupts, movable kernel work, the scheduler.

use super::super::{Risk, Scope, Setting, Values};
use super::{BIG, ON_OFF, each, machine, special, up_to};

pub(super) const ROWS: &[Setting] = &[
    // Interrupts.
    machine(
        "default-irq-affinity",
        "the affinity of new interrupts",
        "/proc/irq/default_smp_affinity",
        Values::Mask,
    )
    .risk(Risk::Low, "Affects only interrupts that are set up later.")
    .from("Documentation/core-api/irq/irq-affinity.rst")
    .wanted("housekeeping")
    .boot("irqaffinity={}"),
    special(
        "irq-affinity",
        "the affinity of an interrupt",
        "/proc/irq/#/smp_affinity_list", "number or name",
        Values::List,
    )
    .risk(Risk::Medium, "If a few CPUs handle all interrupts, they can become the bottleneck.")
    .from("Documentation/core-api/irq/irq-affinity.rst, kernel/irq/proc.c")
    .wanted("housekeeping")
    .boot("irqaffinity={}"),
    special(
        "irqbalance-banned",
        "the CPUs that irqbalance does not use, as set in its configuration file",
        "/etc/default/irqbalance or /etc/sysconfig/irqbalance", "",
        Values::List,
    )
    .risk(Risk::Low, "Changes a file in /etc, which irqbalance reads when it starts.")
    .from("irqbalance(1), IRQBALANCE_BANNED_CPULIST")
    .wanted("measured")
    .by_hand("it changes a file in /etc")
    .on_disk(),
    special(
        "thread-priority",
        "the scheduling of a kernel thread or interrupt thread",
        "/proc/PID/stat, sched_setattr(2)", "name of the thread, such as ksoftirqd/* or irq/24-*",
        Values::Own("`fifo:1` to `fifo:99`, `rr:1` to `rr:99`, `other`, `other:NICE`, `batch` or `idle`"),
    )
    .risk(Risk::High, "A kernel thread with a higher priority than the application delays the \
                       application; a priority that is too low can starve the kernel's work.")
    .from("sched(7), sched_setattr(2)")
    .selected(),
    // Kernel work that can move to other CPUs.
    machine(
        "workqueue-cpus",
        "the CPUs of the kernel's unbound workers",
        "/sys/devices/virtual/workqueue/cpumask",
        Values::Mask,
    )
    .risk(Risk::Low, "Fewer CPUs do the kernel's work.")
    .from("Documentation/core-api/workqueue.rst, affinity scopes; Documentation/admin-guide/kernel-per-CPU-kthreads.rst")
    .wanted("housekeeping")
    .boot("workqueue.unbound_cpus={}"),
    each(
        "workqueue-cpus-of",
        "the CPUs of one unbound workqueue",
        "/sys/devices/virtual/workqueue/*/cpumask",
        Values::Mask,
        Scope::Machine,
    )
    .risk(Risk::Low, "Fewer CPUs do the kernel's work.")
    .from("Documentation/core-api/workqueue.rst")
    .wanted("housekeeping"),
    special(
        "cpuset-partition",
        "CPUs in a separate cpuset without load balancing",
        "/sys/fs/cgroup/punctual/cpuset.cpus.partition, or /sys/fs/cgroup/cpuset/punctual (v1)", "",
        Values::Own("CPUs: a list or `measured`"),
    )
    .risk(Risk::High, "Other programs can no longer use these CPUs. With cgroup v1, all other \
                       programs are moved.")
    .from("Documentation/admin-guide/cgroup-v2.rst (cpuset.cpus.partition), cgroup-v1/cpusets.rst"),
    special(
        "cache-partition",
        "CPUs with ways of the third-level cache that no other CPU uses (resctrl)",
        "/sys/fs/resctrl/punctual", "",
        Values::Own("CPUs (a list or `measured`), a colon and a number of cache ways, such as \
                     `measured:4`"),
    )
    .risk(Risk::Medium, "All other programs have that much less cache.")
    .from("Documentation/filesystems/resctrl.rst, before Linux 6.17 Documentation/arch/x86/resctrl.rst"),
    // The scheduler.
    machine(
        "rt-runtime-us",
        "time that real-time threads may run in each period, in microseconds (-1: no limit)",
        "/proc/sys/kernel/sched_rt_runtime_us",
        Values::Number { min: -1, max: BIG },
    )
    .risk(Risk::High, "-1: before Linux 6.12, a real-time thread that loops occupies its CPU \
                       forever.")
    .from("Documentation/scheduler/sched-rt-group.rst")
    .wanted("-1"),
    each(
        "fair-server-runtime-ns",
        "time in each period that is reserved for normal threads on a CPU that real-time threads \
         occupy, in nanoseconds (Linux 6.12 and later)",
        "/sys/kernel/debug/sched/fair_server/cpu#/runtime",
        up_to(i64::MAX),
        Scope::Cpu,
    )
    .risk(Risk::High, "0: a real-time thread that loops starves all other threads on its CPU.")
    .from("kernel/sched/debug.c and deadline.c, fair_server (Linux 6.12)")
    .spinning("0"),
    each(
        "ext-server-runtime-ns",
        "time in each period that is reserved for threads of a sched_ext scheduler on a CPU that \
         real-time threads occupy, in nanoseconds (Linux 7.0 and later)",
        "/sys/kernel/debug/sched/ext_server/cpu#/runtime",
        up_to(i64::MAX),
        Scope::Cpu,
    )
    .risk(Risk::High, "0: a real-time thread that loops starves all threads of a sched_ext \
                       scheduler on its CPU.")
    .from("kernel/sched/debug.c and deadline.c, ext_server (Linux 7.0)")
    .spinning("0"),
    machine(
        "preempt",
        "the preemption model of the kernel",
        "/sys/kernel/debug/sched/preempt",
        Values::Marked,
    )
    .risk(Risk::Low, "More preemption costs some throughput.")
    .from("Documentation/admin-guide/kernel-parameters.txt (preempt)")
    .wanted("full")
    .boot("preempt={}"),
    machine(
        "timer-migration",
        "whether the timers of an idle CPU are moved to a CPU that is awake",
        "/proc/sys/kernel/timer_migration",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: timers stay on the CPU that starts them, even if that CPU is measured.")
    .from("kernel/time/timer.c, timer_migration; kernel/time/timer_migration.c (Linux 6.9)")
    .spinning("on").periodic("off"),
    machine(
        "numa-balancing",
        "whether memory is moved to the node of the CPU that uses it",
        "/proc/sys/kernel/numa_balancing",
        // The value has two bits: balancing between nodes, and between memory tiers.
        up_to(3),
    )
    .risk(Risk::Low, "Off: memory stays on the node where it was allocated.")
    .from("Documentation/admin-guide/sysctl/kernel.rst")
    .wanted("0")
    .long(),
    machine(
        "autogroup",
        "whether the scheduler treats each session as a group",
        "/proc/sys/kernel/sched_autogroup_enabled",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: a large build takes more CPU time from desktop programs.")
    .from("sched(7), The autogroup feature")
    .wanted("off"),
    machine(
        "scheduler-statistics",
        "whether the scheduler counts each wake-up and switch",
        "/proc/sys/kernel/sched_schedstats",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: tools that show run-queue delays have no figures.")
    .from("Documentation/admin-guide/sysctl/kernel.rst")
    .wanted("off"),
    machine(
        "delay-accounting",
        "whether the waits of each thread for CPU, disk and memory are timed",
        "/proc/sys/kernel/task_delayacct",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: iotop and getdelays have no figures.")
    .from("Documentation/accounting/delay-accounting.rst")
    .wanted("off"),
    machine(
        "batch-migration",
        "number of threads that load balancing moves at once, with interrupts off",
        "/sys/kernel/debug/sched/nr_migrate",
        Values::Number { min: 1, max: BIG },
    )
    .risk(Risk::Low, "Low: the scheduler balances load more slowly.")
    .from("kernel/sched/core.c, sysctl_sched_nr_migrate")
    .wanted("8"),
    machine(
        "rt-clamp-min",
        "the minimum performance that schedutil requests for a real-time thread, on a scale up to \
         1024",
        "/proc/sys/kernel/sched_util_clamp_min_rt_default",
        up_to(1_024),
    )
    .risk(Risk::Low, "1024: real-time threads run at the highest frequency.")
    .from("Documentation/admin-guide/sysctl/kernel.rst")
    .wanted("1024"),
    machine(
        "energy-aware",
        "whether threads are placed to save energy",
        "/proc/sys/kernel/sched_energy_aware",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: costs power.")
    .from("Documentation/scheduler/sched-energy.rst")
    .wanted("off"),
];
