//! The events that show chains of threads that wake each other, as they happen.

use std::collections::BTreeSet;

use punctual_model::{EVENTS, Nanos};

use crate::clock::monotonic;
use crate::flight::{Ordered, Owner, Stream, Streamed};
use crate::{TraceError, Tracefs};

/// Events that every chain needs.
const NEEDED: [&str; 2] = ["sched_switch", "sched_waking"];

/// Further events. A kernel may lack some of them.
const FURTHER: [&str; 8] = [
    "sched_wakeup",
    "sched_process_exit",
    "irq_handler_entry",
    "irq_handler_exit",
    "*_entry",
    "*_exit",
    "softirq_entry",
    "softirq_exit",
];

const CALLS: [&str; 2] = ["sys_enter", "sys_exit"];

/// Records events in a separate trace instance until it is dropped.
#[derive(Debug)]
pub struct ChainEvents {
    stream: Stream,
    ordered: Ordered<Streamed>,
    began: Nanos,
    recorded: BTreeSet<&'static str>,
}

impl ChainEvents {
    /// Begins to record. Only the system calls with these numbers are recorded.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have the events or rejects a step. In that case,
    /// nothing is left behind.
    pub fn start(
        tracefs: &Tracefs,
        owner: Owner,
        calls: &BTreeSet<i64>,
    ) -> Result<Self, TraceError> {
        let filter: Vec<String> = calls.iter().map(|id| format!("id == {id}")).collect();
        let filter = filter.join(" || ");
        let further = FURTHER.map(|name| (name, None));
        let calls = CALLS.map(|name| (name, Some(filter.as_str())));
        let calls = calls.into_iter().filter(|_| !filter.is_empty());
        let further = further.into_iter().chain(calls);
        let further = further.filter(|(name, _)| Stream::has(tracefs, name));
        let wanted: Vec<_> = NEEDED
            .map(|name| (name, None))
            .into_iter()
            .chain(further)
            .collect();
        let stream = Stream::watch(tracefs, owner, &wanted)?;
        let is_wanted = |name| wanted.iter().any(|(wanted, _)| *wanted == name);
        let recorded = EVENTS.iter().filter(|spec| is_wanted(spec.name));
        Ok(Self {
            recorded: recorded.map(|spec| spec.full_name).collect(),
            stream,
            ordered: Ordered::default(),
            // Before, some of the events were not enabled yet.
            began: monotonic(),
        })
    }

    /// Returns the full names of the recorded events.
    pub const fn recorded(&self) -> &BTreeSet<&'static str> {
        &self.recorded
    }

    /// Returns the items since the last call, in order of time. Call it about ten times a second, so
    /// that none are lost.
    ///
    /// # Errors
    /// Returns an error if a pipe cannot be read.
    pub fn read(&mut self) -> Result<Vec<Streamed>, TraceError> {
        let now = monotonic();
        let read = self.stream.read()?;
        let mut old = self.ordered.add(read, now, |item| (item.time(), ()));
        old.retain(|item| match item {
            Streamed::Event(event) => event.time >= self.began,
            Streamed::Gap { to, .. } => *to >= self.began,
        });
        Ok(old)
    }

    /// Returns a warning if another program has stopped or reset the recording.
    pub fn reset_by_others(&self) -> Option<String> {
        self.stream.reset_by_others()
    }

    /// Ends the recording. Dropping it does the same, but ignores errors.
    ///
    /// # Errors
    /// Returns an error if the trace instance cannot be removed. The next command tries again.
    pub fn stop(self) -> Result<(), TraceError> {
        self.stream.stop()
    }
}
