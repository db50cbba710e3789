//! Checks of other work that may run on the measured CPUs.

use std::collections::BTreeMap;

use punctual_model::{CpuSet, Severity, TaskFact, counted, path_of};

use super::{Topic, interruptions, rcu};
use crate::fact_reader::{FactReader, Judged, Missing, ParameterEffect, Verdict, line};
use crate::remedy::{instance, set};
use crate::{BASE, Check, Remedy, Role, Stance};
use punctual_model::{PERIODIC, SPINNING};

pub(super) const TOPIC: Topic = Topic {
    name: "isolation",
    title: "Isolation",
    checks: CHECKS,
};

const PARAMETERS: &str = "Documentation/admin-guide/kernel-parameters.txt";
const PER_CPU: &str = "Documentation/admin-guide/kernel-per-CPU-kthreads.rst";
/// Types of the partitions in the upper two levels of control groups, version 2.
const PARTITIONS: [&str; 2] = [
    "/sys/fs/cgroup/*/cpuset.cpus.partition",
    "/sys/fs/cgroup/*/*/cpuset.cpus.partition",
];
const WRITEBACK: &str = "/sys/devices/virtual/workqueue/writeback/cpumask";
const POWER_EFFICIENT: &str = "/sys/module/workqueue/parameters/power_efficient";
const INIT: &str = "/proc/1/status";
const RCU_EXPEDITED: &str = path_of("rcu-expedited");
const RCU_NORMAL: &str = path_of("rcu-normal");
const RCU_PRIORITY: &str = "/sys/module/rcutree/parameters/kthread_prio";
const RCU_PATIENCE: &str = "/sys/module/rcutree/parameters/nohz_full_patience_delay";

