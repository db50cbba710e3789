//! All settings, in the order in which they are changed; they are put back the
//! other way round.
//!
//! Ranges are the kernel's own where it checks (`kernel/sysctl.c`,
//! `mm/page-writeback.c`, `kernel/sched/rt.c`), and the type's otherwise: the
//! kernel has the last word, and what it does not take is rolled back.

use super::{Knob, Place, Risk, Scope, Values};
use crate::special;

/// A row of one file for the whole machine.
const fn machine(
    name: &'static str,
    summary: &'static str,
    path: &'static str,
    values: Values,
) -> Knob {
    Knob {
        name,
        summary,
        caution: "",
        risk: Risk::Low,
        source: "",
        place: Place::File(path),
        values,
        scope: Scope::Machine,
    }
}

/// A row of one file for each CPU or device.
const fn each(
    name: &'static str,
    summary: &'static str,
    pattern: &'static str,
    values: Values,
    scope: Scope,
) -> Knob {
    Knob {
        place: Place::Each(pattern),
        scope,
        ..machine(name, summary, "", values)
    }
}

/// A row that is more than files.
const fn special(
    name: &'static str,
    summary: &'static str,
    how: &'static dyn special::Special,
    values: Values,
) -> Knob {
    Knob {
        place: Place::Special(how),
        ..machine(name, summary, "", values)
    }
}

impl Knob {
    const fn risk(self, risk: Risk, caution: &'static str) -> Self {
        Self {
            risk,
            caution,
            ..self
        }
    }

    const fn from(self, source: &'static str) -> Self {
        Self { source, ..self }
    }
}

const ON_OFF: Values = Values::Switch;
const BIG: i64 = i32::MAX as i64;

const fn up_to(max: i64) -> Values {
    Values::Number { min: 0, max }
}

