//! The events that tell who took the time, the fewest: one entry each.

use punctual_model::{EventKind, TaskState, Vector};

use super::spec::{EventSpec, FAULT, WAKE, quiet, usual, watched};

const TASK: &[&str] = &["comm", "pid", "prio"];

/// The fewest that can tell the causes apart.
pub(super) const USUAL: &[EventSpec] = &[
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
