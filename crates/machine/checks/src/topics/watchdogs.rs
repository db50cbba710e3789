//! Checks of watchdogs, tracing and other monitoring.

use punctual_model::{Severity, path_of};

use super::Topic;
use crate::fact_reader::{FactReader, Judged, Missing, Verdict};
use crate::remedy::{consider, instance};
use crate::{BASE, Check, Remedy, Role, Stance};

pub(super) const TOPIC: Topic = Topic {
    name: "watchdogs",
    title: "Watchdogs and tracing",
    checks: CHECKS,
};

const LOCKUP: &str = "Documentation/admin-guide/lockup-watchdogs.rst";
const FTRACE: &str = "Documentation/trace/ftrace.rst";
const NMI: &str = path_of("watchdog");
const SOFT: &str = "/proc/sys/kernel/soft_watchdog";
const CPUMASK: &str = path_of("watchdog-cpus");
const MCE_CE: &str = path_of("mce-ignore-corrected");
const MCE_CHECK: &str = "/sys/devices/system/machinecheck/machinecheck#/check_interval";
const TRACER: &str = "/sys/kernel/tracing/current_tracer";
const TRACERS: &str = "/sys/kernel/tracing/available_tracers";
const EVENTS: &str = "/sys/kernel/tracing/set_event";
const INSTANCES: &str = "/sys/kernel/tracing/instances/*/current_tracer";
const PRINTK: &str = "/proc/sys/kernel/printk";

