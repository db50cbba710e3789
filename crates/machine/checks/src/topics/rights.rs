//! Checks of the application's permissions. The permissions are those of the process that captures
//! the facts, so run the audit as the user who runs the application.

use punctual_model::{CpuSet, Reading, Severity, path_of};

use super::Topic;
use super::limits::{self, LIMIT_FILE, LIMIT_FILES, REALTIME_KIT};
use crate::fact_reader::{FactReader, Judged, Missing, Verdict, line, shown};
use crate::{BASE, Check, Remedy, Role, Stance};

pub(super) const TOPIC: Topic = Topic {
    name: "rights",
    title: "Application rights",
    checks: CHECKS,
};

const LIMITS: &str = "/proc/self/limits";
const STATUS: &str = "/proc/self/status";
const V2_QUOTA: &str = "/sys/fs/cgroup{cgroups}/cpu.max";
const V1_RUNTIME: &str = "/sys/fs/cgroup/cpu{cgroup:cpu}/cpu.rt_runtime_us";
const V1_QUOTA: &str = "/sys/fs/cgroup/cpu{cgroups:cpu}/cpu.cfs_quota_us";
const V2_CPUS: &str = "/sys/fs/cgroup{cgroups}/cpuset.cpus.effective";
const V1_CPUS: &str = "/sys/fs/cgroup/cpuset{cgroups:cpuset}/cpuset.effective_cpus";
const V2_PARTITION: &str = "/sys/fs/cgroup{cgroup}/cpuset.cpus.partition";
const V1_EXCLUSIVE: &str = "/sys/fs/cgroup/cpuset{cgroup:cpuset}/cpuset.cpu_exclusive";
const DMA_LATENCY: &str = path_of("dma-latency-us");
const TRACING: &str = "/sys/kernel/tracing/current_tracer";

/// Bit numbers of capabilities(7).
const IPC_LOCK: u32 = 14;
const SYS_NICE: u32 = 23;

