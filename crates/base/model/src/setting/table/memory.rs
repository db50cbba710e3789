//! Memory.

use super::super::{Risk, Scope, Setting, Values};
use super::{BIG, ON_OFF, each, machine, special, up_to};

pub(super) const ROWS: &[Setting] = &[
    // Memory.
    machine(
        "thp",
        "whether the kernel uses huge pages automatically",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        Values::Marked,
    )
    .risk(
        Risk::Low,
        "never: TLB misses increase. Existing huge pages remain.",
    )
    .from("Documentation/admin-guide/mm/transhuge.rst")
    .wanted("madvise")
    .boot("transparent_hugepage={}")
    .long(),
    machine(
        "thp-defrag",
        "whether a page fault waits while the kernel frees memory for a huge page",
        "/sys/kernel/mm/transparent_hugepage/defrag",
        Values::Marked,
    )
    .risk(Risk::Low, "never: fewer huge pages.")
    .from("Documentation/admin-guide/mm/transhuge.rst")
    .wanted("never")
    .long(),
    machine(
        "khugepaged-defrag",
        "whether khugepaged frees memory for huge pages",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: fewer huge pages.")
    .from("Documentation/admin-guide/mm/transhuge.rst")
    .wanted("off")
    .long(),
    machine(
        "ksm",
        "whether identical pages are merged (0: stopped, 1: running, 2: all pages are unmerged)",
        "/sys/kernel/mm/ksm/run",
        up_to(2),
    )
    .risk(
        Risk::Medium,
        "2: unmerging needs the memory that merging had saved. Reverting restarts merging from the \
         beginning.",
    )
    .from("Documentation/admin-guide/mm/ksm.rst")
    .wanted("0")
    .long(),
    machine(
        "compaction",
        "how aggressively free memory is compacted in advance",
        "/proc/sys/vm/compaction_proactiveness",
        up_to(100),
    )
    .risk(Risk::Low, "0: huge pages are harder to get.")
    .from("Documentation/admin-guide/sysctl/vm.rst, compaction_proactiveness")
    .wanted("0")
    .long(),
    machine(
        "compact-unevictable",
        "whether compaction moves locked pages, which causes page faults in their owner",
        "/proc/sys/vm/compact_unevictable_allowed",
        ON_OFF,
    )
    .risk(Risk::Low, "Off: huge pages are harder to get.")
    .from("Documentation/admin-guide/sysctl/vm.rst, compact_unevictable_allowed")
    .wanted("off")
    .long(),
    machine(
        "swappiness",
        "how aggressively memory of programs is swapped out",
        "/proc/sys/vm/swappiness",
        up_to(200),
    )
    .risk(Risk::Low, "Low: less memory for the file cache.")
    .from("Documentation/admin-guide/sysctl/vm.rst")
    .wanted("10")
    .long(),
    special(
        "dirty-limit",
        "the amount of dirty data above which writers are blocked",
        "/proc/sys/vm/dirty_ratio",
        "",
        Values::Own("a percentage of memory (`10%`), or a number of bytes (at least 8192)"),
    )
    .risk(Risk::Low, "Low: programs that write a lot of data are slowed down.")
    .from("Documentation/admin-guide/sysctl/vm.rst (dirty_ratio, dirty_bytes)")
    .wanted("10%")
    .long(),
    special(
        "dirty-background-limit",
        "the amount of dirty data above which the kernel begins to write it back",
        "/proc/sys/vm/dirty_background_ratio",
        "",
        Values::Own("a percentage of memory (`3%`), or a number of bytes (at least 1)"),
    )
    .risk(Risk::Low, "Low: the kernel writes data back earlier and more often.")
    .from(
        "Documentation/admin-guide/sysctl/vm.rst (dirty_background_ratio, dirty_background_bytes)",
    )
    .wanted("3%")
    .long(),
    machine(
        "stat-interval-s",
        "interval at which each CPU's memory counters are summed up, in seconds",
        "/proc/sys/vm/stat_interval",
        Values::Number {
            min: 1,
            max: 86_400,
        },
    )
    .risk(Risk::Low, "Memory statistics are less current.")
    .from("Documentation/admin-guide/sysctl/vm.rst, stat_interval; Documentation/admin-guide/kernel-per-CPU-kthreads.rst")
    .wanted("10"),
    machine(
        "zone-reclaim",
        "whether memory of the local node is freed before another node is used",
        "/proc/sys/vm/zone_reclaim_mode",
        up_to(7),
    )
    .risk(Risk::Low, "0: more memory is allocated on other nodes.")
    .from("Documentation/admin-guide/sysctl/vm.rst")
    .wanted("0")
    .long(),
    each(
        "slab-partial",
        "number of partly free pages that each CPU keeps for one slab cache of the kernel",
        "/sys/kernel/slab/*/cpu_partial",
        up_to(BIG),
        Scope::Machine,
    )
    .risk(Risk::Low, "0: allocation takes a lock more often.")
    // With debugging enabled, a slab cache accepts only 0 (cpu_partial_store in mm/slub.c).
    .from("Documentation/ABI/testing/sysfs-kernel-slab, cpu_partial")
    .wanted("0"),
];
