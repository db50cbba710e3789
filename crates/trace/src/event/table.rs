//! The events that tell who took the time: one entry each.

use punctual_model::{EventKind, TaskState, Vector};

use super::fields::Fields;

/// From which level on an event is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The fewest that can tell the causes apart.
    #[default]
    Usual,
    /// These, and what the tracers timerlat and osnoise tell while they run.
    Noise,
    /// All that tell more.
    Full,
}

/// Whose events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// All.
    All,
    /// Those in which this field holds the number of a watched thread: the
    /// kernel discards the others.
    Watched(&'static str),
}

/// What it means that a kernel does not have an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// What it tells is unknown, and the reader is told.
    Tell,
    /// It is of one kind of machine, of later kernels or of a tracer: another
    /// event tells the same there, or nothing is lost.
    Quiet,
}

/// An event and how its records are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventSpec {
    /// The folder in `events`.
    pub(crate) system: &'static str,
    /// The event; one that begins with `*` stands for all that end so.
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) whose: Whose,
    pub(crate) missed: Missed,
    /// What is not known without it.
    pub(crate) tells: &'static str,
    /// The fields that it is made from.
    pub(crate) fields: &'static [&'static str],
    pub(crate) make: Make,
}

/// Makes an event from its fields, and from the name of those that go by one
/// with a `*`.
pub(crate) type Make = fn(&mut Fields<'_>, &Vector) -> Option<EventKind>;

impl EventSpec {
    /// As the model names it.
    pub(crate) fn full_name(&self) -> String {
        format!("{}:{}", self.system, self.name)
    }
}

pub(super) const fn usual(
    system: &'static str,
    name: &'static str,
    tells: &'static str,
    fields: &'static [&'static str],
    make: Make,
) -> EventSpec {
    EventSpec {
        system,
        name,
        level: Level::Usual,
        whose: Whose::All,
        missed: Missed::Tell,
        tells,
        fields,
        make,
    }
}

pub(super) const fn full(spec: EventSpec) -> EventSpec {
    EventSpec {
        level: Level::Full,
        ..spec
    }
}

pub(super) const fn watched(field: &'static str, spec: EventSpec) -> EventSpec {
    EventSpec {
        whose: Whose::Watched(field),
        ..spec
    }
}

pub(super) const fn quiet(spec: EventSpec) -> EventSpec {
    EventSpec {
        missed: Missed::Quiet,
        ..spec
    }
}

const TASK: &[&str] = &["comm", "pid", "prio"];
pub(super) const WAKE: &[&str] = &["comm", "pid", "prio", "target_cpu"];
pub(super) const FAULT: &[&str] = &["address", "ip", "error_code"];

/// The events of each level; as `include/trace/events/*.h` of the kernel define them (irq
/// vectors and page faults: `arch/x86/include/asm/trace`).
pub(crate) const EVENTS: [&[EventSpec]; 2] = [USUAL, super::more::FULL];

/// Each of them.
pub(crate) fn events() -> impl Iterator<Item = &'static EventSpec> {
    EVENTS.into_iter().flatten()
}

