//! Checks of the scheduler.

use std::collections::BTreeSet;

use punctual_model::{Severity, TaskFact, path_of};

use super::Topic;
use crate::fact_reader::{FactReader, Judged, Missing, Verdict, line};
use crate::kernel::OptionState;
use crate::remedy::consider;
use crate::{BASE, Check, Remedy, Role, Stance};
use punctual_model::SPINNING;

pub(super) const TOPIC: Topic = Topic {
    name: "scheduler",
    title: "Scheduler",
    checks: CHECKS,
};

const SCHED_EXT: &str = "/sys/kernel/sched_ext/state";
const SCHED_EXT_NAME: &str = "/sys/kernel/sched_ext/root/ops";
const NR_MIGRATE_BEFORE: &str = "/proc/sys/kernel/sched_nr_migrate";
const RESERVE: &str = "/proc/sys/kernel/sched_rt_period_us";

/// Programs that start other programs or do periodic work. The kernel truncates process names to 15
/// characters (proc_pid_comm(5)).
const BY_THE_CLOCK: [&str; 9] = [
    "cron",
    "crond",
    "anacron",
    "atd",
    "updatedb",
    "packagekitd",
    "unattended-upgr",
    "snapd",
    "tracker-miner-f",
];

/// Kernel threads that process work queued on a CPU by other threads.
const WORKING_OFF: [&str; 4] = ["ksoftirqd", "ktimers", "rcuc", "rcub"];

/// The first version with a fair server.
const FAIR_SINCE: (u32, u32) = (6, 12);

/// Numbers of the policies SCHED_FIFO and SCHED_RR, sched(7).
const REAL_TIME: [u32; 2] = [1, 2];

