//! The clock.

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

/// Clock sources that a program reads without entering the kernel, in tens of
/// nanoseconds.
const FAST: [&str; 5] = [
    "tsc",
    "arch_sys_counter",
    "riscv_clocksource",
    "timebase",
    "tod",
];
/// The same, through a page that a hypervisor keeps.
const GUEST: [&str; 3] = ["kvm-clock", "hyperv_clocksource_tsc_page", "xen"];
/// Event devices that are shared, and not in the CPU.
const SHARED: [&str; 4] = ["hpet", "pit", "acpi_pm", "bc_hrtimer"];

const CHECKS: &[Check] = &[
    Check {
        name: "source",
        subject: "clock source",
        severity: Severity::High,
        expected: "tsc, arch_sys_counter or the like",
        judge: |reader| {
            let source = reader.fact(&reader.host().clock.source)?.as_str();
            Ok(match source {
                source if FAST.contains(&source) => Verdict::Ok(format!("is {source}")),
                source if GUEST.contains(&source) => {
                    Verdict::Warn(format!("is {source}: depends on the host"))
                }
                source => Verdict::Fail(format!("is {source}")),
            })
        },
        why: "HPET and the ACPI timer take about a microsecond to read, on a bus, through a system call; every time stamp and timer reads it.",
        source: "Documentation/timers/timekeeping.rst; Documentation/virt/kvm/x86/timekeeping.rst",
        remedies: &[consider(
            "clocksource",
            "if tsc is among the available ones",
        )],
        boot: &["tsc"],
        reboot: " where the TSC was given up wrongly; first see dmesg | grep -i tsc",
        ..BASE
    },
    Check {
        name: "tsc",
        subject: "time stamp counter",
        severity: Severity::High,
        expected: "constant_tsc and nonstop_tsc",
        reads: &[CPUINFO],
        judge: tsc,
        why: "A counter that follows the frequency or stops in idle states is rejected, and the kernel reads a slow device instead.",
        source: "Documentation/virt/kvm/x86/timekeeping.rst, TSC",
        ..BASE
    },
    Check {
        name: "watchdog",
        subject: "check of the TSC against another clock",
        severity: Severity::Info,
        expected: "tsc=reliable or tsc=nowatchdog, where the TSC is sound",
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
                match off {
                    true => "is off",
                    false => "may be on: newer kernels omit it on sound processors",
                },
            ))
        },
        why: "Twice a second a timer runs on each CPU in turn, isolated ones too, and reads the HPET or the ACPI timer.",
        source: PARAMETERS,
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::Medium,
            note: "the timer also runs on isolated CPUs; NVIDIA's, AWS's and OpenShift's guides set it, and a TSC that drifts is then not noticed",
        }],
        boot: &["tsc"],
        ..BASE
    },
    Check {
        name: "events",
        subject: "clock event device",
        severity: Severity::High,
        expected: "the local APIC or the architecture's timer",
        reads: &[EVENTS],
        judge: |reader| {
            reader.every_cpu(EVENTS, |device| {
                !SHARED.iter().any(|shared| device.starts_with(shared))
            })
        },
        why: "With a shared device another CPU takes the interrupt and sends a further one.",
        source: "Documentation/timers/highres.rst, clock event devices",
        ..BASE
    },
    Check {
        name: "steps",
        subject: "programs that set the wall clock",
        severity: Severity::Info,
        expected: "known; periods are on CLOCK_MONOTONIC",
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
            Ok(Verdict::Ok(match names.is_empty() {
                true => "none known".to_owned(),
                false => names.join(", "),
            }))
        },
        why: "A wall clock that is stepped makes sleeps on CLOCK_REALTIME early or late by the step; slewing changes all clocks' speed by up to 500 ppm.",
        source: "clock_nanosleep(2); adjtimex(2)",
        ..BASE
    },
];

fn tsc(reader: &FactReader) -> Judged {
    // The text has a block for each CPU: only the flags of the first count.
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
        &match lacking.is_empty() {
            true => "flags: constant_tsc nonstop_tsc".to_owned(),
            false => format!("flags: without {}", lacking.join(", ")),
        },
    );
    Ok(match lacking.is_empty() {
        true => Verdict::Ok("is constant and nonstop".to_owned()),
        // A host may hide the flags from a guest and still keep it even.
        false => match reader.is_virtual() {
            Ok(true) => Verdict::Warn(format!(
                "is shown to the guest without {}",
                lacking.join(", ")
            )),
            _ => Verdict::Fail(format!("lacks {}", lacking.join(", "))),
        },
    })
}