const CHECKS: &[Check] = &[
    Check {
        name: "priority",
        subject: "real-time priority limit",
        severity: Severity::High,
        expected: "RLIMIT_RTPRIO of 80 or more, or CAP_SYS_NICE",
        reads: &[LIMITS, STATUS, LIMIT_FILES, LIMIT_FILE, REALTIME_KIT],
        judge: |reader| limit(reader, "Max realtime priority", SYS_NICE, 80),
        here: |reader| {
            Some(format!(
                "{}{}",
                limits::grant(reader, "rtprio"),
                limits::kit(reader)
            ))
        },
        why: "Without this right, the application runs as a normal thread, despite all other \
              tuning.",
        source: "sched(7), Privileges and resource limits; getrlimit(2)",
        reboot: "add @realtime - rtprio 95 to /etc/security/limits.d/realtime.conf, add the user \
                 to that group, and log in again",
        ..BASE
    },
    Check {
        name: "locked-memory",
        subject: "locked memory limit",
        severity: Severity::High,
        expected: "RLIMIT_MEMLOCK of 64 MiB or more, or CAP_IPC_LOCK",
        reads: &[LIMITS, STATUS, LIMIT_FILES, LIMIT_FILE],
        judge: |reader| limit(reader, "Max locked memory", IPC_LOCK, 64 << 20),
        here: |reader| Some(limits::grant(reader, "memlock")),
        why: "With a lower limit, mlockall(2) fails, and page faults occur at the worst moment.",
        source: "mlock(2); getrlimit(2)",
        reboot: "add @realtime - memlock unlimited to /etc/security/limits.d/realtime.conf, and \
                 log in again",
        ..BASE
    },
    Check {
        name: "real-time-budget",
        subject: "real-time budget (RLIMIT_RTTIME)",
        expected: "unlimited",
        reads: &[LIMITS],
        judge: |reader| {
            let (soft, _) = row(reader, "Max realtime timeout")?;
            Ok(match soft {
                "unlimited" => Verdict::Ok("is unlimited".to_owned()),
                us => Verdict::Warn(format!("is {us} µs")),
            })
        },
        why: "A real-time thread that uses the CPU for longer than this budget without a blocking \
              call gets SIGXCPU, then SIGKILL. RealtimeKit sets 200 ms.",
        source: "getrlimit(2), RLIMIT_RTTIME",
        ..BASE
    },
    Check {
        name: "allowed-cpus",
        subject: "allowed CPUs",
        severity: Severity::High,
        expected: "all of them",
        reads: &[STATUS],
        judge: |reader| {
            let list = status(reader, "Cpus_allowed_list:")?;
            let allowed: CpuSet = list
                .parse()
                .map_err(|_| Missing::unknown(format!("'{list}' is not a list of CPUs")))?;
            let outside = reader.cpus.difference(&allowed);
            Ok(if outside.is_empty() {
                Verdict::Ok(format!("CPU {allowed}"))
            } else {
                // Isolation removes CPUs from the default affinity. A program that requests these
                // CPUs still gets them, unless a cpuset forbids it.
                Verdict::Warn(format!(
                    "CPU {outside} is missing: the program must set its affinity, and its cpuset \
                     must allow this CPU"
                ))
            })
        },
        why: "A cpuset or an inherited affinity keeps the application off the CPUs that were isolated for it.",
        source: "cpuset(7); sched_setaffinity(2)",
        remedies: &[Remedy::Decide("taskset -c {cpus} COMMAND")],
        ..BASE
    },
    Check {
        name: "group-share",
        subject: "real-time runtime of the control group",
        severity: Severity::High,
        expected: "more than 0, or no such limit",
        reads: &[V1_RUNTIME],
        judge: |reader| {
            // The file exists only on kernels with RT_GROUP_SCHED.
            reader.number(V1_RUNTIME, |n| n != 0)
        },
        why: "With 0, the kernel refuses sched_setscheduler(2) in this group, even to root.",
        source: "Documentation/scheduler/sched-rt-group.rst",
        ..BASE
    },
    Check {
        name: "group-quota",
        subject: "CPU quota of the control group",
        expected: "none, for the group and its ancestors",
        reads: &[V2_QUOTA, V1_QUOTA],
        judge: |reader| match reader.text(V2_QUOTA) {
            Ok(text) => quota(V2_QUOTA, text, |quota| quota.starts_with("max")),
            Err(Missing::Unknown(why)) => Err(Missing::Unknown(why)),
            Err(_) => quota(V1_QUOTA, reader.text(V1_QUOTA)?, |quota| {
                quota.starts_with('-')
            }),
        },
        why: "Once the quota is used up, ordinary threads of the group are stopped for the rest of \
              the 100 ms period.",
        source: "Documentation/admin-guide/cgroup-v2.rst, cpu.max; Documentation/scheduler/sched-bwc.rst",
        ..BASE
    },
    Check {
        name: "group-cpus",
        subject: "CPUs of the control group",
        severity: Severity::High,
        expected: "all measured CPUs",
        reads: &[V2_CPUS, V1_CPUS],
        judge: |reader| {
            let cpus = group_cpus(reader)?;
            let outside = reader.cpus.difference(&cpus);
            Ok(if outside.is_empty() {
                Verdict::Ok(format!("CPU {cpus}"))
            } else {
                Verdict::Fail(format!("CPU {cpus}, without measured CPU {outside}"))
            })
        },
        why: "A cpuset overrides affinities: threads of the group never run on CPUs outside the \
              cpuset.",
        source: "cpuset(7); Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.effective",
        ..BASE
    },
    Check {
        name: "group-exclusive",
        subject: "cpuset partition of the control group",
        severity: Severity::Info,
        expected: "root or isolated (version 1: exclusive)",
        reads: &[V2_PARTITION, V1_EXCLUSIVE],
        judge: |reader| match reader.text(V2_PARTITION) {
            Ok(text) => {
                let own = matches!(text, "root" | "isolated");
                Ok(Verdict::mild(own, format!("is {text}")))
            }
            Err(Missing::NotApplicable(_)) => reader.mild_number(V1_EXCLUSIVE, |n| n == 1),
            Err(unknown) => Err(unknown),
        },
        why: "Threads of other groups may run on CPUs that are not exclusive, even if the group \
              has a cpuset.",
        source: "Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.partition; cpuset(7), cpu_exclusive",
        ..BASE
    },
    Check {
        name: "group-cores",
        subject: "cores of the control group's CPUs",
        expected: "no sibling CPU outside the group",
        reads: &[V2_CPUS, V1_CPUS],
        judge: |reader| {
            let cpus = group_cpus(reader)?;
            let mut shared = CpuSet::new();
            let inside = reader.host().cpus.iter();
            for cpu in inside.filter(|cpu| cpus.contains(cpu.cpu)) {
                for other in reader.fact(&cpu.siblings)?.difference(&cpus).iter() {
                    shared.insert(other);
                }
            }
            Ok(if shared.is_empty() {
                Verdict::Ok("are whole".to_owned())
            } else {
                Verdict::Warn(format!("are shared with CPU {shared}"))
            })
        },
        why: "A sibling CPU that another group uses shares the execution units and first-level \
              caches of the core.",
        source: "Documentation/ABI/testing/sysfs-devices-system-cpu; Documentation/admin-guide/cgroup-v2.rst, cpuset",
        ..BASE
    },
    Check {
        name: "wake-latency",
        subject: "/dev/cpu_dma_latency",
        severity: Severity::Info,
        expected: "readable and writable by the application's user",
        reads: &[DMA_LATENCY],
        judge: |reader| may(reader.text(DMA_LATENCY), "is accessible"),
        why: "A program prevents deep idle states by keeping this file open.",
        source: "Documentation/power/pm_qos_interface.rst",
        reboot: "KERNEL==\"cpu_dma_latency\", GROUP=\"realtime\", MODE=\"0660\" in /etc/udev/rules.d",
        ..BASE
    },
    Check {
        name: "tracing",
        subject: "tracefs",
        severity: Severity::Info,
        expected: "readable tracefs",
        reads: &[TRACING],
        judge: |reader| may(reader.tracefs(reader.text(TRACING)), "is readable"),
        why: "Without access to tracefs, punctual cannot find the cause of a late wake-up.",
        source: "Documentation/trace/ftrace.rst",
        stances: &[Stance {
            roles: &[Role::Lab],
            severity: Severity::Medium,
            note: "a lab needs to know the causes of late wake-ups",
        }],
        ..BASE
    },
    Check {
        name: "limits-files",
        subject: "limits files with rtprio",
        severity: Severity::Info,
        expected: "a file with rtprio",
        reads: &[LIMIT_FILES],
        judge: |reader| {
            let all = reader.files(LIMIT_FILES)?;
            let with: Vec<&str> = all
                .iter()
                .filter(|(_, text)| {
                    let lines = text.lines().map(str::trim);
                    lines
                        .filter(|line| !line.starts_with('#'))
                        .any(|line| line.contains("rtprio"))
                })
                .map(|(file, _)| *file)
                .collect();
            for (file, _) in &all {
                reader.saw(
                    *file,
                    if with.contains(file) {
                        "has rtprio"
                    } else {
                        "no rtprio"
                    },
                );
            }
            Ok(Verdict::mild(
                !with.is_empty(),
                format!("{} of {} files", with.len(), all.len()),
            ))
        },
        why: "A limit set in a shell ends with the shell.",
        source: "limits.conf(5)",
        ..BASE
    },
];