const CHECKS: &[Check] = &[
    Check {
        name: "isolated",
        subject: "CPU isolation",
        expected: "an isolated cpuset partition, or isolcpus= (deprecated according to the \
                   kernel's documentation)",
        reads: &PARTITIONS,
        judge: isolated,
        why: "Load balancing moves ordinary threads to any CPU that seems idle, and searches for \
              such threads with interrupts disabled.",
        source: "Documentation/admin-guide/kernel-parameters.txt, isolcpus=; Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.partition",
        stances: &[
            Stance {
                roles: SPINNING,
                severity: Severity::High,
                note: "each real-time thread needs a dedicated CPU",
            },
            Stance {
                roles: &[Role::Audio, Role::Lab],
                severity: Severity::Info,
                note: "with shared CPUs, priorities are enough and isolation wastes CPUs. Guides \
                       for control and trading call for isolation",
            },
        ],
        boot: &["isolcpus"],
        reboot: " (choose the CPUs, and leave some for the system)",
        ..BASE
    },
    Check {
        name: "managed-interrupts",
        subject: "isolcpus=managed_irq",
        expected: "isolcpus=managed_irq,…",
        judge: managed_interrupts,
        why: "The kernel places the interrupts of multi-queue devices (NVMe, network), and no \
              program can move them.",
        source: "Documentation/core-api/irq/managed_irq.rst; Documentation/admin-guide/kernel-parameters.txt, isolcpus=",
        boot: &["isolcpus"],
        ..BASE
    },
    Check {
        name: "nohz-full",
        subject: "nohz_full",
        expected: "nohz_full= for threads that spin, no nohz_full= for periodic threads",
        judge: nohz_full,
        why: "nohz_full stops the tick on a CPU that runs only one thread, but makes each kernel \
              entry more expensive.",
        source: "Documentation/timers/no_hz.rst; Documentation/core-api/real-time/kernel-configuration.rst, CONFIG_NO_HZ_FULL",
        stances: &[
            Stance {
                roles: PERIODIC,
                severity: Severity::Info,
                note: "according to the kernel's documentation, threads that sleep pay for \
                       nohz_full at each system call and gain nothing. tuned's profiles for \
                       virtual hosts and many blogs set it everywhere",
            },
            Stance {
                roles: SPINNING,
                severity: Severity::High,
                note: "otherwise the tick interrupts a spinning thread HZ times a second. The \
                       kernel's page on real-time configuration advises against nohz_full for \
                       periodic loops",
            },
        ],
        boot: &["nohz_full"],
        reboot: " for threads that spin; no nohz_full= for periodic threads",
        here: |reader| {
            cannot_stop_the_tick(reader).then(|| {
                "a kernel with CONFIG_NO_HZ_FULL=y, and nohz_full= with the measured CPUs"
                    .to_owned()
            })
        },
        ..BASE
    },
    Check {
        name: "nohz",
        subject: "nohz",
        severity: Severity::Info,
        expected: "not nohz=off",
        judge: |reader| {
            let off = reader.boot("nohz")? == Some("off");
            Ok(Verdict::new(
                !off,
                if off { "is off" } else { "is not off" },
            ))
        },
        why: "With nohz=off, every CPU has a periodic tick even while it is idle, and nohz_full \
              has no effect.",
        source: "Documentation/admin-guide/kernel-parameters.txt, nohz=",
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::High,
            note: "nohz_full has no effect with nohz=off",
        }],
        reboot: "remove nohz=off from the kernel's command line",
        ..BASE
    },
    Check {
        name: "rcu-callbacks",
        subject: "RCU callbacks",
        expected: "rcu_nocbs= or nohz_full= with the measured CPUs",
        judge: rcu::callbacks,
        why: "Without offloading, RCU callbacks run in batches on the CPU that queued them, in a \
              softirq or in a thread that delays the application.",
        source: PER_CPU,
        stances: &[
            Stance {
                roles: SPINNING,
                severity: Severity::High,
                note: "the batches of callbacks interrupt a thread that never sleeps",
            },
            Stance {
                roles: &[Role::Audio, Role::Lab],
                severity: Severity::Info,
                note: "with PREEMPT_RT, the callbacks run in threads below the application's \
                       priority",
            },
        ],
        boot: &["rcu_nocbs"],
        ..BASE
    },
    Check {
        name: "rcu-wakeups",
        subject: "rcu_nocb_poll",
        severity: Severity::Info,
        expected: "rcu_nocb_poll",
        judge: |reader| {
            if !reader.role.spins() {
                return Err(Missing::not_applicable(format!(
                    "not relevant for the role {}",
                    reader.role
                )));
            }
            Ok(match rcu::polls(reader)? {
                ParameterEffect::Yes => Verdict::Ok("is set".to_owned()),
                ParameterEffect::NotGiven => Verdict::Warn("is not set".to_owned()),
                ParameterEffect::No => Verdict::Warn(format!(
                    "is set, but the kernel is built without {}",
                    rcu::OFFLOADING
                )),
            })
        },
        why: "Without rcu_nocb_poll, a measured CPU that queues a callback must also wake the \
              thread that runs the callback.",
        source: "Documentation/admin-guide/kernel-parameters.txt, rcu_nocb_poll",
        boot: &["rcu_nocb_poll"],
        reboot: " (this costs power on the other CPUs)",
        ..BASE
    },
    Check {
        name: "rcu-expedited",
        subject: "RCU grace periods",
        expected: "rcu_expedited 0 and rcu_normal 1",
        reads: &[RCU_EXPEDITED, RCU_NORMAL],
        judge: |reader| {
            let expedited: u32 = reader.value(RCU_EXPEDITED)?;
            let normal: u32 = reader.value(RCU_NORMAL)?;
            Ok(match (expedited, normal) {
                (_, 1) => Verdict::Ok("are normal (rcu_normal is 1)".to_owned()),
                (0, _) => Verdict::Warn("may be expedited (rcu_normal is 0)".to_owned()),
                _ => Verdict::Fail("are expedited (rcu_expedited is 1)".to_owned()),
            })
        },
        why: "An expedited grace period interrupts every CPU that is not idle.",
        source: "Documentation/admin-guide/kernel-parameters.txt, rcupdate.rcu_normal_after_boot (on by default with PREEMPT_RT)",
        remedies: &[set("rcu-expedited"), set("rcu-normal")],
        ..BASE
    },
    Check {
        name: "rcu-priority",
        subject: "priority of RCU threads",
        severity: Severity::Info,
        expected: "below 50",
        reads: &[RCU_PRIORITY],
        judge: |reader| reader.mild_number(RCU_PRIORITY, |n| (0..50).contains(&n)),
        why: "RCU threads with a higher priority than the application preempt it. An RCU reader \
              that is preempted for long and not boosted delays the release of memory.",
        source: "Documentation/admin-guide/kernel-parameters.txt, rcutree.kthread_prio",
        boot: &["rcutree.kthread_prio"],
        ..BASE
    },
    Check {
        name: "rcu-patience",
        subject: "nohz_full_patience_delay",
        severity: Severity::Info,
        expected: "1000 ms",
        reads: &[RCU_PATIENCE],
        judge: |reader| {
            let nohz_full = &reader.host().processor.nohz_full;
            let absent = nohz_full.unknown.as_deref() == Some("not there");
            if absent || reader.fact(nohz_full)?.is_empty() {
                return Err(Missing::not_applicable("no CPU is in nohz_full"));
            }
            reader.mild_number(RCU_PATIENCE, |n| n > 0)
        },
        why: "Without this delay, RCU immediately interrupts a CPU in nohz_full to get a quiescent \
              state.",
        source: "Documentation/admin-guide/kernel-parameters.txt, rcutree.nohz_full_patience_delay",
        boot: &["rcutree.nohz_full_patience_delay"],
        ..BASE
    },
    interruptions::TICK_DEPENDENCIES,
    Check {
        name: "services",
        subject: "affinity of services",
        expected: "the affinity of init excludes the measured CPUs",
        reads: &[INIT],
        judge: services,
        why: "Each process inherits its affinity from init, so processes that start later can also \
              run on the measured CPUs.",
        source: "systemd-system.conf(5), CPUAffinity=",
        reboot: "CPUAffinity={others} in /etc/systemd/system.conf.d/latency.conf (isolcpus= has \
                 the same effect)",
        ..BASE
    },
    Check {
        name: "workqueues",
        subject: "affinity of unbound workqueues",
        expected: "a mask without the measured CPUs",
        setting: "workqueue-cpus",
        judge: |reader| reader.mask_elsewhere(reader.own),
        why: "Work items of any driver or file system can run on any CPU of this mask.",
        ..BASE
    },
    Check {
        name: "writeback",
        subject: "affinity of the writeback workqueue",
        expected: "a mask without the measured CPUs",
        reads: &[WRITEBACK],
        judge: |reader| reader.mask_elsewhere(WRITEBACK),
        why: "The work items that write dirty pages run for a long time without interruption.",
        source: "Documentation/core-api/workqueue.rst, WQ_SYSFS",
        remedies: &[instance("workqueue-cpus-of", "writeback")],
        ..BASE
    },
    Check {
        name: "power-efficient-work",
        subject: "workqueue.power_efficient",
        severity: Severity::Info,
        expected: "Y if CPUs are isolated",
        reads: &[POWER_EFFICIENT],
        judge: |reader| {
            reader.elsewhere()?;
            let on = reader.text(POWER_EFFICIENT)? == "Y";
            Ok(Verdict::mild(on, if on { "is Y" } else { "is N" }))
        },
        why: "With Y, work items that need no particular CPU run on the CPUs of the workqueue \
              mask. With N, they run on the CPU that queued them, even if it is measured.",
        source: "Documentation/admin-guide/kernel-parameters.txt, workqueue.power_efficient",
        boot: &["workqueue.power_efficient"],
        ..BASE
    },
    Check {
        name: "threads",
        subject: "other threads on the measured CPUs",
        expected: "none",
        judge: |reader| {
            reader.elsewhere()?;
            let foreign = |task: &&TaskFact| {
                // A real-time thread on these CPUs is either the application, or the check
                // scheduler-other-rt reports it.
                let ordinary = ![1, 2, 6].contains(&task.policy);
                !task.kernel && ordinary && task.pid != 1 && reader.cpus.contains(task.last_cpu)
            };
            crowd(reader, foreign, "last ran there")
        },
        why: "Another thread on a measured CPU evicts cache lines of the application, and uses the \
              CPU whenever the application sleeps.",
        source: "Documentation/core-api/real-time/hardware.rst; cpuset(7)",
        remedies: &[Remedy::Decide(
            "taskset -acp {others} PID for each process that does not need the measured CPUs",
        )],
        ..BASE
    },
    Check {
        name: "kernel-threads",
        subject: "movable kernel threads",
        expected: "none on the measured CPUs",
        judge: |reader| {
            reader.elsewhere()?;
            let movable = |task: &&TaskFact| {
                let allowed = task.allowed.as_ref();
                task.kernel
                    && !task.bound
                    && allowed.is_some_and(|set| {
                        set.len() > 1 && !set.intersection(reader.cpus).is_empty()
                    })
            };
            crowd(reader, movable, "may run there")
        },
        why: "An unbound kernel thread wakes up on the CPU on which it last ran, and stays there.",
        source: PER_CPU,
        remedies: &[Remedy::Run(
            "for p in $(ps --ppid 2 -o pid=); do taskset -cp {others} $p 2>/dev/null || true; done",
        )],
        ..BASE
    },
    Check {
        name: "skewed-ticks",
        subject: "skew_tick",
        severity: Severity::Info,
        expected: "skew_tick=1 on a machine with 16 or more CPUs",
        judge: |reader| {
            let online = reader.fact(&reader.host().processor.online)?;
            if online.len() < 16 {
                return Err(Missing::not_applicable(format!(
                    "only {}",
                    counted(online.len() as u64, "CPU", "CPUs")
                )));
            }
            let skewed = reader.boot("skew_tick")? == Some("1");
            Ok(Verdict::mild(
                skewed,
                if skewed { "is 1" } else { "is not set" },
            ))
        },
        why: "Without skew_tick=1, many CPUs take the same locks at the same moment of each tick.",
        source: PARAMETERS,
        boot: &["skew_tick"],
        reboot: " (this costs power)",
        ..BASE
    },
];

