//! The kernel's names of events and softirqs.

use super::{EventKind, NoiseSource};

/// The kernel's names of the events there is a kind for, as `system:event`.
/// The vectors of `irq_vectors` go by one name with a `*`.
pub const EVENT_NAMES: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_pi_setprio",
    "sched:sched_process_exit",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_raise",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "irq_vectors:*_entry",
    "irq_vectors:*_exit",
    "nmi:nmi_handler",
    "timer:hrtimer_start",
    "timer:hrtimer_cancel",
    "timer:hrtimer_expire_entry",
    "timer:hrtimer_expire_exit",
    "timer:timer_expire_entry",
    "timer:timer_expire_exit",
    "power:cpu_idle",
    "workqueue:workqueue_execute_start",
    "workqueue:workqueue_execute_end",
    "exceptions:page_fault_user",
    "exceptions:page_fault_kernel",
    "ipi:ipi_send_cpu",
    "preemptirq:irq_disable",
    "preemptirq:irq_enable",
    "preemptirq:preempt_disable",
    "preemptirq:preempt_enable",
    "lock:contention_begin",
    "lock:contention_end",
    "raw_syscalls:sys_enter",
    "raw_syscalls:sys_exit",
    "signal:signal_generate",
    "signal:signal_deliver",
    "osnoise:irq_noise",
    "osnoise:softirq_noise",
    "osnoise:thread_noise",
    "osnoise:nmi_noise",
    "osnoise:sample_threshold",
    "ftrace:timerlat",
];

impl EventKind {
    /// The event's name, one of [`EVENT_NAMES`]; of [`EventKind::Other`] the
    /// one it bears.
    pub fn name(&self) -> &str {
        match self {
            Self::Switch { .. } => "sched:sched_switch",
            Self::Waking { .. } => "sched:sched_waking",
            Self::Wakeup { new: false, .. } => "sched:sched_wakeup",
            Self::Wakeup { new: true, .. } => "sched:sched_wakeup_new",
            Self::Migrate { .. } => "sched:sched_migrate_task",
            Self::PiSetprio { .. } => "sched:sched_pi_setprio",
            Self::ProcessExit { .. } => "sched:sched_process_exit",
            Self::IrqEntry { .. } => "irq:irq_handler_entry",
            Self::IrqExit { .. } => "irq:irq_handler_exit",
            Self::SoftirqRaise { .. } => "irq:softirq_raise",
            Self::SoftirqEntry { .. } => "irq:softirq_entry",
            Self::SoftirqExit { .. } => "irq:softirq_exit",
            Self::VectorEntry { .. } => "irq_vectors:*_entry",
            Self::VectorExit { .. } => "irq_vectors:*_exit",
            Self::NmiHandler { .. } => "nmi:nmi_handler",
            Self::HrtimerStart { .. } => "timer:hrtimer_start",
            Self::HrtimerCancel { .. } => "timer:hrtimer_cancel",
            Self::HrtimerExpireEntry { .. } => "timer:hrtimer_expire_entry",
            Self::HrtimerExpireExit { .. } => "timer:hrtimer_expire_exit",
            Self::TimerExpireEntry { .. } => "timer:timer_expire_entry",
            Self::TimerExpireExit { .. } => "timer:timer_expire_exit",
            Self::IdleEntry { .. } | Self::IdleExit { .. } => "power:cpu_idle",
            Self::WorkqueueStart { .. } => "workqueue:workqueue_execute_start",
            Self::WorkqueueEnd { .. } => "workqueue:workqueue_execute_end",
            Self::PageFaultUser { .. } => "exceptions:page_fault_user",
            Self::PageFaultKernel { .. } => "exceptions:page_fault_kernel",
            Self::IpiSend { .. } => "ipi:ipi_send_cpu",
            Self::IrqDisable { .. } => "preemptirq:irq_disable",
            Self::IrqEnable { .. } => "preemptirq:irq_enable",
            Self::PreemptDisable { .. } => "preemptirq:preempt_disable",
            Self::PreemptEnable { .. } => "preemptirq:preempt_enable",
            Self::ContentionBegin { .. } => "lock:contention_begin",
            Self::ContentionEnd { .. } => "lock:contention_end",
            Self::SysEnter { .. } => "raw_syscalls:sys_enter",
            Self::SysExit { .. } => "raw_syscalls:sys_exit",
            Self::SignalGenerate { .. } => "signal:signal_generate",
            Self::SignalDeliver { .. } => "signal:signal_deliver",
            Self::Noise { source, .. } => match source {
                NoiseSource::Irq { .. } => "osnoise:irq_noise",
                NoiseSource::Softirq { .. } => "osnoise:softirq_noise",
                NoiseSource::Thread { .. } => "osnoise:thread_noise",
                NoiseSource::Nmi => "osnoise:nmi_noise",
            },
            Self::SampleThreshold { .. } => "osnoise:sample_threshold",
            Self::Timerlat { .. } => "ftrace:timerlat",
            Self::Other { name } => &name.0,
        }
    }
}

/// The softirqs by their vector (`include/linux/interrupt.h`).
pub const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// A softirq's name: `NET_RX`, or its number where it has none here.
pub fn softirq_name(vec: u32) -> String {
    SOFTIRQS
        .get(vec as usize)
        .map_or_else(|| format!("vector {vec}"), |name| (*name).to_owned())
}
