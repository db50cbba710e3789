//! Memory.

use punctual_model::Severity;

use super::Topic;
use crate::look::{Judged, Look, Verdict};
use crate::{BASE, Check, Role, Stance};
use punctual_model::SPINNING;

pub(super) const TOPIC: Topic = Topic {
    name: "memory",
    title: "Memory",
    checks: CHECKS,
};

const VM: &str = "Documentation/admin-guide/sysctl/vm.rst";
const THP_PAGE: &str = "Documentation/admin-guide/mm/transhuge.rst";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const THP_DEFRAG: &str = "/sys/kernel/mm/transparent_hugepage/defrag";
const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag";
const KSM: &str = "/sys/kernel/mm/ksm/run";
const STAT: &str = "/proc/sys/vm/stat_interval";
const SWAPS: &str = "/proc/swaps";
const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const DIRTY: &str = "/proc/sys/vm/dirty_background_ratio";
const DIRTY_BYTES: &str = "/proc/sys/vm/dirty_background_bytes";
const PROACTIVE: &str = "/proc/sys/vm/compaction_proactiveness";
const UNEVICTABLE: &str = "/proc/sys/vm/compact_unevictable_allowed";
const RECLAIM: &str = "/proc/sys/vm/zone_reclaim_mode";
const HUGE: &str = "/sys/kernel/mm/hugepages/*/nr_hugepages";
/// Of the sizes in bytes below 1 KiB: what is freed most.
const SLAB_PARTIAL: &str = "/sys/kernel/slab/kmalloc-#/cpu_partial";
const CRASH: &str = "/sys/kernel/kexec_crash_size";
const MOUNTS: &str = "/proc/mounts";

/// File systems on which any access may wait for another machine or program.
const REMOTE: [&str; 7] = ["nfs", "nfs4", "cifs", "smb3", "ceph", "fuse", "9p"];