fn isolated(reader: &FactReader) -> Judged {
    let isolated = reader.fact(&reader.host().processor.isolated)?;
    let open = reader.cpus.difference(isolated);
    let state = match (isolated.is_empty(), open.is_empty()) {
        (true, _) => "none".to_owned(),
        (_, true) => return Ok(Verdict::Ok(format!("CPU {isolated}"))),
        (_, false) => format!("CPU {open} is not isolated (isolated CPUs: {isolated})"),
    };
    let all = PARTITIONS.map(|pattern| reader.files(pattern).unwrap_or_default());
    let mut invalid = all
        .into_iter()
        .flatten()
        .filter(|(_, state)| state.contains(" invalid"));
    Ok(Verdict::Fail(match invalid.next() {
        Some((file, why)) => {
            reader.saw(file, why);
            let group = file.trim_start_matches("/sys/fs/cgroup");
            let group = group.trim_end_matches("/cpuset.cpus.partition");
            format!("{state}; the partition {group} is {}", line(why))
        }
        None => state,
    }))
}

/// Returns whether the kernel cannot stop the tick: the file of `nohz_full` does not exist, or the
/// kernel is built without the option.
fn cannot_stop_the_tick(reader: &FactReader) -> bool {
    let fact = &reader.host().processor.nohz_full;
    fact.unknown.as_deref() == Some("not there")
        || fact.get().is_some_and(CpuSet::is_empty)
            && reader.built_with("CONFIG_NO_HZ_FULL") == Some(false)
}

