//! End-to-end chains in a trace.

use std::collections::BTreeSet;
use std::env::consts::ARCH;

use punctual_culprit::{ChainFinder, ChainStart};
use punctual_model::{Comm, TraceChains};
use punctual_tracefile::{Item, TraceFileError, TraceHead, TraceReader};

use super::calls::CallsByName;
use super::jobs::system_call_names;
use super::{TraceRequest, WITHOUT_VECTORS};

const SWITCH: &str = "sched:sched_switch";
const WAKING: &str = "sched:sched_waking";
const WAKEUP: &str = "sched:sched_wakeup";
const IRQ: &str = "irq:irq_handler_entry";
const SOFTIRQ: &str = "irq:softirq_entry";
const VECTORS: &str = "irq_vectors:*_entry";
const SYS_ENTER: &str = "raw_syscalls:sys_enter";

/// System calls that wait, but not for input from another thread.
const WITHOUT_INPUT: [&str; 6] = [
    "nanosleep",
    "clock_nanosleep",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "msync",
];

/// Finds the chains between two ends.
///
/// # Errors
/// If the trace cannot be read, or if its events cannot show chains.
pub fn trace_chains(
    reader: &mut dyn TraceReader,
    request: &TraceRequest,
    from: ChainStart,
    to: Comm,
) -> Result<TraceChains, TraceFileError> {
    let mut chains = ChainFinder::new(from.clone(), to, without_input(reader.head()));
    let mut has_flags = false;
    let mut numbers = CallsByName::default();
    while let Some(item) = reader.next_item()? {
        let time = item.time();
        let is_wanted =
            (request.wanted.between).is_none_or(|(from, to)| (from..=to).contains(&time));
        match item {
            Item::Event(mut event) if is_wanted => {
                numbers.number(&mut event, reader.head());
                has_flags |= event.flags != 0;
                chains.event(&event);
            }
            Item::Lost { .. } if is_wanted => chains.lost(),
            _ => (),
        }
    }
    let head = reader.head();
    if let Some(remedy) = lacks(head, &from, has_flags) {
        return Err(TraceFileError::NothingUsed {
            format: head.format.clone(),
            remedy,
        });
    }
    let mut found = chains.finish();
    found.file.clone_from(&request.file);
    found.format.clone_from(&head.format);
    found.warnings.extend(warnings(head));
    Ok(found)
}

/// Returns the numbers of system calls that are no wait for input. The numbers of
/// another architecture are unknown.
pub(crate) fn without_input(head: &TraceHead) -> BTreeSet<i64> {
    if head
        .machine
        .as_deref()
        .is_some_and(|machine| machine != ARCH)
    {
        return BTreeSet::new();
    }
    let names = system_call_names().into_iter();
    let named = names.filter(|(_, name)| WITHOUT_INPUT.contains(&name.as_str()));
    named.map(|(id, _)| id).collect()
}

/// Returns what to record if the events of the trace cannot show chains.
fn lacks(head: &TraceHead, from: &ChainStart, has_flags: bool) -> Option<&'static str> {
    let has = |event: &str| head.recorded.contains(event);
    if !has(SWITCH) || !has(WAKING) {
        return Some(
            ". Chains need switches and wake-ups: record sched:sched_switch and \
                     sched:sched_waking",
        );
    }
    if matches!(from, ChainStart::Interrupt(_)) && !has(IRQ) && !has(VECTORS) {
        return Some(
            ". A chain from an interrupt needs its events: record \
                     irq:irq_handler_entry and irq:irq_handler_exit",
        );
    }
    let shows_context = has_flags || has(IRQ) && may_show_vectors(head);
    (!shows_context).then_some(
        ". Its events have no flags, so they do not show whether a thread or an interrupt wakes \
         a thread: record irq:* and irq_vectors:* as well, or use the perf.data",
    )
}

/// Returns whether the interrupts without a device are recorded, if there are any.
fn may_show_vectors(head: &TraceHead) -> bool {
    let kernel = head.kernel.as_deref().unwrap_or_default();
    let machine = head.machine.as_deref().unwrap_or(kernel);
    head.recorded.contains(VECTORS) || WITHOUT_VECTORS.iter().any(|name| machine.contains(name))
}

/// Returns what the events cannot show.
pub(crate) fn warnings(head: &TraceHead) -> Vec<String> {
    let has = |event: &str| head.recorded.contains(event);
    let mut warnings = Vec::new();
    if !has(SOFTIRQ) || !has(IRQ) || !may_show_vectors(head) {
        warnings.push(
            "not all interrupts and softirqs are recorded: a wake-up in a softirq, as through the \
             network, ends a chain. Record irq:* and irq_vectors:*"
                .to_owned(),
        );
    }
    if !has(SYS_ENTER) {
        warnings.push(
            "no system calls recorded: a thread that sleeps ends a chain, unless its sleep is \
             uninterruptible. Record raw_syscalls:*"
                .to_owned(),
        );
    } else if head.machine.is_none() {
        warnings.push(format!(
            "system calls are named by their numbers on {ARCH}, the architecture of this machine"
        ));
    }
    if !has(WAKEUP) {
        warnings.push(
            "sched:sched_wakeup is not recorded: a wake-up on its way to another CPU counts as a \
             wait for the CPU"
                .to_owned(),
        );
    }
    if let (Some(true), Some(clock)) = (head.clocks_differ, &head.clock) {
        warnings.push(format!(
            "clock {clock} differs between CPUs: wake-ups of threads on other CPUs are inaccurate"
        ));
    }
    warnings.extend(head.warnings.iter().cloned());
    warnings
}