/// The fewest that can tell the causes apart.
const USUAL: &[EventSpec] = &[
    usual(
        "sched",
        "sched_switch",
        "which thread ran",
        &[
            "prev_comm",
            "prev_pid",
            "prev_prio",
            "next_comm",
            "next_pid",
            "next_prio",
            "prev_state",
        ],
        |f, _| {
            Some(EventKind::Switch {
                prev: f.task(0)?,
                next: f.task(3)?,
                prev_state: TaskState(f.u32(6)?),
            })
        },
    ),
    usual(
        "sched",
        "sched_waking",
        "who woke the thread, and when",
        WAKE,
        |f, _| {
            Some(EventKind::Waking {
                task: f.task(0)?,
                target_cpu: f.u32(3)?,
            })
        },
    ),
    usual(
        "sched",
        "sched_migrate_task",
        "whether a thread was moved to another CPU",
        &["comm", "pid", "prio", "orig_cpu", "dest_cpu"],
        |f, _| {
            Some(EventKind::Migrate {
                task: f.task(0)?,
                orig_cpu: f.u32(3)?,
                dest_cpu: f.u32(4)?,
            })
        },
    ),
    usual(
        "sched",
        "sched_pi_setprio",
        "whether a lock's holder was lent a priority",
        &["comm", "pid", "oldprio", "newprio"],
        |f, _| {
            Some(EventKind::PiSetprio {
                task: f.task(0)?,
                newprio: f.priority(3)?,
            })
        },
    ),
    usual(
        "sched",
        "sched_process_exit",
        "which threads ended",
        TASK,
        |f, _| Some(EventKind::ProcessExit { task: f.task(0)? }),
    ),
    usual(
        "irq",
        "irq_handler_entry",
        "which interrupt ran",
        &["irq", "name"],
        |f, _| {
            Some(EventKind::IrqEntry {
                irq: f.u32(0)?,
                name: f.text(1)?,
            })
        },
    ),
    usual(
        "irq",
        "irq_handler_exit",
        "how long an interrupt ran",
        &["irq", "ret"],
        |f, _| {
            Some(EventKind::IrqExit {
                irq: f.u32(0)?,
                ret: f.i32(1)?,
            })
        },
    ),
    usual(
        "irq",
        "softirq_entry",
        "which softirq ran",
        &["vec"],
        |f, _| Some(EventKind::SoftirqEntry { vec: f.u32(0)? }),
    ),
    usual(
        "irq",
        "softirq_exit",
        "how long a softirq ran",
        &["vec"],
        |f, _| Some(EventKind::SoftirqExit { vec: f.u32(0)? }),
    ),
    // Of x86: elsewhere the timer's interrupt is one of irq_handler_entry.
    quiet(usual(
        "irq_vectors",
        "*_entry",
        "when the timer's interrupt began",
        &[],
        |_, vector| {
            Some(EventKind::VectorEntry {
                vector: vector.clone(),
            })
        },
    )),
    quiet(usual(
        "irq_vectors",
        "*_exit",
        "when the timer's interrupt ended",
        &[],
        |_, vector| {
            Some(EventKind::VectorExit {
                vector: vector.clone(),
            })
        },
    )),
    // Of arm and arm64.
    quiet(usual(
        "ipi",
        "ipi_entry",
        "when another CPU's call began",
        &[],
        |_, _| {
            Some(EventKind::VectorEntry {
                vector: Vector::Other("ipi".into()),
            })
        },
    )),
    quiet(usual(
        "ipi",
        "ipi_exit",
        "when another CPU's call ended",
        &[],
        |_, _| {
            Some(EventKind::VectorExit {
                vector: Vector::Other("ipi".into()),
            })
        },
    )),
    quiet(usual(
        "nmi",
        "nmi_handler",
        "non-maskable interrupts",
        &["handler", "delta_ns", "handled"],
        |f, _| {
            Some(EventKind::NmiHandler {
                handler: f.u64(0)?,
                delta: f.nanos(1)?,
                handled: f.i32(2)?,
            })
        },
    )),
    quiet(watched(
        "common_pid",
        usual(
            "exceptions",
            "page_fault_user",
            "page faults of the thread",
            FAULT,
            |f, _| {
                Some(EventKind::PageFaultUser {
                    address: f.u64(0)?,
                    ip: f.u64(1)?,
                    error_code: f.u64(2)?,
                })
            },
        ),
    )),
    watched(
        "pid",
        usual(
            "signal",
            "signal_generate",
            "signals to the thread",
            &["sig", "pid", "comm"],
            |f, _| {
                Some(EventKind::SignalGenerate {
                    sig: f.u32(0)?,
                    pid: f.u32(1)?,
                    comm: f.comm(2)?,
                })
            },
        ),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::EVENT_NAMES;

    #[test]
    fn each_event_is_known_to_the_model() {
        for spec in events() {
            let name = spec.full_name();
            // Two names of one kind.
            let same = ["ipi:ipi_entry", "ipi:ipi_exit", "ipi:ipi_send_cpumask"];
            assert!(
                EVENT_NAMES.contains(&name.as_str()) || same.contains(&name.as_str()),
                "{name}"
            );
            assert!(!spec.tells.is_empty(), "{name}");
        }
    }
}