const CHECKS: &[Check] = &[
    Check {
        name: "rt-throttling",
        subject: "real-time throttling",
        expected: "-1, or a thread that always sleeps before the limit",
        reads: &[RESERVE],
        judge: throttling,
        why: "If a real-time thread runs for 950 ms of a second, the kernel stops it for the \
              remaining 50 ms.",
        source: "sched(7), sched_rt_runtime_us; Documentation/scheduler/sched-rt-group.rst",
        stances: &[
            Stance {
                roles: SPINNING,
                severity: Severity::High,
                note: "the limit stops a spinning thread each second. With -1, a runaway thread \
                       occupies its CPU forever, so leave one CPU outside its affinity",
            },
            Stance {
                roles: &[Role::Control, Role::Audio],
                severity: Severity::Info,
                note: "a loop that sleeps is never throttled, and throttling keeps a runaway \
                       thread from hanging the machine. RHEL and tuned's profile realtime set -1, \
                       but audio guides do not change the limit",
            },
        ],
        remedies: &[consider(
            "rt-runtime-us",
            "a runaway thread then occupies its CPU forever",
        )],
        ..BASE
    },
    Check {
        name: "fair-server",
        subject: "fair server",
        severity: Severity::Info,
        expected: "runtime 0 if a real-time thread spins",
        setting: "fair-server-runtime-ns",
        judge: |reader| server(reader, &FAIR_SERVER),
        why: "Since Linux 6.12, a deadline server runs starving normal threads for 50 ms of each \
              second, regardless of sched_rt_runtime_us.",
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::High,
            note: "the fair server stops a spinning real-time thread as soon as another thread \
                   waits for the CPU. The only other program that reads this setting is stalld",
        }],
        ..BASE
    },
    Check {
        name: "ext-server",
        subject: "ext server",
        severity: Severity::Info,
        expected: "runtime 0 if a real-time thread spins",
        setting: "ext-server-runtime-ns",
        reads: &[SCHED_EXT],
        judge: ext_server,
        why: "Since Linux 7.0, a second deadline server runs starving threads of a sched_ext \
              scheduler for 50 ms of each second, next to the fair server.",
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::High,
            note: "the ext server stops a spinning real-time thread as soon as a thread of the \
                   sched_ext scheduler waits for the CPU",
        }],
        ..BASE
    },
    Check {
        name: "sched-ext",
        subject: "sched_ext scheduler",
        expected: "none",
        reads: &[SCHED_EXT, SCHED_EXT_NAME],
        judge: |reader| {
            if reader.text(SCHED_EXT)? != "enabled" {
                return Ok(Verdict::Ok("none".to_owned()));
            }
            let name = reader.text(SCHED_EXT_NAME).unwrap_or("of unknown name");
            Ok(Verdict::Fail(format!("{} is enabled", line(name))))
        },
        why: "A BPF program then schedules ordinary threads. It may leave a CPU idle while such a \
              thread is runnable. Real-time threads are not affected.",
        source: "Documentation/scheduler/sched-ext.rst",
        ..BASE
    },
    Check {
        name: "timer-migration",
        subject: "timer migration",
        severity: Severity::Info,
        expected: "1 if threads spin on isolated CPUs, 0 if they sleep",
        setting: "timer-migration",
        judge: |reader| {
            let on: u32 = reader.value(reader.own)?;
            let wanted = u32::from(reader.role.spins());
            Ok(Verdict::mild(on == wanted, format!("is {on}")))
        },
        why: "With 1, the kernel moves a timer of an idle CPU to a busy CPU: when the timer is set \
              and, from Linux 6.9 on, when it expires.",
        stances: &[
            Stance {
                roles: SPINNING,
                severity: Severity::Medium,
                note: "with 1, timers that the kernel sets on a measured CPU move to another CPU. \
                       OpenShift's tuning sets 1, but tuned's profile network-latency sets 0",
            },
            Stance {
                roles: &[Role::Control, Role::Audio, Role::Network, Role::Lab],
                severity: Severity::Info,
                note: "with 0, a timer expires on the CPU on which it was set, and wakes its \
                       thread without the help of another CPU. tuned's profile network-latency \
                       sets 0, but OpenShift's tuning sets 1",
            },
        ],
        ..BASE
    },
    Check {
        name: "numa-balancing",
        subject: "NUMA balancing",
        expected: "0",
        setting: "numa-balancing",
        judge: |reader| {
            let nodes = reader.host().processor.numa_nodes.get();
            if nodes.is_some_and(|nodes| nodes.len() < 2) {
                return Err(Missing::not_applicable("the machine has one node"));
            }
            reader.number(reader.own, |n| n == 0)
        },
        why: "The kernel unmaps pages to find out which threads use them, and the next access \
              causes a page fault.",
        ..BASE
    },
    Check {
        name: "autogroup",
        subject: "autogroup",
        severity: Severity::Info,
        expected: "0",
        setting: "autogroup",
        judge: |reader| reader.mild_number(reader.own, |n| n == 0),
        why: "With autogroup, the nice value of an ordinary thread counts only within its session. \
              Real-time threads are not affected.",
        ..BASE
    },
    Check {
        name: "statistics",
        subject: "scheduler statistics",
        severity: Severity::Info,
        expected: "0",
        setting: "scheduler-statistics",
        judge: |reader| reader.number(reader.own, |n| n == 0),
        why: "The scheduler updates statistics at each wake-up and context switch.",
        ..BASE
    },
    Check {
        name: "delay-accounting",
        subject: "delay accounting",
        severity: Severity::Info,
        expected: "0",
        setting: "delay-accounting",
        judge: |reader| reader.number(reader.own, |n| n == 0),
        why: "The kernel measures each wait of each thread for disk, memory and CPU.",
        ..BASE
    },
    Check {
        name: "batch-migration",
        subject: "nr_migrate",
        severity: Severity::Info,
        expected: "at most 32, or 8 with PREEMPT_RT",
        setting: "batch-migration",
        reads: &[NR_MIGRATE_BEFORE],
        judge: |reader| {
            let limit = if reader.is_rt()? { 8 } else { 32 };
            let file = if reader.version()? < (5, 13) {
                NR_MIGRATE_BEFORE
            } else {
                reader.own
            };
            reader.debugfs(reader.mild_number(file, |n| n <= limit))
        },
        why: "Load balancing moves up to this many threads at once with interrupts disabled.",
        source: "kernel/sched/core.c, sysctl_sched_nr_migrate (in debugfs since Linux 5.13)",
        ..BASE
    },
    Check {
        name: "utilisation-clamp",
        subject: "sched_util_clamp_min_rt_default",
        severity: Severity::Info,
        expected: "1024",
        setting: "rt-clamp-min",
        judge: |reader| reader.mild_number(reader.own, |n| n == 1024),
        why: "With schedutil, a lower value lets a real-time thread start at a low frequency or on \
              a small core.",
        ..BASE
    },
    Check {
        name: "energy-aware",
        subject: "energy-aware scheduling",
        severity: Severity::Info,
        expected: "0",
        setting: "energy-aware",
        judge: |reader| reader.mild_number(reader.own, |n| n == 0),
        why: "The scheduler packs ordinary threads onto small cores, and moves them when the load \
              changes.",
        ..BASE
    },
    Check {
        name: "priority-99",
        subject: "programs at priority 99",
        expected: "none (98 is the highest safe priority)",
        judge: |reader| {
            let top = |task: &&TaskFact| {
                !task.kernel && REAL_TIME.contains(&task.policy) && task.priority == 99
            };
            names(reader, top)
        },
        why: "The kernel's migration and watchdog threads have priority 99, and must be able to preempt all other threads.",
        source: "sched(7); the kernel's stop class, kernel/stop_machine.c",
        remedies: &[Remedy::Decide("chrt --fifo --pid 90 PID")],
        ..BASE
    },
    Check {
        name: "other-rt",
        subject: "other real-time programs on the measured CPUs",
        severity: Severity::Info,
        expected: "only those of the application",
        judge: |reader| {
            let there = |task: &&TaskFact| {
                !task.kernel
                    && REAL_TIME.contains(&task.policy)
                    && reader.cpus.contains(task.last_cpu)
            };
            names(reader, there)
        },
        why: "The application cannot preempt a thread of higher or equal priority, however long \
              that thread runs.",
        source: "sched(7)",
        ..BASE
    },
    Check {
        name: "kernel-threads",
        subject: "priority of kernel threads",
        severity: Severity::Info,
        expected: "below 50",
        judge: kernel_threads,
        why: "Kernel threads process, in batches, work that other threads queued on the CPU. At or \
              above the application's priority, they delay the application. Far below it, they \
              starve if the application spins.",
        source: "Documentation/admin-guide/kernel-per-CPU-kthreads.rst; Documentation/admin-guide/kernel-parameters.txt, rcutree.kthread_prio; tuned, profiles/realtime-virtual-host (2 to 4); OpenShift's tuning (11)",
        remedies: &[Remedy::Decide(
            "chrt --fifo --pid 4 PID for each of these threads",
        )],
        ..BASE
    },
    Check {
        name: "background",
        subject: "programs that start work on a schedule",
        severity: Severity::Info,
        expected: "none, or only intended programs",
        judge: |reader| {
            let found = reader.running(&BY_THE_CLOCK)?;
            let names: BTreeSet<&str> = found.iter().map(|task| task.name.as_str()).collect();
            let names: Vec<&str> = names.into_iter().collect();
            Ok(if names.is_empty() {
                Verdict::Ok("none known".to_owned())
            } else {
                Verdict::Warn(names.join(", "))
            })
        },
        why: "Nightly jobs of these programs (indexing, updates, backups) fill the disk, memory \
              and caches. A measurement during the day misses them.",
        source: "cron(8); systemd.timer(5); rteval and rtcqs list such programs",
        remedies: &[Remedy::Decide(
            "systemctl list-timers, then stop the timers that you do not need",
        )],
        ..BASE
    },
    Check {
        name: "stalld",
        subject: "stalld",
        severity: Severity::Info,
        expected: "stalld if threads spin, none otherwise",
        judge: |reader| {
            let runs = !reader.running(&["stalld"])?.is_empty();
            Ok(Verdict::mild(
                runs == reader.role.spins(),
                if runs { "is running" } else { "is not running" },
            ))
        },
        why: "A thread that never sleeps starves the kernel's threads on that CPU. stalld boosts \
              these threads for 10 µs at a time, which also disturbs the application.",
        source: "stalld(8)",
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::Info,
            note: "OpenShift runs stalld; the fair server of Linux 6.12 has the same purpose",
        }],
        ..BASE
    },
];

