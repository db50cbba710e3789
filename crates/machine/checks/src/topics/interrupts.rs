//! Checks of interrupts: their affinities, and the CPUs that handled them.

use punctual_model::{CpuSet, Severity, path_of, unmask};

use super::Topic;
use super::card_interrupts::{ACTIONS, CARD_FILES, CardInterrupts};
use super::counting::{Source, counted, from, source};
use super::interruptions::with_senders;
use super::{handler_threads, interrupt_parameters, irqbalance};
use crate::fact_reader::{FactReader, Judged, Missing, Verdict};
use crate::remedy::{instance, set};
use crate::{BASE, Check, Role, Stance};
use punctual_model::{PERIODIC, SPINNING};

pub(super) const TOPIC: Topic = Topic {
    name: "interrupts",
    title: "Interrupts",
    checks: CHECKS,
};

const AFFINITY: &str = "Documentation/core-api/irq/irq-affinity.rst";
const EFFECTIVE: &str = "/proc/irq/#/effective_affinity_list";
const ALLOWED: &str = path_of("irq-affinity");
const RPS: &str = path_of("rps-cpus");
const RPS_DEFAULT: &str = path_of("rps-default-cpus");
const NAPI: &str = "/sys/class/net/*/threaded";
const CHECKS: &[Check] = &[
    Check {
        name: "devices",
        subject: "device interrupts",
        severity: Severity::High,
        expected: "none on the measured CPUs, except the application's own",
        reads: &[
            EFFECTIVE,
            CARD_FILES[0],
            CARD_FILES[1],
            CARD_FILES[2],
            CARD_FILES[3],
        ],
        judge: devices,
        why: "An interrupt handler preempts any thread. Together with its softirq, it can occupy \
              the CPU for a millisecond.",
        source: AFFINITY,
        stances: &[Stance {
            roles: &[Role::Network],
            severity: Severity::Medium,
            note: "the interrupt of the network queue belongs on the CPUs of the thread that reads it; all other interrupts belong on other CPUs",
        }],
        remedies: &[set("irq-affinity")],
        boot: &["irqaffinity"],
        reboot: "; isolcpus=managed_irq,… for interrupts that cannot be moved",
        ..BASE
    },
    Check {
        name: "masks",
        subject: "interrupt affinity",
        expected: "masks without the measured CPUs",
        setting: "irq-affinity",
        reads: &CARD_FILES,
        judge: masks,
        why: "If the mask of an interrupt includes measured CPUs, the interrupt can move there \
              when another CPU goes offline or a driver restarts.",
        ..BASE
    },
    Check {
        name: "default-mask",
        subject: "default interrupt affinity",
        expected: "a mask without the measured CPUs",
        setting: "default-irq-affinity",
        judge: |reader| reader.mask_elsewhere(reader.own),
        why: "The interrupts of a device that is plugged in or started later get this mask.",
        ..BASE
    },
    irqbalance::CHECK,
    interrupt_parameters::CHECK,
    Check {
        name: "shared-lines",
        subject: "shared interrupt lines",
        severity: Severity::Info,
        expected: "one device per line",
        reads: &[ACTIONS],
        judge: |reader| {
            let all = reader.files(ACTIONS)?;
            let shared: Vec<_> = all
                .iter()
                .filter(|(_, names)| names.contains(','))
                .collect();
            for (file, names) in shared.iter().take(3) {
                reader.saw(*file, names);
            }
            reader.saw(
                ACTIONS.replace('#', "N"),
                &format!(
                    "{} of {} are shared by several devices",
                    shared.len(),
                    all.len()
                ),
            );
            Ok(match shared.len() {
                0 => Verdict::Ok(format!("none of {}", all.len())),
                count => Verdict::Warn(format!("{count} of {}", all.len())),
            })
        },
        why: "The handlers of all devices on the line run one after the other, whichever device raised the interrupt.",
        source: "Documentation/PCI/msi-howto.rst, Why use MSIs?",
        reboot: "move the device to another slot, or use a driver with MSI",
        ..BASE
    },
    handler_threads::PRIORITIES,
    handler_threads::AFFINITY,
    Check {
        name: "packet-steering",
        subject: "receive packet steering",
        expected: "masks without the measured CPUs",
        reads: &[RPS, RPS_DEFAULT],
        judge: packet_steering,
        why: "Receive packet steering interrupts the CPUs of its mask, which then process the \
              packets in a softirq.",
        source: "Documentation/networking/scaling.rst, RPS",
        remedies: &[set("rps-cpus"), set("rps-default-cpus")],
        ..BASE
    },
    Check {
        name: "threaded-napi",
        subject: "threaded NAPI",
        severity: Severity::Info,
        expected: "1 if network latency matters",
        reads: &[NAPI],
        judge: |reader| {
            if reader.role != Role::Network {
                return Err(Missing::not_applicable(format!(
                    "not relevant for the role {}",
                    reader.role
                )));
            }
            let all = reader.files(NAPI)?;
            let without: Vec<&str> = all
                .iter()
                .filter(|(_, on)| *on != "1")
                .map(|(file, _)| *file)
                .collect();
            for (file, on) in &all {
                reader.saw(*file, on);
            }
            Ok(Verdict::mild(
                without.is_empty(),
                format!("off for {} of {} devices", without.len(), all.len()),
            ))
        },
        why: "All devices on a CPU share one softirq. With threaded NAPI, a thread with its own \
              affinity and priority processes the packets.",
        source: "Documentation/networking/napi.rst, Threaded NAPI",
        ..BASE
    },
    Check {
        name: "counted-devices",
        subject: "device interrupts counted",
        severity: Severity::High,
        expected: "none",
        reads: &CARD_FILES,
        judge: |reader| {
            counted(
                reader,
                "interrupts",
                |cpu| {
                    let own = CardInterrupts::expected(reader);
                    let rows = cpu.interrupts.iter().filter(|row| !own.has(&row.id));
                    rows.filter(|row| source(row) == Source::Device)
                        .map(|row| row.count)
                        .sum()
                },
                |_| 0.0,
            )
        },
        why: "The counts show which interrupts occurred. Masks only show which interrupts are \
              allowed.",
        source: "proc_interrupts(5)",
        stances: &[
            Stance {
                roles: &[Role::Audio, Role::Lab],
                severity: Severity::Medium,
                note: "some of these interrupts deliver the events that the role waits for",
            },
            Stance {
                roles: &[Role::Network],
                severity: Severity::Medium,
                note: "the interrupts of the network cards are not counted, because they deliver the packets that the role waits for",
            },
        ],
        ..BASE
    },
    Check {
        name: "counted-ticks",
        subject: "timer interrupts counted",
        severity: Severity::Info,
        expected: "as many as the application's own timers, plus one a second if it spins",
        judge: |reader| {
            counted(
                reader,
                "interrupts",
                |cpu| from(cpu, Source::Timer),
                |reader| {
                    if reader.role.spins() {
                        1.0
                    } else {
                        reader
                            .host()
                            .kernel
                            .hz
                            .get()
                            .map_or(1_000.0, |hz| f64::from(*hz) * 1.1)
                    }
                },
            )
        },
        why: "Each timer interrupt takes microseconds. At its end, it runs timers that other \
              threads have set on the CPU.",
        source: "Documentation/timers/no_hz.rst",
        stances: &[
            Stance {
                roles: SPINNING,
                severity: Severity::Medium,
                note: "with nohz_full, a CPU with one runnable thread has at most one tick a \
                       second",
            },
            Stance {
                roles: PERIODIC,
                severity: Severity::Info,
                note: "a busy CPU has up to one timer interrupt for each tick",
            },
        ],
        ..BASE
    },
    Check {
        name: "counted-softirqs",
        subject: "softirqs counted",
        expected: "fewer than the timer ticks",
        judge: |reader| {
            counted(
                reader,
                "softirqs",
                |cpu| {
                    let theirs = ["BLOCK", "IRQ_POLL", "TASKLET", "NET_TX", "NET_RX"];
                    // With the role network, the packets are for the application.
                    let count = if reader.role == Role::Network { 3 } else { 5 };
                    let rows = cpu.softirqs.iter();
                    rows.filter(|row| theirs[..count].contains(&row.id.as_str()))
                        .map(|row| row.count)
                        .sum()
                },
                |_| 10.0,
            )
        },
        why: "Softirqs do network, block and tasklet work for other programs. They run before \
              threads and, without PREEMPT_RT, cannot be preempted.",
        source: "Documentation/admin-guide/kernel-per-CPU-kthreads.rst, ksoftirqd",
        ..BASE
    },
    Check {
        name: "counted-calls",
        subject: "inter-processor interrupts counted",
        expected: "fewer than 100 a second",
        judge: |reader| {
            let judged = counted(
                reader,
                "interrupts",
                |cpu| from(cpu, Source::OtherCpu),
                |_| 100.0,
            );
            Ok(match judged? {
                Verdict::Fail(found) => Verdict::Fail(with_senders(reader, found)),
                good => good,
            })
        },
        why: "Wake-ups, TLB shootdowns, code patching and RCU on one CPU interrupt other CPUs.",
        source: "arch/x86/kernel/irq.c (RES, CAL, TLB); arch/{arm,arm64,riscv}/kernel/smp.c (IPI0 and on); proc_interrupts(5)",
        ..BASE
    },
    Check {
        name: "counted-nmis",
        subject: "NMIs counted",
        expected: "none",
        judge: |reader| {
            counted(
                reader,
                "interrupts",
                |cpu| from(cpu, Source::Counters),
                |_| 0.0,
            )
        },
        why: "The lockup detector and perf use NMIs, which cannot be masked.",
        source: "Documentation/admin-guide/lockup-watchdogs.rst",
        remedies: &[instance("watchdog", "nmi")],
        ..BASE
    },
];