/// All settings. A new one is an entry here.
pub const KNOBS: &[Knob] = &[
    // The clock.
    //
    // The kernel takes any word and ignores one it does not know
    // (current_clocksource_store in kernel/time/clocksource.c), so only reading
    // back tells. A value once written stays the kernel's choice, also where it
    // would choose another later by itself: that much of a change cannot be
    // undone but by a reboot.
    machine(
        "clocksource",
        "the hardware clock that the kernel's clocks are made from",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        Values::Offered("/sys/devices/system/clocksource/clocksource0/available_clocksource"),
    )
    .risk(Risk::Medium, "A clock that is not stable on this machine makes time jump.")
    .from("Documentation/ABI/testing/sysfs-devices-clocksource"),
    // Power: what makes a CPU slow to react.
    each(
        "governor",
        "how the frequency of a CPU follows its load",
        "/sys/devices/system/cpu/cpufreq/policy#/scaling_governor",
        Values::Offered("/sys/devices/system/cpu/cpufreq/policy#/scaling_available_governors"),
        Scope::Policy,
    )
    .risk(Risk::Low, "A fixed high frequency costs power and makes heat.")
    .from("Documentation/admin-guide/pm/cpufreq.rst"),
    each(
        "energy-preference",
        "what the processor prefers where it chooses its frequency itself",
        "/sys/devices/system/cpu/cpufreq/policy#/energy_performance_preference",
        Values::Offered("/sys/devices/system/cpu/cpufreq/policy#/energy_performance_available_preferences"),
        Scope::Policy,
    )
    .risk(Risk::Low, "Preferring performance costs power and makes heat.")
    .from("Documentation/admin-guide/pm/intel_pstate.rst"),
    each(
        "energy-bias",
        "the processor's own balance of performance (0) and saving (15)",
        "/sys/devices/system/cpu/cpu#/power/energy_perf_bias",
        up_to(15),
        Scope::Cpu,
    )
    .risk(Risk::Low, "Preferring performance costs power and makes heat.")
    .from("Documentation/admin-guide/pm/intel_epb.rst"),
    special(
        "turbo",
        "whether the processor may run above its nominal frequency",
        &special::Turbo,
        Values::Own("`on` or `off`"),
    )
    .risk(Risk::Low, "Off: slower, and steadier. On: faster while it stays cool.")
    .from("Documentation/admin-guide/pm/intel_pstate.rst, cpufreq.rst"),
    each(
        "freq-max",
        "the highest frequency of a CPU, in kHz",
        "/sys/devices/system/cpu/cpufreq/policy#/scaling_max_freq",
        Values::Between {
            least: "/sys/devices/system/cpu/cpufreq/policy#/cpuinfo_min_freq",
            most: "/sys/devices/system/cpu/cpufreq/policy#/cpuinfo_max_freq",
        },
        Scope::Policy,
    )
    .risk(Risk::Low, "A lower limit makes everything slower.")
    .from("Documentation/admin-guide/pm/cpufreq.rst"),
    each(
        "freq-min",
        "the lowest frequency of a CPU, in kHz",
        "/sys/devices/system/cpu/cpufreq/policy#/scaling_min_freq",
        Values::Between {
            least: "/sys/devices/system/cpu/cpufreq/policy#/cpuinfo_min_freq",
            most: "/sys/devices/system/cpu/cpufreq/policy#/cpuinfo_max_freq",
        },
        Scope::Policy,
    )
    .risk(Risk::Low, "A high minimum costs power and makes heat.")
    .from("Documentation/admin-guide/pm/cpufreq.rst"),
    machine(
        "min-perf-percent",
        "the lowest performance that intel_pstate asks for, in per cent",
        "/sys/devices/system/cpu/intel_pstate/min_perf_pct",
        up_to(100),
    )
    .risk(Risk::Low, "A high minimum costs power and makes heat.")
    .from("Documentation/admin-guide/pm/intel_pstate.rst"),
    each(
        "uncore-freq-min",
        "the lowest frequency of caches and memory controller, in kHz",
        "/sys/devices/system/cpu/intel_uncore_frequency/*/min_freq_khz",
        Values::Between {
            least: "/sys/devices/system/cpu/intel_uncore_frequency/*/initial_min_freq_khz",
            most: "/sys/devices/system/cpu/intel_uncore_frequency/*/initial_max_freq_khz",
        },
        Scope::Machine,
    )
    .risk(Risk::Low, "Costs power, which the cores then lack for their turbo.")
    .from("Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst"),
    special(
        "idle-limit-us",
        "which idle states a CPU may enter: those that it leaves within so many microseconds",
        &special::IdleLimit,
        Values::Own("a number of microseconds, 0 to 1000000"),
    )
    .risk(Risk::Medium, "A CPU that does not sleep gets hot, and leaves less turbo to others.")
    .from("Documentation/admin-guide/pm/cpuidle.rst"),
    each(
        "resume-latency-us",
        "the time a CPU may take to leave its idle state, in microseconds: 0 is no limit, n/a is no latency at all",
        "/sys/devices/system/cpu/cpu#/power/pm_qos_resume_latency_us",
        Values::NumberOr { word: "n/a", min: 0, max: BIG },
        Scope::Cpu,
    )
    .risk(Risk::Medium, "A CPU that does not sleep gets hot, and leaves less turbo to others.")
    .from("Documentation/ABI/testing/sysfs-devices-power"),
    special(
        "dma-latency-us",
        "the time any CPU may take to leave its idle state, in microseconds, held by a small process",
        &special::HeldLatency,
        Values::Own("a number of microseconds, 0 to 2000000000"),
    )
    .risk(Risk::Medium, "0 keeps all CPUs from sleeping: heat, and less turbo.")
    .from("Documentation/power/pm_qos_interface.rst"),
    machine(
        "aspm",
        "whether PCI Express links sleep",
        "/sys/module/pcie_aspm/parameters/policy",
        Values::Marked,
    )
    .risk(Risk::Low, "Links that do not sleep cost power.")
    .from("Documentation/admin-guide/kernel-parameters.txt (pcie_aspm)"),
    machine(
        "platform-profile",
        "the firmware's own balance of performance, heat and noise",
        "/sys/firmware/acpi/platform_profile",
        Values::Offered("/sys/firmware/acpi/platform_profile_choices"),
    )
    .risk(Risk::Low, "Performance costs power and makes noise.")
    .from("Documentation/userspace-api/sysfs-platform_profile.rst"),
    machine(
        "haltpoll-ns",
        "how long an idle guest polls before it gives the CPU to its host, in nanoseconds",
        "/sys/module/haltpoll/parameters/guest_halt_poll_ns",
        up_to(BIG),
    )
    .risk(Risk::Low, "Polling takes CPU time from the host.")
    .from("Documentation/virt/guest-halt-polling.rst"),
    // Interrupts.
    machine(
        "default-irq-affinity",
        "the CPUs that new interrupts go to",
        "/proc/irq/default_smp_affinity",
        Values::Mask,
    )
    .risk(Risk::Low, "Concerns interrupts that are set up from now on.")
    .from("Documentation/core-api/irq/irq-affinity.rst"),
    special(
        "irq-affinity",
        "the CPUs that an interrupt goes to",
        &special::IrqAffinity,
        Values::List,
    )
    .risk(Risk::Medium, "All interrupts on few CPUs can make these the bottleneck.")
    .from("Documentation/core-api/irq/irq-affinity.rst, kernel/irq/proc.c"),
    special(
        "irqbalance-banned",
        "the CPUs that irqbalance leaves alone, in its configuration file",
        &special::IrqbalanceBan,
        Values::List,
    )
    .risk(Risk::Low, "Changes a file in /etc; irqbalance reads it when it starts.")
    .from("irqbalance(1), IRQBALANCE_BANNED_CPULIST"),
    special(
        "thread-priority",
        "the scheduling of a kernel thread or interrupt thread",
        &special::ThreadPriority,
        Values::Own("`fifo:1` to `fifo:99`, `rr:1` to `rr:99`, `other`, `other:NICE`, `batch` or `idle`"),
    )
    .risk(Risk::High, "A kernel thread above the application delays it; one too low can starve the machine.")
    .from("sched(7), sched_setattr(2)"),
    // Work of the kernel that can go elsewhere.
    machine(
        "workqueue-cpus",
        "the CPUs of the kernel's unbound workers",
        "/sys/devices/virtual/workqueue/cpumask",
        Values::Mask,
    )
    .risk(Risk::Low, "Work of the kernel is done by fewer CPUs.")
    .from("Documentation/core-api/workqueue.rst"),
    each(
        "workqueue-cpus-of",
        "the CPUs of one unbound workqueue",
        "/sys/devices/virtual/workqueue/*/cpumask",
        Values::Mask,
        Scope::Machine,
    )
    .risk(Risk::Low, "Work of the kernel is done by fewer CPUs.")
    .from("Documentation/core-api/workqueue.rst"),
    special(
        "cpuset-partition",
        "CPUs that the scheduler balances nothing onto: a cpuset of their own",
        &special::Partition,
        Values::Own("CPUs: a list or `measured`"),
    )
    .risk(Risk::High, "Other programs lose these CPUs; with cgroup v1 all of them are moved.")
    .from("Documentation/admin-guide/cgroup-v2.rst (cpuset.cpus.partition), cgroup-v1/cpusets.rst"),
    // The scheduler.
    machine(
        "rt-runtime-us",
        "how much of each period real-time threads may run, in microseconds; -1: all of it",
        "/proc/sys/kernel/sched_rt_runtime_us",
        Values::Number { min: -1, max: BIG },
    )
    .risk(Risk::High, "-1: a real-time thread that loops takes its CPU for ever.")
    .from("Documentation/scheduler/sched-rt-group.rst"),
    each(
        "fair-server-runtime-ns",
        "what normal threads are granted of each period on a CPU full of real-time threads, in nanoseconds (kernel 6.12 and later)",
        "/sys/kernel/debug/sched/fair_server/cpu#/runtime",
        up_to(i64::MAX),
        Scope::Cpu,
    )
    .risk(Risk::High, "0: a real-time thread that loops starves all others of its CPU.")
    .from("kernel/sched/debug.c, kernel/sched/deadline.c"),
    machine(
        "preempt",
        "where the kernel lets itself be preempted",
        "/sys/kernel/debug/sched/preempt",
        Values::Marked,
    )
    .risk(Risk::Low, "More preemption costs some throughput.")
    .from("Documentation/admin-guide/kernel-parameters.txt (preempt)"),
    machine(
        "timer-migration",
        "whether timers of an idle CPU are moved to one that is awake",
        "/proc/sys/kernel/timer_migration",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: timers stay where they are started, also on measured CPUs.")
    .from("kernel/time/timer.c"),
    machine(
        "numa-balancing",
        "whether memory follows the CPU that uses it",
        "/proc/sys/kernel/numa_balancing",
        up_to(2),
    )
    .risk(Risk::Low, "Off: memory stays on the node it came from.")
    .from("Documentation/admin-guide/sysctl/kernel.rst"),
    machine(
        "autogroup",
        "whether each session is a group to the scheduler",
        "/proc/sys/kernel/sched_autogroup_enabled",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: a large build takes more from a desktop.")
    .from("sched(7)"),
    // Memory.
    machine(
        "thp",
        "where the kernel uses huge pages by itself",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        Values::Marked,
    )
    .risk(Risk::Low, "never: more misses of the TLB; pages that are huge stay so.")
    .from("Documentation/admin-guide/mm/transhuge.rst"),
    machine(
        "thp-defrag",
        "whether a page fault waits while the kernel makes room for a huge page",
        "/sys/kernel/mm/transparent_hugepage/defrag",
        Values::Marked,
    )
    .risk(Risk::Low, "never: fewer huge pages.")
    .from("Documentation/admin-guide/mm/transhuge.rst"),
    machine(
        "khugepaged-defrag",
        "whether khugepaged makes room for huge pages",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: fewer huge pages.")
    .from("Documentation/admin-guide/mm/transhuge.rst"),
    machine(
        "ksm",
        "whether equal pages are merged: 0 stopped, 1 runs, 2 all are taken apart",
        "/sys/kernel/mm/ksm/run",
        up_to(2),
    )
    .risk(Risk::Medium, "2 needs the memory that merging had saved; reverting starts merging anew.")
    .from("Documentation/admin-guide/mm/ksm.rst"),
    machine(
        "compaction",
        "how eagerly free memory is kept in one piece",
        "/proc/sys/vm/compaction_proactiveness",
        up_to(100),
    )
    .risk(Risk::Low, "0: huge pages are harder to get.")
    .from("Documentation/admin-guide/sysctl/vm.rst"),
    machine(
        "compact-unevictable",
        "whether compaction moves locked pages, which makes their owner fault",
        "/proc/sys/vm/compact_unevictable_allowed",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: huge pages are harder to get.")
    .from("Documentation/admin-guide/sysctl/vm.rst"),
    machine(
        "swappiness",
        "how eagerly memory of programs is swapped out",
        "/proc/sys/vm/swappiness",
        up_to(200),
    )
    .risk(Risk::Low, "Low: less memory for files.")
    .from("Documentation/admin-guide/sysctl/vm.rst"),
    special(
        "dirty-limit",
        "how much written data may wait before a writer is made to wait",
        &special::DIRTY,
        Values::Own("per cent of memory (`10%`), or a number of bytes from 8192"),
    )
    .risk(Risk::Low, "Low: programs that write much are slowed down.")
    .from("Documentation/admin-guide/sysctl/vm.rst (dirty_ratio, dirty_bytes)"),
    special(
        "dirty-background-limit",
        "how much written data may wait before the kernel begins to write it",
        &special::DIRTY_BACKGROUND,
        Values::Own("per cent of memory (`3%`), or a number of bytes from 1"),
    )
    .risk(Risk::Low, "Low: the kernel writes earlier and more often.")
    .from("Documentation/admin-guide/sysctl/vm.rst (dirty_background_ratio, dirty_background_bytes)"),
    machine(
        "stat-interval-s",
        "how often the counters of memory are summed up on each CPU, in seconds",
        "/proc/sys/vm/stat_interval",
        Values::Number { min: 1, max: 86_400 },
    )
    .risk(Risk::Low, "Figures about memory are older.")
    .from("Documentation/admin-guide/sysctl/vm.rst"),
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
    .risk(Risk::Medium, "On: memory that begins to fail is noticed late.")
    .from("Documentation/arch/x86/x86_64/machinecheck.rst"),
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
    .risk(Risk::Medium, "On: a CPU that hangs in the kernel goes unreported.")
    .from("Documentation/RCU/stallwarn.rst"),
    // The network.
    each(
        "rps-cpus",
        "the CPUs that work on what a receive queue brings; none: the CPU of its interrupt",
        "/sys/class/net/*/queues/rx-#/rps_cpus",
        Values::Mask,
        Scope::Machine,
    )
    .risk(Risk::Low, "Packets cost an interrupt between CPUs more.")
    .from("Documentation/networking/scaling.rst"),
    machine(
        "rps-default-cpus",
        "the CPUs of receive queues of devices to come",
        "/proc/sys/net/core/rps_default_mask",
        Values::Mask,
    )
    .risk(Risk::Low, "Packets cost an interrupt between CPUs more.")
    .from("Documentation/admin-guide/sysctl/net.rst"),
    machine(
        "rfs-entries",
        "how many flows are followed to the CPU of their reader, in all",
        "/proc/sys/net/core/rps_sock_flow_entries",
        Values::PowerOfTwo { max: 1 << 29 },
    )
    .risk(Risk::Low, "Takes memory.")
    .from("Documentation/networking/scaling.rst"),
    each(
        "rfs-queue-entries",
        "how many flows are followed to the CPU of their reader, of one queue",
        "/sys/class/net/*/queues/rx-#/rps_flow_cnt",
        Values::PowerOfTwo { max: 1 << 29 },
        Scope::Machine,
    )
    .risk(Risk::Low, "Takes memory.")
    .from("Documentation/networking/scaling.rst"),
    each(
        "xps-cpus",
        "the CPUs that send through a queue",
        "/sys/class/net/*/queues/tx-#/xps_cpus",
        Values::Mask,
        Scope::Machine,
    )
    .risk(Risk::Low, "CPUs that no queue is for share one.")
    .from("Documentation/networking/scaling.rst"),
    machine(
        "busy-poll-us",
        "how long poll(2) and select(2) ask the network device themselves, in microseconds",
        "/proc/sys/net/core/busy_poll",
        up_to(BIG),
    )
    .risk(Risk::Low, "Polling takes CPU time.")
    .from("Documentation/admin-guide/sysctl/net.rst"),
    machine(
        "busy-read-us",
        "how long a read from a socket asks the network device itself, in microseconds",
        "/proc/sys/net/core/busy_read",
        up_to(BIG),
    )
    .risk(Risk::Low, "Polling takes CPU time.")
    .from("Documentation/admin-guide/sysctl/net.rst"),
    // The last, as CPUs go with it: put back, it is the first.
    special(
        "smt",
        "whether each core runs several threads",
        &special::Smt,
        Values::Own("`on` or `off`"),
    )
    .risk(Risk::High, "Off: half of the CPUs go, and what was bound to them runs elsewhere.")
    .from("Documentation/ABI/testing/sysfs-devices-system-cpu (smt/control)"),
];
