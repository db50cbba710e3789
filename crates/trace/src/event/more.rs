//! The events that tell more and cost more.

use punctual_model::{EventKind, NoiseSource};

use super::fields::Fields;
use super::spec::{EventSpec, FAULT, Level, WAKE, full, quiet, usual};

const CODE: &[&str] = &["caller_offs", "parent_offs"];

/// What is recorded beyond the usual events.
pub(super) const FULL: &[EventSpec] = &[
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
    full(usual(
        "irq",
        "softirq_raise",
        "who asked for a softirq",
        &["vec"],
        |f, _| Some(EventKind::SoftirqRaise { vec: f.u32(0)? }),
    )),
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
                caller: f.in_text(0)?,
                parent: f.in_text(1)?,
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
                caller: f.in_text(0)?,
                parent: f.in_text(1)?,
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
                caller: f.in_text(0)?,
                parent: f.in_text(1)?,
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
                caller: f.in_text(0)?,
                parent: f.in_text(1)?,
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
    noise_level(quiet(usual(
        "osnoise",
        "irq_noise",
        "what osnoise measured of interrupts",
        &["start", "duration", "vector", "desc"],
        |f, _| {
            let (vector, desc) = (f.i32(2)?, f.text(3)?);
            noise(f, NoiseSource::Irq { vector, desc })
        },
    ))),
    noise_level(quiet(usual(
        "osnoise",
        "softirq_noise",
        "what osnoise measured of softirqs",
        &["start", "duration", "vector"],
        |f, _| {
            let vector = f.u32(2)?;
            noise(f, NoiseSource::Softirq { vector })
        },
    ))),
    noise_level(quiet(usual(
        "osnoise",
        "thread_noise",
        "what osnoise measured of threads",
        &["start", "duration", "pid", "comm"],
        |f, _| {
            let (pid, comm) = (f.u32(2)?, f.comm(3)?);
            noise(f, NoiseSource::Thread { pid, comm })
        },
    ))),
    noise_level(quiet(usual(
        "osnoise",
        "nmi_noise",
        "what osnoise measured of NMIs",
        &["start", "duration"],
        |f, _| noise(f, NoiseSource::Nmi),
    ))),
    noise_level(quiet(usual(
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

/// Of a tracer, while it runs: at no cost where none does.
const fn noise_level(spec: EventSpec) -> EventSpec {
    EventSpec {
        level: Level::Noise,
        ..spec
    }
}

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
