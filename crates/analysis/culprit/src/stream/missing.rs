//! Events whose counterpart was not recorded.

use std::collections::BTreeSet;

use punctual_model::{EventKind, TraceEvent, Vector};

/// Events that begin something, and those that end it. Without the second, the first would seem to
/// last forever.
const PAIRS: [(&str, &str); 8] = [
    ("irq:irq_handler_entry", "irq:irq_handler_exit"),
    ("irq:softirq_entry", "irq:softirq_exit"),
    ("irq_vectors:*_entry", "irq_vectors:*_exit"),
    ("timer:hrtimer_expire_entry", "timer:hrtimer_expire_exit"),
    ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit"),
    (
        "workqueue:workqueue_execute_start",
        "workqueue:workqueue_execute_end",
    ),
    ("preemptirq:irq_disable", "preemptirq:irq_enable"),
    ("preemptirq:preempt_disable", "preemptirq:preempt_enable"),
];

/// Completes a list of missing events with those whose end is missing.
pub(super) fn complete(missing: &mut BTreeSet<String>) {
    for (begin, end) in PAIRS {
        if missing.contains(end) {
            missing.insert(begin.to_owned());
        }
    }
}

/// Returns whether an event shows a beginning whose end was not recorded.
pub(super) fn has_no_end(
    event: &TraceEvent,
    missing: &BTreeSet<String>,
    ended: &BTreeSet<Vector>,
) -> bool {
    let name = match &event.kind {
        EventKind::IrqEntry { .. } => PAIRS[0].0,
        EventKind::SoftirqEntry { .. } => PAIRS[1].0,
        EventKind::VectorEntry { vector } => return !ended.contains(vector),
        EventKind::HrtimerExpireEntry { .. } => PAIRS[3].0,
        EventKind::SysEnter { .. } => PAIRS[4].0,
        EventKind::WorkqueueStart { .. } => PAIRS[5].0,
        EventKind::IrqDisable { .. } => PAIRS[6].0,
        EventKind::PreemptDisable { .. } => PAIRS[7].0,
        _ => return false,
    };
    missing.contains(name)
}
