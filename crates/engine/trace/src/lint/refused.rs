//! Records failed system calls.

use punctual_model::TraceEvent;

use crate::flight::{Owner, Stream, Streamed};
use crate::{TraceError, Tracefs};

const EVENT: &str = "sys_exit";

/// Records failures of some system calls, in all threads of the machine, until this is dropped.
#[derive(Debug)]
pub struct FailedCalls {
    stream: Stream,
    filter: String,
}

impl FailedCalls {
    /// Prepares the record for the system calls with these numbers. The trace instance belongs to this
    /// process (`owner`). Nothing is recorded until [`record`](Self::record) is called.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a step. In that case, nothing is left behind.
    pub fn new(tracefs: &Tracefs, owner: Owner, calls: &[i64]) -> Result<Self, TraceError> {
        let each = calls.iter().map(|id| format!("id == {id}"));
        let each = each.collect::<Vec<_>>().join(" || ");
        let filter = format!("ret < 0 && ({each})");
        let stream = Stream::watch(tracefs, owner, &[(EVENT, Some(&filter))])?;
        stream.off(EVENT)?;
        Ok(Self { stream, filter })
    }

    /// Starts or stops recording. Meanwhile, every system call on the machine is slower.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the filter or the event.
    pub fn record(&self, on: bool) -> Result<(), TraceError> {
        if on {
            self.stream.on(EVENT, Some(&self.filter))
        } else {
            self.stream.off(EVENT)
        }
    }

    /// Returns the failures since the last call.
    ///
    /// # Errors
    /// Returns an error if the data could not be read.
    pub fn read(&mut self) -> Result<Vec<TraceEvent>, TraceError> {
        let event = |item| match item {
            Streamed::Event(event) => Some(event),
            Streamed::Gap { .. } => None,
        };
        Ok(self.stream.read()?.into_iter().filter_map(event).collect())
    }

    /// Ends the record. Dropping it does the same, but ignores errors.
    ///
    /// # Errors
    /// Returns an error if the trace instance cannot be removed. The next command tries again.
    pub fn stop(self) -> Result<(), TraceError> {
        self.stream.stop()
    }
}
