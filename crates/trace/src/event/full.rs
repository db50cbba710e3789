//! Further events, with more detail and more overhead.

use punctual_model::{EventKind, NoiseSource};

use super::fields::Fields;
use super::spec::{EventSpec, FAULT, Level, WAKE, default, full, quiet};

const CODE: &[&str] = &["caller_offs", "parent_offs"];

/// The events in addition to the default ones.
pub(super) const FULL: &[EventSpec] = &[
    full(default(
        "sched",
        "sched_wakeup",
        "when the thread was queued",
        WAKE,
        |f, _| wakeup(f, false),
    )),
    full(default(
        "sched",
        "sched_wakeup_new",
        "when a new thread was queued",
        WAKE,
        |f, _| wakeup(f, true),
    )),
    full(default(
        "irq",
        "softirq_raise",
        "who raised a softirq",
        &["vec"],
        |f, _| Some(EventKind::SoftirqRaise { vec: f.u32(0)? }),
    )),
    full(quiet(default(
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
    full(default(
        "signal",
        "signal_deliver",
        "delivered signals",
        &["sig"],
        |f, _| Some(EventKind::SignalDeliver { sig: f.u32(0)? }),
    )),
    full(default(
        "timer",
        "hrtimer_start",
        "expiry time of a timer",
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
    full(default(
        "timer",
        "hrtimer_cancel",
        "cancelled timers",
        &["hrtimer"],
        |f, _| Some(EventKind::HrtimerCancel { hrtimer: f.u64(0)? }),
    )),
    full(default(
        "timer",
        "hrtimer_expire_entry",
        "expired timers",
        &["hrtimer", "function", "now"],
        |f, _| {
            Some(EventKind::HrtimerExpireEntry {
                hrtimer: f.u64(0)?,
                function: f.u64(1)?,
                now_ns: f.i64(2)?,
            })
        },
    )),
    full(default(
        "timer",
        "hrtimer_expire_exit",
        "run time of a timer",
        &["hrtimer"],
        |f, _| Some(EventKind::HrtimerExpireExit { hrtimer: f.u64(0)? }),
    )),
    full(default(
        "timer",
        "timer_expire_entry",
        "timers run in softirq TIMER",
        &["timer", "function"],
        |f, _| {
            Some(EventKind::TimerExpireEntry {
                timer: f.u64(0)?,
                function: f.u64(1)?,
            })
        },
    )),
    full(default(
        "timer",
        "timer_expire_exit",
        "run time of timers in softirq TIMER",
        &["timer"],
        |f, _| Some(EventKind::TimerExpireExit { timer: f.u64(0)? }),
    )),
    full(default(
        "power",
        "cpu_idle",
        "idle states of the CPU",
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
    full(default(
        "workqueue",
        "workqueue_execute_start",
        "work of a kworker",
        &["work", "function"],
        |f, _| {
            Some(EventKind::WorkqueueStart {
                work: f.u64(0)?,
                function: f.u64(1)?,
            })
        },
    )),
    // Before Linux 5.8 without the function.
    full(quiet(default(
        "workqueue",
        "workqueue_execute_end",
        "run time of a kworker's work",
        &["work", "function"],
        |f, _| {
            Some(EventKind::WorkqueueEnd {
                work: f.u64(0)?,
                function: f.u64(1)?,
            })
        },
    ))),
    full(quiet(default(
        "ipi",
        "ipi_send_cpu",
        "function calls to another CPU",
        &["cpu", "callsite", "callback"],
        |f, _| {
            Some(EventKind::IpiSend {
                cpu: Some(f.u32(0)?),
                callsite: f.u64(1)?,
                callback: f.u64(2)?,
            })
        },
    ))),
    full(quiet(default(
        "ipi",
        "ipi_send_cpumask",
        "function calls to other CPUs",
        &["callsite", "callback"],
        |f, _| {
            Some(EventKind::IpiSend {
                cpu: None,
                callsite: f.u64(0)?,
                callback: f.u64(1)?,
            })
        },
    ))),
    full(quiet(default(
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
    full(quiet(default(
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
    full(quiet(default(
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
    full(quiet(default(
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
    full(quiet(default(
        "lock",
        "contention_begin",
        "waits for a kernel lock",
        &["lock_addr", "flags"],
        |f, _| {
            Some(EventKind::ContentionBegin {
                lock_addr: f.u64(0)?,
                flags: f.u32(1)?,
            })
        },
    ))),
    full(quiet(default(
        "lock",
        "contention_end",
        "duration of waits for a kernel lock",
        &["lock_addr", "ret"],
        |f, _| {
            Some(EventKind::ContentionEnd {
                lock_addr: f.u64(0)?,
                ret: f.i32(1)?,
            })
        },
    ))),
    full(quiet(default(
        "raw_syscalls",
        "sys_enter",
        "system calls of a thread",
        &["id"],
        |f, _| Some(EventKind::SysEnter { id: f.i64(0)? }),
    ))),
    full(quiet(default(
        "raw_syscalls",
        "sys_exit",
        "ends of system calls",
        &["id", "ret"],
        |f, _| {
            Some(EventKind::SysExit {
                id: f.i64(0)?,
                ret: f.i64(1)?,
            })
        },
    ))),
    noise_level(quiet(default(
        "osnoise",
        "irq_noise",
        "osnoise's times of interrupts",
        &["start", "duration", "vector", "desc"],
        |f, _| {
            let (vector, desc) = (f.i32(2)?, f.text(3)?);
            noise(f, NoiseSource::Irq { vector, desc })
        },
    ))),
    noise_level(quiet(default(
        "osnoise",
        "softirq_noise",
        "osnoise's times of softirqs",
        &["start", "duration", "vector"],
        |f, _| {
            let vector = f.u32(2)?;
            noise(f, NoiseSource::Softirq { vector })
        },
    ))),
    noise_level(quiet(default(
        "osnoise",
        "thread_noise",
        "osnoise's times of threads",
        &["start", "duration", "pid", "comm"],
        |f, _| {
            let (pid, comm) = (f.u32(2)?, f.comm(3)?);
            noise(f, NoiseSource::Thread { pid, comm })
        },
    ))),
    noise_level(quiet(default(
        "osnoise",
        "nmi_noise",
        "osnoise's times of NMIs",
        &["start", "duration"],
        |f, _| noise(f, NoiseSource::Nmi),
    ))),
    noise_level(quiet(default(
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

/// An event of a tracer: without overhead unless the tracer runs.
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
