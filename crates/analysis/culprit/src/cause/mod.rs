//! Cause of a stretch of time, as data. [`describe`](crate::describe) turns it into text.

mod awaited;

use punctual_model::{
    Comm, GapReason, KernelPriority, Nanos, Task, Text, UnseenTheft, Usual, Vector,
};

pub(crate) use awaited::{Awaited, Device, Leaf, Wait};

/// How a stretch of time was spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Stretches with the same source are summed into one share.
    pub(crate) source: Source,
    pub(crate) detail: Option<Detail>,
    /// Usual length of a handler that ran far longer.
    pub(crate) anomaly: Option<Usual>,
    /// Kind of stolen time that would not have been seen.
    pub(crate) unseen: Option<UnseenTheft>,
}

impl Cause {
    pub(crate) const fn new(source: Source) -> Self {
        Self {
            source,
            detail: None,
            anomaly: None,
            unseen: None,
        }
    }

    pub(crate) fn with(self, detail: impl Into<Option<Detail>>) -> Self {
        Self {
            detail: detail.into(),
            ..self
        }
    }

    pub(crate) const fn unexplained(what: Unknown) -> Self {
        Self::new(Source::Unexplained(what))
    }

    /// Names the events that are not recorded; any of them would have decided.
    pub(crate) fn not_recorded(what: Missing, events: &[&'static str]) -> Self {
        Self::unexplained(Unknown::NotRecorded(what, events.to_vec()))
    }

    pub(crate) fn thread(role: Role, task: &Task) -> Self {
        Self::new(Source::Thread(role, task.into()))
    }
}

/// A thread without its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) pid: u32,
    pub(crate) comm: Comm,
}

impl From<&Task> for Name {
    fn from(task: &Task) -> Self {
        Self {
            pid: task.pid,
            comm: task.comm,
        }
    }
}

/// Source of the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    TimerLate,
    TimerSlack,
    /// The idle CPU wakes up.
    IdleExit(u32),
    /// A thread has interrupts disabled.
    IrqsOff(Name),
    /// No event, and no known activity takes this long.
    Gap,
    Vector(Vector),
    /// Interrupt of a device; the name is empty if unknown.
    Irq(u32, Text),
    Softirq(u32),
    Nmi,
    /// Another thread.
    Thread(Role, Name),
    /// An interrupt that the thread sleeps for.
    AwaitedInterrupt,
    /// A signal and its sender, if known.
    Stopped(Option<(u32, Name)>),
    /// Migration from one CPU to another.
    Migration(u32, Option<u32>),
    Throttled(Limit),
    PageFault,
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
    Scheduling,
    ReturnToUser,
    /// A hypervisor had the CPU.
    Stolen,
    /// Either this ran or something else had the CPU; it is unknown which.
    Undecided(Box<Source>, Thief),
    Unexplained(Unknown),
}

impl Source {
    /// Returns whether one of these threads takes the time.
    pub(crate) fn is_of(&self, threads: &[u32]) -> bool {
        match self {
            Self::Thread(_, name) | Self::IrqsOff(name) => threads.contains(&name.pid),
            Self::Awaited(awaited) => match &awaited.leaf {
                Leaf::Preempted(name, _) => threads.contains(&name.pid),
                _ => false,
            },
            _ => false,
        }
    }
}

/// Possible cause of stolen CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thief {
    Hypervisor,
    /// The firmware, in a system management interrupt.
    Smi,
    Either,
}

/// Counter values around a span; `None` if not conclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Increase of the steal time, and the time between the readings.
    pub(crate) steal: Option<(Nanos, Nanos)>,
    /// Number of system management interrupts, and the time between the readings.
    pub(crate) smis: Option<(u64, Nanos)>,
}

/// Relation of another thread to the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has a lower priority and was not preempted.
    Blocking,
    HigherPriority,
    /// It has the same rank.
    Competing,
    /// It holds the lock that the victim waits for.
    LockHolder,
    /// It has to wake the victim.
    Waker,
}

/// Limit that keeps a runnable thread off its CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    DeadlineBudget,
    RealTime,
    /// Deadline server that runs ordinary threads, since Linux 6.12.
    FairServer,
    /// Quota of a control group, by its path if known.
    Quota(Option<String>),
}

/// Reason why a stretch has no cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    ThreadEnded,
    /// Any of these events would have decided.
    NotRecorded(Missing, Vec<&'static str>),
    NothingBefore,
    NoEventOfThread,
    NoEventOfCpu(u32),
    NoWaker,
    /// The CPU's switch from idle has no event.
    NoSwitchIn(u32),
    /// Another CPU has woken it, but its own CPU has not queued it yet.
    WakeupPending,
    /// It is runnable, and its CPU is idle.
    IdleInstead(u32),
    /// The scheduler chose others before a real-time thread.
    PassedOver,
    OwnPriority,
    /// Another thread ran.
    PriorityOf(Name),
    /// No event, and some events were lost.
    EventsLost,
    /// Events of the CPU may be missing.
    Gap(GapReason, u32),
    /// Either a throttle by a group's quota or threads of equal rank.
    QuotaOrEqual(String),
}

/// Information that an unrecorded event would have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    WhatRan,
    WakeUp,
    /// Activity of the victim itself.
    Own,
    InterruptOrGap,
    HandlerOn(Name),
}

/// How the time was spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Mostly in a timer's function.
    Function(u64),
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
    Meanwhile(Option<(Task, Option<Activity>)>),
    /// A thread that ran.
    Ran(Task),
    /// Idle exit, switch and return to user space cannot be distinguished.
    Together,
    WaitingForPage,
    /// The slack, and whether it is known.
    Slack(Nanos, bool),
    IdleState(u32),
    /// At an address.
    At(u64),
    /// While this ran; no event shows more.
    While(Ran),
    /// Possible explanations of an untraced gap.
    Hypotheses(Ran, Disabled, Counted),
    /// Source that appeared to have the CPU while it was stolen.
    Instead(Box<Source>),
    /// Counter values, and the detail of the running source.
    Counted(Counted, Option<Box<Detail>>),
    /// User space and the kernel cannot be distinguished.
    UserOrKernel,
    /// With page faults that did not wait for I/O.
    Faults,
    /// The system call that it sleeps in, the first two arguments, and the kernel function that
    /// blocked.
    WaitsIn(Option<Text>, [u64; 2], Option<Text>),
    /// Waits for a page from a device.
    PageFrom(Device),
    /// Through these threads.
    Through(Vec<Name>),
}

/// Priority and activity of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) prio: KernelPriority,
    pub(crate) activity: Option<Activity>,
    /// Thread that it delays and that the victim waits for.
    pub(crate) before: Option<Task>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    Syscall(i64),
    PageFault {
        user: bool,
    },
    Work(u64),
    /// Preemption is disabled at an address.
    PreemptionOff(u64),
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

/// What runs during a gap in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    Idle,
    Thread(Name),
    /// A thread whose last event was a page fault, which may be over.
    Faulted(Name),
}

/// Whether interrupts may have been disabled in a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disabled {
    No,
    Possible,
    /// They were disabled at the event before the gap.
    Before,
}
