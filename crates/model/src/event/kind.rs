//! What happened, in the terms of the kernel's events.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Comm, KernelPriority, Task, TaskState};
use crate::Nanos;

/// What happened. Fields bear the names of the events' own (`format` files of
/// tracefs); addresses are looked up in the window's `symbols`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are those of the kernel's events")]
pub enum EventKind {
    /// `sched:sched_switch`.
    Switch {
        prev: Task,
        prev_state: TaskState,
        next: Task,
    },
    /// `sched:sched_waking`: written by the waker, on its CPU. `target_cpu` is
    /// where the thread was; where it goes is not known yet.
    Waking { task: Task, target_cpu: u32 },
    /// `sched:sched_wakeup`, and `sched:sched_wakeup_new` (`new`): the thread
    /// is on the run queue of `target_cpu`.
    Wakeup {
        task: Task,
        target_cpu: u32,
        new: bool,
    },
    /// `sched:sched_migrate_task`.
    Migrate {
        task: Task,
        orig_cpu: u32,
        dest_cpu: u32,
    },
    /// `sched:sched_pi_setprio`: `task` is lent a priority, or gives it back.
    /// Its own `prio` is the old one.
    PiSetprio { task: Task, newprio: KernelPriority },
    /// `sched:sched_process_exit`.
    ProcessExit { task: Task },
    /// `irq:irq_handler_entry`.
    IrqEntry { irq: u32, name: Text },
    /// `irq:irq_handler_exit`.
    IrqExit { irq: u32, ret: i32 },
    /// `irq:softirq_raise`.
    SoftirqRaise { vec: u32 },
    /// `irq:softirq_entry`.
    SoftirqEntry { vec: u32 },
    /// `irq:softirq_exit`.
    SoftirqExit { vec: u32 },
    /// `irq_vectors:*_entry` (x86), `ipi:ipi_entry` (arm): an interrupt that
    /// has no handler of a device.
    VectorEntry { vector: Vector },
    /// `irq_vectors:*_exit` (x86), `ipi:ipi_exit` (arm).
    VectorExit { vector: Vector },
    /// `nmi:nmi_handler`: written when it is over; it took `delta`.
    NmiHandler {
        handler: u64,
        #[serde(rename = "delta_ns")]
        delta: Nanos,
        handled: i32,
    },
    /// `timer:hrtimer_start`. `expires` is on the timer's own clock.
    HrtimerStart {
        hrtimer: u64,
        function: u64,
        expires_ns: i64,
        softexpires_ns: i64,
    },
    /// `timer:hrtimer_cancel`.
    HrtimerCancel { hrtimer: u64 },
    /// `timer:hrtimer_expire_entry`. `now` is on the timer's own clock.
    HrtimerExpireEntry {
        hrtimer: u64,
        function: u64,
        now_ns: i64,
    },
    /// `timer:hrtimer_expire_exit`.
    HrtimerExpireExit { hrtimer: u64 },
    /// `timer:timer_expire_entry`: a timer of the wheel, in softirq TIMER.
    TimerExpireEntry { timer: u64, function: u64 },
    /// `timer:timer_expire_exit`.
    TimerExpireExit { timer: u64 },
    /// `power:cpu_idle` with a state: the CPU goes to sleep.
    IdleEntry { state: u32, cpu_id: u32 },
    /// `power:cpu_idle` with the state -1 (`PWR_EVENT_EXIT`): it is awake.
    IdleExit { cpu_id: u32 },
    /// `workqueue:workqueue_execute_start`.
    WorkqueueStart { work: u64, function: u64 },
    /// `workqueue:workqueue_execute_end`.
    WorkqueueEnd { work: u64, function: u64 },
    /// `exceptions:page_fault_user`: the current thread touched `address`.
    /// There is no event when the fault is served.
    PageFaultUser {
        address: u64,
        ip: u64,
        error_code: u64,
    },
    /// `exceptions:page_fault_kernel`.
    PageFaultKernel {
        address: u64,
        ip: u64,
        error_code: u64,
    },
    /// `ipi:ipi_send_cpu`, and `ipi:ipi_send_cpumask` (`cpu` is null),
    /// `ipi:ipi_raise` (null, too).
    IpiSend {
        cpu: Option<u32>,
        callsite: u64,
        callback: u64,
    },
    /// `preemptirq:irq_disable`. Addresses, not offsets.
    IrqDisable { caller: u64, parent: u64 },
    /// `preemptirq:irq_enable`.
    IrqEnable { caller: u64, parent: u64 },
    /// `preemptirq:preempt_disable`.
    PreemptDisable { caller: u64, parent: u64 },
    /// `preemptirq:preempt_enable`.
    PreemptEnable { caller: u64, parent: u64 },
    /// `lock:contention_begin`: the current thread waits for a lock. Bit 0 of
    /// `flags`: a spinlock; 1 read, 2 write, 4 rt, 5 per CPU
    /// (`include/trace/events/lock.h`).
    ContentionBegin { lock_addr: u64, flags: u32 },
    /// `lock:contention_end`.
    ContentionEnd { lock_addr: u64, ret: i32 },
    /// `raw_syscalls:sys_enter`.
    SysEnter { id: i64 },
    /// `raw_syscalls:sys_exit`.
    SysExit { id: i64, ret: i64 },
    /// `signal:signal_generate`: to `pid`.
    SignalGenerate { sig: u32, pid: u32, comm: Comm },
    /// `signal:signal_deliver`: to the current thread.
    SignalDeliver { sig: u32 },
    /// `osnoise:irq_noise`, `softirq_noise`, `thread_noise`, `nmi_noise`:
    /// written when it is over, without what was interrupted in it.
    Noise {
        source: NoiseSource,
        #[serde(rename = "start_ns")]
        start: Nanos,
        #[serde(rename = "duration_ns")]
        duration: Nanos,
    },
    /// `osnoise:sample_threshold`.
    SampleThreshold {
        #[serde(rename = "start_ns")]
        start: Nanos,
        #[serde(rename = "duration_ns")]
        duration: Nanos,
        interference: u64,
    },
    /// `ftrace:timerlat`: a sample of the kernel's timerlat tracer.
    Timerlat {
        seqnum: u32,
        context: TimerlatContext,
        #[serde(rename = "timer_latency_ns")]
        timer_latency: Nanos,
    },
    /// An event that was recorded and has no kind of its own here.
    Other { name: Text },
}

