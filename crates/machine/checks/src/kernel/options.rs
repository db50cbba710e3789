//! The kernel options that matter for latency.

use punctual_model::Severity;

use super::{KernelOption, Wanted};
use crate::remedy::set;
use crate::{Role, Stance};
use punctual_model::{PERIODIC, SPINNING};

/// Defaults for the fields of an option.
pub(super) const BASE: KernelOption = KernelOption {
    option: "",
    wanted: Wanted::Off,
    severity: Severity::Medium,
    why: "",
    source: "",
    switch: &[],
    formerly: "",
    since: (0, 0),
    needs: "",
    with: &[],
    selected_by: &[],
    seen_by: "",
    stances: &[],
};

/// The kernel's documentation of its configuration for real time.
const REAL_TIME: &str = "Documentation/core-api/real-time/kernel-configuration.rst";

/// Differences for roles that can do without PREEMPT_RT to some extent.
pub(crate) const WITHOUT_RT: &[Stance] = &[
    Stance {
        roles: &[Role::Trading, Role::Network],
        severity: Severity::High,
        note: "a thread that owns its CPU and makes no system calls gains little from PREEMPT_RT; \
               tuned's cpu-partitioning profile works with ordinary kernels",
    },
    Stance {
        roles: &[Role::Lab],
        severity: Severity::Medium,
        note: "a lab compares kernels with and without PREEMPT_RT",
    },
];

