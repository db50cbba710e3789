//! Checks of the clock.

use punctual_model::Severity;

use super::Topic;
use crate::fact_reader::{FactReader, Judged, Missing, Verdict};
use crate::remedy::consider;
use crate::{BASE, Check, Stance};
use punctual_model::SPINNING;

pub(super) const TOPIC: Topic = Topic {
    name: "clock",
    title: "Clock",
    checks: CHECKS,
};

const PARAMETERS: &str = "Documentation/admin-guide/kernel-parameters.txt";
const EVENTS: &str = "/sys/devices/system/clockevents/clockevent#/current_device";
const CPUINFO: &str = "/proc/cpuinfo";

const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Clock sources that a program can read in a few tens of nanoseconds, without entering the kernel:
/// those of x86, Arm, RISC-V, PowerPC, s390, LoongArch, MIPS (two) and SPARC (two).
const FAST: [&str; 10] = [
    "tsc",
    "arch_sys_counter",
    "riscv_clocksource",
    "timebase",
    "tod",
    "Constant",
    "MIPS",
    "GIC",
    "stick",
    "tick",
];
/// Hyper-V's clock source: the TSC of the host, with a page of the hypervisor that programs read
/// without a system call (drivers/clocksource/hyperv_timer.c).
const HYPER_V: &str = "hyperv_clocksource_tsc_page";
/// Clock sources that programs read without a system call only while the hypervisor marks its TSC
/// as stable.
const GUEST: [&str; 2] = ["kvm-clock", "xen"];
/// Clock sources that are slow on every machine: they are on a bus or in a hypervisor, or they are
/// the tick itself.
const SLOW: [&str; 7] = [
    "hpet",
    "acpi_pm",
    "pit",
    "jiffies",
    "refined-jiffies",
    "hyperv_clocksource_msr",
    "hyperv_clocksource",
];
/// Clock sources that count in steps of 30.5 µs (drivers/clocksource/timer-ti-32k.c).
const COARSE: [&str; 1] = ["32k_counter"];
/// Timers of systems-on-chip whose processors have no counter: TI's AM335x (`dmtimer`; `gp_timer`
/// and `timer2` in earlier kernels), Exynos 4, i.MX, Zynq and others with Cortex-A5, A8 or A9
/// (drivers/clocksource). Reading such a timer requires a system call, which reads a register of
/// the chip.
const OF_CHIP: [&str; 7] = [
    "dmtimer",
    "gp_timer",
    "timer1",
    "timer2",
    "mct-frc",
    "mxc_timer1",
    "arm_global_timer",
];
/// Event devices that are outside of the CPUs and are therefore shared by them.
const SHARED: [&str; 4] = ["hpet", "pit", "acpi_pm", "bc_hrtimer"];

const CHECKS: &[Check] = &[
    Check {
        name: "source",
        subject: "clock source",
        severity: Severity::High,
        expected: "tsc, arch_sys_counter or a similarly fast source",
        reads: &[AVAILABLE],
        judge: source,
        why: "Reading the HPET or the ACPI timer takes about a microsecond, crosses a bus and \
              needs a system call. Every time stamp and timer reads the clock.",
        source: "Documentation/timers/timekeeping.rst; Documentation/virt/kvm/x86/timekeeping.rst",
        remedies: &[consider("clocksource", "only if tsc is available")],
        boot: &["tsc"],
        reboot: " if the kernel wrongly rejected the TSC: first check dmesg | grep -i tsc",
        here: |reader| {
            let source = reader.host().clock.source.get()?;
            let guest = GUEST.contains(&source.as_str());
            guest.then(|| {
                "clocksource=tsc, if the guest lists tsc as available; otherwise a host with a \
                 stable TSC"
                    .to_owned()
            })
        },
        ..BASE
    },
    Check {
        name: "tsc",
        subject: "time stamp counter",
        severity: Severity::High,
        expected: "constant_tsc and nonstop_tsc",
        reads: &[CPUINFO],
        judge: tsc,
        why: "The kernel rejects a counter that follows the CPU frequency or stops in idle states, \
              and reads a slow device instead.",
        source: "Documentation/virt/kvm/x86/timekeeping.rst, TSC",
        ..BASE
    },
    Check {
        name: "watchdog",
        subject: "check of the TSC against another clock",
        severity: Severity::Info,
        expected: "tsc=reliable or tsc=nowatchdog, if the TSC is reliable",
        judge: |reader| {
            let source = reader.fact(&reader.host().clock.source)?;
            if source != "tsc" {
                return Err(Missing::not_applicable(format!(
                    "the clock source is {source}"
                )));
            }
            let value = reader.boot("tsc")?;
            let off = value.is_some_and(|value| ["reliable", "nowatchdog"].contains(&value));
            Ok(Verdict::mild(
                off,
                if off {
                    "is off"
                } else {
                    "may be on: newer kernels omit this check on processors with a reliable TSC"
                },
            ))
        },
        why: "Twice a second, a timer reads the HPET or the ACPI timer. It runs on each CPU in \
              turn, including isolated CPUs.",
        source: PARAMETERS,
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::Medium,
            note: "the timer also runs on isolated CPUs. The guides of NVIDIA, AWS and OpenShift \
                   set this parameter, but then the kernel does not notice a TSC that drifts",
        }],
        boot: &["tsc"],
        ..BASE
    },
    Check {
        name: "events",
        subject: "clock event device",
        severity: Severity::High,
        expected: "the local APIC timer or the architecture's per-CPU timer",
        reads: &[EVENTS],
        judge: |reader| {
            reader.every_cpu(EVENTS, |device| {
                !SHARED.iter().any(|shared| device.starts_with(shared))
            })
        },
        why: "If CPUs share a timer device, one CPU handles its interrupt and sends another \
              interrupt to the CPU that waits.",
        source: "Documentation/timers/highres.rst, clock event devices",
        ..BASE
    },
    Check {
        name: "steps",
        subject: "programs that set the wall clock",
        severity: Severity::Info,
        expected: "accepted, because periods use CLOCK_MONOTONIC",
        judge: |reader| {
            let all = reader.running(&[
                "chronyd",
                "ntpd",
                "systemd-timesyn",
                "ptp4l",
                "phc2sys",
                "ntpd-rs",
            ])?;
            let names: Vec<&str> = all.iter().map(|task| task.name.as_str()).collect();
            Ok(Verdict::Ok(if names.is_empty() {
                "none known".to_owned()
            } else {
                names.join(", ")
            }))
        },
        why: "If the wall clock is stepped, sleeps on CLOCK_REALTIME end early or late by the size \
              of the step. Slewing changes the speed of all clocks by up to 500 ppm.",
        source: "clock_nanosleep(2); adjtimex(2)",
        ..BASE
    },
];

