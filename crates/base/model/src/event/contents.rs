//! The threads and addresses in the fields of an event.

use super::{EventKind, Task};

impl EventKind {
    /// Returns the threads in the event's fields.
    pub const fn tasks(&self) -> [Option<&Task>; 2] {
        match self {
            Self::Switch { prev, next, .. } => [Some(prev), Some(next)],
            Self::Waking { task, .. }
            | Self::Wakeup { task, .. }
            | Self::Migrate { task, .. }
            | Self::PiSetprio { task, .. }
            | Self::SwitchedOut { task, .. }
            | Self::ProcessExit { task } => [Some(task), None],
            _ => [None, None],
        }
    }

    /// Returns whether the event's fields name this thread. The thread that wrote the event may be
    /// a different one.
    pub fn is_about(&self, tid: u32) -> bool {
        let named = |task: &Task| task.pid == tid;
        matches!(self, Self::SignalGenerate { pid, .. } | Self::TimerDue { pid, .. } if *pid == tid)
            || self.tasks().into_iter().flatten().any(named)
    }

    /// Returns the event's kernel stack, the innermost function first.
    pub fn frames(&self) -> &[u64] {
        match self {
            Self::KernelStack { frames }
            | Self::TimerLate { frames, .. }
            | Self::TimerlatStack { frames }
            | Self::SwitchedOut { frames, .. } => frames,
            _ => &[],
        }
    }

    /// Returns the addresses of kernel functions in the event's fields.
    pub const fn addresses(&self) -> [Option<u64>; 2] {
        match *self {
            Self::HrtimerStart { function, .. }
            | Self::HrtimerExpireEntry { function, .. }
            | Self::TimerLate { function, .. }
            | Self::TimerExpireEntry { function, .. }
            | Self::WorkqueueQueue { function, .. }
            | Self::WorkqueueStart { function, .. }
            | Self::WorkqueueEnd { function, .. } => [Some(function), None],
            Self::NmiHandler { handler, .. } => [Some(handler), None],
            Self::PageFaultKernel { ip, .. } => [Some(ip), None],
            Self::IpiSend {
                callsite, callback, ..
            } => [Some(callsite), Some(callback)],
            Self::IrqDisable { caller, parent }
            | Self::IrqEnable { caller, parent }
            | Self::PreemptDisable { caller, parent }
            | Self::PreemptEnable { caller, parent } => [Some(caller), Some(parent)],
            _ => [None, None],
        }
    }
}
