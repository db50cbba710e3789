//! What a trace contains, whichever tool recorded it.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{EventNames, Nanos, TraceEvent};

use crate::TraceFileError;

/// One item of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event. Its time is on the clock of the trace, which starts anywhere.
    Event(TraceEvent),
    /// Text that a program wrote into the trace (`trace_marker`), such as cyclictest's
    /// `hit latency threshold (120 > 100)`.
    Mark(Annotation),
    /// Events of a CPU were lost. Those before `until` are incomplete.
    Lost {
        /// The CPU.
        cpu: u32,
        /// Number of lost events, if the trace states it.
        count: Option<u64>,
        /// Time of the first event after the gap.
        until: Nanos,
    },
}

/// Text in the trace, written by a program or a tracer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// When it was written, on the clock of the trace.
    pub time: Nanos,
    /// The CPU on which it was written.
    pub cpu: u32,
    /// The thread that wrote it.
    pub pid: u32,
    /// The text, without the end of the line.
    pub text: String,
}

/// What is known about a trace besides its events. Complete only after the last item was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceHead {
    /// What the file is, for people: `text of perf script`.
    pub format: String,
    /// The clock of the trace, as the kernel names it (`local`, `global`, `mono`, `x86-tsc`).
    /// `None` if the file does not say.
    pub clock: Option<String>,
    /// Whether the clocks of different CPUs may differ, as `local` ones do. `None` if the clock is
    /// unknown.
    pub clocks_differ: Option<bool>,
    /// The resolution of times: 1 ns, or 1 us for most text.
    pub resolution: Nanos,
    /// The kernel that recorded the trace, if the file says so.
    pub kernel: Option<String>,
    /// The number of CPUs, if the file says so.
    pub cpus: Option<u32>,
    /// Names ([`punctual_model::event_names`]) of the events that were recorded: those that the
    /// file lists, or those that occurred if it has no list.
    pub recorded: BTreeSet<String>,
    /// Whether the file lists its events. A listed event that does not occur can still have
    /// happened: the recording may be limited to a process or by a filter.
    pub lists_events: bool,
    /// Names of the kernel addresses in the events, if known.
    pub symbols: BTreeMap<u64, String>,
    /// What could not be read, a sentence each, with the offset or the line.
    pub warnings: Vec<String>,
}

/// Calls have the numbers of the traced machine, which are unknown.
impl EventNames for TraceHead {
    fn call(&self, id: i64) -> String {
        format!("system call {id}")
    }

    fn symbol(&self, address: u64) -> String {
        (self.symbols.get(&address).cloned()).unwrap_or_else(|| format!("{address:#x}"))
    }
}

/// A trace that is read from beginning to end, in bounded memory.
pub trait TraceReader {
    /// Returns the next item, or `None` at the end. Events are in ascending order of time. If a text
    /// contains several traces, all CPUs are [`Item::Lost`] before times go back.
    ///
    /// # Errors
    /// If the input cannot be read or is damaged so that nothing after it can be understood. What
    /// can be skipped is skipped with a warning in the head.
    fn next_item(&mut self) -> Result<Option<Item>, TraceFileError>;

    /// Returns what is known about the trace so far.
    fn head(&self) -> &TraceHead;
}
