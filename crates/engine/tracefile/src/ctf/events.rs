//! The kernel's events as LTTng names them, and as `perf data convert --to-ctf` does.
//!
//! Source: `include/instrumentation/events` of lttng-modules 2.13
//! (<https://github.com/lttng/lttng-modules>).

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_host::system_call_numbers;
use punctual_model::{Comm, EventFields, EventKind, KernelPriority, Text};

use super::bits::{Value, Values};
use crate::listed::Listed;

/// The beginnings of LTTng's names, and of the kernel's full names.
const PREFIXES: [(&str, &str); 15] = [
    ("x86_irq_vectors_", "irq_vectors:"),
    ("x86_exceptions_", "exceptions:"),
    ("kvm_x86_", "kvm:kvm_"),
    ("irq_softirq_", "irq:softirq_"),
    ("irq_handler_", "irq:irq_handler_"),
    ("timer_hrtimer_", "timer:hrtimer_"),
    // The names before lttng-modules 2.4.
    ("softirq_", "irq:softirq_"),
    ("hrtimer_", "timer:hrtimer_"),
    ("timer_expire_", "timer:timer_expire_"),
    ("power_cpu_idle", "power:cpu_idle"),
    ("sched_", "sched:sched_"),
    ("workqueue_", "workqueue:workqueue_"),
    ("block_rq_", "block:block_rq_"),
    ("signal_", "signal:signal_"),
    ("lock_contention_", "lock:contention_"),
];
/// The beginnings of the names of system calls, and whether the call ends.
const CALLS: [(&str, bool); 4] = [
    ("syscall_entry_", false),
    ("compat_syscall_entry_", false),
    ("syscall_exit_", true),
    ("compat_syscall_exit_", true),
];
/// LTTng subtracts this from priorities (`MAX_RT_PRIO`), perf does not.
const MAX_RT_PRIO: i16 = 100;
/// The number of the first system call that does not exist on this architecture.
const FIRST_OTHER: i64 = 1 << 20;

/// The event of the kernel that an event of LTTng stands for.
#[derive(Clone, Debug)]
pub(super) enum Route {
    Event(Listed),
    Enter(i64),
    Exit(i64),
}

/// The routes of all events, and the names of system calls by number.
#[derive(Debug, Default)]
pub(super) struct Routes {
    routes: BTreeMap<String, Option<Route>>,
    pub(super) calls: BTreeMap<i64, String>,
    names: Vec<Arc<str>>,
}

impl Routes {
    /// Returns the route of an event. `None` if punctual does not use the event.
    pub(super) fn of(&mut self, name: &str) -> Option<Route> {
        if let Some(route) = self.routes.get(name) {
            return route.clone();
        }
        // perf writes the kernel's full names.
        let of_perf = Listed::named(name).map(Route::Event);
        let route = of_perf.or_else(|| self.call(name)).or_else(|| {
            let (own, kernel) = PREFIXES.iter().find(|(own, _)| name.starts_with(own))?;
            let full_name = format!("{kernel}{}", name.strip_prefix(own)?);
            Listed::named(&full_name).map(Route::Event)
        });
        self.routes.insert(name.to_owned(), route.clone());
        route
    }

    fn call(&mut self, name: &str) -> Option<Route> {
        let (call, is_exit) = CALLS
            .iter()
            .find_map(|(prefix, is_exit)| name.strip_prefix(prefix).map(|call| (call, *is_exit)))?;
        let known = self.calls.iter().find(|(_, known)| *known == call);
        let number = known.map(|(number, _)| *number).unwrap_or_else(|| {
            let number = system_call_numbers(call).first().copied();
            number.unwrap_or(FIRST_OTHER + self.calls.len() as i64)
        });
        self.calls.insert(number, call.to_owned());
        Some(if is_exit {
            Route::Exit(number)
        } else {
            Route::Enter(number)
        })
    }

    /// Decodes an event. Returns `None` if it lacks a field. `is_of_perf`: whether perf wrote it.
    pub(super) fn decode(
        &mut self,
        route: &Route,
        values: &Values,
        is_of_perf: bool,
    ) -> Option<EventKind> {
        match route {
            Route::Event(event) => {
                let mut fields = Fields {
                    shift: if is_of_perf { 0 } else { MAX_RT_PRIO },
                    names: event.spec.fields,
                    values,
                    texts: &mut self.names,
                };
                event.spec.event.decode(&mut fields, &event.vector)
            }
            Route::Enter(id) => {
                let mut numbers = values.all().map(|value| match value {
                    Value::Number(number) => *number as u64,
                    Value::Text(_) => 0,
                });
                let mut next = || numbers.next().unwrap_or(0);
                let (id, args) = (*id, [next(), next()]);
                Some(EventKind::SysEnter { id, args })
            }
            Route::Exit(id) => Some(EventKind::SysExit {
                id: *id,
                ret: values.number("ret")? as i64,
            }),
        }
    }
}

