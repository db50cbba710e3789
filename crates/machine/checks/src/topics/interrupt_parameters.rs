//! Boot parameters that make interrupts slower, or take away their own lines and CPUs.

use punctual_model::Severity;

use crate::fact_reader::{FactReader, Judged, Missing, Verdict};
use crate::{BASE, Check};

pub(super) const CHECK: Check = Check {
    name: "parameters",
    subject: "boot parameters of interrupts",
    severity: Severity::High,
    expected: "none of irqpoll, irqfixup, pci=nomsi, noapic, nolapic and nolapic_timer",
    judge,
    why: "These parameters are for defective firmware. With irqpoll, each timer interrupt calls \
          the handlers of all interrupts. Without MSI or the APIC, devices share interrupt lines, \
          and one CPU handles them.",
    source: "Documentation/admin-guide/kernel-parameters.txt; Documentation/PCI/msi-howto.rst, Why use MSIs?; kernel/irq/spurious.c",
    reboot: "remove these parameters from the kernel's command line, if the machine boots without \
             them",
    ..BASE
};

/// A parameter, the word of its value that matters (empty if it has no value), and its effect.
const PARAMETERS: [(&str, &str, &str); 6] = [
    (
        "irqpoll",
        "",
        "each timer interrupt calls the handlers of all interrupts",
    ),
    (
        "irqfixup",
        "",
        "an interrupt that no handler accepts calls the handlers of all interrupts",
    ),
    (
        "pci",
        "nomsi",
        "PCI devices share interrupt lines and have no interrupt for each CPU",
    ),
    (
        "noapic",
        "",
        "one CPU handles the interrupts of all devices, on shared lines",
    ),
    (
        "nolapic",
        "",
        "the CPUs have neither their own timers nor interrupts between CPUs",
    ),
    (
        "nolapic_timer",
        "",
        "the CPUs share a timer device outside of the CPUs",
    ),
];

/// Parameters that PREEMPT_RT kernels ignore since the first patches with these parameters
/// (kernel/irq/spurious.c).
const NOT_WITH_RT: [&str; 2] = ["irqpoll", "irqfixup"];

fn judge(reader: &FactReader) -> Judged {
    let mut effective = Vec::new();
    let mut ignored = Vec::new();
    for (name, word, effect) in PARAMETERS {
        let values = reader.boot_all(name)?;
        let is_given = |value: &&str| word.is_empty() || value.split(',').any(|one| one == word);
        if !values.iter().any(is_given) {
            continue;
        }
        let shown = match word {
            "" => name.to_owned(),
            word => format!("{name}={word}"),
        };
        // A kernel of unknown kind is judged as one that obeys the parameter.
        let rt = NOT_WITH_RT.contains(&name) && matches!(reader.is_rt(), Ok(true));
        if rt {
            ignored.push(format!(
                "{shown} ({effect}; but a PREEMPT_RT kernel ignores it)"
            ));
        } else {
            effective.push(format!("{shown} ({effect})"));
        }
    }
    if effective.is_empty() && ignored.is_empty() {
        if reader.host().kernel.command_line.get().is_none() {
            return Err(Missing::unknown("the command line is unknown"));
        }
        return Ok(Verdict::Ok("none".to_owned()));
    }
    let fails = !effective.is_empty();
    effective.append(&mut ignored);
    let found = effective.join(", ");
    Ok(if fails {
        Verdict::Fail(found)
    } else {
        Verdict::Warn(found)
    })
}
