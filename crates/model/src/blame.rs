//! A latency split into named shares.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Who took which part of one late reaction. The shares add up to the latency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blame {
    /// The name of the largest share.
    pub culprit: String,
    /// The same in plain words.
    pub sentence: String,
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
    /// How long.
    pub ns: Nanos,
}

/// The kinds of thing that take time from a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShareKind {
    /// The timer came late: idle exit, interrupts disabled, hypervisor or
    /// firmware.
    TimerLate,
    /// A hard interrupt handler.
    Interrupt,
    /// A softirq.
    Softirq,
    /// A non-maskable interrupt.
    Nmi,
    /// The current task delaying the switch.
    Blocking,
    /// A thread of higher priority.
    HigherPriority,
    /// The scheduler itself.
    Scheduling,
    /// From the switch to the first instruction in user space.
    ReturnToUser,
    /// What no event tells.
    Unexplained,
}
