//! Calls of the targets for a policy or for locked memory that the kernel refused.

use std::collections::BTreeMap;

use punctual_culprit::RefusedCalls;
use punctual_host::{Host, system_call_name, system_call_numbers};
use punctual_model::TaskRecord;
use punctual_model::cause::RefusedCall;
use punctual_trace::{FailedCalls, TraceError, Tracefs};

/// Follows the calls while system calls are traced.
#[derive(Debug, Default)]
pub(super) struct RefusedInLint {
    stream: Option<FailedCalls>,
    calls: RefusedCalls,
    /// The names of all threads of the targets.
    names: BTreeMap<u32, String>,
    /// Reason why nothing is recorded.
    pub(super) unknown: Option<String>,
}

impl RefusedInLint {
    pub(super) fn note(&mut self, tasks: &[TaskRecord]) {
        let names = tasks.iter().map(|task| (task.tid, task.comm.clone()));
        self.names.extend(names);
    }

    /// Prepares the record, which takes time.
    pub(super) fn new(host: &Host) -> Self {
        let numbers = RefusedCalls::CALLS
            .into_iter()
            .flat_map(system_call_numbers);
        let numbers: Vec<i64> = numbers.collect();
        let stream = Tracefs::find(host.root())
            .and_then(|tracefs| FailedCalls::new(&tracefs, host.own_process(), &numbers));
        let mut calls = Self::default();
        match stream {
            Ok(stream) => calls.stream = Some(stream),
            Err(error) => calls.unknown = Some(error.to_string()),
        }
        calls
    }

    pub(super) fn record(&mut self, on: bool) {
        let switched = self
            .stream
            .as_ref()
            .map_or(Ok(()), |stream| stream.record(on));
        if let Err(error) = switched {
            self.unknown = Some(error.to_string());
        }
    }

    pub(super) fn read(&mut self) {
        let events = self
            .stream
            .as_mut()
            .map_or(Ok(Vec::new()), FailedCalls::read);
        match events {
            Ok(events) => events.iter().for_each(|event| self.calls.event(event)),
            Err(error) => {
                self.unknown = Some(error.to_string());
                self.stream = None;
            }
        }
    }

    pub(super) fn stop(&mut self) -> Result<(), TraceError> {
        self.read();
        self.stream.take().map_or(Ok(()), FailedCalls::stop)
    }

    /// Returns the refused calls of the targets.
    pub(super) fn finish(&self) -> Vec<RefusedCall> {
        let name = |id| system_call_name(id).map(str::to_owned);
        let thread = |tid: u32| (self.names.get(&tid)).map(|comm| format!("{comm}-{tid}"));
        self.calls.named(name, thread)
    }
}
