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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::event;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Without the end, the begin is of no use. The reverse does not hold.
    #[test]
    fn begin_without_an_end_is_missing() {
        for (begin, end) in PAIRS {
            let mut missing = set(&[end, "sched:sched_switch"]);
            complete(&mut missing);
            assert_eq!(missing, set(&[begin, end, "sched:sched_switch"]));
            let mut missing = set(&[begin]);
            complete(&mut missing);
            assert_eq!(missing, set(&[begin]));
        }
    }

    #[test]
    fn events_of_a_missing_pair_are_halves() {
        let (caller, parent) = (1, 2);
        let (irq, ret, vec, hrtimer, work, function) = (4, 1, 3, 9, 8, 7);
        let vector = Vector::LocalTimer;
        let name = "eth0".into();
        let args = [0, 0];
        let cases = [
            (0, EventKind::IrqEntry { irq, name }),
            (0, EventKind::IrqExit { irq, ret }),
            (1, EventKind::SoftirqEntry { vec }),
            (1, EventKind::SoftirqExit { vec }),
            (
                2,
                EventKind::VectorEntry {
                    vector: Vector::LocalTimer,
                },
            ),
            (2, EventKind::VectorExit { vector }),
            (
                3,
                EventKind::HrtimerExpireEntry {
                    hrtimer,
                    function,
                    now_ns: 5,
                },
            ),
            (3, EventKind::HrtimerExpireExit { hrtimer }),
            (4, EventKind::SysEnter { id: 0, args }),
            (5, EventKind::WorkqueueStart { work, function }),
            (6, EventKind::IrqDisable { caller, parent }),
            (7, EventKind::PreemptDisable { caller, parent }),
        ];
        let ended = BTreeSet::from([Vector::LocalTimer]);
        for (pair, kind) in cases {
            let event = event(1, 1, kind);
            for (number, (begin, _)) in PAIRS.into_iter().enumerate() {
                let is_missing = is_half(&event, &set(&[begin]), &ended);
                assert_eq!(is_missing, number == pair, "{event:?} {begin}");
            }
            assert!(!is_half(&event, &set(&[]), &ended), "{event:?}");
        }
    }

    #[test]
    fn interrupt_that_never_ends_is_a_half() {
        let vector = |vector: &Vector| {
            let vector = vector.clone();
            event(1, 1, EventKind::VectorEntry { vector })
        };
        let ended = BTreeSet::from([Vector::LocalTimer]);
        assert!(!is_half(&vector(&Vector::LocalTimer), &set(&[]), &ended));
        assert!(is_half(&vector(&Vector::IrqWork), &set(&[]), &ended));
    }

    /// A call that only its name states has its own end.
    #[test]
    fn call_without_a_number_is_no_half() {
        let args = [0, 0];
        let call = event(1, 1, EventKind::SysEnter { id: -1, args });
        assert!(!is_half(&call, &set(&[PAIRS[4].0]), &BTreeSet::new()));
    }
}
