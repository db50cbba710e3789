//! The numbers of the events and their fields in Perfetto's messages.

use punctual_model::{EVENTS, EventSpec, Vector};

use crate::listed::Listed;

/// An event: its number in `FtraceEvent`, its name, and the numbers of its fields in the order of
/// [`EventSpec::fields`].
type Row = (u64, &'static str, &'static [u64]);

/// Generated from the descriptors of the Python package perfetto 0.59.
const ROWS: [Row; 34] = [
    (4, "sched:sched_switch", &[1, 2, 3, 5, 6, 7, 4]),
    (13, "power:cpu_idle", &[1, 2]),
    (17, "sched:sched_wakeup", &[1, 2, 3, 5]),
    (20, "sched:sched_waking", &[1, 2, 3, 5]),
    (21, "ipi:ipi_entry", &[]),
    (22, "ipi:ipi_exit", &[]),
    (24, "irq:softirq_entry", &[1]),
    (25, "irq:softirq_exit", &[1]),
    (26, "irq:softirq_raise", &[1]),
    (36, "irq:irq_handler_entry", &[1, 2]),
    (37, "irq:irq_handler_exit", &[1, 2]),
    (45, "block:block_rq_issue", &[1, 2]),
    (57, "workqueue:workqueue_execute_end", &[1, 2]),
    (58, "workqueue:workqueue_execute_start", &[1, 2]),
    (59, "workqueue:workqueue_queue_work", &[1, 2]),
    (114, "sched:sched_wakeup_new", &[1, 2, 3, 5]),
    (125, "block:block_rq_complete", &[1, 2]),
    (238, "sched:sched_process_exit", &[1, 2, 4]),
    (324, "signal:signal_deliver", &[3]),
    (325, "signal:signal_generate", &[6, 4, 2]),
    (329, "raw_syscalls:sys_enter", &[1, 2]),
    (330, "raw_syscalls:sys_exit", &[1, 2]),
    (353, "sched:sched_pi_setprio", &[1, 4, 3, 2]),
    (376, "kvm:kvm_entry", &[]),
    (377, "kvm:kvm_exit", &[]),
    (491, "sched:sched_migrate_task", &[1, 2, 3, 4, 5]),
    (551, "timer:hrtimer_start", &[1, 2, 3, 4]),
    (552, "timer:hrtimer_cancel", &[1]),
    (553, "timer:hrtimer_expire_entry", &[1, 3, 2]),
    (554, "timer:hrtimer_expire_exit", &[1]),
    (557, "timer:timer_expire_entry", &[1, 3]),
    (558, "timer:timer_expire_exit", &[1]),
    (559, "irq_vectors:local_timer_entry", &[]),
    (560, "irq_vectors:local_timer_exit", &[]),
];

/// Number of `FtraceEvent.print`, and of the text in it.
pub(super) const PRINT: (u64, u64) = (3, 2);
/// Number of `FtraceEvent.generic`, an event that Perfetto does not know.
pub(super) const GENERIC: u64 = 327;

/// An event, and where its fields are.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) event: Listed,
    /// The numbers of its fields. Empty for a generic event, which names its fields.
    pub(super) fields: &'static [u64],
}

impl Known {
    fn new(full_name: &str, fields: &'static [u64]) -> Option<Self> {
        let event = Listed::named(full_name)?;
        Some(Self { event, fields })
    }

    /// Returns the events of the table, by their number.
    pub(super) fn all() -> Vec<Option<Self>> {
        let mut all = Vec::new();
        for (number, name, fields) in ROWS {
            let number = number as usize;
            if all.len() <= number {
                all.resize(number + 1, None);
            }
            if let Some(place) = all.get_mut(number) {
                *place = Self::new(name, fields);
            }
        }
        all
    }

    /// Returns the event with this name, without its trace system.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        let is = |spec: &&EventSpec| {
            let ending = spec.name.strip_prefix('*');
            ending.map_or(spec.name == name, |ending| name.ends_with(ending))
        };
        // Names with an ending are last, because other events also end so.
        let exact = EVENTS.iter().find(|spec| spec.name == name);
        let spec = exact.or_else(|| {
            let named = Vector::NAMED.iter().any(|(_, known)| {
                name.strip_prefix(known)
                    .is_some_and(|rest| matches!(rest, "_entry" | "_exit"))
            });
            EVENTS.iter().find(is).filter(|_| named)
        })?;
        Self::new(&format!("{}:{name}", spec.system), &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_all_fields_of_its_event() {
        for (number, name, fields) in ROWS {
            let known = Known::new(name, fields).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(
                known.event.spec.fields.len(),
                fields.len(),
                "{number} {name}"
            );
        }
    }

    #[test]
    fn generic_events_are_found_by_name() {
        let name = |name| Known::by_name(name).map(|known| known.event.spec.full_name);
        assert_eq!(name("contention_begin"), Some("lock:contention_begin"));
        assert_eq!(name("reschedule_entry"), Some("irq_vectors:*_entry"));
        assert_eq!(name("rwmmio_entry"), None);
    }
}