const CHECKS: &[Check] = &[
    Check {
        name: "nmi",
        subject: "NMI watchdog",
        expected: "0",
        reads: &[NMI],
        judge: |reader| reader.number(NMI, |n| n == 0),
        why: "Every few seconds, a performance counter raises a non-maskable interrupt on each \
              CPU.",
        source: LOCKUP,
        stances: &[Stance {
            roles: &[Role::Audio, Role::Lab],
            severity: Severity::Info,
            note: "a few microseconds every ten seconds",
        }],
        remedies: &[instance("watchdog", "nmi")],
        boot: &["nmi_watchdog"],
        ..BASE
    },
    Check {
        name: "soft",
        subject: "soft lockup watchdog",
        expected: "0, or a mask without the measured CPUs",
        reads: &[SOFT, CPUMASK],
        judge: |reader| {
            if reader.value::<i64>(SOFT)? == 0 {
                return Ok(Verdict::Ok("is off".to_owned()));
            }
            if reader.others.is_empty() {
                Ok(Verdict::Fail("is on for every CPU".to_owned()))
            } else {
                reader.list_elsewhere(CPUMASK)
            }
        },
        why: "Every four seconds, the watchdog's timer interrupts each watched CPU and wakes a \
              thread that preempts all others.",
        source: LOCKUP,
        stances: &[Stance {
            roles: &[Role::Audio, Role::Lab],
            severity: Severity::Info,
            note: "a few microseconds every four seconds",
        }],
        remedies: &[instance("watchdog", "soft")],
        boot: &["nosoftlockup"],
        ..BASE
    },
    Check {
        name: "hung-tasks",
        subject: "hung task timeout",
        severity: Severity::Info,
        expected: "0, or at least 600",
        setting: "hung-task-timeout-s",
        judge: |reader| reader.mild_number(reader.own, |n| n == 0 || n >= 600),
        why: "A kernel thread periodically checks all threads.",
        ..BASE
    },
    Check {
        name: "machine-checks",
        subject: "corrected machine checks",
        severity: Severity::Info,
        expected: "ignore_ce 1 or check_interval 0",
        reads: &[MCE_CE, MCE_CHECK],
        judge: |reader| {
            let ignored = reader.every_cpu(MCE_CE, |text| text == "1")?;
            if matches!(ignored, Verdict::Ok(_)) {
                return Ok(Verdict::Ok("are ignored".to_owned()));
            }
            let polled = reader.every_cpu(MCE_CHECK, |text| text == "0")?;
            Ok(match polled {
                Verdict::Ok(_) => Verdict::Ok("are not polled".to_owned()),
                _ => Verdict::Warn("are polled on each CPU".to_owned()),
            })
        },
        why: "Every CPU polls its error banks every five minutes. If errors are ignored, they are \
              not counted: decide whether latency or this count matters more. mce=off would hide \
              real faults.",
        source: "Documentation/ABI/testing/sysfs-mce, ignore_ce and check_interval; Documentation/admin-guide/kernel-parameters.txt, mce=",
        remedies: &[consider(
            "mce-ignore-corrected",
            "failing memory is then noticed late",
        )],
        ..BASE
    },
    Check {
        name: "tracer",
        subject: "current tracer",
        severity: Severity::High,
        expected: "nop",
        reads: &[TRACER],
        judge: |reader| reader.tracefs(reader.word(TRACER, &["nop"])),
        why: "Function tracers record each call in the kernel; osnoise and hwlat occupy the CPUs themselves.",
        source: FTRACE,
        remedies: &[Remedy::Run("echo nop > /sys/kernel/tracing/current_tracer")],
        ..BASE
    },
    Check {
        name: "events",
        subject: "trace events",
        expected: "none",
        reads: &[EVENTS],
        judge: |reader| {
            let text = reader.tracefs(reader.text(EVENTS))?;
            let count = text.lines().filter(|line| !line.trim().is_empty()).count();
            Ok(match count {
                0 => Verdict::Ok("none".to_owned()),
                _ => Verdict::Fail(format!("{count} enabled")),
            })
        },
        why: "Each enabled event takes up to a microsecond at every interrupt, wake-up or system \
              call that it traces.",
        source: "Documentation/trace/events.rst",
        remedies: &[Remedy::Run("echo > /sys/kernel/tracing/set_event")],
        ..BASE
    },
    Check {
        name: "trace-instances",
        subject: "other trace instances",
        severity: Severity::Info,
        expected: "none, or idle",
        reads: &[TRACER, INSTANCES],
        judge: |reader| {
            reader.tracefs(reader.text(TRACER))?;
            let all = match reader.files(INSTANCES) {
                Err(Missing::NotApplicable(_)) => {
                    return Ok(Verdict::Ok("none".to_owned()));
                }
                other => other?,
            };
            for (file, tracer) in all.iter().take(4) {
                reader.saw(*file, tracer);
            }
            let busy = all.iter().filter(|(_, tracer)| *tracer != "nop").count();
            Ok(Verdict::mild(
                busy == 0,
                format!("{}, {busy} with a tracer", all.len()),
            ))
        },
        why: "A trace instance that a killed program left behind continues to record.",
        source: "Documentation/trace/ftrace.rst, Instances",
        ..BASE
    },
    Check {
        name: "stack-tracer",
        subject: "stack tracer",
        severity: Severity::High,
        expected: "0",
        setting: "stack-tracer",
        judge: |reader| reader.number(reader.own, |n| n == 0),
        why: "The stack tracer measures the stack depth at each function of the kernel.",
        ..BASE
    },
    Check {
        name: "tracers-there",
        subject: "latency tracers",
        severity: Severity::Info,
        expected: "osnoise, timerlat and hwlat",
        reads: &[TRACERS],
        judge: |reader| {
            let text = reader.tracefs(reader.text(TRACERS))?;
            let words: Vec<&str> = text.split_whitespace().collect();
            let lacking: Vec<&str> = ["osnoise", "timerlat", "hwlat"]
                .into_iter()
                .filter(|tracer| !words.contains(tracer))
                .collect();
            Ok(if lacking.is_empty() {
                Verdict::Ok("all available".to_owned())
            } else {
                Verdict::Warn(format!("without {}", lacking.join(", ")))
            })
        },
        why: "These tracers cost nothing while they are off. Without them, punctual cannot fully \
              explain a late wake-up.",
        source: "Documentation/trace/osnoise-tracer.rst, timerlat-tracer.rst, hwlat_detector.rst",
        reboot: "a kernel with CONFIG_OSNOISE_TRACER, CONFIG_TIMERLAT_TRACER and CONFIG_HWLAT_TRACER",
        ..BASE
    },
    Check {
        name: "console-level",
        subject: "console log level",
        expected: "level 4 or less",
        reads: &[PRINTK],
        judge: |reader| {
            let text = reader.text(PRINTK)?;
            let level: u32 = text
                .split_whitespace()
                .next()
                .and_then(|word| word.parse().ok())
                .ok_or_else(|| Missing::unknown(format!("{PRINTK} has no level")))?;
            Ok(Verdict::mild(level <= 4, format!("is {level}")))
        },
        why: "Without PREEMPT_RT, the thread that prints a kernel message also writes it to the \
              console, with preemption disabled.",
        source: "Documentation/core-api/printk-basics.rst; Documentation/admin-guide/sysctl/kernel.rst, printk",
        remedies: &[Remedy::Run("dmesg -n 4")],
        boot: &["loglevel"],
        reboot: " (or quiet)",
        ..BASE
    },
    Check {
        name: "serial-console",
        subject: "serial console",
        expected: "none, or quiet",
        judge: |reader| {
            let consoles = reader.boot_all("console")?;
            let serial = consoles.iter().any(|name| {
                name.starts_with("tty")
                    && name.as_bytes().get(3).is_some_and(u8::is_ascii_uppercase)
            });
            Ok(Verdict::mild(
                !serial,
                if serial { "is in use" } else { "none" },
            ))
        },
        why: "At 115,200 baud, each character takes 87 µs, and the writing thread waits for the \
              serial line.",
        source: "Documentation/admin-guide/serial-console.rst",
        reboot: "remove console=ttyS… from the kernel's command line, or set a higher baud rate",
        ..BASE
    },
    Check {
        name: "audit",
        subject: "audit of system calls",
        severity: Severity::Info,
        expected: "audit=0, or no auditd",
        judge: |reader| {
            if matches!(reader.boot("audit")?, Some("0" | "off")) {
                return Ok(Verdict::Ok("is off (audit=0)".to_owned()));
            }
            let runs = !reader.running(&["auditd"])?.is_empty();
            Ok(Verdict::mild(
                !runs,
                if runs {
                    "is on (auditd runs)"
                } else {
                    "is off (auditd does not run)"
                },
            ))
        },
        why: "With audit rules loaded, each system call takes the slow path.",
        source: "Documentation/admin-guide/kernel-parameters.txt, audit=; auditctl(8)",
        remedies: &[Remedy::Decide(
            "auditctl -e 0, if no policy requires auditing",
        )],
        boot: &["audit"],
        ..BASE
    },
    Check {
        name: "perf",
        subject: "CPU time limit of perf",
        severity: Severity::Info,
        expected: "25% or less",
        setting: "perf-cpu-percent",
        judge: |reader| reader.mild_number(reader.own, |n| (1..=25).contains(&n)),
        why: "Each sample of perf interrupts the CPU with an NMI. A value of 0 removes the limit \
              on the CPU time for samples.",
        ..BASE
    },
    Check {
        name: "bpf-statistics",
        subject: "BPF statistics",
        severity: Severity::Info,
        expected: "0",
        setting: "bpf-statistics",
        judge: |reader| reader.number(reader.own, |n| n == 0),
        why: "With these statistics on, the kernel reads the clock before and after each BPF \
              program.",
        ..BASE
    },
    Check {
        name: "latencytop",
        subject: "latencytop",
        severity: Severity::Info,
        expected: "0",
        setting: "latencytop",
        judge: |reader| reader.number(reader.own, |n| n == 0),
        why: "With latencytop on, the kernel records each sleep of each thread with a backtrace.",
        ..BASE
    },
    Check {
        name: "selinux-cache",
        subject: "SELinux decision cache",
        severity: Severity::Info,
        expected: "8192 or more",
        setting: "selinux-cache",
        judge: selinux,
        why: "If a decision is not in the cache, the system call waits until it is computed.",
        ..BASE
    },
];

fn selinux(reader: &FactReader) -> Judged {
    reader.mild_number(reader.own, |n| n >= 8192)
}
