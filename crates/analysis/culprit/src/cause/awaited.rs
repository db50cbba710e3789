//! Reason for a wait of a job's thread, as data.

use punctual_model::{KernelPriority, Text};

use super::Name;

/// Kind of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Waits for a lock.
    Lock,
    /// Waits for another thread: a condition variable, a pipe, a socket, a thread's exit.
    Thread,
    /// Waits for a page of memory.
    Page,
}

/// Another thread that had to act first, and what it did meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub(crate) wait: Wait,
    /// The thread that ended the wait, the thread that this one waited for, and so on.
    pub(crate) chain: Vec<Name>,
    /// Activity of the last thread in the chain.
    pub(crate) leaf: Leaf,
}

/// Activity of the last thread in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    Ran,
    /// It was runnable, and this thread had its CPU.
    Preempted(Name, KernelPriority),
    /// It was runnable, and its CPU was idle.
    NotScheduled,
    /// It slept until its own timer.
    Slept,
    /// It slept, and its waker is already in the chain or too deep.
    Asleep,
    /// It waited for a device.
    Device(Device),
    Stopped,
    Unknown,
}

/// A device that a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// A disk, by its number.
    Disk(u32),
    /// An interrupt, by its number and name.
    Irq(u32, Text),
    /// An interrupt without a device, by its name.
    Vector(&'static str),
    /// A softirq after an interrupt.
    Softirq(u32),
    /// An unknown interrupt.
    Interrupt,
}
