//! The events that tell who took the time: one line each in [`EVENTS`].

use punctual_model::{EventKind, NoiseSource, TaskState, Vector};

use super::fields::Fields;

/// From which level on an event is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The fewest that can tell the causes apart.
    #[default]
    Usual,
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

const fn usual(
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

const fn full(spec: EventSpec) -> EventSpec {
    EventSpec {
        level: Level::Full,
        ..spec
    }
}

const fn watched(field: &'static str, spec: EventSpec) -> EventSpec {
    EventSpec {
        whose: Whose::Watched(field),
        ..spec
    }
}

const fn quiet(spec: EventSpec) -> EventSpec {
    EventSpec {
        missed: Missed::Quiet,
        ..spec
    }
}

const TASK: &[&str] = &["comm", "pid", "prio"];
const WAKE: &[&str] = &["comm", "pid", "prio", "target_cpu"];
const FAULT: &[&str] = &["address", "ip", "error_code"];
const CODE: &[&str] = &["caller_offs", "parent_offs"];

/// The events, as `include/trace/events/*.h` of the kernel define them (irq
/// vectors and page faults: `arch/x86/include/asm/trace`).
pub(crate) const EVENTS: &[EventSpec] = &[
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
    full(usual(
        "sched",
        "sched_wakeup",
        "when the thread was in the queue",
        WAKE,
        |f, _| wakeup(f, false),
    )),
    full(usual(
        "sched",
        "sched_wakeup_new",
        "when a new thread was in the queue",
        WAKE,
        |f, _| wakeup(f, true),
    )),
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
    full(usual(
        "irq",
        "softirq_raise",
        "who asked for a softirq",
        &["vec"],
        |f, _| Some(EventKind::SoftirqRaise { vec: f.u32(0)? }),
    )),
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
    full(quiet(usual(
        "exceptions",
        "page_fault_kernel",
        "page faults in system calls",
        FAULT,
        |f, _| {
            Some(EventKind::PageFaultKernel {
                address: f.u64(0)?,
                ip: f.u64(1)?,
                error_code: f.u64(2)?,
            })
        },
    ))),
    full(usual(
        "signal",
        "signal_deliver",
        "signals that were taken",
        &["sig"],
        |f, _| Some(EventKind::SignalDeliver { sig: f.u32(0)? }),
    )),
    full(usual(
        "timer",
        "hrtimer_start",
        "for when the timer was set",
        &["hrtimer", "function", "expires", "softexpires"],
        |f, _| {
            Some(EventKind::HrtimerStart {
                hrtimer: f.u64(0)?,
                function: f.u64(1)?,
                expires_ns: f.i64(2)?,
                softexpires_ns: f.i64(3)?,
            })
        },
    )),
    full(usual(
        "timer",
        "hrtimer_cancel",
        "whether a timer was taken back",
        &["hrtimer"],
        |f, _| Some(EventKind::HrtimerCancel { hrtimer: f.u64(0)? }),
    )),
    full(usual(
        "timer",
        "hrtimer_expire_entry",
        "which timers expired",
        &["hrtimer", "function", "now"],
        |f, _| {
            Some(EventKind::HrtimerExpireEntry {
                hrtimer: f.u64(0)?,
                function: f.u64(1)?,
                now_ns: f.i64(2)?,
            })
        },
    )),
    full(usual(
        "timer",
        "hrtimer_expire_exit",
        "how long a timer ran",
        &["hrtimer"],
        |f, _| Some(EventKind::HrtimerExpireExit { hrtimer: f.u64(0)? }),
    )),
    full(usual(
        "timer",
        "timer_expire_entry",
        "which timers ran in softirq TIMER",
        &["timer", "function"],
        |f, _| {
            Some(EventKind::TimerExpireEntry {
                timer: f.u64(0)?,
                function: f.u64(1)?,
            })
        },
    )),
    full(usual(
        "timer",
        "timer_expire_exit",
        "how long these ran",
        &["timer"],
        |f, _| Some(EventKind::TimerExpireExit { timer: f.u64(0)? }),
    )),
    full(usual(
        "power",
        "cpu_idle",
        "when the CPU slept, and how deep",
        &["state", "cpu_id"],
        |f, _| {
            // PWR_EVENT_EXIT
            Some(match f.u32(0)? {
                u32::MAX => EventKind::IdleExit { cpu_id: f.u32(1)? },
                state => EventKind::IdleEntry {
                    state,
                    cpu_id: f.u32(1)?,
                },
            })
        },
    )),
    full(usual(
        "workqueue",
        "workqueue_execute_start",
        "what a kworker ran",
        &["work", "function"],
        |f, _| {
            Some(EventKind::WorkqueueStart {
                work: f.u64(0)?,
                function: f.u64(1)?,
            })
        },
    )),
    // Before Linux 5.8 without the function.
    full(quiet(usual(
        "workqueue",
        "workqueue_execute_end",
        "how long that ran",
        &["work", "function"],
        |f, _| {
            Some(EventKind::WorkqueueEnd {
                work: f.u64(0)?,
                function: f.u64(1)?,
            })
        },
    ))),
    full(quiet(usual(
        "ipi",
        "ipi_send_cpu",
        "who called another CPU",
        &["cpu", "callsite", "callback"],
        |f, _| {
            Some(EventKind::IpiSend {
                cpu: Some(f.u32(0)?),
                callsite: f.u64(1)?,
                callback: f.u64(2)?,
            })
        },
    ))),
    full(quiet(usual(
        "ipi",
        "ipi_send_cpumask",
        "who called other CPUs",
        &["callsite", "callback"],
        |f, _| {
            Some(EventKind::IpiSend {
                cpu: None,
                callsite: f.u64(0)?,
                callback: f.u64(1)?,
            })
        },
    ))),
    full(quiet(usual(
        "preemptirq",
        "irq_disable",
        "where interrupts were disabled",
        CODE,
        |f, _| {
            Some(EventKind::IrqDisable {
                caller: f.from_text_begin(0)?,
                parent: f.from_text_begin(1)?,
            })
        },
    ))),
    full(quiet(usual(
        "preemptirq",
        "irq_enable",
        "where interrupts were enabled",
        CODE,
        |f, _| {
            Some(EventKind::IrqEnable {
                caller: f.from_text_begin(0)?,
                parent: f.from_text_begin(1)?,
            })
        },
    ))),
    full(quiet(usual(
        "preemptirq",
        "preempt_disable",
        "where preemption was disabled",
        CODE,
        |f, _| {
            Some(EventKind::PreemptDisable {
                caller: f.from_text_begin(0)?,
                parent: f.from_text_begin(1)?,
            })
        },
    ))),
    full(quiet(usual(
        "preemptirq",
        "preempt_enable",
        "where preemption was enabled",
        CODE,
        |f, _| {
            Some(EventKind::PreemptEnable {
                caller: f.from_text_begin(0)?,
                parent: f.from_text_begin(1)?,
            })
        },
    ))),
    // Since Linux 5.19.
    full(quiet(usual(
        "lock",
        "contention_begin",
        "who waited for a lock of the kernel",
        &["lock_addr", "flags"],
        |f, _| {
            Some(EventKind::ContentionBegin {
                lock_addr: f.u64(0)?,
                flags: f.u32(1)?,
            })
        },
    ))),
    full(quiet(usual(
        "lock",
        "contention_end",
        "for how long",
        &["lock_addr", "ret"],
        |f, _| {
            Some(EventKind::ContentionEnd {
                lock_addr: f.u64(0)?,
                ret: f.i32(1)?,
            })
        },
    ))),
    full(quiet(usual(
        "raw_syscalls",
        "sys_enter",
        "in which system call a thread was",
        &["id"],
        |f, _| Some(EventKind::SysEnter { id: f.i64(0)? }),
    ))),
    full(quiet(usual(
        "raw_syscalls",
        "sys_exit",
        "when it left it",
        &["id", "ret"],
        |f, _| {
            Some(EventKind::SysExit {
                id: f.i64(0)?,
                ret: f.i64(1)?,
            })
        },
    ))),
    full(quiet(usual(
        "osnoise",
        "irq_noise",
        "what osnoise measured of interrupts",
        &["start", "duration", "vector", "desc"],
        |f, _| {
            let (vector, desc) = (f.i32(2)?, f.text(3)?);
            noise(f, NoiseSource::Irq { vector, desc })
        },
    ))),
    full(quiet(usual(
        "osnoise",
        "softirq_noise",
        "what osnoise measured of softirqs",
        &["start", "duration", "vector"],
        |f, _| {
            let vector = f.u32(2)?;
            noise(f, NoiseSource::Softirq { vector })
        },
    ))),
    full(quiet(usual(
        "osnoise",
        "thread_noise",
        "what osnoise measured of threads",
        &["start", "duration", "pid", "comm"],
        |f, _| {
            let (pid, comm) = (f.u32(2)?, f.comm(3)?);
            noise(f, NoiseSource::Thread { pid, comm })
        },
    ))),
    full(quiet(usual(
        "osnoise",
        "nmi_noise",
        "what osnoise measured of NMIs",
        &["start", "duration"],
        |f, _| noise(f, NoiseSource::Nmi),
    ))),
    full(quiet(usual(
        "osnoise",
        "sample_threshold",
        "noise above osnoise's threshold",
        &["start", "duration", "interference"],
        |f, _| {
            Some(EventKind::SampleThreshold {
                start: f.nanos(0)?,
                duration: f.nanos(1)?,
                interference: f.u64(2)?,
            })
        },
    ))),
];

fn wakeup(f: &Fields<'_>, new: bool) -> Option<EventKind> {
    Some(EventKind::Wakeup {
        task: f.task(0)?,
        target_cpu: f.u32(3)?,
        new,
    })
}

fn noise(f: &Fields<'_>, source: NoiseSource) -> Option<EventKind> {
    Some(EventKind::Noise {
        source,
        start: f.nanos(0)?,
        duration: f.nanos(1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::EVENT_NAMES;

    #[test]
    fn each_event_is_known_to_the_model() {
        for spec in EVENTS {
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
