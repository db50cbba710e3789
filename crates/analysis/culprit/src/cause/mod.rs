//! The cause of a stretch of time, as data. Its text is made in
//! [`describe`](crate::describe).

mod awaited;

use punctual_model::{Comm, KernelPriority, Nanos, Task, Text, UnseenTheft, Usual, Vector};

pub(crate) use awaited::{Awaited, Device, Leaf, Wait};

/// What a stretch of time is spent on, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Stretches of one source are one share.
    pub(crate) source: Source,
    pub(crate) detail: Option<Detail>,
    /// What a handler usually takes that took far longer.
    pub(crate) anomaly: Option<Usual>,
    /// Who may have taken some of the time without being seen.
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

    /// An event that would have decided is not recorded.
    pub(crate) fn not_recorded(what: Missing, events: &[&'static str]) -> Self {
        Self::unexplained(Unknown::NotRecorded(what, events.to_vec()))
    }

    pub(crate) fn thread(role: Role, task: &Task) -> Self {
        Self::new(Source::Thread(role, task.into()))
    }
}

/// A thread, whatever its priority.
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

/// What the time is spent on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    TimerLate,
    TimerSlack,
    /// The idle CPU wakes up.
    IdleExit(u32),
    /// Interrupts are disabled in a thread.
    IrqsOff(Name),
    /// No event, and nothing known takes so long.
    Gap,
    Vector(Vector),
    /// A device's interrupt; the name is empty where it is not known.
    Irq(u32, Text),
    Softirq(u32),
    Nmi,
    /// Another thread.
    Thread(Role, Name),
    /// An interrupt that the thread sleeps for.
    AwaitedInterrupt,
    /// A signal and its sender, where they are known.
    Stopped(Option<(u32, Name)>),
    /// From a CPU to another.
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
    /// This ran, or somebody else had the CPU; which of the two is not known.
    Undecided(Box<Source>, Thief),
    Unexplained(Unknown),
}

impl Source {
    /// Whether one of these threads takes the time.
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

/// Who takes the time of a CPU from whatever runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thief {
    Hypervisor,
    /// The firmware, in a system management interrupt.
    Smi,
    Either,
}

/// What counters show around a time; `None`: they do not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// By how much the steal time rose, and within which time.
    pub(crate) steal: Option<(Nanos, Nanos)>,
    /// How many system management interrupts came, and within which time.
    pub(crate) smis: Option<(u64, Nanos)>,
}

/// What another thread has to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has a lower priority, and was not preempted.
    Blocking,
    HigherPriority,
    /// It has the same rank.
    Competing,
    /// It holds the lock that the victim waits for.
    LockHolder,
    /// It has to wake the victim.
    Waker,
}

/// What keeps a runnable thread from its CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    DeadlineBudget,
    RealTime,
    /// The deadline server that runs ordinary threads, since Linux 6.12.
    FairServer,
    /// The quota of a control group, by its path where it is known.
    Quota(Option<String>),
}

/// Why a stretch has no cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    ThreadEnded,
    /// One of these events would have decided.
    NotRecorded(Missing, Vec<&'static str>),
    NothingBefore,
    NoEventOfThread,
    NoEventOfCpu(u32),
    NoWaker,
    /// The CPU's switch from idle has no event.
    NoSwitchIn(u32),
    /// Another CPU has woken it, and it is not in the queue of its own yet.
    WakeupPending,
    /// It is runnable, and its CPU idles.
    IdleInstead(u32),
    /// The scheduler chose others before a real-time thread.
    PassedOver,
    OwnPriority,
    /// Another thread ran.
    PriorityOf(Name),
    /// No event, and some were lost.
    EventsLost,
    /// A throttle by a group's quota, or threads of equal rank.
    QuotaOrEqual(String),
}

/// What an event that is not recorded would have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    WhatRan,
    WakeUp,
    /// What the victim itself did.
    Own,
    InterruptOrGap,
    HandlerOn(Name),
}

/// In which way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Mostly in a timer's function.
    Function(u64),
    /// Mostly in another interrupt.
    Nested(Text),
    /// On top of a thread; `None` where it is not known.
    On(Option<Task>),
    /// What another thread was, and did.
    Rank(Rank),
    /// What the victim did.
    Doing(Activity),
    /// By the thread that moves it.
    MovedBy(Name),
    /// Who had the CPU while the victim was throttled; `None`: nobody.
    Meanwhile(Option<(Task, Option<Activity>)>),
    /// A thread that ran.
    Ran(Task),
    /// Idle exit, switch and way to user space cannot be distinguished.
    Together,
    WaitingForPage,
    /// The slack, and whether it is known.
    Slack(Nanos, bool),
    IdleState(u32),
    /// At an address.
    At(u64),
    /// While this ran; no event shows more.
    While(Ran),
    /// What an untraced gap may have been.
    Hypotheses(Ran, Disabled, Counted),
    /// What had the CPU when it was stolen.
    Instead(Box<Source>),
    /// What counters show, and in which way something ran.
    Counted(Counted, Option<Box<Detail>>),
    /// User space and the kernel cannot be distinguished.
    UserOrKernel,
    /// With page faults that did not have to wait.
    Faults,
    /// The system call that the victim sleeps in, its first two arguments, and the function
    /// of the kernel that blocked.
    WaitsIn(Option<Text>, [u64; 2], Option<Text>),
    /// Waiting for a page from a device.
    PageFrom(Device),
    /// By way of these threads.
    Through(Vec<Name>),
}

/// A thread's priority, and what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) prio: KernelPriority,
    pub(crate) activity: Option<Activity>,
    /// The thread in whose way it is, which the victim waits for.
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

/// What a thread does.
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
    /// The softirq that has to wake the victim waits for it.
    DelaysSoftirq,
    /// In user space, without any event.
    UserSpace,
}

/// What runs while nothing is traced.
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
    /// They were at the event before.
    Before,
}
