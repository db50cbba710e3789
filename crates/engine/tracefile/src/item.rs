//! The contents of a trace, independent of the tool that recorded it.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{Comm, EventNames, FunctionRun, Nanos, Task, TraceEvent, TracerStatement};

use crate::listed::is_policy_call;
use crate::{TraceFileError, TraceSession};

/// One item of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event. Its time is on the clock of the trace, which has an arbitrary zero point.
    Event(TraceEvent),
    /// Text that a program wrote into the trace (through `trace_marker`), such as cyclictest's `hit
    /// latency threshold (120 > 100)`.
    Mark(Annotation),
    /// A latency that a tracer states as a whole. It follows the events of this latency.
    Statement {
        /// Time of its place among the items.
        time: Nanos,
        /// The statement.
        statement: Box<TracerStatement>,
    },
    /// A long run of a kernel function ([`FunctionRun::LEAST`]), as the tracer function_graph states
    /// it.
    Function {
        /// Time of its place among the items: that of the return or, for a function that calls no
        /// other, that of the call.
        time: Nanos,
        /// The run.
        run: FunctionRun,
    },
    /// The run time of a thread since the last such item, which the event `sched:sched_stat_runtime`
    /// states.
    RunTime {
        /// Time of the event.
        time: Nanos,
        /// The CPU that wrote it.
        cpu: u32,
        /// The thread; its priority is unknown.
        thread: Task,
        /// The run time.
        ran: Nanos,
    },
    /// Events of a CPU were lost, so the events of this CPU before `until` are incomplete.
    Lost {
        /// The CPU.
        cpu: u32,
        /// Number of lost events, if the trace contains it.
        count: Option<u64>,
        /// Time of the first event after the gap.
        until: Nanos,
    },
}

impl Item {
    /// Returns the time of the item, on the clock of the trace.
    pub const fn time(&self) -> Nanos {
        match self {
            Self::Event(event) => event.time,
            Self::Mark(mark) => mark.time,
            Self::Lost { until, .. } => *until,
            Self::Statement { time, .. }
            | Self::Function { time, .. }
            | Self::RunTime { time, .. } => *time,
        }
    }
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
    /// Name of this thread; empty if the trace does not name it here.
    pub comm: Comm,
    /// The text, without any line feed at its end.
    pub text: String,
}

/// Beginning of the text for a summary of the tracer osnoise.
pub(crate) const NOISE_OF: &str = "osnoise: noise of";

impl Annotation {
    /// Returns whether this is the summary of a period of the tracer osnoise.
    pub fn is_summary_of_osnoise(&self) -> bool {
        self.text.starts_with(NOISE_OF)
    }
}

/// Information about a trace in addition to its items. It is complete only after the last item has
/// been read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceHead {
    /// Description of the format for use in messages, such as `text of perf script`.
    pub format: String,
    /// The kernel's name for the clock of the trace (`local`, `global`, `mono`, `x86-tsc`). `None`
    /// if the file does not name the clock.
    pub clock: Option<String>,
    /// Whether the clocks of different CPUs may differ, as with `local`. `None` if the clock is
    /// unknown.
    pub clocks_differ: Option<bool>,
    /// Resolution of the times: 1 ns, or 1 us for most text traces.
    pub resolution: Nanos,
    /// Release of the kernel that recorded the trace, if it is in the file.
    pub kernel: Option<String>,
    /// The kernel's name for the architecture of the traced machine (`x86_64`), if it is in the file.
    pub machine: Option<String>,
    /// Number of CPUs, if it is in the file.
    pub cpus: Option<u32>,
    /// Names ([`punctual_model::event_names`]) of the recorded events. If the file does not list
    /// its events, these are the events that have occurred so far.
    pub recorded: BTreeSet<String>,
    /// Whether the file lists the events that were recorded. A listed event that does not occur in
    /// the trace may still have happened on the machine, because the recording may have been
    /// limited by a filter or to a process.
    pub lists_events: bool,
    /// Function names of the kernel addresses in the events, if known.
    pub symbols: BTreeMap<u64, String>,
    /// Names of system calls, by number, if the file states them.
    pub calls: BTreeMap<i64, String>,
    /// Times and CPUs of events of threads whose ID was already free. Only a perf.data states it.
    pub exited: BTreeSet<(Nanos, u32)>,
    /// The recording session that the trace belongs to. Only a `trace.dat` states it.
    pub session: TraceSession,
    /// Warnings about data that could not be read: one sentence for each, with the offset or the
    /// line number.
    pub warnings: Vec<String>,
}

/// [`TraceHead::format`] of a trace of Perfetto.
pub(crate) const PERFETTO: &str = "Perfetto trace";

impl TraceHead {
    /// Returns whether this is a trace of Perfetto on CLOCK_BOOTTIME, so that slices can be
    /// appended.
    pub fn takes_slices(&self) -> bool {
        self.format == PERFETTO && self.clock.as_deref() == Some("boot")
    }

    /// Returns whether the events of the system `syscalls` show this call. `raw_syscalls` shows the same
    /// calls by number, except that the results of policy calls are always read by name.
    pub fn shows_by_name(&self, call: &str) -> bool {
        is_policy_call(call)
            || !["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"]
                .iter()
                .any(|event| self.recorded.contains(*event))
    }

    /// Returns a number for a system call of this name. It is negative, so it differs from the
    /// numbers of the kernel.
    pub(crate) fn number_of(&mut self, call: &str) -> i64 {
        let known = self.calls.iter().find(|(_, name)| *name == call);
        known.map(|(id, _)| *id).unwrap_or_else(|| {
            let id = -1 - self.calls.len() as i64;
            self.calls.insert(id, call.to_owned());
            id
        })
    }
}

/// The meaning of a system call number depends on the architecture of the traced machine. System calls are therefore shown by number, unless the file names them.
impl EventNames for TraceHead {
    fn call(&self, id: i64) -> String {
        (self.calls.get(&id).cloned()).unwrap_or_else(|| format!("system call {id}"))
    }

    fn symbol(&self, address: u64) -> String {
        (self.symbols.get(&address).cloned()).unwrap_or_else(|| format!("{address:#x}"))
    }
}

/// A trace that is read from beginning to end, in bounded memory.
pub trait TraceReader {
    /// Returns the next item, or `None` at the end. Events are in ascending order of time. If a
    /// text contains several traces, times can go backwards between two of them. In that case, an
    /// [`Item::Lost`] for each CPU precedes the next trace.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read, or if it is so damaged that the rest cannot be
    /// interpreted. Other damage is skipped, with a warning in the head.
    fn next_item(&mut self) -> Result<Option<Item>, TraceFileError>;

    /// Returns the information that has been read so far.
    fn head(&self) -> &TraceHead;
}
