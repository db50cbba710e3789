//! The default events, which separate the causes: one entry each.

use punctual_model::{EventKind, TaskState, Vector};

use super::spec::{EventSpec, FAULT, WAKE, default, quiet, watched};

const TASK: &[&str] = &["comm", "pid", "prio"];

/// The fewest events that separate the causes.
pub(super) const DEFAULT: &[EventSpec] = &[
    default(
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
    default(
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
    default(
        "sched",
        "sched_migrate_task",
        "migrations to another CPU",
        &["comm", "pid", "prio", "orig_cpu", "dest_cpu"],
        |f, _| {
            Some(EventKind::Migrate {
                task: f.task(0)?,
                orig_cpu: f.u32(3)?,
                dest_cpu: f.u32(4)?,
            })
        },
    ),
    default(
        "sched",
        "sched_pi_setprio",
        "priority inheritance",
        &["comm", "pid", "oldprio", "newprio"],
        |f, _| {
            Some(EventKind::PiSetprio {
                task: f.task(0)?,
                newprio: f.priority(3)?,
            })
        },
    ),
    default(
        "sched",
        "sched_process_exit",
        "ends of threads",
        TASK,
        |f, _| Some(EventKind::ProcessExit { task: f.task(0)? }),
    ),
    default(
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
    default(
        "irq",
        "irq_handler_exit",
        "run time of an interrupt",
        &["irq", "ret"],
        |f, _| {
            Some(EventKind::IrqExit {
                irq: f.u32(0)?,
                ret: f.i32(1)?,
            })
        },
    ),
    default(
        "irq",
        "softirq_entry",
        "which softirq ran",
        &["vec"],
        |f, _| Some(EventKind::SoftirqEntry { vec: f.u32(0)? }),
    ),
    default(
        "irq",
        "softirq_exit",
        "run time of a softirq",
        &["vec"],
        |f, _| Some(EventKind::SoftirqExit { vec: f.u32(0)? }),
    ),
    // Of x86: elsewhere the timer's interrupt is one of irq_handler_entry.
    quiet(default(
        "irq_vectors",
        "*_entry",
        "start of the timer interrupt",
        &[],
        |_, vector| {
            Some(EventKind::VectorEntry {
                vector: vector.clone(),
            })
        },
    )),
    quiet(default(
        "irq_vectors",
        "*_exit",
        "end of the timer interrupt",
        &[],
        |_, vector| {
            Some(EventKind::VectorExit {
                vector: vector.clone(),
            })
        },
    )),
    // Of arm and arm64.
    quiet(default(
        "ipi",
        "ipi_entry",
        "start of another CPU's call",
        &[],
        |_, _| {
            Some(EventKind::VectorEntry {
                vector: Vector::Other("ipi".into()),
            })
        },
    )),
    quiet(default(
        "ipi",
        "ipi_exit",
        "end of another CPU's call",
        &[],
        |_, _| {
            Some(EventKind::VectorExit {
                vector: Vector::Other("ipi".into()),
            })
        },
    )),
    quiet(default(
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
        default(
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
        default(
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
