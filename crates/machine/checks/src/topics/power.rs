//! Checks of power: clock frequency and idle states.

use punctual_model::{CpuSet, POLICY_CPUS, Severity, path_of};

use super::idle_states::{self, DMA_LATENCY, NO_REQUEST};
use super::{Topic, pci, throttled};
use crate::fact_reader::{FactReader, Judged, Missing, Verdict};
use crate::remedy::{consider, set};
use crate::{BASE, Check, Role, Stance};

pub(super) const TOPIC: Topic = Topic {
    name: "power",
    title: "Power",
    checks: CHECKS,
};

const CPUFREQ: &str = "Documentation/admin-guide/pm/cpufreq.rst";
const PSTATE: &str = "Documentation/admin-guide/pm/intel_pstate.rst";
const MIN: &str = path_of("freq-min");
const MAX: &str = path_of("freq-max");
const INTEL_STATUS: &str = "/sys/devices/system/cpu/intel_pstate/status";
const AMD_STATUS: &str = "/sys/devices/system/cpu/amd_pstate/status";
const NO_TURBO: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";
const SMT: &str = "/sys/devices/system/cpu/smt/active";
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities/*";
const UNCORE_MAX: &str = "/sys/devices/system/cpu/intel_uncore_frequency/*/max_freq_khz";
const SPLIT_LOCK: &str = path_of("split-lock-mitigation");

