//! A latency that a tracer states as a whole, rather than by events.

use crate::{Nanos, Task, Text};

/// A latency that one of the kernel's latency tracers, or rtla's automatic analysis, states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracerStatement {
    /// Meaning of the latency.
    pub latency_of: LatencyOf,
    /// Name of the tracer: `preemptirqsoff`.
    pub tracer: Text,
    /// The latency.
    pub latency: Nanos,
    /// Start of the latency, on the clock of the trace.
    pub begin: Nanos,
    /// The CPU.
    pub cpu: u32,
    /// The thread that was woken or, for a section, the thread that was in it. `None` if unknown.
    pub thread: Option<Task>,
    /// The functions at the beginning and the end of a section, if known.
    pub ends: Option<(Text, Text)>,
    /// The calls of kernel functions, in order of time.
    pub calls: Vec<TracedCall>,
    /// Kernel stacks: names of functions, the innermost first.
    pub stacks: Vec<Vec<Text>>,
    /// Parts of the latency that rtla states.
    pub parts: Vec<StatedPart>,
}

/// Meaning of a latency that a tracer states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyOf {
    /// A section with interrupts disabled (irqsoff).
    IrqsOff,
    /// A section with preemption disabled (preemptoff).
    PreemptOff,
    /// A section with interrupts or preemption disabled (preemptirqsoff).
    Either,
    /// The time from the wake-up of a thread until it runs (wakeup, wakeup_rt, wakeup_dl).
    WakeUp,
    /// The time from the expiry of a timer until its interrupt (rtla timerlat).
    TimerIrq,
    /// The time from the expiry of a timer until the thread that it wakes runs (rtla timerlat).
    TimerThread,
}

/// A call of a kernel function, or another entry of a latency tracer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedCall {
    /// Time of the call.
    pub time: Nanos,
    /// The CPU.
    pub cpu: u32,
    /// The current thread.
    pub thread: Task,
    /// Flags, as in [`TraceEvent::flags`](crate::TraceEvent::flags).
    pub flags: u8,
    /// Depth of disabled preemption, as in
    /// [`TraceEvent::preempt_count`](crate::TraceEvent::preempt_count).
    pub preempt_count: u8,
    /// The function. Empty for an entry that names none.
    pub function: Text,
    /// The function that calls it, if known.
    pub caller: Option<Text>,
}

/// A part of a latency that rtla states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedPart {
    /// Kind of the part.
    pub kind: PartKind,
    /// Name of the thread or handler; empty if unknown.
    pub name: Text,
    /// ID of the thread, or number of the handler.
    pub number: Option<u32>,
    /// Its length. Absent if rtla does not state it.
    pub ns: Option<Nanos>,
}

/// Kind of a part of a latency that rtla states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Delay of the timer's interrupt.
    IrqDelay,
    /// Delay of the timer's interrupt, while the CPU left an idle state.
    IdleExit,
    /// The handler of the timer's interrupt.
    TimerIrq,
    /// The thread that the interrupt interrupted.
    BlockingThread,
    /// Non-maskable interrupts.
    Nmi,
    /// Another interrupt.
    Irq,
    /// A softirq.
    Softirq,
    /// Another thread.
    Thread,
}