fn nohz_full(reader: &FactReader) -> Judged {
    if cannot_stop_the_tick(reader) {
        reader.boot("nohz_full")?;
        return if reader.role.spins() {
            Ok(Verdict::Fail("is not supported by this kernel".to_owned()))
        } else {
            Err(Missing::not_applicable("this kernel cannot stop the tick"))
        };
    }
    let set = reader.fact(&reader.host().processor.nohz_full)?;
    let set = set.intersection(reader.cpus);
    let without = reader.cpus.difference(&set);
    Ok(match reader.role.spins() {
        true if without.is_empty() => Verdict::Ok(format!("is CPU {set}")),
        true => Verdict::Fail(format!("does not include CPU {without}")),
        false if set.is_empty() => Verdict::Ok("does not include the measured CPUs".to_owned()),
        false => Verdict::Warn(format!("is CPU {set}")),
    })
}

/// Checks `isolcpus=managed_irq,…`, for Linux 5.6 and later. Earlier kernels, and those without
/// CONFIG_CPU_ISOLATION, ignore it (kernel/sched/isolation.c).
fn managed_interrupts(reader: &FactReader) -> Judged {
    const FLAGS: [&str; 3] = ["nohz", "domain", "managed_irq"];
    reader.elsewhere()?;
    let mut managed = CpuSet::new();
    for value in reader.boot_all("isolcpus")? {
        let words: Vec<&str> = value.split(',').collect();
        let flags = words.iter().take_while(|word| FLAGS.contains(word)).count();
        if words[..flags].contains(&"managed_irq") {
            let cpus = reader.boot_cpus("isolcpus", &words[flags..].join(","))?;
            managed = managed.iter().chain(cpus.iter()).collect();
        }
    }
    let open = reader.cpus.difference(&managed);
    if !open.is_empty() {
        return Ok(Verdict::Fail(if managed.is_empty() {
            "is not set".to_owned()
        } else {
            format!("is set for CPU {managed}, but not for CPU {open}")
        }));
    }
    if reader.version()? < (5, 6) {
        let found = "is set, but managed_irq needs Linux 5.6 or later".to_owned();
        return Ok(Verdict::Fail(found));
    }
    // This file lists CPUs only if the kernel is built with the option.
    let isolates = reader.host().processor.isolated.get();
    match reader.obeys("isolcpus", "CONFIG_CPU_ISOLATION") {
        Ok(ParameterEffect::No) => Ok(Verdict::Fail(
            "is set, but the kernel is built without CONFIG_CPU_ISOLATION".to_owned(),
        )),
        Ok(_) => Ok(Verdict::Ok("is set".to_owned())),
        Err(_) if isolates.is_some_and(|cpus| !cpus.is_empty()) => {
            reader.fact(&reader.host().processor.isolated)?;
            Ok(Verdict::Ok("is set".to_owned()))
        }
        Err(unknown) => Err(unknown),
    }
}