fn throttling(reader: &FactReader) -> Judged {
    let kernel = &reader.host().kernel;
    let runtime = *reader.fact(&kernel.rt_runtime_us)?;
    let grouped = reader
        .option("CONFIG_RT_GROUP_SCHED")
        .map(OptionState::is_on);
    let version = reader.version();
    let fair = version.as_ref().is_ok_and(|version| *version >= FAIR_SINCE);
    if fair && grouped == Ok(false) {
        return Err(Missing::not_applicable(
            "from Linux 6.12 on, throttling has no effect without CONFIG_RT_GROUP_SCHED; the fair \
             server applies instead (scheduler-fair-server)",
        ));
    }
    let beside = if fair {
        "; the fair server applies as well (scheduler-fair-server)"
    } else {
        ""
    };
    if runtime < 0 {
        return Ok(Verdict::Ok(format!("is off{beside}")));
    }
    if version? >= FAIR_SINCE && grouped.is_err() {
        return Err(Missing::unknown(
            "from Linux 6.12 on, throttling has an effect only with CONFIG_RT_GROUP_SCHED, and it \
             is unknown whether this kernel has that option",
        ));
    }
    let period = *reader.fact(&kernel.rt_period_us)?;
    let found = format!("is on: {runtime} of each {period} µs{beside}");
    Ok(match reader.role {
        Role::Control | Role::Audio => Verdict::Warn(found),
        _ => Verdict::Fail(found),
    })
}

