//! End-to-end chains in a trace: from an interrupt or a thread to a thread, through the threads that
//! wake each other.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Histogram, Nanos, Task};

/// The kind of a part of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChainPart {
    /// The handler of the interrupt, and softirqs right after it, ran.
    Interrupt,
    /// The wake-up was on its way to the CPU of the thread.
    WakeUp,
    /// The thread waited for a CPU.
    Waits,
    /// The thread ran.
    Runs,
    /// The thread slept in a call that is no wait for input.
    Sleeps,
}

impl std::fmt::Display for ChainPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "interrupt",
            Self::WakeUp => "wake-up",
            Self::Waits => "waits for a CPU",
            Self::Runs => "runs",
            Self::Sleeps => "sleeps",
        })
    }
}

/// A part of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainSpan {
    /// Name of the thread or interrupt.
    pub who: String,
    /// ID of the thread. Null for an interrupt.
    pub tid: Option<u32>,
    /// Its kind.
    pub part: ChainPart,
    /// The CPU at the end of the part.
    pub cpu: u32,
    /// When it began.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// When it ended.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// The thread that ran longest while this one waited for its CPU, and its run time in ns.
    pub behind: Option<(Task, Nanos)>,
}

impl ChainSpan {
    /// Returns the length of this part.
    pub fn length(&self) -> Nanos {
        self.to.saturating_sub(self.from)
    }
}

/// A chain from its beginning to its end. The parts cover this time without gaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// The parts in order of time.
    pub spans: Vec<ChainSpan>,
    /// When it began.
    #[serde(rename = "begin_ns")]
    pub begin: Nanos,
    /// When it ended.
    #[serde(rename = "end_ns")]
    pub end: Nanos,
}

impl Chain {
    /// Returns the latency from end to end.
    pub fn latency(&self) -> Nanos {
        self.end.saturating_sub(self.begin)
    }
}

/// The parts of all chains with the same thread and kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainEdge {
    /// Name of the thread or interrupt.
    pub who: String,
    /// Its kind.
    pub part: ChainPart,
    /// Number of chains with this edge.
    pub chains: u64,
    /// Total time in all chains.
    #[serde(rename = "total_ns")]
    pub total: Nanos,
    /// Longest time in one chain.
    #[serde(rename = "max_ns")]
    pub max: Nanos,
}

/// The chains of a trace, or of the running machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceChains {
    /// The trace file, or `live`.
    pub file: String,
    /// Format of the trace.
    pub format: String,
    /// The requested beginning of chains.
    pub from: String,
    /// The requested end of chains.
    pub to: String,
    /// Number of chains that began.
    pub begun: u64,
    /// Latencies of the chains that reached their end.
    pub latencies: Histogram,
    /// The edges of these chains, in the order of the first one.
    pub edges: Vec<ChainEdge>,
    /// The longest chains, the longest first.
    pub longest: Vec<Chain>,
    /// The threads after which chains ended early, the most frequent first.
    pub ended_in: Vec<(String, u64)>,
    /// Number of chains that were interrupted by missing events, or by the end of the trace.
    pub unknown: u64,
    /// Whether the trace has the interrupt or thread that begins chains.
    pub start_seen: bool,
    /// Whether the trace has the thread that ends chains.
    pub end_seen: bool,
    /// Names of the interrupts in the trace.
    pub interrupts: BTreeSet<String>,
    /// Times of the first and the last event.
    #[serde(rename = "span_ns")]
    pub span: Option<(Nanos, Nanos)>,
    /// Warnings about the trace.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_names_and_lengths() {
        let parts = [
            (ChainPart::Interrupt, "interrupt"),
            (ChainPart::WakeUp, "wake-up"),
            (ChainPart::Waits, "waits for a CPU"),
            (ChainPart::Runs, "runs"),
            (ChainPart::Sleeps, "sleeps"),
        ];
        let span = |part, from, to| ChainSpan {
            who: "a".to_owned(),
            tid: None,
            part,
            cpu: 1,
            from: Nanos(from),
            to: Nanos(to),
            behind: None,
        };
        for (part, name) in parts {
            assert_eq!(part.to_string(), name);
            assert_eq!(span(part, 10, 17).length(), Nanos(7));
            assert_eq!(span(part, 17, 10).length(), Nanos::ZERO);
        }
        let chain = Chain {
            spans: vec![span(ChainPart::Runs, 10, 17)],
            begin: Nanos(10),
            end: Nanos(17),
        };
        assert_eq!(chain.latency(), Nanos(7));
    }
}
