//! Threads in kernel events.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Policy, Scheduling};

/// The comm of a thread: up to 15 bytes and a zero (`TASK_COMM_LEN`).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// Creates a comm from the first 15 bytes of a name, or from fewer if a zero byte ends it
    /// earlier.
    pub fn new(name: &[u8]) -> Self {
        let mut comm = [0; 16];
        let until = name.iter().position(|byte| *byte == 0);
        let name = &name[..until.unwrap_or(name.len()).min(15)];
        comm[..name.len()].copy_from_slice(name);
        Self(comm)
    }

    /// Returns the bytes before the zero.
    pub fn bytes(&self) -> &[u8] {
        let until = self.0.iter().position(|byte| *byte == 0);
        &self.0[..until.unwrap_or(16)]
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

/// A comm may contain any bytes (prctl(2)). Control characters and bytes that are not text are
/// shown as `?`.
impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = String::from_utf8_lossy(self.bytes())
            .chars()
            .map(|c| match c {
                c if c.is_control() || c == char::REPLACEMENT_CHARACTER => '?',
                c => c,
            })
            .collect();
        f.pad(&text)
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Serialize for Comm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Comm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Ok(Self::new(text.as_bytes()))
    }
}

/// A priority on the kernel's internal scale: -1 is SCHED_DEADLINE, 0 to 98 are the real-time
/// priorities 99 to 1, 100 to 139 are the nice values -20 to 19 (`include/linux/sched/prio.h`).
/// Smaller values are more urgent. It does not distinguish FIFO from RR.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct KernelPriority(pub i16);

impl KernelPriority {
    /// The first value that is a nice value (`MAX_RT_PRIO`).
    pub const FIRST_FAIR: i16 = 100;

    /// The priority is unknown, because no event shows it.
    pub const UNKNOWN: Self = Self(i16::MAX);

    /// Converts a real-time priority, 1 to 99.
    pub const fn real_time(priority: u8) -> Self {
        Self(99 - priority as i16)
    }

    /// Returns policy and priority. It does not distinguish fifo from rr.
    pub const fn scheduling(self) -> Scheduling {
        let (policy, priority) = match self.0 {
            ..0 => (Policy::Deadline, 0),
            0..=98 => (Policy::Fifo, (99 - self.0) as u8),
            _ => (Policy::Other, 0),
        };
        Scheduling { policy, priority }
    }

    /// Returns whether the priority is more urgent than that of all fair threads.
    pub const fn is_real_time(self) -> bool {
        self.0 < Self::FIRST_FAIR
    }

    /// Returns whether the scheduler prefers this priority to `other` by class. Fair threads share
    /// the CPU regardless of their nice values.
    pub fn is_above(self, other: Self) -> bool {
        self < other && self.is_real_time()
    }
}

/// Prints `deadline`, `real-time 80`, `nice 5` or `unknown priority`.
impl fmt::Display for KernelPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ..0 => f.pad("deadline"),
            prio @ 0..=98 => f.pad(&format!("real-time {}", 99 - prio)),
            _ if *self == Self::UNKNOWN => f.pad("unknown priority"),
            prio => f.pad(&format!("nice {}", prio - 120)),
        }
    }
}

/// A thread in an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Task {
    /// Its thread ID. 0 is the idle thread of any CPU.
    pub pid: u32,
    /// Its comm.
    pub comm: Comm,
    /// Its effective priority, including an inherited one.
    pub prio: KernelPriority,
}

impl Task {
    /// Stands for an unknown ID.
    pub const UNKNOWN_PID: u32 = u32::MAX;

    /// Returns whether the thread is an idle thread.
    pub const fn is_idle(&self) -> bool {
        self.pid == 0
    }

    /// Returns the name of the thread: `make-4711`, or `idle`.
    pub fn label(&self) -> String {
        if self.is_idle() {
            "idle".to_owned()
        } else {
            self.to_string()
        }
    }
}

/// Prints `make-4711`, `make` if the ID is unknown, or `thread 4711` if the name is unknown.
impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, self.comm.is_empty()) {
            (pid, true) => f.pad(&format!("thread {pid}")),
            (Self::UNKNOWN_PID, false) => self.comm.fmt(f),
            (pid, false) => f.pad(&format!("{}-{pid}", self.comm)),
        }
    }
}

/// The state of a thread at its switch-out (`prev_state` of sched_switch).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskState(pub u32);

impl TaskState {
    /// Stopped by a signal (`__TASK_STOPPED`).
    pub const STOPPED: u32 = 0x4;
    /// Stopped by a debugger (`__TASK_TRACED`).
    pub const TRACED: u32 = 0x8;
    /// It is exiting (`EXIT_DEAD`, `EXIT_ZOMBIE`).
    pub const EXIT: u32 = 0x30;
    /// The states of a sleeping thread (`TASK_REPORT`, and idle kernel threads). The next higher
    /// bit means that the thread was preempted.
    const ASLEEP: u32 = 0xff;

    /// Returns whether the thread was still runnable: it was preempted, or yielded.
    pub const fn is_runnable(self) -> bool {
        self.0 & Self::ASLEEP == 0
    }

    /// Returns whether a signal stopped the thread.
    pub const fn is_stopped(self) -> bool {
        self.0 & Self::STOPPED != 0
    }

    /// Returns whether signals cannot wake the thread (`TASK_UNINTERRUPTIBLE`), as when it waits
    /// for a page or for most kernel locks.
    pub const fn is_uninterruptible(self) -> bool {
        self.0 & 0x2 != 0
    }

    /// Returns whether a debugger stopped the thread.
    pub const fn is_traced(self) -> bool {
        self.0 & Self::TRACED != 0
    }

    /// Returns whether the thread is exiting.
    pub const fn is_exit(self) -> bool {
        self.0 & Self::EXIT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_time_priorities_are_above_others() {
        // SCHED_DEADLINE, the real-time priorities 99 and 1, the nice values -20 and 19, and an
        // unknown priority.
        let all = [-1, 0, 98, 100, 139, i16::MAX].map(KernelPriority);
        for (place, own) in all.into_iter().enumerate() {
            assert_eq!(own.is_real_time(), place < 3, "{own:?}");
            for (beside, other) in all.into_iter().enumerate() {
                let above = place < 3 && place < beside;
                assert_eq!(own.is_above(other), above, "{own:?} {other:?}");
            }
        }
    }
}
