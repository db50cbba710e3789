//! Cause of a stretch of time, as data. It holds every name that its words need, so that they never
//! depend on anything else. `describe` and `sentence` turn it into text.

mod awaited;
mod describe;
mod kind;
mod without_ids;
mod words;

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{Comm, GapReason, KernelPriority, Nanos, Task, Text, Usual, Vector};

pub use awaited::{Awaited, Device, Leaf, Wait};
pub use kind::{ShareKind, UnseenTheft};
pub use words::CauseWords;

/// How a stretch of time was spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub struct Cause {
    /// Stretches with the same source are summed into one share.
    pub source: Source,
    /// How the time was spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// The usual length of a handler that took far longer here. Absent if it did not, or
    /// if its usual length is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anomaly: Option<Usual>,
    /// A possible thief of some of this time that no event shows. Absent if a counter rules it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenTheft>,
}

impl Cause {
    /// Creates a cause without details.
    pub const fn new(source: Source) -> Self {
        Self {
            source,
            detail: None,
            anomaly: None,
            unseen: None,
        }
    }

    /// Returns it with this detail.
    pub fn with(self, detail: impl Into<Option<Detail>>) -> Self {
        Self {
            detail: detail.into(),
            ..self
        }
    }

    /// Creates an unknown cause.
    pub const fn unexplained(what: Unknown) -> Self {
        Self::new(Source::Unexplained(what))
    }

    /// Names the events that are not recorded; any of them would have decided.
    pub fn not_recorded(what: Missing, events: &[&str]) -> Self {
        Self::unexplained(Unknown::NotRecorded {
            what,
            events: events.iter().map(|event| Text::from(*event)).collect(),
        })
    }

    /// Creates the cause that another thread ran or slept.
    pub fn thread(role: Role, task: &Task) -> Self {
        Self::new(Source::Thread {
            role,
            thread: task.into(),
        })
    }
}

/// A thread without its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub struct Name {
    /// Its thread ID. Absent for all threads of that name together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its comm; empty if unknown.
    pub comm: Comm,
}

impl From<&Task> for Name {
    fn from(task: &Task) -> Self {
        Self {
            pid: Some(task.pid),
            comm: task.comm,
        }
    }
}

/// Source of the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The timer's interrupt came late.
    TimerLate,
    /// The slack of the thread's timer.
    TimerSlack,
    /// The idle CPU wakes up.
    IdleExit(u32),
    /// A thread has interrupts disabled.
    IrqsOff(Name),
    /// No event, and no known activity takes this long.
    Gap,
    /// Interrupt without a device.
    Vector(Vector),
    /// Interrupt of a device.
    Irq {
        /// Its number.
        irq: u32,
        /// Its name; empty if unknown.
        name: Text,
    },
    /// Softirq, by its number.
    Softirq(u32),
    /// A non-maskable interrupt.
    Nmi,
    /// Another thread.
    Thread {
        /// Its relation to the victim.
        role: Role,
        /// The thread.
        thread: Name,
    },
    /// An interrupt that the thread sleeps for.
    AwaitedInterrupt,
    /// A signal, if known, or a debugger.
    Stopped(Option<Signal>),
    /// Migration from one CPU to another.
    Migration {
        /// The CPU that it leaves.
        from: u32,
        /// The CPU that it goes to, if known.
        to: Option<u32>,
    },
    /// It is runnable, and a limit keeps it off its CPU.
    Throttled(Limit),
    /// A page fault of the victim.
    PageFault,
    /// The victim itself, in user space or in the kernel.
    OwnWork,
    /// The victim itself, in user space.
    UserSpace,
    /// The victim itself, in a system call of this name.
    SystemCall(Text),
    /// The victim sleeps until its own timer.
    OwnSleep,
    /// The victim waits for a device.
    Device(Device),
    /// The victim waits for another thread.
    Awaited(Awaited),
    /// The scheduler.
    Scheduling,
    /// From the switch to user space.
    ReturnToUser,
    /// A hypervisor had the CPU.
    Stolen,
    /// Either this ran or something else had the CPU; it is unknown which.
    Undecided {
        /// The source that seems to have run.
        source: Box<Self>,
        /// The other possible user of the CPU.
        thief: Thief,
    },
    /// No event shows the cause.
    Unexplained(Unknown),
    /// Further sources of one kind, which are too many to be kept apart.
    Others(ShareKind),
}

/// A signal that stops a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub struct Signal {
    /// Its number.
    pub signal: u32,
    /// Its sender.
    pub sender: Name,
}

impl Source {
    /// Returns whether one of these threads takes the time.
    pub fn is_of(&self, threads: &[u32]) -> bool {
        let name = match self {
            Self::Thread { thread, .. } | Self::IrqsOff(thread) => thread,
            Self::Awaited(awaited) => match &awaited.leaf {
                Leaf::Preempted { by, .. } => by,
                _ => return false,
            },
            _ => return false,
        };
        name.pid.is_some_and(|pid| threads.contains(&pid))
    }
}

/// Possible cause of stolen CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Thief {
    /// A hypervisor.
    Hypervisor,
    /// The firmware, in a system management interrupt.
    Smi,
    /// Either of them.
    Either,
}

/// Counter values around a span; absent if not conclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// Increase of the steal time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<StolenWithin>,
    /// Number of system management interrupts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smis: Option<SmisWithin>,
}