impl Route {
    /// Returns the full name of the kernel's event.
    pub(super) fn listed(&self) -> Option<Listed> {
        match self {
            Self::Event(event) => Some(event.clone()),
            Self::Enter(_) => Listed::named("raw_syscalls:sys_enter"),
            Self::Exit(_) => Listed::named("raw_syscalls:sys_exit"),
        }
    }
}

/// Maximum number of names that are kept. Most machines have about ten interrupts.
const MOST_NAMES: usize = 1_024;

/// The fields of an event by their index in the table of events.
struct Fields<'a> {
    /// Is added to priorities.
    shift: i16,
    names: &'static [&'static str],
    values: &'a Values,
    texts: &'a mut Vec<Arc<str>>,
}

impl Fields<'_> {
    fn value(&self, number: usize) -> Option<&Value> {
        let name = self.names.get(number)?;
        // LTTng calls the ID of a thread by its right name.
        self.values.get(name).or_else(|| {
            let prefix = name.strip_suffix("pid")?;
            self.values.get(&format!("{prefix}tid"))
        })
    }
}

impl EventFields for Fields<'_> {
    fn u64(&self, number: usize) -> Option<u64> {
        self.i64(number).map(|value| value as u64)
    }

    fn i64(&self, number: usize) -> Option<i64> {
        match self.value(number) {
            Some(Value::Number(value)) => Some(*value as i64),
            // LTTng does not record the function at the end of a work.
            None if self.names.get(number) == Some(&"function") => Some(0),
            _ => None,
        }
    }

    fn priority(&self, number: usize) -> Option<KernelPriority> {
        let priority = i16::try_from(self.i64(number)?).ok()?;
        Some(KernelPriority(priority.checked_add(self.shift)?))
    }

    fn comm(&self, number: usize) -> Option<Comm> {
        match self.value(number)? {
            Value::Text(text) => Some(Comm::new(text)),
            Value::Number(_) => None,
        }
    }

    fn text(&mut self, number: usize) -> Option<Text> {
        let Value::Text(bytes) = self.value(number)? else {
            return None;
        };
        let name: Arc<str> = String::from_utf8_lossy(bytes).into();
        if let Some(known) = self.texts.iter().find(|known| **known == name) {
            return Some(Text(Arc::clone(known)));
        }
        if self.texts.len() < MOST_NAMES {
            self.texts.push(Arc::clone(&name));
        }
        Some(Text(name))
    }

    fn in_text(&self, number: usize) -> Option<u64> {
        self.u64(number)
    }

    fn cpus(&self, _: usize) -> Option<Vec<u32>> {
        Some(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_by_their_names() {
        let mut routes = Routes::default();
        let mut name = |name: &str| {
            let listed = routes.of(name).and_then(|route| route.listed());
            listed.map(|event| event.spec.full_name)
        };
        assert_eq!(name("sched_switch"), Some("sched:sched_switch"));
        assert_eq!(name("sched:sched_switch"), Some("sched:sched_switch"));
        assert_eq!(name("irq_softirq_entry"), Some("irq:softirq_entry"));
        assert_eq!(
            name("timer_hrtimer_expire_exit"),
            Some("timer:hrtimer_expire_exit")
        );
        assert_eq!(
            name("x86_irq_vectors_local_timer_entry"),
            Some("irq_vectors:*_entry")
        );
        assert_eq!(name("syscall_exit_futex"), Some("raw_syscalls:sys_exit"));
        assert_eq!(name("lttng_statedump_process_state"), None);
        assert_eq!(name("sched_stat_wait"), None);
        let names: Vec<_> = routes.calls.values().collect();
        assert_eq!(names, ["futex"]);
    }

    #[test]
    fn unknown_system_calls_have_different_numbers() {
        let mut routes = Routes::default();
        for name in [
            "syscall_entry_no_such",
            "syscall_exit_no_such",
            "syscall_entry_other",
        ] {
            assert!(routes.of(name).is_some());
        }
        assert_eq!(routes.calls.len(), 2);
    }
}
