//! The late thread, and the start and end of its latency.

use serde::{Deserialize, Serialize};

use crate::{Comm, Scheduling};

/// The thread that was late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victim {
    /// Its thread ID.
    pub tid: u32,
    /// Its comm.
    pub comm: Comm,
    /// Its policy and priority, if known.
    pub scheduling: Option<Scheduling>,
    /// The CPU on which the latency ended. If the thread is bound to one CPU, this is that CPU.
    pub cpu: u32,
}

/// Start and end points of a latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delay {
    /// From the time at which a timer should have fired to the thread's own reading of the clock in
    /// user space. This is what probes measure.
    #[default]
    Timer,
    /// From just before the waking call (a post, a signal, a message, a frame) or edge to the
    /// woken thread's own reading of the clock in user space. Probes of exchanges measure this.
    /// Delays of the calling thread count as well.
    Call,
    /// From a thread's reading of the clock before its own step (a memory access, taking a lock,
    /// reading a clock) to its reading after the step. Delays of a thread that it waits for during
    /// the step count as well.
    Step,
    /// From `sched_waking` of the thread to its return to user space, or to its switch-in if the
    /// return is not recorded. Applies to any thread's wake-up.
    Wakeup,
    /// From the involuntary switch of the thread (preempted, or stopped by a signal) to its next
    /// switch-in.
    Taken,
    /// From the wake-up that ends a thread's release wait to the start of its next release wait:
    /// one job of an application.
    Job,
    /// From a thread's reading of the clock before a fixed piece of work in user space to its
    /// reading after it. This is what the probe of execution times measures.
    Work,
    /// A section of the kernel's code with interrupts or preemption disabled, as one of the
    /// kernel's latency tracers states it. Any thread that should have run on the CPU would have
    /// been this late. [`Victim`] names the CPU and the thread in the section.
    Section,
}