fn source(reader: &FactReader) -> Judged {
    let source = reader.fact(&reader.host().clock.source)?.as_str();
    let is = |names: &[&str]| names.contains(&source);
    if is(&FAST) {
        return Ok(Verdict::Ok(format!("is {source}")));
    }
    if source == HYPER_V {
        let found = format!("is {source}, the TSC of the host, read in user space");
        return Ok(Verdict::Ok(found));
    }
    if is(&GUEST) {
        return Ok(Verdict::Warn(format!(
            "is {source}, which depends on the host"
        )));
    }
    if is(&COARSE) {
        return Ok(Verdict::Fail(format!(
            "is {source}, which counts in steps of 30.5 µs"
        )));
    }
    if is(&SLOW) {
        return Ok(Verdict::Fail(format!("is {source}")));
    }
    // The kernel lists the best clock source first (kernel/time/clocksource.c).
    let best = match reader.text(AVAILABLE) {
        Ok(text) => text.split_whitespace().next(),
        Err(_) => None,
    };
    match best {
        Some(best) if best != source => Ok(Verdict::Fail(format!(
            "is {source}, although {best} is available"
        ))),
        _ if is(&OF_CHIP) => Ok(Verdict::Ok(format!(
            "is {source}, a timer of the chip that is read with a system call"
        ))),
        _ => Err(Missing::unknown(format!(
            "the cost of {source} is unknown: measure it with punctual measure clock"
        ))),
    }
}

fn tsc(reader: &FactReader) -> Judged {
    // The text has a block for each CPU; the flags of the first block are enough.
    let text = match reader.facts.files.get(CPUINFO) {
        Some(punctual_model::Reading::Text(text)) => text,
        _ => reader.text(CPUINFO)?,
    };
    let flags = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "flags")
        .map(|(_, flags)| flags)
        .ok_or_else(|| Missing::not_applicable("no x86 processor"))?;
    let lacking: Vec<&str> = ["constant_tsc", "nonstop_tsc"]
        .into_iter()
        .filter(|flag| !flags.split_whitespace().any(|word| word == *flag))
        .collect();
    reader.saw(
        CPUINFO,
        &if lacking.is_empty() {
            "flags: constant_tsc nonstop_tsc".to_owned()
        } else {
            format!("flags: without {}", lacking.join(", "))
        },
    );
    Ok(if lacking.is_empty() {
        Verdict::Ok("is constant and nonstop".to_owned())
    } else {
        // A host may hide the flags from a guest even if the TSC is constant.
        match reader.is_virtual() {
            Ok(true) => Verdict::Warn(format!(
                "is shown to the guest without the flag {}",
                lacking.join(", ")
            )),
            _ => Verdict::Fail(format!("lacks {}", lacking.join(", "))),
        }
    })
}
