//! Events whose counterpart was not recorded.

use std::collections::BTreeSet;

use punctual_model::{EventKind, TraceEvent, Vector};

/// Events that begin something, and the events that end it. Without the end, the activity would
/// seem to last forever.
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

/// Adds the events whose end is missing to a list of missing events.
pub(super) fn complete(missing: &mut BTreeSet<String>) {
    for (begin, end) in PAIRS {
        if missing.contains(end) {
            missing.insert(begin.to_owned());
        }
    }
}

/// Returns whether an event shows a beginning whose end was not recorded, or the reverse. `missing`:
/// the [completed](complete) list. `ended`: the vectors with an end.
pub(super) fn is_half(
    event: &TraceEvent,
    missing: &BTreeSet<String>,
    ended: &BTreeSet<Vector>,
) -> bool {
    let name = match &event.kind {
        EventKind::IrqEntry { .. } | EventKind::IrqExit { .. } => PAIRS[0].0,
        EventKind::SoftirqEntry { .. } | EventKind::SoftirqExit { .. } => PAIRS[1].0,
        EventKind::VectorEntry { vector } if !ended.contains(vector) => return true,
        EventKind::VectorEntry { .. } | EventKind::VectorExit { .. } => PAIRS[2].0,
        EventKind::HrtimerExpireEntry { .. } | EventKind::HrtimerExpireExit { .. } => PAIRS[3].0,
        // The ends of calls that only their name states are other events.
        EventKind::SysEnter { id: 0.., .. } => PAIRS[4].0,
        EventKind::WorkqueueStart { .. } => PAIRS[5].0,
        EventKind::IrqDisable { .. } => PAIRS[6].0,
        EventKind::PreemptDisable { .. } => PAIRS[7].0,
        _ => return false,
    };
    missing.contains(name)
}
