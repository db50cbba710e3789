//! A latency split into named shares.

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{Nanos, Usual};

/// Who took which part of one late reaction. The shares add up to the latency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blame {
    /// The name of the largest share.
    pub culprit: String,
    /// The same in plain words.
    pub sentence: String,
    /// When the longest stretch of the largest share ended, on
    /// CLOCK_MONOTONIC; null where there is none.
    #[serde(default)]
    pub culprit_end_ns: Option<Nanos>,
    /// Trace events that were lost in the window; the shares may be wrong
    /// where this is not zero.
    pub events_lost: u64,
    /// The parts, in the order in which they happened.
    pub shares: Vec<Share>,
}

/// One part of a late reaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// What kind of thing took it.
    pub kind: ShareKind,
    /// Which one: an interrupt's name, a thread's comm and pid.
    pub who: String,
    /// How long, all its times together.
    pub ns: Nanos,
    /// How many times it came.
    #[serde(default)]
    pub count: u32,
    /// What it was doing, where most of the time went: a system call, the
    /// thread that a softirq ran in, a priority.
    #[serde(default)]
    pub detail: Option<String>,
    /// The usual length of a handler that took far longer here. Absent if it did not, or
    /// if its usual length is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anomaly: Option<Usual>,
    /// A thief that may have taken some of this time unseen. Absent if a counter shows
    /// that there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenTheft>,
}

/// A thief of CPU time that no counter of this machine shows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum UnseenTheft {
    /// A hypervisor: steal time is not known.
    Steal,
    /// A hypervisor: steal time is counted in steps that are longer than this took.
    ShortSteal,
    /// The firmware: system management interrupts are not known.
    Smi,
}

impl UnseenTheft {
    /// The thief, and the reason why no counter shows it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Steal => "the hypervisor: no steal time is known here",
            Self::ShortSteal => {
                "the hypervisor: steal time is counted in steps of 10 ms, and less is not seen"
            }
            Self::Smi => "the firmware: system management interrupts cannot be counted here",
        }
    }
}

/// The kinds of thing that take time from a thread.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ShareKind {
    /// The timer came late, and no more is known; or by so little that it needs
    /// no cause.
    TimerLate,
    /// The timer was allowed to be late: the slack of the thread
    /// (prctl(2), PR_SET_TIMERSLACK).
    TimerSlack,
    /// The CPU was idle, and woke up.
    IdleExit,
    /// Interrupts were disabled in a thread.
    IrqsOff,
    /// An untraced gap: time passed without any event on the CPU. Possible:
    /// hypervisor, system management interrupt, firmware, or interrupts disabled
    /// in the running thread.
    Silence,
    /// A hard interrupt handler.
    Interrupt,
    /// A softirq.
    Softirq,
    /// A non-maskable interrupt.
    Nmi,
    /// A thread of lower priority delaying the switch.
    Blocking,
    /// A thread of higher priority.
    HigherPriority,
    /// A thread of equal rank, which the CPU was shared with.
    Competing,
    /// The holder of a lock that the thread waited for.
    LockHolder,
    /// The thread slept until another woke it.
    Waiting,
    /// A signal or a debugger had stopped the thread.
    Stopped,
    /// The thread was moved to another CPU.
    Migration,
    /// The thread was runnable and throttled: real-time throttling, the budget of
    /// SCHED_DEADLINE, or the CPU quota of a control group.
    Throttled,
    /// Page faults of the thread itself.
    PageFault,
    /// The thread itself was still at work.
    OwnWork,
    /// The thread itself ran in the kernel, in a system call.
    SystemCall,
    /// The thread waited for a device: a disk, a network card.
    Device,
    /// The thread slept because it asked for it: its own timer or time-out.
    OwnSleep,
    /// The scheduler itself.
    Scheduling,
    /// From the switch to the first instruction in user space.
    ReturnToUser,
    /// A hypervisor had the CPU: its counter of steal time shows it.
    Stolen,
    /// Something ran, or a hypervisor or the firmware had the CPU: the counters cannot
    /// tell which.
    Undecided,
    /// What no event shows.
    Unexplained,
}

impl ShareKind {
    /// Each with its name on screen.
    pub const NAMES: [(Self, &'static str); 26] = [
        (Self::TimerLate, "timer late"),
        (Self::TimerSlack, "timer slack"),
        (Self::IdleExit, "idle exit"),
        (Self::IrqsOff, "interrupts off"),
        (Self::Silence, "untraced gap"),
        (Self::Interrupt, "interrupt"),
        (Self::Softirq, "softirq"),
        (Self::Nmi, "NMI"),
        (Self::Blocking, "blocking"),
        (Self::HigherPriority, "higher priority"),
        (Self::Competing, "equal rank"),
        (Self::LockHolder, "lock holder"),
        (Self::Waiting, "waiting"),
        (Self::Stopped, "stopped"),
        (Self::Migration, "migration"),
        (Self::Throttled, "throttled"),
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

    /// Its name on screen.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("unexplained", |(_, name)| name)
    }
}

/// A stretch of a late reaction, and who took it: what a picture of it is
/// drawn from. The segments of a window lie one after the other, from the
/// expected time to the actual one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// Where it begins, on CLOCK_MONOTONIC.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// Where it ends.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// The CPU on which it was decided.
    pub cpu: u32,
    /// As in [`Share`].
    pub kind: ShareKind,
    /// As in [`Share`].
    pub who: String,
    /// As in [`Share`].
    pub detail: Option<String>,
}

impl Segment {
    /// How long.
    pub fn length(&self) -> Nanos {
        self.to - self.from
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

    #[test]
    fn a_share_of_before_the_counts_is_read() {
        let old = r#"{"kind":"interrupt","who":"eth0","ns":5}"#;
        let share: Share = serde_json::from_str(old).unwrap();
        assert_eq!((share.count, share.detail), (0, None));
    }
}