fn services(reader: &FactReader) -> Judged {
    reader.elsewhere()?;
    let status = reader.facts.files.get(INIT);
    let Some(punctual_model::Reading::Text(text)) = status else {
        reader.always(reader.text(INIT))?;
        return Err(Missing::unknown(INIT));
    };
    let list = text
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .map(str::trim)
        .ok_or_else(|| Missing::unknown(format!("{INIT} has no Cpus_allowed_list")))?;
    reader.saw(INIT, &format!("Cpus_allowed_list: {list}"));
    let cpus: CpuSet = list
        .parse()
        .map_err(|_| Missing::unknown(format!("'{list}' is not a list of CPUs")))?;
    Ok(reader.leaves_alone(&cpus))
}

/// Returns *fail* if there are any such tasks, and names the most common ones.
fn crowd(reader: &FactReader, kind: impl Fn(&&TaskFact) -> bool, what: &str) -> Judged {
    let tasks = reader.tasks()?;
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    let mut count = 0;
    for task in tasks.iter().filter(kind) {
        count += 1;
        // kworker/1:2-events and kworker/u8:0 are of the same kind.
        let name = task.name.split(['/', ':']).next().unwrap_or_default();
        *by_name.entry(name).or_default() += 1;
    }
    let mut names: Vec<(&str, usize)> = by_name.into_iter().collect();
    names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown: Vec<&str> = names.iter().take(5).map(|(name, _)| *name).collect();
    reader.saw(
        &reader.facts.tasks.source,
        &format!("{count} of {}: {}", tasks.len(), shown.join(", ")),
    );
    Ok(match count {
        0 => Verdict::Ok("none".to_owned()),
        _ => Verdict::Fail(format!("{count} {what}: {}", shown.join(", "))),
    })
}
