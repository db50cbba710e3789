//! Checks of memory.

use punctual_model::{Severity, path_of};

use super::Topic;
use crate::fact_reader::{FactReader, Judged, Verdict};
use crate::remedy::consider;
use crate::{BASE, Check, Remedy, Role, Stance};
use punctual_model::SPINNING;

pub(super) const TOPIC: Topic = Topic {
    name: "memory",
    title: "Memory",
    checks: CHECKS,
};

const VM: &str = "Documentation/admin-guide/sysctl/vm.rst";
const THP: &str = path_of("thp");
const SWAPS: &str = "/proc/swaps";
const DIRTY_BYTES: &str = "/proc/sys/vm/dirty_background_bytes";
const HUGE: &str = "/sys/kernel/mm/hugepages/*/nr_hugepages";
/// `#` matches only a number, so the pattern covers only sizes below 1 KiB, which have no unit
/// suffix. Objects of these sizes are freed most often.
const SLAB_PARTIAL: &str = "/sys/kernel/slab/kmalloc-#/cpu_partial";
const CRASH: &str = "/sys/kernel/kexec_crash_size";
const MOUNTS: &str = "/proc/mounts";

/// File systems on which any access may wait for another machine or process.
const REMOTE: [&str; 7] = ["nfs", "nfs4", "cifs", "smb3", "ceph", "fuse", "9p"];

