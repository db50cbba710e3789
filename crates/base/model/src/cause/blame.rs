//! A latency split into named shares.

use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::{CauseWords, Delay, Nanos, ShareKind, Victim};

/// The causes of one late reaction, each with its share of the latency. This type holds data only:
/// [`Blame::sentence`] and [`Share::who`] turn it into words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blame {
    /// The thread that was late.
    pub victim: Victim,
    /// Start and end points of the latency.
    pub delay: Delay,
    /// The last migration of the thread after it was due. Null if there was none.
    pub moved: Option<Move>,
    /// Time at which the longest segment of the largest share ended, on CLOCK_MONOTONIC, in ns.
    /// Null if there is none.
    pub culprit_end_ns: Option<Nanos>,
    /// Trace events that were lost in the window. If this is not zero, the shares may be wrong.
    pub events_lost: u64,
    /// Largest possible difference between the clocks of events and of the probe.
    pub clock_error_ns: Nanos,
    /// Whether the program that recorded the events caused the largest share itself.
    pub by_observer: bool,
    /// The shares, in chronological order. They add up to the latency.
    pub shares: Vec<Share>,
    /// The blame in words. Set only for output.
    #[serde(flatten, skip_deserializing)]
    pub words: Option<BlameWords>,
}

/// A blame in words. It is created only for output and never read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlameWords {
    /// The name of the largest share.
    pub culprit: String,
    /// A sentence that explains the latency.
    pub sentence: String,
}

/// A migration from one CPU to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The CPU that the thread left.
    pub from: u32,
    /// The CPU that it moved to.
    pub to: u32,
}

/// One part of a late reaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The cause.
    pub cause: Cause,
    /// The total time.
    pub ns: Nanos,
    /// The number of occurrences.
    pub count: u32,
    /// The cause in words. Set only for output.
    #[serde(flatten, skip_deserializing)]
    pub words: Option<Box<CauseWords>>,
}

impl Blame {
    /// Returns the latency: the sum of the shares.
    pub fn latency(&self) -> Nanos {
        let sum = self.shares.iter().map(|share| share.ns.0);
        Nanos(sum.fold(0, u64::saturating_add))
    }

    /// Returns the largest share, the culprit. If several are equally large, a known cause is
    /// preferred to an unknown one, and otherwise the first one is returned.
    pub fn largest(&self) -> Option<&Share> {
        self.shares.iter().rev().max_by_key(|share| {
            let known = share.kind() != ShareKind::Unexplained;
            (share.ns, known)
        })
    }
}

impl Share {
    /// Creates a share without words.
    pub const fn new(cause: Cause, ns: Nanos, count: u32) -> Self {
        Self {
            cause,
            ns,
            count,
            words: None,
        }
    }

    /// Returns the kind of cause.
    pub const fn kind(&self) -> ShareKind {
        self.cause.kind()
    }
}

/// A segment of a late reaction and its cause, used to draw the reaction. The segments of a window
/// follow each other without gaps from the expected to the actual time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Start, on CLOCK_MONOTONIC.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// End, on CLOCK_MONOTONIC.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// The CPU whose events determined the cause.
    pub cpu: u32,
    /// The cause.
    pub cause: Cause,
    /// The cause in words. Set only for output.
    #[serde(flatten, skip_deserializing)]
    pub words: Option<Box<CauseWords>>,
}

impl Segment {
    /// Returns the length.
    pub fn length(&self) -> Nanos {
        self.to - self.from
    }
}
