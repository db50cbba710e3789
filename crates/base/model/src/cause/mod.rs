//! Cause of a segment of time, as data. A cause contains every name that its description needs, so
//! that the description depends on no other data. The module `words` turns it into text.

mod awaited;
mod blame;
mod detail;
mod evidence;
mod explanation;
mod host_span;
mod job;
mod kind;
mod lateness_profile;
mod open_at_end;
mod policy_change;
mod scheduler_finding;
mod suspension;
mod top_samples;
mod trace_summary;
mod victim;
mod window;
mod without_ids;
mod words;

pub use crate::finding::RefusedCall;
pub use blame::{Blame, BlameWords, Move, Segment, Share};
pub use detail::{Activity, Detail, Disabled, LongFunction, Ran, Rank, Rival, Stay};
pub use evidence::{
    EventGap, Evidence, GapReason, HandlerOf, InterruptSource, InterruptWakeup, NotShown,
    RealTimeLimit, RuntimeStop, SmiCount, StealCount, StealRise, StopReason, Throttle, Usual,
    UsualLength,
};
pub use explanation::{CauseSummary, Explanation, Outlier, Period, Resemblance, ResemblancePlace};
pub use host_span::HostSpan;
pub use job::{
    ActivitySpan, JobWindows, Jobs, ReleaseChoice, ReleaseWait, Reservation, ThreadActivity,
    ThreadJobs, ThreadState, WaitCall,
};
pub use lateness_profile::{
    ExcessFunction, ExcessStack, FrameOf, LatenessProfile, ProfileFrame, ProfileState,
};
pub use open_at_end::{OpenAtEnd, OpenCall};
pub use policy_change::PolicyChange;
pub use scheduler_finding::{SchedulerFinding, SchedulerRule};
pub use suspension::{Suspension, SuspensionKind};
pub use top_samples::{TopSample, TopSamples};
pub use trace_summary::{HostTrace, StatedLatency, TraceSummary};
pub use victim::{Delay, Victim};
pub use window::Window;

use serde::{Deserialize, Serialize};

use crate::{Comm, Nanos, Task, Text, Vector};

pub use awaited::{Awaited, Device, Leaf, Wait};
pub use kind::{ShareKind, UnseenTheft};
pub use words::CauseWords;

/// Cause of a segment of time, with details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Cause {
    /// The thread, handler or activity that took the time. Segments with the same source are added
    /// up to one share.
    pub source: Source,
    /// How the time was spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// Usual length of the handler's runs, if the handler took far longer this time. Absent
    /// otherwise, or if the usual length is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anomaly: Option<Usual>,
    /// The kernel function that took most of this time, in a trace of the tracer function_graph. Absent
    /// if none is known to have taken at least 10 µs and a tenth of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<LongFunction>,
    /// A cause that no event shows and that may have taken some of this time. Absent if a counter
    /// rules it out.
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
            function: None,
            unseen: None,
        }
    }

    /// Returns the cause with this detail.
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

    /// Creates an unknown cause that names the events that are not recorded. Any of these events
    /// would have shown the cause.
    pub fn not_recorded(what: Missing, events: &[&str]) -> Self {
        Self::unexplained(Unknown::NotRecorded {
            what,
            events: events.iter().map(|event| Text::from(*event)).collect(),
        })
    }

    /// Creates a cause for time in which another thread ran or slept.
    pub fn thread(role: Role, task: &Task) -> Self {
        Self::new(Source::Thread {
            role,
            thread: task.into(),
        })
    }
}

/// Comm and ID of a thread, without its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Name {
    /// Thread ID. Absent if the value represents all threads of that name.
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

/// The thread, handler or activity that took the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// A thread has preemption disabled.
    PreemptOff(Name),
    /// No event was recorded, and no known activity takes this long.
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
    /// The thread sleeps until an interrupt occurs.
    AwaitedInterrupt,
    /// A signal or a debugger has stopped the thread. This value contains the signal, if known.
    Stopped(Option<Signal>),
    /// Migration from one CPU to another.
    Migration {
        /// The CPU that the thread leaves.
        from: u32,
        /// The new CPU of the thread, if known.
        to: Option<u32>,
    },
    /// The victim is runnable, but a limit keeps it off its CPU.
    Throttled(Limit),
    /// The victim is runnable, but the scheduler leaves this CPU idle.
    NotRun(u32),
    /// A page fault of the victim.
    PageFault,
    /// The victim itself, in a page fault or afterwards in user space. No event shows when the
    /// fault ended, so this time is an upper bound.
    FaultOrUserSpace,
    /// The victim itself, in user space or in the kernel.
    OwnWork,
    /// The victim itself, in user space.
    UserSpace,
    /// The victim itself, in a system call of this name.
    SystemCall(Text),
    /// The victim sleeps until its own timer expires.
    OwnSleep,
    /// The victim sleeps until a timer sends it this signal.
    TimerSignal(u32),
    /// The victim waits for a device.
    Device(Device),
    /// The victim waits for another thread.
    Awaited(Awaited),
    /// The scheduler.
    Scheduling,
    /// The time from the switch to the return to user space.
    ReturnToUser,
    /// A hypervisor had the CPU.
    Stolen,
    /// The virtual CPU did not run. A trace of the host shows this source instead. The source
    /// describes the host, and the thread in it that is the virtual CPU.
    Host(Box<Self>),
    /// Either this source ran, or a hypervisor or the firmware had the CPU. The events cannot
    /// distinguish the two.
    Undecided {
        /// The source that seems to have run.
        source: Box<Self>,
        /// The other possible user of the CPU.
        thief: Thief,
    },
    /// No event shows the cause.
    Unexplained(Unknown),
    /// All other sources of one kind, because the number of sources that are kept separately is
    /// limited.
    Others(ShareKind),
}