const CHECKS: &[Check] = &[
    Check {
        name: "huge-pages",
        subject: "transparent huge pages",
        expected: "never or madvise",
        setting: "thp",
        judge: |reader| reader.choice(reader.own, &["never", "madvise"]),
        why: "The kernel compacts and copies memory, and interrupts every CPU that uses this \
              memory to flush its TLB.",
        ..BASE
    },
    Check {
        name: "huge-page-faults",
        subject: "defrag of transparent huge pages",
        expected: "never, defer or madvise",
        setting: "thp-defrag",
        reads: &[THP],
        judge: |reader| {
            // Without huge pages, compaction has no purpose.
            if let Ok(Verdict::Ok(_)) = reader.choice(THP, &["never"]) {
                return Ok(Verdict::Ok("has no effect: huge pages are off".to_owned()));
            }
            reader.choice(reader.own, &["never", "defer", "madvise", "defer+madvise"])
        },
        why: "With always, a thread that takes a page fault compacts memory itself until a huge \
              page is free.",
        ..BASE
    },
    Check {
        name: "khugepaged",
        subject: "defrag of khugepaged",
        severity: Severity::Info,
        expected: "0",
        setting: "khugepaged-defrag",
        reads: &[THP],
        judge: |reader| {
            if let Ok(Verdict::Ok(_)) = reader.choice(THP, &["never"]) {
                return Ok(Verdict::Ok("has no effect: huge pages are off".to_owned()));
            }
            reader.mild_number(reader.own, |n| n == 0)
        },
        why: "In the background, khugepaged joins pages of running programs into huge pages, and \
              unmaps the pages for a moment.",
        ..BASE
    },
    Check {
        name: "same-page-merging",
        subject: "KSM",
        expected: "0 or 2",
        setting: "ksm",
        judge: |reader| reader.number(reader.own, |n| n == 0 || n == 2),
        why: "ksmd takes CPU time, and the next write to a merged page causes a page fault that \
              copies the page.",
        ..BASE
    },
    Check {
        name: "statistics-interval",
        subject: "stat_interval",
        severity: Severity::Info,
        expected: "10 s or more",
        setting: "stat-interval-s",
        judge: |reader| reader.mild_number(reader.own, |n| n >= 10),
        why: "A kernel worker wakes up on each CPU to sum up the CPU's memory counters, every \
              second by default.",
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::Medium,
            note: "the worker interrupts a thread that never sleeps; newer kernels skip isolated \
                   CPUs",
        }],
        ..BASE
    },
    Check {
        name: "swap",
        subject: "swap",
        expected: "none",
        reads: &[SWAPS],
        judge: |reader| {
            let text = reader.text(SWAPS)?;
            let count = text
                .lines()
                .skip(1)
                .filter(|line| !line.trim().is_empty())
                .count();
            Ok(match count {
                0 => Verdict::Ok("none".to_owned()),
                _ => Verdict::Warn(format!("is in use ({count})")),
            })
        },
        why: "A page that was swapped out is read from disk at the next access, which takes \
              milliseconds. mlockall(2) protects only the program that calls it.",
        source: "mlockall(2); swapon(8)",
        remedies: &[Remedy::Decide(
            "swapoff -a, if memory is sufficient without swap",
        )],
        reboot: "remove swap from /etc/fstab",
        ..BASE
    },
    Check {
        name: "swappiness",
        subject: "swappiness",
        severity: Severity::Info,
        expected: "10 or less",
        setting: "swappiness",
        judge: |reader| reader.mild_number(reader.own, |n| n <= 10),
        why: "At a value of 60, the kernel swaps out pages of programs to keep more files in \
              memory.",
        ..BASE
    },
    Check {
        name: "writeback",
        subject: "background writeback limit",
        severity: Severity::Info,
        expected: "5% or less",
        setting: "dirty-background-limit",
        reads: &[DIRTY_BYTES],
        judge: writeback,
        why: "Data that is written back late is written in bursts, which fill the bus and the disk's queue.",
        source: VM,
        ..BASE
    },
    Check {
        name: "compaction",
        subject: "compaction_proactiveness",
        expected: "0",
        setting: "compaction",
        judge: |reader| reader.mild_number(reader.own, |n| n == 0),
        why: "The kernel moves pages in the background, and a thread that accesses a page during \
              the move must wait.",
        ..BASE
    },
    Check {
        name: "locked-pages",
        subject: "compact_unevictable_allowed",
        expected: "0",
        setting: "compact-unevictable",
        judge: |reader| reader.number(reader.own, |n| n == 0),
        why: "With 1, the kernel also moves pages that mlockall(2) locked, and the next access \
              causes a page fault. With PREEMPT_RT, the default is 0.",
        ..BASE
    },
    Check {
        name: "zone-reclaim",
        subject: "zone_reclaim_mode",
        severity: Severity::Info,
        expected: "0",
        setting: "zone-reclaim",
        judge: |reader| reader.number(reader.own, |n| n == 0),
        why: "With any other value, a thread that allocates memory first frees memory of the local \
              node.",
        ..BASE
    },
    Check {
        name: "reserved-huge-pages",
        subject: "reserved huge pages",
        severity: Severity::Info,
        expected: "one or more, if the application uses huge pages",
        reads: &[HUGE],
        judge: |reader| {
            if reader.role != Role::Telco {
                return Err(crate::fact_reader::Missing::not_applicable(format!(
                    "not relevant for the role {}",
                    reader.role
                )));
            }
            let all = reader.files(HUGE)?;
            for (file, count) in &all {
                reader.saw(*file, count);
            }
            let some = all.iter().any(|(_, count)| *count != "0");
            Ok(Verdict::mild(some, if some { "are set" } else { "none" }))
        },
        why: "Programs such as DPDK keep packets in huge pages, which causes fewer TLB misses \
              and no page faults.",
        source: "Documentation/admin-guide/mm/hugetlbpage.rst",
        reboot: "default_hugepagesz=1G hugepagesz=1G hugepages=N on the kernel's command line",
        ..BASE
    },
    Check {
        name: "slab-partial",
        subject: "partial slab lists",
        severity: Severity::Info,
        expected: "0",
        reads: &[SLAB_PARTIAL],
        judge: slab_partial,
        why: "Each CPU keeps a list of partly free pages of the kernel's allocator. If the list is full, a thread that frees memory returns all of them while it holds a lock.",
        source: "mm/Kconfig, SLUB_CPU_PARTIAL; Documentation/ABI/testing/sysfs-kernel-slab, cpu_partial",
        remedies: &[consider(
            "slab-partial",
            "this changes each of several hundred slab caches",
        )],
        ..BASE
    },
    Check {
        name: "crash-kernel",
        subject: "crash kernel memory",
        severity: Severity::Info,
        expected: "any value: the reservation takes memory, not time",
        reads: &[CRASH],
        judge: |reader| {
            let bytes: u64 = reader.value(CRASH)?;
            Ok(Verdict::Ok(match bytes {
                0 => "none".to_owned(),
                _ => format!("{} MiB", bytes >> 20),
            }))
        },
        why: "Programs cannot use the reserved memory. The dump itself is written only after a \
              crash.",
        source: "kernel/ksysfs.c, kexec_crash_size; Documentation/admin-guide/kdump/kdump.rst",
        ..BASE
    },
    Check {
        name: "file-systems",
        subject: "remote file systems",
        severity: Severity::Info,
        expected: "not used by the application",
        reads: &[MOUNTS],
        judge: |reader| {
            let text = match reader.facts.files.get(MOUNTS) {
                Some(punctual_model::Reading::Text(text)) => text.as_str(),
                _ => reader.text(MOUNTS)?,
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
            reader.saw(
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
                    0 => "none".to_owned(),
                    count => format!(
                        "{count} mounted: {}",
                        crate::fact_reader::line(&remote.join(", "))
                    ),
                },
            ))
        },
        why: "Opening or mapping a file on such a file system waits for the network or another \
              program. So does a page fault in a mapped file.",
        source: "nfs(5); mount.fuse3(8)",
        ..BASE
    },
];

fn slab_partial(reader: &FactReader) -> Judged {
    let all = reader.files(SLAB_PARTIAL)?;
    let kept: Vec<_> = all.iter().filter(|(_, count)| *count != "0").collect();
    for (file, count) in kept.iter().take(2) {
        reader.saw(*file, count);
    }
    if kept.is_empty() {
        reader.saw(SLAB_PARTIAL.replace('#', "N"), "0");
    }
    Ok(match kept.len() {
        0 => Verdict::Ok("none".to_owned()),
        some => Verdict::Warn(format!("{some} of {} caches", all.len())),
    })
}

fn writeback(reader: &FactReader) -> Judged {
    // Only one of the two limits is in effect: the one that is not 0.
    if let Ok(bytes) = reader.value::<u64>(DIRTY_BYTES)
        && bytes > 0
    {
        return Ok(Verdict::mild(
            bytes <= 256 << 20,
            format!("is {bytes} bytes"),
        ));
    }
    reader.mild_number(reader.own, |n| n <= 5)
}
