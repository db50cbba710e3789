//! Kinds of causes.

use serde::{Deserialize, Serialize};

use super::{Cause, Role, Source, Wait};

/// A possible cause of lost CPU time that no counter of this machine shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnseenTheft {
    /// A hypervisor: steal time is unknown.
    Steal,
    /// A hypervisor: the steps of the steal-time counter are larger than this share.
    ShortSteal,
    /// The firmware: the count of system management interrupts is unknown.
    Smi,
}

impl UnseenTheft {
    /// Returns the possible cause, and the reason why no counter shows it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Steal => "the hypervisor: its steal time is unknown",
            Self::ShortSteal => {
                "the hypervisor: steal time is counted in steps of 10 ms, so a shorter time is not \
                 visible"
            }
            Self::Smi => {
                "the firmware: system management interrupts cannot be counted on this machine"
            }
        }
    }
}

/// The kind of cause that took time from a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareKind {
    /// The timer was late. Either no event shows the cause, or the delay is too short to need an
    /// explanation.
    TimerLate,
    /// The timer was allowed to be late by the timer slack of the thread (prctl(2),
    /// PR_SET_TIMERSLACK).
    TimerSlack,
    /// The CPU left an idle state.
    IdleExit,
    /// A thread had interrupts disabled.
    IrqsOff,
    /// A thread had preemption disabled.
    PreemptOff,
    /// An untraced gap: time passed without any event on the CPU. Possible causes are a hypervisor,
    /// a system management interrupt, the firmware, or interrupts that were disabled in the running
    /// thread.
    Silence,
    /// A hard interrupt handler.
    Interrupt,
    /// A softirq.
    Softirq,
    /// A non-maskable interrupt.
    Nmi,
    /// A thread of lower priority delayed the switch.
    Blocking,
    /// A thread of higher priority.
    HigherPriority,
    /// A thread of equal rank that shared the CPU.
    Competing,
    /// A thread whose rank is unknown.
    Unranked,
    /// The holder of a lock that the thread waited for.
    LockHolder,
    /// The thread slept until another thread woke it.
    Waiting,
    /// A signal or a debugger had stopped the thread.
    Stopped,
    /// The thread was moved to another CPU.
    Migration,
    /// The thread was runnable and throttled: real-time throttling, the budget of
    /// SCHED_DEADLINE, or the CPU quota of a control group.
    Throttled,
    /// The thread was runnable, but the scheduler left its CPU idle.
    NotRun,
    /// Page faults of the thread itself.
    PageFault,
    /// The thread was still running its own code in user space.
    OwnWork,
    /// The thread was in a system call.
    SystemCall,
    /// The thread waited for a device: a disk, a network card.
    Device,
    /// The thread slept at its own request, until a timer or a time-out.
    OwnSleep,
    /// The scheduler itself.
    Scheduling,
    /// The time from the switch to the first instruction in user space.
    ReturnToUser,
    /// A hypervisor had the CPU, as its steal-time counter or the trace of the host shows.
    Stolen,
    /// Another task, a hypervisor or the firmware had the CPU. The counters cannot show which of
    /// them it was.
    Undecided,
    /// Time that no event explains.
    Unexplained,
}

impl ShareKind {
    /// All kinds, with the names to display.
    pub const NAMES: [(Self, &'static str); 29] = [
        (Self::TimerLate, "timer late"),
        (Self::TimerSlack, "timer slack"),
        (Self::IdleExit, "idle exit"),
        (Self::IrqsOff, "interrupts off"),
        (Self::PreemptOff, "preemption off"),
        (Self::Silence, "untraced gap"),
        (Self::Interrupt, "interrupt"),
        (Self::Softirq, "softirq"),
        (Self::Nmi, "NMI"),
        (Self::Blocking, "blocking"),
        (Self::HigherPriority, "higher priority"),
        (Self::Competing, "equal rank"),
        (Self::Unranked, "other thread"),
        (Self::LockHolder, "lock holder"),
        (Self::Waiting, "waiting"),
        (Self::Stopped, "stopped"),
        (Self::Migration, "migration"),
        (Self::Throttled, "throttled"),
        (Self::NotRun, "not run"),
        (Self::PageFault, "page fault"),
        (Self::OwnWork, "own work"),
        (Self::SystemCall, "system call"),
        (Self::Device, "device"),
        (Self::OwnSleep, "own sleep"),
        (Self::Scheduling, "scheduling"),
        (Self::ReturnToUser, "return to user"),
        (Self::Stolen, "stolen"),
        (Self::Undecided, "undecided"),
        (Self::Unexplained, "unexplained"),
    ];

    /// Returns the name to display.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("unexplained", |(_, name)| name)
    }
}

impl Cause {
    /// Returns the kind of cause.
    pub const fn kind(&self) -> ShareKind {
        self.source.kind()
    }
}

impl Source {
    /// Returns the kind of cause.
    pub const fn kind(&self) -> ShareKind {
        match self {
            Self::Others(kind) => *kind,
            Self::TimerLate => ShareKind::TimerLate,
            Self::TimerSlack => ShareKind::TimerSlack,
            Self::IdleExit(_) => ShareKind::IdleExit,
            Self::IrqsOff(_) => ShareKind::IrqsOff,
            Self::PreemptOff(_) => ShareKind::PreemptOff,
            Self::Gap => ShareKind::Silence,
            Self::Vector(_) | Self::Irq { .. } => ShareKind::Interrupt,
            Self::Softirq(_) => ShareKind::Softirq,
            Self::Nmi => ShareKind::Nmi,
            Self::Thread { role, .. } => match role {
                Role::Blocking => ShareKind::Blocking,
                Role::HigherPriority => ShareKind::HigherPriority,
                Role::Competing => ShareKind::Competing,
                Role::Unranked => ShareKind::Unranked,
                Role::LockHolder => ShareKind::LockHolder,
                Role::Waker => ShareKind::Waiting,
            },
            Self::AwaitedInterrupt => ShareKind::Waiting,
            Self::Stopped(_) => ShareKind::Stopped,
            Self::Migration { .. } => ShareKind::Migration,
            Self::Throttled(_) => ShareKind::Throttled,
            Self::NotRun(_) => ShareKind::NotRun,
            Self::PageFault => ShareKind::PageFault,
            Self::OwnWork | Self::UserSpace | Self::FaultOrUserSpace => ShareKind::OwnWork,
            Self::SystemCall(_) => ShareKind::SystemCall,
            Self::OwnSleep | Self::TimerSignal(_) => ShareKind::OwnSleep,
            Self::Device(_) => ShareKind::Device,
            Self::Awaited(awaited) => match awaited.wait {
                Wait::Lock => ShareKind::LockHolder,
                Wait::Page => ShareKind::PageFault,
                _ => ShareKind::Waiting,
            },
            Self::Scheduling => ShareKind::Scheduling,
            Self::ReturnToUser => ShareKind::ReturnToUser,
            Self::Stolen | Self::Host(_) => ShareKind::Stolen,
            Self::Undecided { .. } => ShareKind::Undecided,
            Self::Unexplained(_) => ShareKind::Unexplained,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_name() {
        let names: std::collections::BTreeSet<&str> =
            ShareKind::NAMES.iter().map(|(_, name)| *name).collect();
        assert_eq!(names.len(), ShareKind::NAMES.len());
        assert!(
            ShareKind::NAMES
                .iter()
                .all(|(kind, name)| kind.name() == *name)
        );
        assert_eq!(ShareKind::Unexplained as usize + 1, ShareKind::NAMES.len());
    }
}
