//! Reason why the thread of a job waits, as data.

use serde::{Deserialize, Serialize};

use super::Name;
use crate::{KernelPriority, Text};

/// Kind of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Waits for a lock.
    Lock,
    /// Waits for another thread: a condition variable, a pipe, a socket, a thread's exit.
    Thread,
    /// Waits for a page of memory.
    Page,
    /// Waits for anything until a thread sends it this signal.
    Signal(u32),
    /// Waits for an operation of a Java virtual machine. For most operations, it stops its threads
    /// at a safepoint.
    VmOperation,
    /// Waits for a garbage collection of a Java virtual machine or of Go's runtime.
    Collection,
    /// Waits until Go's runtime, which has stopped all goroutines for another reason, lets them
    /// continue.
    GoroutineStop,
}

/// A wait for another thread, and the activity of that thread during the wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Awaited {
    /// Kind of the wait.
    pub wait: Wait,
    /// The chain of waits: the thread that ended this wait, then the thread that it waited for, and
    /// so on.
    pub chain: Vec<Name>,
    /// Activity of the last thread in the chain.
    pub leaf: Leaf,
}

/// Activity of the last thread in a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leaf {
    /// It ran.
    Ran,
    /// It was runnable, but another thread had its CPU.
    Preempted {
        /// The thread that had the CPU.
        by: Name,
        /// Priority of the thread that had the CPU.
        prio: KernelPriority,
    },
    /// It was runnable, and its CPU was idle.
    NotScheduled,
    /// It slept until its own timer expired.
    Slept,
    /// It slept. Its waker is already in the chain, or the chain has reached its maximum length.
    Asleep,
    /// It waited for a device.
    Device(Device),
    /// A signal or a debugger had stopped it.
    Stopped,
    /// No event of the thread was recorded.
    Unknown,
}

/// A device that a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// A disk, by its number.
    Disk(u32),
    /// An interrupt, by its number and name.
    Irq {
        /// The number.
        irq: u32,
        /// The name; empty if unknown.
        name: Text,
    },
    /// An interrupt without a device, by its name.
    Vector(Text),
    /// A softirq after an interrupt.
    Softirq(u32),
    /// An interrupt whose source is unknown.
    Interrupt,
}
