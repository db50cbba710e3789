//! Threads as the kernel's events name them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schema::JsonSchema;

/// A thread's name: up to 15 bytes and a zero (`TASK_COMM_LEN`).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
pub struct Comm(#[schemars(with = "String")] pub [u8; 16]);

impl Comm {
    /// The first 15 bytes of a name, up to a zero.
    pub fn new(name: &[u8]) -> Self {
        let mut comm = [0; 16];
        let until = name.iter().position(|byte| *byte == 0);
        let name = &name[..until.unwrap_or(name.len()).min(15)];
        comm[..name.len()].copy_from_slice(name);
        Self(comm)
    }

    /// The bytes before the zero.
    pub fn bytes(&self) -> &[u8] {
        let until = self.0.iter().position(|byte| *byte == 0);
        &self.0[..until.unwrap_or(16)]
    }

    /// Whether there is a name.
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

/// Any bytes may be in a name (prctl(2)): those that are no text, and control
/// characters, are shown as `?`.
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

/// The kernel's own scale of priority: -1 is SCHED_DEADLINE, 0 to 98 are the
/// real-time priorities 99 to 1, 100 to 139 the nice values -20 to 19
/// (`include/linux/sched/prio.h`). The smaller, the more urgent. FIFO and RR
/// cannot be distinguished by it.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct KernelPriority(pub i16);

impl KernelPriority {
    /// Where the nice values begin (`MAX_RT_PRIO`).
    pub const FIRST_FAIR: i16 = 100;

    /// Of a real-time priority, 1 to 99.
    pub const fn real_time(priority: u8) -> Self {
        Self(99 - priority as i16)
    }

    /// Whether it is before all fair threads.
    pub const fn is_real_time(self) -> bool {
        self.0 < Self::FIRST_FAIR
    }

    /// Whether a thread of this priority is served before one of `other`, as a
    /// class: fair threads share, whatever their nice value.
    pub fn is_above(self, other: Self) -> bool {
        self < other && self.is_real_time()
    }
}

/// `deadline`, `real-time 80`, `nice 5`.
impl fmt::Display for KernelPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ..0 => f.pad("deadline"),
            prio @ 0..=98 => f.pad(&format!("real-time {}", 99 - prio)),
            prio => f.pad(&format!("nice {}", prio - 120)),
        }
    }
}

/// A thread in an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Its thread ID; 0 is the idle thread of any CPU.
    pub pid: u32,
    /// Its name.
    pub comm: Comm,
    /// The priority in force, an inherited one included.
    pub prio: KernelPriority,
}

impl Task {
    /// Whether it is an idle thread.
    pub const fn is_idle(&self) -> bool {
        self.pid == 0
    }

    /// `make-4711`, or `idle`.
    pub fn label(&self) -> String {
        match self.is_idle() {
            true => "idle".to_owned(),
            false => self.to_string(),
        }
    }
}

/// `make-4711`.
impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}-{}", self.comm, self.pid))
    }
}

/// In which state a thread left its CPU (`prev_state` of sched_switch).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct TaskState(pub u32);

impl TaskState {
    /// Stopped by a signal (`__TASK_STOPPED`).
    pub const STOPPED: u32 = 0x4;
    /// Stopped by a debugger (`__TASK_TRACED`).
    pub const TRACED: u32 = 0x8;
    /// It ends (`EXIT_DEAD`, `EXIT_ZOMBIE`).
    pub const EXIT: u32 = 0x30;
    /// The states that a thread goes to sleep in (`TASK_REPORT`, and idle
    /// kernel threads). The bit above them says that it was preempted.
    const ASLEEP: u32 = 0xff;

    /// Whether it wanted to go on: it was preempted, or yielded.
    pub const fn is_runnable(self) -> bool {
        self.0 & Self::ASLEEP == 0
    }

    /// Whether a signal stopped it.
    pub const fn is_stopped(self) -> bool {
        self.0 & Self::STOPPED != 0
    }

    /// Whether no signal wakes it (`TASK_UNINTERRUPTIBLE`). Waits for a page and for most
    /// locks of the kernel are such sleeps.
    pub const fn is_uninterruptible(self) -> bool {
        self.0 & 0x2 != 0
    }

    /// Whether a debugger stopped it.
    pub const fn is_traced(self) -> bool {
        self.0 & Self::TRACED != 0
    }

    /// Whether it ends.
    pub const fn is_exit(self) -> bool {
        self.0 & Self::EXIT != 0
    }
}