/// Returns the number of an interrupt from a path below /proc/irq or /sys/kernel/irq.
fn number_of(file: &str) -> &str {
    file.rsplit('/').nth(1).unwrap_or_default()
}

/// A file and its text.
type FileText<'a> = (&'a str, &'a str);

/// Returns the interrupts whose list in `pattern` includes measured CPUs.
fn on_measured<'a>(
    reader: &FactReader<'a>,
    pattern: &str,
) -> Result<(Vec<FileText<'a>>, usize), Missing> {
    reader.elsewhere()?;
    let all = reader.files(pattern)?;
    let count = all.len();
    let mut found = Vec::new();
    for (file, list) in all {
        let cpus: CpuSet = list
            .parse()
            .map_err(|_| Missing::unknown(format!("{file} is not a list of CPUs")))?;
        if !cpus.intersection(reader.cpus).is_empty() {
            found.push((file, list));
        }
    }
    if found.is_empty() {
        let none = format!("none of the {count} lists contains a measured CPU");
        reader.saw(pattern.replace('#', "N"), &none);
    }
    Ok((found, count))
}

fn devices(reader: &FactReader) -> Judged {
    let (found, count) = on_measured(reader, EFFECTIVE)?;
    // An interrupt without a handler never occurs.
    let handled = found.into_iter().filter_map(|(file, list)| {
        let name = reader
            .facts
            .files
            .get(&ACTIONS.replacen('#', number_of(file), 1));
        match name {
            Some(punctual_model::Reading::Text(name)) if name.is_empty() => None,
            Some(punctual_model::Reading::Text(name)) => Some((file, list, name.as_str())),
            _ => Some((file, list, "")),
        }
    });
    let cards = CardInterrupts::expected(reader);
    let (own, handled): (Vec<_>, Vec<_>) =
        handled.partition(|(file, _, _)| cards.has(number_of(file)));
    for (file, list, name) in handled.iter().chain(&own).take(4) {
        reader.saw(*file, &format!("{list} {name}"));
    }
    if handled.is_empty() && own.is_empty() {
        reader.saw(
            ACTIONS.replace('#', "N"),
            "no driver handles the interrupts of the measured CPUs",
        );
    }
    let beside = match own.len() {
        0 => String::new(),
        own => format!(", besides {own} of the network cards, which belong there"),
    };
    Ok(match handled.len() {
        0 => Verdict::Ok(format!("none of {count}{beside}")),
        some if silent(reader, &handled) => Verdict::Warn(format!(
            "{some} of {count} routed to the measured CPUs, but none occurred during the \
             sample{beside}"
        )),
        some => Verdict::Fail(format!(
            "{some} of {count} routed to the measured CPUs{beside}"
        )),
    })
}