/// A text shared by many events: an interrupt's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
pub struct Text(#[schemars(with = "String")] pub Arc<str>);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Ok(Self(text.as_ref().into()))
    }
}

/// An interrupt that has no handler of a device.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Vector {
    /// The local timer: hrtimers expire here.
    LocalTimer,
    /// Another CPU asks the scheduler to come.
    Reschedule,
    /// Another CPU has functions to be called here.
    CallFunction,
    /// The same, for this CPU alone.
    CallFunctionSingle,
    /// Work that was put off to an interrupt.
    IrqWork,
    /// The thermal sensor.
    ThermalApic,
    /// One that nobody asked for.
    SpuriousApic,
    /// An error of the interrupt controller.
    ErrorApic,
    /// Another, by the name of its event without `_entry` and `_exit`.
    Other(Text),
}

impl Vector {
    /// Each with its name in `irq_vectors`.
    pub const NAMED: [(Self, &'static str); 8] = [
        (Self::LocalTimer, "local_timer"),
        (Self::Reschedule, "reschedule"),
        (Self::CallFunction, "call_function"),
        (Self::CallFunctionSingle, "call_function_single"),
        (Self::IrqWork, "irq_work"),
        (Self::ThermalApic, "thermal_apic"),
        (Self::SpuriousApic, "spurious_apic"),
        (Self::ErrorApic, "error_apic"),
    ];

    /// Of this name.
    pub fn named(name: &str) -> Self {
        let known = Self::NAMED.iter().find(|(_, known)| *known == name);
        known.map_or_else(|| Self::Other(name.into()), |(vector, _)| vector.clone())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Other(name) => &name.0,
            known => Self::NAMED
                .iter()
                .find(|(vector, _)| vector == known)
                .map_or("", |(_, name)| name),
        }
    }
}

/// Whose noise the kernel's osnoise tracer reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are those of the kernel's events")]
pub enum NoiseSource {
    /// `irq_noise`.
    Irq { vector: i32, desc: Text },
    /// `softirq_noise`.
    Softirq { vector: u32 },
    /// `thread_noise`.
    Thread { pid: u32, comm: Comm },
    /// `nmi_noise`.
    Nmi,
}

/// Where timerlat took its sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimerlatContext {
    /// In the timer's interrupt.
    Irq,
    /// In the thread it woke.
    Thread,
    /// When that thread was back in user space.
    User,
}