/// Checks whether a file may be read. For this check, a refusal is a result and not a missing fact.
fn may(read: Result<&str, Missing>, yes: &str) -> Judged {
    match read {
        Ok(_) => Ok(Verdict::Ok(yes.to_owned())),
        Err(Missing::Unknown(why)) if why.contains("permission denied") => Ok(Verdict::Warn(why)),
        Err(missing) => Err(missing),
    }
}

/// Returns the effective CPUs of the control group, which are those of the innermost cpuset.
fn group_cpus(reader: &FactReader) -> Result<CpuSet, Missing> {
    let (file, text) = match reader.text(V2_CPUS) {
        Err(Missing::NotApplicable(_)) => (V1_CPUS, reader.text(V1_CPUS)?),
        other => (V2_CPUS, other?),
    };
    let (_, first) = groups(text).next().unwrap_or_default();
    let unreadable = |_| Missing::unknown(format!("{} reads '{}'", shown(file), line(text)));
    first.parse().map_err(unreadable)
}

/// Returns the groups in a file, innermost first, with their texts.
fn groups(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines()
        .map(|line| line.split_once(' ').unwrap_or((line, "")))
}

/// Checks the quotas of the group and all groups above it.
fn quota(file: &str, text: &str, is_none: impl Fn(&str) -> bool) -> Judged {
    if groups(text).any(|(_, quota)| quota.is_empty()) {
        let why = format!("{} reads '{}'", shown(file), line(text));
        return Err(Missing::unknown(why));
    }
    let limited = groups(text).filter(|(_, quota)| !is_none(quota));
    let limited: Vec<String> = limited
        .map(|(group, quota)| format!("{quota} of {group}"))
        .collect();
    Ok(if limited.is_empty() {
        Verdict::Ok("is not set".to_owned())
    } else {
        Verdict::Fail(format!("is {}", limited.join(", ")))
    })
}

