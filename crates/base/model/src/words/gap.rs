//! Describes what may have happened in an untraced gap.

use std::fmt;

use crate::cause::{Counted, Disabled, Ran};
use crate::{Nanos, Text};

/// Describes the possible explanations of a gap. `ended_in`: the functions that the interrupt at its end
/// interrupted.
pub(super) fn hypotheses(
    ran: &Ran,
    (disabled, ended_in): (Disabled, Option<&Text>),
    nmi_recorded: bool,
    counted: &Counted,
) -> String {
    let ended_in = ended_in.map(|at| &*at.0);
    let enabled_in = ended_in.filter(|at| enables_interrupts(at));
    let possible = possible(ran, (disabled, enabled_in), nmi_recorded);
    let mut parts = vec![ran.to_string(), possible];
    parts.extend(ended_in.map(|at| match enabled_in {
        Some(_) => format!("interrupts were enabled again in {at}"),
        None => format!("the next interrupt arrived in {at}"),
    }));
    parts.extend(risen(counted));
    parts.join("; ")
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("while the CPU was idle"),
            Self::Thread(thread) | Self::Faulted(thread) => write!(f, "while {thread} ran"),
        }
    }
}

/// Functions of the kernel that enable interrupts. An interrupt that arrives there was pending.
const ENABLE_INTERRUPTS: [&str; 6] = [
    "_raw_spin_unlock_irq",
    "_raw_read_unlock_irq",
    "_raw_write_unlock_irq",
    "finish_task_switch",
    "handle_softirqs",
    "__do_softirq",
];

fn enables_interrupts(functions: &str) -> bool {
    ENABLE_INTERRUPTS
        .iter()
        .any(|name| functions.starts_with(name))
}

/// Formats as `possible: hypervisor, SMI, firmware, or interrupts disabled in make-12`. `enabled_in`:
/// the functions that enabled interrupts again.
fn possible(
    ran: &Ran,
    (disabled, enabled_in): (Disabled, Option<&str>),
    nmi_recorded: bool,
) -> String {
    let mut others = vec!["hypervisor", "SMI", "firmware"];
    if let Ran::Faulted(_) = ran {
        others.insert(0, "the preceding page fault");
    }
    if !nmi_recorded {
        others.push("NMI (not recorded)");
    }
    let others = others.join(", ");
    match (ran, disabled) {
        (Ran::Idle, _) | (_, Disabled::No) => format!("possible: {others}"),
        (Ran::Thread(thread) | Ran::Faulted(thread), Disabled::Before) => {
            format!(
                "possible: interrupts disabled in {thread} (as at the previous event), {others}"
            )
        }
        (Ran::Thread(thread) | Ran::Faulted(thread), Disabled::Possible)
            if enabled_in.is_some() =>
        {
            format!("possible: interrupts disabled in {thread}, {others}")
        }
        (Ran::Thread(thread) | Ran::Faulted(thread), Disabled::Possible) => {
            format!("possible: {others}, or interrupts disabled in {thread}")
        }
    }
}

/// Describes increases of counters. An increase supports a hypothesis but does not prove it,
/// because it covers a longer time.
pub(super) fn risen(counted: &Counted) -> impl Iterator<Item = String> {
    let steal = counted.steal.filter(|steal| steal.stolen_ns > Nanos::ZERO);
    let smis = counted.smis.filter(|smis| smis.count > 0);
    let steal = steal.map(|steal| {
        let (stolen, within) = (steal.stolen_ns, steal.within_ns);
        format!("steal time rose by {stolen} within {within}")
    });
    let smis = smis.map(|smis| format!("SMIs within {}: {}", smis.within_ns, smis.count));
    steal.into_iter().chain(smis)
}