const CHECKS: &[Check] = &[
    Check {
        name: "governor",
        subject: "frequency governor",
        severity: Severity::High,
        expected: "performance",
        setting: "governor",
        reads: &[POLICY_CPUS],
        judge: |reader| {
            reader
                .every_cpu(reader.own, |text| text == "performance")
                .map_err(no_cpufreq)
        },
        why: "With other governors, a CPU that was idle starts at a low frequency, and the \
              frequency changes while the thread runs.",
        ..BASE
    },
    Check {
        name: "frequency-range",
        subject: "frequency range",
        expected: "minimum equal to maximum",
        reads: &[MIN, MAX, POLICY_CPUS],
        judge: frequency_range,
        why: "A change of frequency stops the core for microseconds, and the same code then takes a different time.",
        source: CPUFREQ,
        remedies: &[set("freq-min")],
        ..BASE
    },
    Check {
        name: "driver",
        subject: "frequency driver",
        severity: Severity::Info,
        expected: "passive, off, or a fixed frequency range",
        reads: &[INTEL_STATUS, AMD_STATUS],
        judge: |reader| {
            let status = match reader.text(INTEL_STATUS) {
                Ok(status) => status,
                Err(_) => reader.text(AMD_STATUS)?,
            };
            Ok(Verdict::mild(status != "active", format!("is {status}")))
        },
        why: "In active mode the processor itself chooses the frequency within the range, and the governor is only a hint.",
        source: "Documentation/admin-guide/pm/intel_pstate.rst; amd-pstate.rst",
        boot: &["intel_pstate"],
        reboot: " (on AMD, amd_pstate=passive; tuned's profile realtime sets intel_pstate=disable)",
        ..BASE
    },
    Check {
        name: "least-performance",
        subject: "min_perf_pct",
        expected: "100",
        setting: "min-perf-percent",
        judge: |reader| reader.mild_number(reader.own, |n| n == 100),
        why: "The driver may lower the frequency to this share of the maximum.",
        ..BASE
    },
    Check {
        name: "turbo",
        subject: "turbo",
        severity: Severity::Info,
        expected: "off for low jitter, on for a low mean latency",
        reads: &[NO_TURBO, BOOST],
        judge: |reader| {
            let on = match reader.value::<u32>(NO_TURBO) {
                Ok(off) => off == 0,
                Err(_) => reader.value::<u32>(BOOST)? == 1,
            };
            Ok(Verdict::mild(!on, if on { "is on" } else { "is off" }))
        },
        why: "With turbo on, the frequency depends on the temperature, on the load of other cores and on the instructions used.",
        source: PSTATE,
        stances: &[Stance {
            roles: &[Role::Trading],
            severity: Severity::Info,
            note: "turbo is usually on for this role, because the mean matters more than jitter. \
                   tuned's profile latency-performance leaves it on",
        }],
        remedies: &[consider("turbo", "the mean speed falls, but varies less")],
        ..BASE
    },
    Check {
        name: "energy-preference",
        subject: "energy performance preference",
        expected: "performance",
        setting: "energy-preference",
        reads: &[POLICY_CPUS],
        judge: |reader| reader.every_cpu(reader.own, |text| text == "performance" || text == "0"),
        why: "If the hardware controls the frequency, this preference decides how fast the \
              frequency rises.",
        ..BASE
    },
    Check {
        name: "energy-bias",
        subject: "energy performance bias",
        severity: Severity::Info,
        expected: "0",
        setting: "energy-bias",
        judge: |reader| reader.every_cpu(reader.own, |text| text == "0"),
        why: "The firmware uses this value to choose idle states and the uncore frequency.",
        ..BASE
    },
    idle_states::CHECK,
    Check {
        name: "wake-latency-request",
        subject: "request on /dev/cpu_dma_latency",
        severity: Severity::Info,
        expected: "a request while the application runs",
        reads: &[DMA_LATENCY],
        judge: |reader| {
            let us: i64 = reader.value(DMA_LATENCY)?;
            Ok(match us {
                NO_REQUEST.. => Verdict::Warn("none".to_owned()),
                us => Verdict::Ok(format!("is {us} µs")),
            })
        },
        why: "The request lasts while /dev/cpu_dma_latency is open, so the application or a \
              service must keep it open.",
        source: "Documentation/power/pm_qos_interface.rst",
        ..BASE
    },
    Check {
        name: "idle-loop",
        subject: "idle loop",
        severity: Severity::Info,
        expected: "idle=poll only on bare metal with sufficient cooling",
        judge: |reader| {
            let Some(parameter) = idle_states::polls(reader)? else {
                return Ok(Verdict::Ok("is not polling".to_owned()));
            };
            Ok(if reader.is_virtual()? {
                Verdict::Fail(format!(
                    "is polling in a guest ({parameter}), which takes CPU time from the host"
                ))
            } else {
                Verdict::Warn(format!(
                    "is polling ({parameter}), which takes full power and slows down sibling CPUs"
                ))
            })
        },
        why: "Polling gives the lowest wake-up latency, but produces the most heat, which leads to \
              throttling.",
        source: "Documentation/core-api/real-time/hardware.rst; Documentation/admin-guide/kernel-parameters.txt, idle=",
        reboot: "remove idle=poll from the kernel's command line, and limit idle states instead",
        ..BASE
    },
    Check {
        name: "guest-halt-polling",
        subject: "guest halt polling",
        severity: Severity::Info,
        expected: "above 0 in a guest",
        setting: "haltpoll-ns",
        judge: |reader| {
            if !reader.is_virtual()? {
                return Err(Missing::not_applicable("the machine is not a guest"));
            }
            reader.mild_number(reader.own, |n| n > 0)
        },
        why: "Each time a guest's CPU halts, it exits to the host, and the return takes tens of \
              microseconds.",
        ..BASE
    },
    Check {
        name: "smt",
        subject: "SMT",
        expected: "off, or with idle siblings",
        reads: &[SMT],
        judge: |reader| {
            let on = reader.value::<u32>(SMT)? == 1;
            Ok(Verdict::mild(!on, if on { "is on" } else { "is off" }))
        },
        why: "Two hardware threads share the core's execution units and first-level caches; one can halve the speed of the other.",
        source: "Documentation/ABI/testing/sysfs-devices-system-cpu, smt; rtcqs",
        remedies: &[consider("smt", "half of the CPUs go offline")],
        ..BASE
    },
    Check {
        name: "mitigations",
        subject: "processor mitigations in use",
        severity: Severity::Info,
        expected: "any: do not disable mitigations for latency alone",
        reads: &[VULNERABILITIES],
        judge: |reader| {
            let all = reader.files(VULNERABILITIES)?;
            let on: Vec<&str> = all
                .iter()
                .filter(|(_, text)| text.starts_with("Mitigation"))
                .filter_map(|(file, _)| file.rsplit('/').next())
                .collect();
            reader.saw(
                VULNERABILITIES,
                &format!("{} of {}: {}", on.len(), all.len(), on.join(", ")),
            );
            Ok(Verdict::Ok(format!("{} of {}", on.len(), all.len())))
        },
        why: "Mitigations make each system call and interrupt more expensive. Disabling them is a security decision.",
        source: "Documentation/admin-guide/hw-vuln/index.rst",
        ..BASE
    },
    Check {
        name: "platform-profile",
        subject: "platform profile",
        expected: "performance",
        setting: "platform-profile",
        judge: |reader| reader.word(reader.own, &["performance"]),
        why: "On laptops and small machines, the profile sets fans and power limits. A low power \
              limit throttles the processor.",
        ..BASE
    },
    Check {
        name: "pci-links",
        subject: "PCI Express power saving (ASPM)",
        severity: Severity::Info,
        expected: "performance",
        setting: "aspm",
        judge: |reader| reader.choice(reader.own, &["performance"]),
        why: "A link that sleeps takes microseconds to wake at the next access to the device.",
        ..BASE
    },
    pci::LINKS,
    pci::RUNTIME,
    throttled::CHECK,
    Check {
        name: "uncore",
        subject: "uncore frequency",
        severity: Severity::Info,
        expected: "minimum equal to maximum",
        setting: "uncore-freq-min",
        reads: &[UNCORE_MAX],
        judge: |reader| {
            let low = reader.files(reader.own)?;
            let high = reader.files(UNCORE_MAX)?;
            for (file, text) in low.iter().chain(&high).take(4) {
                reader.saw(*file, text);
            }
            let fixed = low.len() == high.len() && low.iter().zip(&high).all(|(a, b)| a.1 == b.1);
            Ok(Verdict::mild(
                fixed,
                if fixed { "is fixed" } else { "is variable" },
            ))
        },
        why: "The last-level cache slows down while most cores are idle.",
        ..BASE
    },
    Check {
        name: "split-locks",
        subject: "split-lock mitigation",
        severity: Severity::Info,
        expected: "0 if a program with split locks must not be late",
        reads: &[SPLIT_LOCK],
        judge: |reader| reader.mild_number(SPLIT_LOCK, |n| n == 0),
        why: "With the mitigation, a program that locks across two cache lines sleeps for 10 ms \
              each time. The lock itself stops all cores.",
        source: "Documentation/admin-guide/sysctl/kernel.rst, split_lock_mitigate; Documentation/arch/x86/buslock.rst",
        remedies: &[consider(
            "split-lock-mitigation",
            "first find programs with split locks: dmesg | grep split_lock",
        )],
        ..BASE
    },
];

/// Without cpufreq, the firmware or the host of a virtual machine controls the frequency, so it is
/// unknown.
fn no_cpufreq(missing: Missing) -> Missing {
    match missing {
        Missing::NotApplicable(_) => Missing::unknown(
            "cpufreq is not available on this machine: firmware or a hypervisor sets the frequency",
        ),
        other => other,
    }
}

fn frequency_range(reader: &FactReader) -> Judged {
    let low = reader.each_cpu(MIN).map_err(no_cpufreq)?;
    let high = reader.each_cpu(MAX).map_err(no_cpufreq)?;
    let wide: CpuSet = low
        .iter()
        .zip(&high)
        .filter(|(low, high)| low.1 != high.1)
        .map(|(low, _)| low.0)
        .collect();
    Ok(if wide.is_empty() {
        Verdict::Ok("is fixed".to_owned())
    } else {
        Verdict::Fail(format!("is variable on CPU {wide}"))
    })
}