/// A signal that stops a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Signal {
    /// Its number.
    pub signal: u32,
    /// Its sender.
    pub sender: Name,
}

impl Source {
    /// Returns whether the thread was on its CPU, and no event shows what ran there.
    pub const fn is_unknown_on_cpu(&self) -> bool {
        matches!(
            self,
            Self::Unexplained(Unknown::NotRecorded {
                what: Missing::OnCpu,
                ..
            })
        )
    }

    /// Returns whether one of these threads took the time.
    pub fn is_of(&self, threads: &[u32]) -> bool {
        let name = match self {
            Self::Thread { thread, .. } | Self::IrqsOff(thread) | Self::PreemptOff(thread) => {
                thread
            }
            Self::Awaited(awaited) => match &awaited.leaf {
                Leaf::Preempted { by, .. } => by,
                _ => return false,
            },
            _ => return false,
        };
        name.pid.is_some_and(|pid| threads.contains(&pid))
    }
}

/// Possible cause of stolen CPU time. No event shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thief {
    /// A hypervisor.
    Hypervisor,
    /// The firmware, in a system management interrupt.
    Smi,
    /// Either of them.
    Either,
}

/// Increases of counters around a segment of time. A value is absent if it provides no information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Increase of the steal time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<StolenWithin>,
    /// System management interrupts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smis: Option<SmisWithin>,
}

/// Increase of the steal time between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StolenWithin {
    /// The increase.
    pub stolen_ns: Nanos,
    /// Time between the readings.
    pub within_ns: Nanos,
}

/// System management interrupts between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmisWithin {
    /// Number of interrupts.
    pub count: u64,
    /// Time between the readings.
    pub within_ns: Nanos,
}

/// Relation of another thread to the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It has a lower priority and was not preempted.
    Blocking,
    /// It has a higher priority.
    HigherPriority,
    /// It has the same rank.
    Competing,
    /// It had the CPU. Which of the two has the higher priority is unknown.
    Unranked,
    /// It holds the lock that the victim waits for.
    LockHolder,
    /// It has to wake the victim.
    Waker,
}

/// Limit that keeps a runnable thread off its CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Possible reason why the scheduler did not run a runnable thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// The CPU quota of a control group.
    Quota,
    /// Real-time throttling.
    RealTimeThrottling,
    /// The deadline server for ordinary threads.
    FairServer,
    /// The wake-up from another CPU had not reached the CPU.
    PendingWakeup,
    /// A hypervisor or the firmware had the CPU.
    Theft,
    /// The scheduler itself, which should have chosen the thread.
    Scheduler,
}

/// Reason why the cause of a segment of time is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// The victim has ended.
    ThreadEnded,
    /// The events that would show the cause are not recorded.
    NotRecorded {
        /// The information in these events.
        what: Missing,
        /// The events. Any of them would have shown the cause.
        events: Vec<Text>,
    },
    /// No event of the victim was recorded before it ran.
    NothingBefore,
    /// No event of the victim was recorded.
    NoEventOfThread,
    /// No event of this CPU was recorded.
    NoEventOfCpu(u32),
    /// No event of the wake-up was recorded.
    NoWaker,
    /// No event of this CPU's switch from idle was recorded.
    NoSwitchIn(u32),
    /// Another CPU has woken the victim, but the victim's own CPU has not queued it yet.
    WakeupPending,
    /// The victim is runnable, but this CPU is idle. Only in old recordings.
    IdleInstead(u32),
    /// The scheduler chose other threads over a real-time thread.
    PassedOver,
    /// The victim's own priority is unknown.
    OwnPriority,
    /// Another thread ran; its priority is unknown. Only in old recordings.
    PriorityOf(Name),
    /// No event was recorded, and some events were lost.
    EventsLost,
    /// Events of the CPU may be missing.
    Gap {
        /// Reason why they are missing.
        reason: GapReason,
        /// The CPU.
        cpu: u32,
    },
    /// Either the quota of a control group throttled the victim, or threads of equal rank ran. This
    /// value contains the path of the group, if known.
    QuotaOrEqual(Option<String>),
}

/// Information that an unrecorded event would have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The source that ran.
    WhatRan,
    /// The source that ran from the timer's interrupt to the thread that it woke.
    AfterInterrupt,
    /// The wake-up.
    WakeUp,
    /// Whether the victim ran or had a page fault, or whether the time is an untraced gap.
    Own,
    /// Whether an interrupt ran or the time is an untraced gap.
    InterruptOrGap,
    /// Whether this thread ran or a handler that interrupted it.
    HandlerOn(Name),
    /// Whether a CPU quota throttled the victim, or threads of equal rank ran before it.
    QuotaOrEqual,
    /// The interrupt or softirq that ended a wait.
    WokenBy,
    /// Activity of the thread on its CPU, in the light stage of `explain --pid`.
    OnCpu,
    /// Why the thread waited for its CPU.
    RanInstead,
    /// The reason for a late wake-up of the thread.
    BeforeWakeUp,
    /// Whether the thread was not yet woken, or waited for its CPU.
    AroundWakeUp,
}

#[cfg(test)]
mod tests;
