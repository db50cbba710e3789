//! Finds acts of real-time threads that can cause latency, grouped by call site.
//!
//! There are two sources. BPF programs count in the kernel and record stacks. If they are not
//! available, a trace instance with filters for the watched threads is used, which provides no
//! stacks.

mod bpf;
mod calls;
mod events;
mod layout;
mod refused;

use punctual_model::{ActKind, Acts, LintSource, Nanos};

use crate::flight::Owner;
use crate::{TraceError, Tracefs, WatchError};
use bpf::BpfLint;
use events::EventLint;

pub use refused::FailedCalls;

/// A process or thread to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LintTarget {
    /// All threads of a process, including those that are created later.
    Process(u32),
    /// One thread.
    Thread(u32),
}

impl LintTarget {
    /// Returns the key in the map `targets`.
    fn key(self) -> u64 {
        match self {
            Self::Process(pid) => u64::from(pid) << 32,
            Self::Thread(tid) => u64::from(tid),
        }
    }
}

/// The settings of a watch.
#[derive(Clone, Debug)]
pub struct LintAsk {
    /// The processes and threads to watch.
    pub targets: Vec<LintTarget>,
    /// Number of waits of a thread after which its acts are counted.
    pub first_sleeps: u32,
    /// Time after which the acts of a thread are counted even if it has waited fewer times.
    pub first: Nanos,
}

/// Counts acts until this is dropped.
#[derive(Debug)]
pub struct LintWatch(Source);

#[derive(Debug)]
enum Source {
    Bpf(Box<BpfLint>),
    Events(Box<EventLint>),
}

impl LintWatch {
    /// Starts counting with BPF programs in the kernel.
    ///
    /// # Errors
    /// Returns an error if the kernel has no BTF, or rejects the programs (because of missing
    /// privileges, lockdown or its version).
    pub fn by_programs(ask: &LintAsk) -> Result<Self, WatchError> {
        let lint = BpfLint::start(ask)?;
        Ok(Self(Source::Bpf(Box::new(lint))))
    }

    /// Starts counting acts using events, which the kernel writes into a trace instance owned by
    /// this process (`owner`). No thread is watched until [`threads`](Self::threads) is called.
    /// `why` is the reason why BPF programs are not used.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a step. In that case, nothing is left behind.
    pub fn by_events(
        tracefs: &Tracefs,
        owner: Owner,
        ask: &LintAsk,
        why: &str,
    ) -> Result<Self, TraceError> {
        let lint = EventLint::start(tracefs, owner, ask.first, why)?;
        Ok(Self(Source::Events(Box::new(lint))))
    }

    /// Returns the source that the acts come from.
    pub const fn source(&self) -> LintSource {
        match self.0 {
            Source::Bpf(_) => LintSource::Bpf,
            Source::Events(_) => LintSource::Events,
        }
    }

    /// Starts tracing system calls. This slows down every system call on the machine.
    pub fn trace_calls(&mut self) {
        match &mut self.0 {
            Source::Bpf(lint) => lint.trace_calls(),
            Source::Events(lint) => lint.trace_calls(true),
        }
    }

    /// Stops tracing system calls.
    pub fn stop_calls(&mut self) {
        match &mut self.0 {
            Source::Bpf(lint) => lint.stop_calls(),
            Source::Events(lint) => lint.trace_calls(false),
        }
    }

    /// Adds and removes targets.
    ///
    /// # Errors
    /// Returns an error if a table of the programs is full.
    pub fn watch(
        &mut self,
        targets: &[LintTarget],
        no_longer: &[LintTarget],
    ) -> Result<(), WatchError> {
        match &mut self.0 {
            Source::Bpf(lint) => lint.watch(targets, no_longer),
            Source::Events(_) => Ok(()),
        }
    }

    /// Sets the real-time threads of the targets, with their names, for the event filters. BPF
    /// programs find the threads on their own.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a filter.
    pub fn threads(&mut self, threads: &[(u32, String)]) -> Result<(), WatchError> {
        match &mut self.0 {
            Source::Bpf(_) => Ok(()),
            Source::Events(lint) => Ok(lint.threads(threads)?),
        }
    }

    /// Returns the acts that cannot be seen, each with the reason.
    pub fn unseen(&self) -> Vec<(ActKind, String)> {
        match &self.0 {
            Source::Bpf(lint) => lint.unseen(),
            Source::Events(lint) => lint.unseen(),
        }
    }

    /// Returns the acts that have been counted so far.
    ///
    /// # Errors
    /// Returns an error if the data could not be read.
    pub fn read(&mut self) -> Result<Acts, WatchError> {
        match &mut self.0 {
            Source::Bpf(lint) => lint.read(),
            Source::Events(lint) => Ok(lint.read()?),
        }
    }

    /// Ends the watch. Dropping it does the same, but ignores errors.
    ///
    /// # Errors
    /// Returns an error if the trace instance cannot be removed. The next command tries again.
    pub fn stop(self) -> Result<(), WatchError> {
        match self.0 {
            Source::Bpf(_) => Ok(()),
            Source::Events(lint) => Ok(lint.stop()?),
        }
    }
}

#[cfg(test)]
mod tests;
