//! What a thread of a job waits for, as data.

use punctual_model::{KernelPriority, Text};

use super::Name;

/// What kind of wait a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For a lock.
    Lock,
    /// For another thread: a condition, a pipe, a socket, an end.
    Thread,
    /// For a page of memory.
    Page,
}

/// Another thread that had to come first, and what that one did meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub(crate) wait: Wait,
    /// The thread that ended the wait, whom that one waited for, and so on.
    pub(crate) chain: Vec<Name>,
    /// What the last of them did.
    pub(crate) leaf: Leaf,
}

/// What the last thread of a chain did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    Ran,
    /// It was runnable, and another had its CPU.
    Preempted(Name, KernelPriority),
    /// It was runnable, and its CPU was idle.
    NotScheduled,
    /// It slept until its own timer.
    Slept,
    /// It slept, and who woke it is in the chain already, or too far down.
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
    /// An interrupt without a device of its own, by its name.
    Vector(&'static str),
    /// A softirq after an interrupt.
    Softirq(u32),
    /// An interrupt of which no more is known.
    Interrupt,
}
