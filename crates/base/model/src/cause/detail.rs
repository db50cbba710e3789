//! How the source of a cause took the time.

use serde::{Deserialize, Serialize};

use super::{Counted, Device, Hold, Name, Source};
use crate::{KernelPriority, Nanos, Task, Text};

/// Details of how the source took the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// Most of the time was spent in this function of a timer.
    Function(Text),
    /// Most of the time was spent in this other interrupt.
    Nested(Text),
    /// Another CPU sent the interrupt.
    SentBy {
        /// The thread that sent it; `None` if it was a handler of an interrupt or softirq.
        sender: Option<Name>,
        /// That CPU.
        cpu: u32,
        /// The kernel function that sent it.
        function: Text,
    },
    /// The handler ran on top of this thread; `None` if the thread is unknown.
    On(Option<Task>),
    /// Priority and activity of another thread.
    Rank(Rank),
    /// Activity of the victim.
    Doing(Activity),
    /// Thread that migrated the victim.
    MovedBy(Name),
    /// Thread that had the CPU while the victim was throttled; `None` if there was none.
    Meanwhile(Option<Rival>),
    /// Possible reasons why the scheduler did not run the victim.
    HeldBy {
        /// The reasons.
        possible: Vec<Hold>,
        /// The event that would have shown which of them is true. Absent if it is recorded.
        decided_by: Option<Text>,
        /// Name of the sched_ext scheduler that schedules ordinary threads, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sched_ext: Option<Text>,
    },
    /// A thread that ran.
    Ran(Task),
    /// Idle exit, switch and return to user space cannot be distinguished.
    Together,
    /// Waiting for a page.
    WaitingForPage,
    /// The slack of a timer.
    Slack {
        /// Its length.
        slack_ns: Nanos,
        /// Whether the slack is known. If not, it is the default of ordinary threads.
        known: bool,
    },
    /// The idle state that the CPU left.
    IdleState(u32),
    /// The place in the code: a function or an address.
    At(Text),
    /// The longest stays in one place of the kernel's code, the longest first.
    Stays(Vec<Stay>),
    /// Inside the switch from this thread, until the named event in its context.
    InSwitch {
        /// The thread that left the CPU.
        from: Name,
        /// The event.
        until: Text,
    },
    /// The last wake-up before it, by its kernel functions.
    AfterWakeup(Text),
    /// The thread that ran at that time, if any. No event shows more.
    While(Ran),
    /// Possible explanations of an untraced gap.
    Hypotheses {
        /// The code that ran.
        ran: Ran,
        /// Whether interrupts may have been disabled.
        disabled: Disabled,
        /// The functions that the interrupt at the end of the gap interrupted, the innermost first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended_in: Option<Text>,
        /// Whether non-maskable interrupts are recorded.
        nmi_recorded: bool,
        /// Increases of counters around the gap.
        counted: Counted,
    },
    /// Source that appeared to have the CPU while it was stolen.
    Instead(Box<Source>),
    /// Increases of counters, and the detail of the source that seemed to run.
    Counted {
        /// The values.
        counted: Counted,
        /// The detail.
        detail: Option<Box<Self>>,
    },
    /// User space and the kernel cannot be distinguished.
    UserOrKernel,
    /// The victim had page faults that did not wait for I/O. Only in old recordings.
    Faults,
    /// The victim slept in a system call.
    WaitsIn {
        /// The call, if known.
        call: Option<Text>,
        /// Its first argument.
        argument: u64,
        /// The kernel function that blocked, if known.
        at: Option<Text>,
    },
    /// The victim waited for a page from this device.
    PageFrom(Device),
    /// The victim waited through this chain of threads.
    Through(Vec<Name>),
    /// The victim may have spun for a lock or a value of this thread, which was preempted meanwhile.
    /// No event shows whether it did.
    PossiblyWaitsFor {
        /// The thread.
        thread: Name,
        /// The CPU that it lost.
        cpu: u32,
    },
}

/// A time without a traced call of a kernel function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Stay {
    /// The time. Absent if only the place is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns: Option<Nanos>,
    /// The function that was called last, and its callers, joined by `<`.
    pub at: Text,
    /// The function that was called next, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Text>,
}

/// A kernel function that ran for a long time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct LongFunction {
    /// The function.
    pub function: Text,
    /// The part of the cause's time while it ran.
    pub ns: Nanos,
}

/// A thread that ran while the victim was throttled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Rival {
    /// The thread.
    pub task: Task,
    /// Its activity, if known.
    pub activity: Option<Activity>,
}

/// Priority and activity of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Rank {
    /// The priority.
    pub prio: KernelPriority,
    /// The activity, if known.
    pub activity: Option<Activity>,
    /// Another thread, which this thread delayed. The victim waited for it.
    pub before: Option<Task>,
}

impl From<&Task> for Rank {
    fn from(task: &Task) -> Self {
        Self {
            prio: task.prio,
            activity: None,
            before: None,
        }
    }
}

/// Activity of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// In a system call.
    Syscall(Text),
    /// In a page fault.
    PageFault {
        /// Whether it came from user space.
        user: bool,
    },
    /// In a work item of a workqueue, by its function.
    Work(Text),
    /// Preemption is disabled at a function or address.
    PreemptionOff(Text),
    /// Spins for a kernel lock, by its name or address.
    SpinsFor(Text),
    /// It sleeps.
    Asleep,
    /// Its last event was a page fault, which may already be over.
    Faulted,
    /// It is itself waiting for a lock that this other thread holds.
    AwaitsLockOf(Name),
    /// The softirq that has to wake the victim is waiting for this thread.
    DelaysSoftirq,
    /// In user space, without any event.
    UserSpace,
}

/// The code that runs during a gap in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ran {
    /// Nothing: the CPU is idle.
    Idle,
    /// A thread.
    Thread(Name),
    /// A thread whose last event was a page fault, which may already be over.
    Faulted(Name),
}

/// Whether interrupts may have been disabled in a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disabled {
    /// Interrupts were enabled.
    No,
    /// Interrupts may have been disabled.
    Possible,
    /// Interrupts were disabled at the last event before the gap.
    Before,
}
