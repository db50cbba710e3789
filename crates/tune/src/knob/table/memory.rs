//! Memory.

use super::super::{Knob, Risk, Values};
use super::{ON_OFF, machine, special, up_to};
use crate::special as how;

pub(super) const ROWS: &[Knob] = &[
    // Memory.
    machine(
        "thp",
        "where the kernel uses huge pages by itself",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        Values::Marked,
    )
    .risk(
        Risk::Low,
        "never: more misses of the TLB; pages that are huge stay so.",
    )
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
    .risk(
        Risk::Medium,
        "2 needs the memory that merging had saved; reverting starts merging anew.",
    )
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
        &how::DIRTY,
        Values::Own("per cent of memory (`10%`), or a number of bytes from 8192"),
    )
    .risk(Risk::Low, "Low: programs that write much are slowed down.")
    .from("Documentation/admin-guide/sysctl/vm.rst (dirty_ratio, dirty_bytes)"),
    special(
        "dirty-background-limit",
        "how much written data may wait before the kernel begins to write it",
        &how::DIRTY_BACKGROUND,
        Values::Own("per cent of memory (`3%`), or a number of bytes from 1"),
    )
    .risk(Risk::Low, "Low: the kernel writes earlier and more often.")
    .from(
        "Documentation/admin-guide/sysctl/vm.rst (dirty_background_ratio, dirty_background_bytes)",
    ),
    machine(
        "stat-interval-s",
        "how often the counters of memory are summed up on each CPU, in seconds",
        "/proc/sys/vm/stat_interval",
        Values::Number {
            min: 1,
            max: 86_400,
        },
    )
    .risk(Risk::Low, "Figures about memory are older.")
    .from("Documentation/admin-guide/sysctl/vm.rst"),
];