/// All options that the audit judges.
pub const OPTIONS: &[KernelOption] = &[
    KernelOption {
        option: "CONFIG_PREEMPT_RT",
        // Name in the patches for Linux 5.2 and earlier.
        formerly: "CONFIG_PREEMPT_RT_FULL",
        wanted: Wanted::On,
        severity: Severity::Fatal,
        why: "Without this option, the length of non-preemptible sections has no upper limit: \
              spinlocks, softirqs and interrupt handlers delay every thread.",
        source: REAL_TIME,
        seen_by: "kernel-preempt-rt",
        stances: WITHOUT_RT,
        ..BASE
    },
    KernelOption {
        option: "CONFIG_HIGH_RES_TIMERS",
        wanted: Wanted::On,
        severity: Severity::High,
        why: "Without this option, timers expire only at a tick, 1 to 10 ms late.",
        source: "Documentation/timers/highres.rst",
        seen_by: "kernel-high-resolution-timers",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_NO_HZ_FULL",
        wanted: Wanted::OnToSpin,
        why: "This option removes the tick from spinning threads, but adds accounting to each \
              kernel entry and exit. Periodic threads enter the kernel often.",
        source: "Documentation/core-api/real-time/kernel-configuration.rst, Documentation/timers/no_hz.rst",
        stances: &[
            Stance {
                roles: PERIODIC,
                severity: Severity::Info,
                note: "the kernel's documentation advises against this option for periodic work, \
                       but rtcqs and some guides rate it as good. Its cost is lower if nohz_full= \
                       names no CPU",
            },
            Stance {
                roles: SPINNING,
                severity: Severity::High,
                note: "otherwise the tick interrupts each spinning thread HZ times a second. RHEL \
                       for Real Time, tuned and NVIDIA's guide call for this option",
            },
        ],
        ..BASE
    },
    KernelOption {
        option: "CONFIG_CPU_ISOLATION",
        // In earlier kernels, this feature is always present.
        since: (4, 15),
        wanted: Wanted::On,
        why: "Without this option, isolcpus= and nohz_full= move less of the kernel's own work to \
              other CPUs.",
        source: "init/Kconfig, CPU_ISOLATION",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_RCU_NOCB_CPU",
        wanted: Wanted::On,
        why: "Without this option, rcu_nocbs= does nothing, and RCU callbacks run on the CPU that \
              queued them.",
        with: &["CONFIG_RCU_EXPERT"],
        source: "Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_IRQ_FORCED_THREADING",
        wanted: Wanted::On,
        why: "Without this option, threadirqs cannot run interrupt handlers in threads with \
              priorities.",
        source: "kernel/irq/Kconfig; Documentation/admin-guide/kernel-parameters.txt, threadirqs",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_CPU_FREQ",
        wanted: Wanted::On,
        severity: Severity::High,
        why: "Without this option, the frequency stays at the value that the boot loader set, \
              which may be low.",
        source: REAL_TIME,
        ..BASE
    },
    KernelOption {
        option: "CONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE",
        wanted: Wanted::On,
        severity: Severity::High,
        why: "Each CPU uses this default governor until a program selects another. Other governors \
              change the frequency with the load.",
        source: REAL_TIME,
        needs: "CONFIG_CPU_FREQ",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_CPU_FREQ_GOV_ONDEMAND",
        why: "With this governor, the frequency and therefore the latency depend on the load. A \
              program can switch to this governor at any time.",
        source: "Documentation/core-api/real-time/kernel-configuration.rst, non-performance CPU frequency governors",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_CPU_FREQ_GOV_CONSERVATIVE",
        why: "With this governor, the frequency and therefore the latency depend on the load. A \
              program can switch to this governor at any time.",
        source: "Documentation/core-api/real-time/kernel-configuration.rst, non-performance CPU frequency governors",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_CPU_FREQ_GOV_SCHEDUTIL",
        // These options in drivers/cpufreq/Kconfig.x86 select it.
        selected_by: &["CONFIG_X86_INTEL_PSTATE", "CONFIG_X86_AMD_PSTATE"],
        why: "With this governor, the frequency and therefore the latency depend on the load. A \
              program can switch to this governor at any time.",
        source: "Documentation/core-api/real-time/kernel-configuration.rst, non-performance CPU frequency governors",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_CPU_IDLE",
        wanted: Wanted::On,
        severity: Severity::Info,
        why: "Without this option, deep idle states cannot be limited by name. Limit them to C1 \
              instead of removing the driver.",
        source: REAL_TIME,
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DRM",
        severity: Severity::Info,
        why: "A graphics unit shares the last-level cache and the memory's bandwidth with the CPUs.",
        source: REAL_TIME,
        stances: &[Stance {
            roles: &[Role::Audio],
            severity: Severity::Info,
            note: "a desktop needs graphics: measure under a graphics load",
        }],
        ..BASE
    },
    KernelOption {
        option: "CONFIG_EFI_DISABLE_RUNTIME",
        since: (5, 19),
        wanted: Wanted::On,
        why: "This option prevents calls into the EFI firmware, which can keep interrupts disabled \
              for milliseconds. The boot parameter efi=noruntime has the same effect.",
        source: REAL_TIME,
        needs: "CONFIG_EFI",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_IRQSOFF_TRACER",
        severity: Severity::High,
        why: "This tracer instruments each place where interrupts are disabled, even while it is \
              off.",
        source: REAL_TIME,
        stances: &[Stance {
            roles: &[Role::Lab],
            severity: Severity::Medium,
            note: "a lab uses this tracer only to search for sections with interrupts disabled",
        }],
        ..BASE
    },
    KernelOption {
        option: "CONFIG_PREEMPT_TRACER",
        severity: Severity::High,
        why: "This tracer instruments each place where preemption is disabled, even while it is \
              off.",
        source: REAL_TIME,
        stances: &[Stance {
            roles: &[Role::Lab],
            severity: Severity::Medium,
            note: "a lab uses this tracer only to search for sections with preemption disabled",
        }],
        ..BASE
    },
    KernelOption {
        option: "CONFIG_PROVE_LOCKING",
        severity: Severity::High,
        why: "Checking the lock order slows down each acquisition, most of all in the worst case.",
        source: REAL_TIME,
        ..BASE
    },
    KernelOption {
        option: "CONFIG_LOCK_STAT",
        severity: Severity::High,
        why: "Lock statistics are updated at each acquisition and release.",
        source: "Documentation/locking/lockstat.rst",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DEBUG_LOCK_ALLOC",
        severity: Severity::High,
        why: "Each lock is checked when its memory is freed; the option also enables lockdep.",
        source: "lib/Kconfig.debug, DEBUG_LOCK_ALLOC",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DEBUG_RT_MUTEXES",
        why: "Each operation on a priority-inheriting lock is checked, and PREEMPT_RT uses such \
              locks throughout.",
        source: "lib/Kconfig.debug, DEBUG_RT_MUTEXES",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DEBUG_SPINLOCK",
        why: "Each spinlock is checked when it is taken and released.",
        source: "lib/Kconfig.debug, DEBUG_SPINLOCK",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DEBUG_MUTEXES",
        why: "Each mutex is checked when it is taken and released, and its fast path is not used.",
        source: "lib/Kconfig.debug, DEBUG_MUTEXES",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DEBUG_PREEMPT",
        why: "Each access to per-CPU data checks whether preemption is disabled.",
        source: "lib/Kconfig.debug, DEBUG_PREEMPT",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DEBUG_OBJECTS",
        why: "Each step in the life cycle of timers and work items is tracked.",
        source: "lib/Kconfig.debug, DEBUG_OBJECTS",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DEBUG_STACKOVERFLOW",
        severity: Severity::High,
        why: "Each interrupt checks how much of the stack is left.",
        source: "lib/Kconfig.debug, DEBUG_STACKOVERFLOW",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DEBUG_STACK_USAGE",
        why: "The kernel clears the stack of each new thread, and scans the stack when the thread \
              ends.",
        source: "lib/Kconfig.debug, DEBUG_STACK_USAGE",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_SCHED_STACK_END_CHECK",
        severity: Severity::Info,
        why: "This option adds a comparison to each context switch. Hardened kernels keep it.",
        source: "lib/Kconfig.debug, SCHED_STACK_END_CHECK",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_KASAN",
        severity: Severity::High,
        why: "Each access to memory is checked.",
        source: "Documentation/dev-tools/kasan.rst",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_KCSAN",
        severity: Severity::High,
        why: "Memory accesses are delayed on purpose to find data races.",
        source: "Documentation/dev-tools/kcsan.rst",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_UBSAN",
        severity: Severity::Info,
        why: "Arithmetic and array indices are checked at run time. Checking only array bounds \
              costs little and hardens the kernel.",
        source: "Documentation/dev-tools/ubsan.rst",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DEBUG_KMEMLEAK",
        severity: Severity::High,
        why: "All memory is scanned every ten minutes for unreferenced objects.",
        source: "Documentation/dev-tools/kmemleak.rst",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DEBUG_PAGEALLOC_ENABLE_DEFAULT",
        severity: Severity::High,
        why: "Each page is unmapped when it is freed, and mapped again when it is allocated.",
        source: "mm/Kconfig.debug, DEBUG_PAGEALLOC",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_SLUB_DEBUG_ON",
        severity: Severity::High,
        why: "Each object of the slab allocator is checked, and freeing an object takes a slow \
              path with a lock.",
        source: "Documentation/mm/slab.rst (before 6.14 slub.rst)",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_GCOV_KERNEL",
        why: "Each branch is counted.",
        source: "Documentation/dev-tools/gcov.rst",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_KCOV",
        why: "Each basic block records that it ran.",
        source: "Documentation/dev-tools/kcov.rst",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_LATENCYTOP",
        why: "While latencytop is on, each sleep of a thread is recorded with a backtrace.",
        source: "kernel/latencytop.c",
        switch: &[set("latencytop")],
        seen_by: "watchdogs-latencytop",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_LOCKUP_DETECTOR",
        severity: Severity::High,
        why: "The detector's timer interrupts each CPU every few seconds, in hard interrupt \
              context, and wakes a thread of the highest priority.",
        source: REAL_TIME,
        switch: &[set("watchdog")],
        stances: &[Stance {
            roles: &[Role::Audio, Role::Lab],
            severity: Severity::Medium,
            note: "an interrupt of some microseconds every few seconds is acceptable on an \
                   attended machine",
        }],
        ..BASE
    },
    KernelOption {
        option: "CONFIG_RT_GROUP_SCHED",
        why: "The kernel refuses real-time priority to the threads of a control group that has no \
              real-time runtime.",
        source: "Documentation/scheduler/sched-rt-group.rst",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS",
        why: "Huge pages are used by default: the kernel compacts and copies memory while threads run.",
        source: "Documentation/admin-guide/mm/transhuge.rst",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_FTRACE",
        wanted: Wanted::On,
        severity: Severity::Info,
        why: "Without this option, punctual cannot explain late wake-ups.",
        source: "Documentation/core-api/real-time/kernel-configuration.rst, CONFIG_TRACING",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_OSNOISE_TRACER",
        since: (5, 14),
        wanted: Wanted::On,
        severity: Severity::Info,
        why: "The osnoise tracer shows what interrupted a thread. It costs nothing while it is \
              off.",
        source: "Documentation/trace/osnoise-tracer.rst",
        stances: &[Stance {
            roles: &[Role::Lab],
            severity: Severity::Medium,
            note: "a lab needs to know the causes of late wake-ups",
        }],
        ..BASE
    },
    KernelOption {
        option: "CONFIG_TIMERLAT_TRACER",
        since: (5, 14),
        wanted: Wanted::On,
        severity: Severity::Info,
        why: "The timerlat tracer shows in which stage a timer's latency arose. It costs nothing \
              while it is off.",
        source: "Documentation/trace/timerlat-tracer.rst",
        stances: &[Stance {
            roles: &[Role::Lab],
            severity: Severity::Medium,
            note: "a lab needs to know the causes of late wake-ups",
        }],
        ..BASE
    },
    KernelOption {
        option: "CONFIG_HWLAT_TRACER",
        since: (4, 9),
        wanted: Wanted::On,
        severity: Severity::Info,
        why: "The hwlat tracer measures the time that firmware or a hypervisor takes, which no \
              other tracer shows.",
        source: "Documentation/trace/hwlat_detector.rst",
        stances: &[Stance {
            roles: &[Role::Lab],
            severity: Severity::Medium,
            note: "a lab needs to know the causes of late wake-ups",
        }],
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DEBUG_FS",
        wanted: Wanted::On,
        severity: Severity::Info,
        why: "The fair server and the preemption model are set through debugfs. Do not read files \
              of debugfs while latency matters.",
        source: REAL_TIME,
        ..BASE
    },
    KernelOption {
        option: "CONFIG_DEBUG_INFO_BTF",
        since: (5, 2),
        with: &[
            "CONFIG_BPF_SYSCALL",
            "CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT",
        ],
        wanted: Wanted::On,
        severity: Severity::Info,
        why: "BPF programs need this type information to adapt to the kernel's data structures. It \
              costs no time.",
        source: "Documentation/bpf/btf.rst",
        ..BASE
    },
    KernelOption {
        option: "CONFIG_IKCONFIG_PROC",
        with: &["CONFIG_IKCONFIG"],
        wanted: Wanted::On,
        severity: Severity::Info,
        why: "The kernel then contains its own configuration, and this audit can read it.",
        source: "init/Kconfig, IKCONFIG_PROC",
        ..BASE
    },
];