const CHECKS: &[Check] = &[
    Check {
        name: "huge-pages",
        title: "Huge pages are not made unasked",
        expected: "never or madvise",
        reads: &[THP],
        judge: |look| look.choice(THP, &["never", "madvise"]),
        why: "Memory is compacted and copied, and every CPU that uses it is interrupted for its TLB.",
        source: THP_PAGE,
        now: &["echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"],
        reboot: "transparent_hugepage=madvise on the kernel's command line",
        ..BASE
    },
    Check {
        name: "huge-page-faults",
        title: "A page fault does not compact memory",
        expected: "never, defer or madvise",
        reads: &[THP, THP_DEFRAG],
        judge: |look| {
            // Without huge pages there is nothing to compact for.
            if let Ok(Verdict::Ok(_)) = look.choice(THP, &["never"]) {
                return Ok(Verdict::Ok("huge pages are off".to_owned()));
            }
            look.choice(THP_DEFRAG, &["never", "defer", "madvise", "defer+madvise"])
        },
        why: "With always, the thread that takes the fault compacts memory itself until a huge page is free.",
        source: THP_PAGE,
        now: &["echo never > /sys/kernel/mm/transparent_hugepage/defrag"],
        ..BASE
    },
    Check {
        name: "khugepaged",
        title: "khugepaged does not compact memory",
        severity: Severity::Info,
        expected: "0",
        reads: &[THP, KHUGEPAGED],
        judge: |look| {
            if let Ok(Verdict::Ok(_)) = look.choice(THP, &["never"]) {
                return Ok(Verdict::Ok("huge pages are off".to_owned()));
            }
            look.mild_number(KHUGEPAGED, |n| n == 0)
        },
        why: "It joins pages of running programs in the background, which unmaps them for a moment.",
        source: THP_PAGE,
        now: &["echo 0 > /sys/kernel/mm/transparent_hugepage/khugepaged/defrag"],
        ..BASE
    },
    Check {
        name: "same-page-merging",
        title: "Equal pages are not merged",
        expected: "0 or 2",
        reads: &[KSM],
        judge: |look| look.number(KSM, |n| n == 0 || n == 2),
        why: "ksmd takes CPU time, and the next write to a merged page takes a fault that copies it.",
        source: "Documentation/admin-guide/mm/ksm.rst",
        now: &["echo 2 > /sys/kernel/mm/ksm/run"],
        ..BASE
    },
    Check {
        name: "statistics-interval",
        title: "Memory statistics are gathered rarely",
        severity: Severity::Info,
        expected: "10 s or more",
        reads: &[STAT],
        judge: |look| look.mild_number(STAT, |n| n >= 10),
        why: "A kernel worker wakes on each CPU to add its counters up, every second by default.",
        source: "Documentation/admin-guide/sysctl/vm.rst, stat_interval; Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::Medium,
            note: "the worker must have the CPU of a thread that never sleeps; isolated CPUs are spared by newer kernels",
        }],
        now: &["echo 10 > /proc/sys/vm/stat_interval"],
        ..BASE
    },
    Check {
        name: "swap",
        title: "No swap is in use",
        expected: "none",
        reads: &[SWAPS],
        judge: |look| {
            let text = look.text(SWAPS)?;
            let count = text
                .lines()
                .skip(1)
                .filter(|line| !line.trim().is_empty())
                .count();
            Ok(match count {
                0 => Verdict::Ok("none".to_owned()),
                _ => Verdict::Warn(format!(
                    "{count} in use: what is not locked can be swapped out"
                )),
            })
        },
        why: "A page that was swapped out is read from disk at the next access: milliseconds. mlockall(2) protects the program that calls it, and no other.",
        source: "mlockall(2); swapon(8)",
        now: &["# swapoff -a, where memory is enough for all"],
        reboot: "no swap in /etc/fstab",
        ..BASE
    },
    Check {
        name: "swappiness",
        title: "Programs are not swapped out for the sake of caches",
        severity: Severity::Info,
        expected: "10 or less",
        reads: &[SWAPPINESS],
        judge: |look| look.mild_number(SWAPPINESS, |n| n <= 10),
        why: "At 60 the kernel takes pages of programs to keep more files in memory.",
        source: VM,
        now: &["echo 10 > /proc/sys/vm/swappiness"],
        ..BASE
    },
    Check {
        name: "writeback",
        title: "Writing back begins early",
        severity: Severity::Info,
        expected: "5% or less",
        reads: &[DIRTY, DIRTY_BYTES],
        judge: writeback,
        why: "What is written late is written in bursts, which fill the bus and the disk's queue.",
        source: VM,
        now: &["echo 3 > /proc/sys/vm/dirty_background_ratio"],
        ..BASE
    },
    Check {
        name: "compaction",
        title: "Memory is not compacted ahead of need",
        expected: "0",
        reads: &[PROACTIVE],
        judge: |look| look.mild_number(PROACTIVE, |n| n == 0),
        why: "Pages are moved in the background; who uses one meanwhile waits for it.",
        source: "Documentation/admin-guide/sysctl/vm.rst, compaction_proactiveness",
        now: &["echo 0 > /proc/sys/vm/compaction_proactiveness"],
        ..BASE
    },
    Check {
        name: "locked-pages",
        title: "Locked pages stay where they are",
        expected: "0",
        reads: &[UNEVICTABLE],
        judge: |look| look.number(UNEVICTABLE, |n| n == 0),
        why: "With 1, also the pages of mlockall(2) are moved, and the next access takes a page fault. PREEMPT_RT has 0 by default.",
        source: "Documentation/admin-guide/sysctl/vm.rst, compact_unevictable_allowed",
        now: &["echo 0 > /proc/sys/vm/compact_unevictable_allowed"],
        ..BASE
    },
    Check {
        name: "zone-reclaim",
        title: "Memory is taken from another node before it is freed here",
        severity: Severity::Info,
        expected: "0",
        reads: &[RECLAIM],
        judge: |look| look.number(RECLAIM, |n| n == 0),
        why: "Otherwise the thread that allocates frees memory of its own node first.",
        source: VM,
        now: &["echo 0 > /proc/sys/vm/zone_reclaim_mode"],
        ..BASE
    },
    Check {
        name: "reserved-huge-pages",
        title: "Huge pages are set aside for the application",
        severity: Severity::Info,
        expected: "some, where the application asks for them",
        reads: &[HUGE],
        judge: |look| {
            if look.role != Role::Telco {
                return Err(crate::look::Missing::not_applicable(format!(
                    "no matter for the role {}",
                    look.role
                )));
            }
            let all = look.files(HUGE)?;
            for (file, count) in &all {
                look.saw(*file, count);
            }
            let some = all.iter().any(|(_, count)| *count != "0");
            Ok(Verdict::mild(
                some,
                if some { "some are" } else { "none is" },
            ))
        },
        why: "DPDK and its like keep packets in huge pages: fewer TLB misses, no page faults.",
        source: "Documentation/admin-guide/mm/hugetlbpage.rst",
        reboot: "default_hugepagesz=1G hugepagesz=1G hugepages=N on the kernel's command line",
        ..BASE
    },
    Check {
        name: "slab-partial",
        title: "Freeing memory flushes no long lists",
        severity: Severity::Info,
        expected: "0",
        reads: &[SLAB_PARTIAL],
        judge: slab_partial,
        why: "Each CPU keeps partly free pages of the kernel's allocator; where the list is full, the thread that frees gives all of it back, with a lock held.",
        source: "mm/Kconfig, SLUB_CPU_PARTIAL; Documentation/ABI/testing/sysfs-kernel-slab, cpu_partial",
        now: &["for s in /sys/kernel/slab/*/cpu_partial; do echo 0 > $s; done"],
        ..BASE
    },
    Check {
        name: "crash-kernel",
        title: "Memory set aside for a crash kernel",
        severity: Severity::Info,
        expected: "known: it takes memory, and no time",
        reads: &[CRASH],
        judge: |look| {
            let bytes: u64 = look.value(CRASH)?;
            Ok(Verdict::Ok(match bytes {
                0 => "none".to_owned(),
                _ => format!("{} MiB", bytes >> 20),
            }))
        },
        why: "Reserved memory is lost to programs; the dump itself is written after the crash only.",
        source: "kernel/ksysfs.c, kexec_crash_size; Documentation/admin-guide/kdump/kdump.rst",
        ..BASE
    },
    Check {
        name: "file-systems",
        title: "File systems that wait for others",
        severity: Severity::Info,
        expected: "not used by the application",
        reads: &[MOUNTS],
        judge: |look| {
            let text = match look.facts.files.get(MOUNTS) {
                Some(punctual_model::Reading::Text(text)) => text.as_str(),
                _ => look.text(MOUNTS)?,
            };
            let remote: Vec<&str> = text
                .lines()
                .filter_map(|line| {
                    let mut words = line.split_whitespace().skip(1);
                    let (place, kind) = (words.next()?, words.next()?);
                    let kind = kind.split('.').next().unwrap_or_default();
                    REMOTE.contains(&kind).then_some(place)
                })
                .collect();
            look.saw(
                MOUNTS,
                &format!(
                    "{} of {} lines: {}",
                    remote.len(),
                    text.lines().count(),
                    remote.join(" ")
                ),
            );
            Ok(Verdict::mild(
                remote.is_empty(),
                match remote.len() {
                    0 => "none is mounted".to_owned(),
                    count => format!("{count} mounted: {}", crate::look::line(&remote.join(", "))),
                },
            ))
        },
        why: "Opening or mapping a file there waits for a network or a program; a page fault in it does too.",
        source: "nfs(5); mount.fuse3(8)",
        ..BASE
    },
];

fn slab_partial(look: &Look) -> Judged {
    let all = look.files(SLAB_PARTIAL)?;
    let kept: Vec<_> = all.iter().filter(|(_, count)| *count != "0").collect();
    for (file, count) in kept.iter().take(2) {
        look.saw(*file, count);
    }
    if kept.is_empty() {
        look.saw(SLAB_PARTIAL.replace('#', "N"), "0");
    }
    Ok(match kept.len() {
        0 => Verdict::Ok("no list is kept".to_owned()),
        some => Verdict::Warn(format!("{some} of {} caches keep one", all.len())),
    })
}

fn writeback(look: &Look) -> Judged {
    // Of both, the one that is not 0 counts.
    if let Ok(bytes) = look.value::<u64>(DIRTY_BYTES)
        && bytes > 0
    {
        return Ok(Verdict::mild(
            bytes <= 256 << 20,
            format!("at {bytes} bytes"),
        ));
    }
    look.mild_number(DIRTY, |n| n <= 5)
}