/// A deadline server: the kernel runs the threads of a class that starve on a CPU.
struct Server {
    name: &'static str,
    runtime: &'static str,
    since: (u32, u32),
    /// Reason why the check does not apply to an older kernel.
    before: &'static str,
}

const FAIR_SERVER: Server = Server {
    name: "fair server",
    runtime: path_of("fair-server-runtime-ns"),
    since: FAIR_SINCE,
    before: "Linux before 6.12 has no fair server; throttling applies instead \
             (scheduler-rt-throttling)",
};

const EXT_SERVER: Server = Server {
    name: "ext server",
    runtime: path_of("ext-server-runtime-ns"),
    since: (7, 0),
    before: "Linux before 7.0 has no ext server",
};

fn ext_server(reader: &FactReader) -> Judged {
    if reader.version()? >= EXT_SERVER.since && reader.text(SCHED_EXT)? != "enabled" {
        return Err(Missing::not_applicable(
            "no sched_ext scheduler is enabled, so the ext server has no threads to run",
        ));
    }
    server(reader, &EXT_SERVER)
}

fn server(reader: &FactReader, server: &Server) -> Judged {
    if reader.version()? < server.since {
        return Err(Missing::not_applicable(server.before));
    }
    let all = reader.debugfs(reader.each_cpu(server.runtime));
    let all = all.map_err(|missing| match missing {
        Missing::Unknown(why) => Missing::unknown(format!(
            "the {} is on, but its share is unknown: {why}",
            server.name
        )),
        other => other,
    })?;
    let reserved = all.iter().filter(|(_, runtime)| *runtime != "0").count();
    let found = match all.iter().find(|(_, runtime)| *runtime != "0") {
        Some((cpu, runtime)) => {
            let cpus = if reserved == 1 { "CPU" } else { "CPUs" };
            format!("is on for {reserved} {cpus}: {runtime} ns a second on CPU {cpu}")
        }
        None => "is off".to_owned(),
    };
    Ok(if reader.role.spins() {
        Verdict::new(reserved == 0, found)
    } else {
        // A thread that sleeps leaves CPU time for other threads.
        Verdict::Ok(found)
    })
}

fn kernel_threads(reader: &FactReader) -> Judged {
    let tasks = reader.tasks()?;
    let there = |task: &&TaskFact| {
        let allowed = task.allowed.as_ref();
        task.kernel
            && WORKING_OFF.contains(&task.name.split('/').next().unwrap_or_default())
            && allowed.is_none_or(|set| !set.intersection(reader.cpus).is_empty())
    };
    let real_time = |task: &&TaskFact| REAL_TIME.contains(&task.policy);
    let all: Vec<&TaskFact> = tasks.iter().filter(there).collect();
    if all.is_empty() {
        return Err(Missing::unknown(
            "no such kernel thread is visible: this may be a container, or the facts of a \
             container",
        ));
    }
    let highest = all
        .iter()
        .copied()
        .filter(real_time)
        .max_by_key(|task| task.priority);
    let Some(highest) = highest else {
        reader.saw(
            &reader.facts.tasks.source,
            &format!("{} kernel threads, none with real-time priority", all.len()),
        );
        return Ok(Verdict::Ok("none is real-time".to_owned()));
    };
    let found = format!("{} at {}", highest.name, highest.priority);
    reader.saw(format!("/proc/{}/stat", highest.pid), &found);
    Ok(Verdict::mild(highest.priority < 50, found))
}

/// Returns *ok* if there are no such tasks; otherwise names them.
fn names(reader: &FactReader, kind: impl Fn(&&TaskFact) -> bool) -> Judged {
    let tasks = reader.tasks()?;
    let found: Vec<&TaskFact> = tasks.iter().filter(kind).collect();
    for task in found.iter().take(4) {
        reader.saw(
            format!("/proc/{}/stat", task.pid),
            &format!("{}: priority {}", task.name, task.priority),
        );
    }
    let names: Vec<&str> = found
        .iter()
        .take(4)
        .map(|task| task.name.as_str())
        .collect();
    Ok(if names.is_empty() {
        reader.saw(
            &reader.facts.tasks.source,
            &format!("none of {}", tasks.len()),
        );
        Verdict::Ok("none".to_owned())
    } else {
        Verdict::Warn(format!("{}: {}", found.len(), names.join(", ")))
    })
}
