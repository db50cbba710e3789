//! Looks up events by name among those that punctual knows.

use punctual_model::{EVENTS, EventSpec, Vector};

/// Returns the event's name in [`punctual_model::event_names`]. Several events can share one name.
pub(crate) fn listed_name(index: usize) -> &'static str {
    let until = EVENTS.get(..=index).unwrap_or_default();
    let listed = until.iter().rfind(|spec| spec.listed);
    listed.map_or("", |spec: &EventSpec| spec.full_name)
}

/// An event of the table.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// Its index in [`EVENTS`].
    pub(crate) index: usize,
    pub(crate) spec: &'static EventSpec,
    /// The interrupt, if the name of the event contains it.
    pub(crate) vector: Vector,
}

impl Listed {
    /// Returns the event with this full name.
    pub(crate) fn named(full_name: &str) -> Option<Self> {
        let index = by_full_name(full_name)?;
        let spec = EVENTS.get(index)?;
        let vector = spec.name.strip_prefix('*').and_then(|ending| {
            let (_, name) = full_name.split_once(':')?;
            name.strip_suffix(ending)
        });
        Some(Self {
            index,
            spec,
            vector: Vector::named(vector.unwrap_or_default()),
        })
    }
}

/// Returns the index of an event by its full name, such as `sched:sched_switch`.
pub(crate) fn by_full_name(full_name: &str) -> Option<usize> {
    EVENTS
        .iter()
        .position(|spec| match spec.name.strip_prefix('*') {
            Some(ending) => {
                let name = full_name.strip_prefix(spec.system);
                name.is_some_and(|name| name.starts_with(':') && name.ends_with(ending))
            }
            None => spec.full_name == full_name,
        })
}

/// Returns the system call of an event such as `sys_exit_mlockall` of the trace system `syscalls`, and
/// whether the call ends.
pub(crate) fn call_of(event: &str) -> Option<(&str, bool)> {
    let begun = event.strip_prefix("sys_enter_").map(|call| (call, false));
    begun.or_else(|| event.strip_prefix("sys_exit_").map(|call| (call, true)))
}

/// Returns whether a system call sets a policy or locks memory.
pub(crate) fn is_policy_call(call: &str) -> bool {
    call.starts_with("sched_set") || call.starts_with("mlock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_the_event_list() {
        let listed = |name| by_full_name(name).map(listed_name);
        assert_eq!(listed("ipi:ipi_send_cpumask"), Some("ipi:ipi_send_cpu"));
        assert_eq!(
            listed("irq_vectors:irq_work_entry"),
            Some("irq_vectors:*_entry")
        );
        assert_eq!(listed("sched:sched_stat_wait"), None);
        for name in punctual_model::event_names() {
            assert_eq!(listed(name), Some(name));
        }
    }
}