/// Increase of the steal time between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StolenWithin {
    /// The increase.
    pub stolen_ns: Nanos,
    /// Time between the readings.
    pub within_ns: Nanos,
}

/// System management interrupts between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SmisWithin {
    /// Their number.
    pub count: u64,
    /// Time between the readings.
    pub within_ns: Nanos,
}

/// Relation of another thread to the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It has a lower priority and was not preempted.
    Blocking,
    /// It has a higher priority.
    HigherPriority,
    /// It has the same rank.
    Competing,
    /// It holds the lock that the victim waits for.
    LockHolder,
    /// It has to wake the victim.
    Waker,
}

/// Limit that keeps a runnable thread off its CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The budget of SCHED_DEADLINE.
    DeadlineBudget,
    /// Real-time throttling.
    RealTime,
    /// Deadline server that runs ordinary threads, since Linux 6.12.
    FairServer,
    /// Quota of a control group, by its path if known.
    Quota(Option<String>),
}

/// Reason why a stretch has no cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// The victim has ended.
    ThreadEnded,
    /// Events are not recorded.
    NotRecorded {
        /// The information in these events.
        what: Missing,
        /// The events; any of them would have decided.
        events: Vec<Text>,
    },
    /// No event of the victim before it ran.
    NothingBefore,
    /// No event of the victim.
    NoEventOfThread,
    /// No event of this CPU.
    NoEventOfCpu(u32),
    /// No event of the wake-up.
    NoWaker,
    /// The CPU's switch from idle has no event.
    NoSwitchIn(u32),
    /// Another CPU has woken it, but its own CPU has not queued it yet.
    WakeupPending,
    /// It is runnable, and its CPU is idle.
    IdleInstead(u32),
    /// The scheduler chose others before a real-time thread.
    PassedOver,
    /// The victim's own priority is unknown.
    OwnPriority,
    /// Another thread ran; its priority is unknown.
    PriorityOf(Name),
    /// No event, and some events were lost.
    EventsLost,
    /// Events of the CPU may be missing.
    Gap {
        /// Why they are missing.
        reason: GapReason,
        /// The CPU.
        cpu: u32,
    },
    /// Either a throttle by the quota of a group, if known, or threads of equal rank.
    QuotaOrEqual(Option<String>),
}

/// Information that an unrecorded event would have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The source that ran.
    WhatRan,
    /// The wake-up.
    WakeUp,
    /// Activity of the victim itself.
    Own,
    /// An interrupt.
    InterruptOrGap,
    /// A handler on top of a thread.
    HandlerOn(Name),
}

/// How the time was spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// Mostly in a timer's function.
    Function(Text),
    /// Mostly in another interrupt.
    Nested(Text),
    /// On top of a thread; `None` if unknown.
    On(Option<Task>),
    /// Priority and activity of another thread.
    Rank(Rank),
    /// Activity of the victim.
    Doing(Activity),
    /// Thread that migrates it.
    MovedBy(Name),
    /// Thread that had the CPU while the victim was throttled; `None` if there was none.
    Meanwhile(Option<Rival>),
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
        /// Whether it is known; otherwise it is the default.
        known: bool,
    },
    /// In this idle state.
    IdleState(u32),
    /// At a function or address.
    At(Text),
    /// While this ran; no event shows more.
    While(Ran),
    /// Possible explanations of an untraced gap.
    Hypotheses {
        /// The code that ran.
        ran: Ran,
        /// Whether interrupts may have been disabled.
        disabled: Disabled,
        /// Whether non-maskable interrupts are recorded.
        nmi_recorded: bool,
        /// The result of the counters.
        counted: Counted,
    },
    /// Source that appeared to have the CPU while it was stolen.
    Instead(Box<Source>),
    /// Counter values, and the detail of the running source.
    Counted {
        /// The values.
        counted: Counted,
        /// The detail.
        detail: Option<Box<Self>>,
    },
    /// User space and the kernel cannot be distinguished.
    UserOrKernel,
    /// With page faults that did not wait for I/O.
    Faults,
    /// Asleep in a system call.
    WaitsIn {
        /// The call, if known.
        call: Option<Text>,
        /// Its first argument.
        argument: u64,
        /// The kernel function that blocked, if known.
        at: Option<Text>,
    },
    /// Waits for a page from a device.
    PageFrom(Device),
    /// Through these threads.
    Through(Vec<Name>),
}

/// A thread that ran while the victim was throttled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub struct Rival {
    /// The thread.
    pub task: Task,
    /// Its activity, if known.
    pub activity: Option<Activity>,
}

/// Priority and activity of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub struct Rank {
    /// The priority.
    pub prio: KernelPriority,
    /// The activity, if known.
    pub activity: Option<Activity>,
    /// Thread that it delays and that the victim waits for.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// It sleeps.
    Asleep,
    /// Its last event was a page fault, which may be over.
    Faulted,
    /// It waits itself for a lock that this thread holds.
    AwaitsLockOf(Name),
    /// The softirq that has to wake the victim waits for this thread.
    DelaysSoftirq,
    /// In user space, without any event.
    UserSpace,
}

/// The code that runs during a gap in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ran {
    /// Nothing: the CPU is idle.
    Idle,
    /// A thread.
    Thread(Name),
    /// A thread whose last event was a page fault, which may be over.
    Faulted(Name),
}

/// Whether interrupts may have been disabled in a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Disabled {
    /// They were not.
    No,
    /// They may have been.
    Possible,
    /// They were disabled at the event before the gap.
    Before,
}
