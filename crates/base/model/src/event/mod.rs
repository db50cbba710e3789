//! Typed trace events of the kernel, and the window around a late reaction that contains them.

mod contents;
mod function_run;
mod kind;
mod name;
mod noise;
mod row;
mod slice_start;
mod stack;
mod table;
mod task;
mod tracer_statement;
mod wait_stacks;

pub use function_run::{FunctionRun, FunctionSum};
pub use noise::{NoiseGap, NoiseReports, OsnoiseSample, TimerlatSample, TimerlatStack};

use serde::{Deserialize, Serialize};

pub use kind::{NoiseSource, Text, TimerlatContext, Vector};
pub use name::{SOFTIRQS, disk_name, softirq_name};
pub use row::{EventFields, EventLevel, EventNames};
pub use slice_start::SliceStart;
pub use stack::{interrupted_functions, stack_of};
pub use table::{EVENTS, EventKind, EventSpec, KernelEvent};
pub use task::{Comm, KernelPriority, Task, TaskState};
pub use tracer_statement::{LatencyOf, PartKind, StatedPart, TracedCall, TracerStatement};
pub use wait_stacks::{ThreadStack, WaitStacks};

use crate::Nanos;

/// One trace event.
///
/// The store uses short keys, because a window contains hundreds of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// Time, on CLOCK_MONOTONIC.
    #[serde(rename = "t")]
    pub time: Nanos,
    /// The CPU on which the event was written.
    #[serde(rename = "c")]
    pub cpu: u32,
    /// The thread that was current on this CPU (`common_pid`). 0 is the idle thread.
    #[serde(rename = "p")]
    pub pid: u32,
    /// `common_flags`, with the bits defined as constants of [`TraceEvent`].
    #[serde(rename = "f", default)]
    pub flags: u8,
    /// `common_preempt_count`: the nesting depth of disabled preemption in the low four bits, and
    /// that of disabled migration in the high ones.
    #[serde(rename = "d", default)]
    pub preempt_count: u8,
    /// The event and its fields.
    #[serde(rename = "k")]
    pub kind: EventKind,
}

/// Returns the names of the events that can be recorded, as `system:event`. A row that represents
/// several events appears once. The vectors of `irq_vectors` share one name with a `*`.
pub fn event_names() -> impl Iterator<Item = &'static str> {
    let listed = EVENTS.iter().filter(|spec| spec.listed);
    listed.map(|spec| spec.full_name)
}

/// The bits of `common_flags` (`include/linux/trace_events.h`).
impl TraceEvent {
    /// Interrupts were disabled.
    pub const IRQS_OFF: u8 = 0x01;
    /// A lazy reschedule was requested (since Linux 6.13).
    pub const NEED_RESCHED_LAZY: u8 = 0x02;
    /// A reschedule was requested.
    pub const NEED_RESCHED: u8 = 0x04;
    /// In a hard interrupt.
    pub const HARDIRQ: u8 = 0x08;
    /// In a softirq.
    pub const SOFTIRQ: u8 = 0x10;
    /// A reschedule was requested in the preemption counter.
    pub const PREEMPT_RESCHED: u8 = 0x20;
    /// In a non-maskable interrupt.
    pub const NMI: u8 = 0x40;
    /// Softirqs were disabled.
    pub const BH_OFF: u8 = 0x80;

    /// Returns whether the user requested this event in addition to the events needed for
    /// explanations.
    pub const fn is_requested(&self) -> bool {
        matches!(self.kind, EventKind::Requested { .. })
    }

    /// Returns whether the event explains nothing by itself, either because the user requested it
    /// or because it only shows the position in the kernel.
    pub const fn is_accounting(&self) -> bool {
        self.is_requested()
            || matches!(
                self.kind,
                EventKind::TimerLate { .. }
                    | EventKind::TimerlatStack { .. }
                    | EventKind::SwitchedOut { .. }
            )
    }

    /// Returns whether a bit of the flags is set.
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
mod tests;