/// Returns the soft and hard limit in a row of /proc/self/limits.
fn row<'a>(reader: &FactReader<'a>, name: &str) -> Result<(&'a str, &'a str), Missing> {
    let text = match reader.facts.files.get(LIMITS) {
        Some(Reading::Text(text)) => text,
        _ => reader.always(reader.text(LIMITS))?,
    };
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .ok_or_else(|| Missing::unknown(format!("{LIMITS} has no '{name}'")))?;
    let mut words = rest.split_whitespace();
    match (words.next(), words.next()) {
        (Some(soft), Some(hard)) => {
            reader.saw(LIMITS, &format!("{name}: {soft}, at most {hard}"));
            Ok((soft, hard))
        }
        _ => Err(Missing::unknown(format!(
            "{LIMITS} has no values for '{name}'"
        ))),
    }
}

/// Returns the value in a line of /proc/self/status.
fn status<'a>(reader: &FactReader<'a>, name: &str) -> Result<&'a str, Missing> {
    let text = match reader.facts.files.get(STATUS) {
        Some(Reading::Text(text)) => text,
        _ => reader.always(reader.text(STATUS))?,
    };
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .ok_or_else(|| Missing::unknown(format!("{STATUS} has no {name}")))?
        .trim();
    reader.saw(STATUS, &format!("{name} {value}"));
    Ok(value)
}

/// Checks that a limit is high enough, or that a capability makes it irrelevant.
fn limit(reader: &FactReader, name: &str, capability: u32, least: u64) -> Judged {
    let capable = status(reader, "CapEff:")
        .ok()
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .is_some_and(|set| set & (1 << capability) != 0);
    if capable {
        return Ok(Verdict::Ok("is lifted by a capability".to_owned()));
    }
    let (soft, hard) = row(reader, name)?;
    let high = |text: &str| text == "unlimited" || text.parse::<u64>().is_ok_and(|n| n >= least);
    Ok(match (high(soft), high(hard)) {
        (true, _) => Verdict::Ok(format!("is {soft}")),
        (_, true) => Verdict::Warn(format!("is {soft} (hard limit {hard})")),
        _ => Verdict::Fail(format!("is {soft}")),
    })
}
