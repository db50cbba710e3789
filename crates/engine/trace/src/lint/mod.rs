//! What real-time threads of some processes do that costs latency, by call site.
//!
//! Two sources: BPF programs that count in the kernel, with stacks; or, if they are not
//! available, a trace instance with filters for the watched threads, without stacks.

mod bpf;
mod calls;
mod events;
mod layout;

use punctual_model::{ActKind, Acts, LintSource, Nanos};

use crate::flight::Owner;
use crate::{TraceError, Tracefs, WatchError};
use bpf::BpfLint;
use events::EventLint;

/// Who is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LintTarget {
    /// All threads of a process, also later ones.
    Process(u32),
    /// One thread.
    Thread(u32),
}

impl LintTarget {
    /// The key in the map `targets`.
    fn key(self) -> u64 {
        match self {
            Self::Process(pid) => u64::from(pid) << 32,
            Self::Thread(tid) => u64::from(tid),
        }
    }
}

/// What to watch.
#[derive(Clone, Debug)]
pub struct LintAsk {
    /// Who.
    pub targets: Vec<LintTarget>,
    /// Number of waits of each thread before it is judged.
    pub first_sleeps: u32,
    /// Time after which a thread is judged, however few waits it had.
    pub first: Nanos,
}

/// Counts acts until it is dropped.
#[derive(Debug)]
pub struct LintWatch(Source);

#[derive(Debug)]
enum Source {
    Bpf(Box<BpfLint>),
    Events(Box<EventLint>),
}

impl LintWatch {
    /// Starts counting by programs in the kernel.
    ///
    /// # Errors
    /// A kernel without BTF, or one that refuses: rights, lockdown, age.
    pub fn by_programs(ask: &LintAsk) -> Result<Self, WatchError> {
        let lint = BpfLint::start(ask)?;
        Ok(Self(Source::Bpf(Box::new(lint))))
    }

    /// Starts counting from events, which the kernel writes into an instance of this
    /// process (`owner`); see [`threads`](Self::threads). `why`: the reason why no
    /// programs count.
    ///
    /// # Errors
    /// The kernel refuses a step; then nothing is left behind.
    pub fn by_events(
        tracefs: &Tracefs,
        owner: Owner,
        ask: &LintAsk,
        why: &str,
    ) -> Result<Self, TraceError> {
        let lint = EventLint::start(tracefs, owner, ask.first, why)?;
        Ok(Self(Source::Events(Box::new(lint))))
    }

    /// How acts are collected.
    pub const fn source(&self) -> LintSource {
        match self.0 {
            Source::Bpf(_) => LintSource::Bpf,
            Source::Events(_) => LintSource::Events,
        }
    }

    /// Begins to trace system calls: from here on each system call of the machine takes
    /// longer.
    pub fn trace_calls(&mut self) {
        match &mut self.0 {
            Source::Bpf(lint) => lint.trace_calls(),
            Source::Events(lint) => lint.trace_calls(true),
        }
    }

    /// Ends tracing of system calls.
    pub fn stop_calls(&mut self) {
        match &mut self.0 {
            Source::Bpf(lint) => lint.stop_calls(),
            Source::Events(lint) => lint.trace_calls(false),
        }
    }

    /// Watches more targets, and some no longer.
    ///
    /// # Errors
    /// A table of the programs is full.
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

    /// The real-time threads of the targets, with their names: events are filtered by
    /// them. Programs find them themselves.
    ///
    /// # Errors
    /// The kernel refuses a filter.
    pub fn threads(&mut self, threads: &[(u32, String)]) -> Result<(), WatchError> {
        match &mut self.0 {
            Source::Bpf(_) => Ok(()),
            Source::Events(lint) => Ok(lint.threads(threads)?),
        }
    }

    /// Acts that are not seen, with the reason.
    pub fn unseen(&self) -> Vec<(ActKind, String)> {
        match &self.0 {
            Source::Bpf(lint) => lint.unseen(),
            Source::Events(lint) => lint.unseen(),
        }
    }

    /// The acts so far.
    ///
    /// # Errors
    /// Data could not be read.
    pub fn read(&mut self) -> Result<Acts, WatchError> {
        match &mut self.0 {
            Source::Bpf(lint) => lint.read(),
            Source::Events(lint) => Ok(lint.read()?),
        }
    }

    /// Ends it. A drop does the same, without errors.
    ///
    /// # Errors
    /// The trace instance cannot be removed; the next command tries again.
    pub fn stop(self) -> Result<(), WatchError> {
        match self.0 {
            Source::Bpf(_) => Ok(()),
            Source::Events(lint) => Ok(lint.stop()?),
        }
    }
}

#[cfg(test)]
mod tests;