/// Returns whether none of these interrupts occurred while the CPUs were watched. Regardless of the
/// interrupt's affinity, the queue that a device has for a CPU causes no interrupts if that CPU
/// does no input or output.
fn silent(reader: &FactReader, handled: &[(&str, &str, &str)]) -> bool {
    let Ok((cpus, duration)) = reader.counted() else {
        return false;
    };
    let came = |file: &str| {
        let id = number_of(file);
        cpus.iter()
            .flat_map(|cpu| &cpu.interrupts)
            .any(|row| row.id == id)
    };
    let none = !handled.iter().any(|(file, _, _)| came(file));
    if none {
        reader.saw(
            format!("/proc/interrupts over {duration}"),
            "none of these interrupts occurred",
        );
    }
    none
}

fn masks(reader: &FactReader) -> Judged {
    let (mut found, count) = on_measured(reader, ALLOWED)?;
    let cards = CardInterrupts::expected(reader);
    found.retain(|(file, _)| !cards.has(number_of(file)));
    if found.is_empty() {
        reader.saw(
            ALLOWED.replace('#', "N"),
            "no measured CPU, except for interrupts that belong there",
        );
    }
    for (file, list) in found.iter().take(3) {
        reader.saw(*file, list);
    }
    Ok(match found.len() {
        0 => Verdict::Ok(format!("none of {count}")),
        some => Verdict::Warn(format!("{some} of {count} include measured CPUs")),
    })
}

fn packet_steering(reader: &FactReader) -> Judged {
    reader.elsewhere()?;
    let mut all = reader.files(RPS)?;
    if let Some(punctual_model::Reading::Text(text)) = reader.facts.files.get(RPS_DEFAULT) {
        all.push((RPS_DEFAULT, text));
    }
    let mut steered = 0;
    for (file, mask) in &all {
        let cpus = unmask(mask)
            .ok_or_else(|| Missing::unknown(format!("{file} is not a mask of CPUs")))?;
        if !cpus.intersection(reader.cpus).is_empty() {
            reader.saw(*file, mask);
            steered += 1;
        }
    }
    if steered == 0 {
        reader.saw(RPS.replace('#', "N"), "no measured CPU");
    }
    Ok(Verdict::new(
        steered == 0,
        format!(
            "{steered} of {} queues steer packets to measured CPUs",
            all.len()
        ),
    ))
}
