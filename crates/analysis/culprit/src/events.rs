//! Names of the events that the analysis depends on.

pub(crate) const SWITCH: &str = "sched:sched_switch";
pub(crate) const MIGRATE: &str = "sched:sched_migrate_task";
pub(crate) const PI_SETPRIO: &str = "sched:sched_pi_setprio";
pub(crate) const HRTIMER_EXPIRE: &str = "timer:hrtimer_expire_entry";
pub(crate) const WAKING: &str = "sched:sched_waking";
pub(crate) const WAKEUP: &str = "sched:sched_wakeup";
pub(crate) const SOFTIRQ: &str = "irq:softirq_entry";
pub(crate) const IRQ: &str = "irq:irq_handler_entry";
pub(crate) const VECTORS: &str = "irq_vectors:*_entry";
pub(crate) const IRQS_OFF: &str = "preemptirq:irq_disable";
pub(crate) const FAULT: &str = "exceptions:page_fault_user";
pub(crate) const SYS_ENTER: &str = "raw_syscalls:sys_enter";
pub(crate) const NMI: &str = "nmi:nmi_handler";
