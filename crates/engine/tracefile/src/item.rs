//! The contents of a trace, independent of the tool that recorded it.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{EventNames, Nanos, TraceEvent};

use crate::TraceFileError;

/// One item of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event. Its time is on the clock of the trace, whose zero is arbitrary.
    Event(TraceEvent),
    /// Text that a program wrote into the trace (`trace_marker`), such as cyclictest's
    /// `hit latency threshold (120 > 100)`.
    Mark(Annotation),
    /// Events of a CPU were lost. The events of this CPU before `until` are incomplete.
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
    /// Time at which the text was written, on the clock of the trace.
    pub time: Nanos,
    /// The CPU on which the text was written.
    pub cpu: u32,
    /// ID of the thread that wrote the text.
    pub pid: u32,
    /// The text, without a line feed at its end.
    pub text: String,
}

/// Information about a trace besides its items. It is complete only after the last item has been
/// read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceHead {
    /// Description of the format for a message, such as `text of perf script`.
    pub format: String,
    /// The kernel's name of the clock of the trace (`local`, `global`, `mono`, `x86-tsc`). `None`
    /// if the file does not name it.
    pub clock: Option<String>,
    /// Whether the clocks of different CPUs may differ, as with `local`. `None` if the clock is
    /// unknown.
    pub clocks_differ: Option<bool>,
    /// Resolution of the times: 1 ns, or 1 us for most text traces.
    pub resolution: Nanos,
    /// Release of the kernel that recorded the trace, if the file states it.
    pub kernel: Option<String>,
    /// Number of CPUs, if the file states it.
    pub cpus: Option<u32>,
    /// Names ([`punctual_model::event_names`]) of the recorded events. If the file has no list of
    /// events, these are the events that have occurred so far.
    pub recorded: BTreeSet<String>,
    /// Whether the file lists its events. A listed event that does not occur in the trace may still
    /// have happened, because a filter or the choice of a process can limit the recording.
    pub lists_events: bool,
    /// Function names of the kernel addresses in the events, if known.
    pub symbols: BTreeMap<u64, String>,
    /// Warnings about data that could not be read: one sentence each, with the offset or the line.
    pub warnings: Vec<String>,
}

/// The numbers of system calls depend on the architecture of the traced machine, which is unknown.
/// Calls are therefore shown by number.
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
    /// Returns the next item, or `None` at the end. Events are in ascending order of time. If a
    /// text contains several traces, times can go back between two of them: an [`Item::Lost`] for
    /// each CPU precedes that.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read, or if it is damaged so that the rest cannot be
    /// interpreted. Other damage is skipped, with a warning in the head.
    fn next_item(&mut self) -> Result<Option<Item>, TraceFileError>;

    /// Returns the information that has been read so far.
    fn head(&self) -> &TraceHead;
}
