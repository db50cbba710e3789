//! All wake-ups of the machine: how long each woken thread waited for its CPU.
//!
//! Two sources give the same figures: BPF programs that count in the kernel,
//! and where these are not to be had, a trace instance of the scheduler's
//! events that is read and counted here. The first costs less: nothing leaves
//! the kernel but sums.

mod bpf;
mod counter;
mod events;
mod layout;
mod notes;
mod types;

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_model::{Nanos, Wakeups};

use crate::flight::Owner;
use crate::{TraceError, Tracefs};
use bpf::BpfWatch;
use events::EventWatch;

/// How many comms can have rows of their own.
const MOST_COMMS: usize = 512;

/// What is to be watched.
#[derive(Clone, Copy, Debug)]
pub struct WatchAsk {
    /// Rows by comm, beside those by class.
    pub by_comm: bool,
    /// Only threads of deadline and real-time classes.
    pub real_time_only: bool,
    /// The largest number that a thread can have (kernel.pid_max).
    pub pid_max: u32,
    /// How many of the longest waits are told.
    pub worst: usize,
}

/// A thread that was woken, and of which no event told that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitNote {
    /// Its number.
    pub tid: u32,
    /// When it was woken, on CLOCK_MONOTONIC.
    pub woken: Nanos,
    /// The thread in whose time that was; 0: an idle CPU's.
    pub waker: u32,
}

/// Waits that are open at a moment. A thread that was woken while it ran has a
/// note and does not wait: whether it runs, `running` and /proc tell.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// The moment, on CLOCK_MONOTONIC.
    pub at: Nanos,
    /// Who may wait.
    pub notes: Vec<WaitNote>,
    /// The thread that has each CPU; 0: none. CPUs that have not switched yet are
    /// given with 0 or left out.
    pub running: BTreeMap<u32, u32>,
}

/// Why wake-ups cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The kernel does not describe its own types.
    #[error("this kernel has no BTF in /sys/kernel/btf (CONFIG_DEBUG_INFO_BTF): {0}")]
    NoBtf(#[source] aya::BtfError),
    /// The programs were refused.
    #[error("the kernel refused the BPF programs (root, or CAP_BPF and CAP_PERFMON?): {0}")]
    Refused(String),
    /// What they counted could not be read.
    #[error("what the BPF programs counted could not be read: {0}")]
    Read(#[from] aya::maps::MapError),
    /// Nor can they be counted from events.
    #[error("wake-ups cannot be watched: {programs}; nor counted from trace events: {events}")]
    Neither {
        /// Why no programs count.
        programs: String,
        /// Why no events are read.
        #[source]
        events: TraceError,
    },
    /// The trace.
    #[error("wake-ups cannot be counted from trace events: {0}")]
    Events(#[from] TraceError),
}

/// Wake-ups are counted until this is dropped; nothing of it stays behind.
#[derive(Debug)]
pub struct WakeupWatch(Source);

#[derive(Debug)]
enum Source {
    Bpf(BpfWatch),
    Events(Box<EventWatch>),
}

impl WakeupWatch {
    /// How often [`keep_up`](Self::keep_up) is to be called, at least.
    pub const KEEP_UP: Duration = Duration::from_millis(100);

    /// Lets programs count in the kernel.
    ///
    /// # Errors
    /// A kernel without BTF, or one that refuses: rights, lockdown, age.
    pub fn by_programs(ask: WatchAsk) -> Result<Self, WatchError> {
        Ok(Self(Source::Bpf(BpfWatch::start(ask)?)))
    }

    /// Counts from events, which the kernel writes into an instance of this
    /// process (`owner`). `why` is why no programs count, for the reader.
    ///
    /// # Errors
    /// What the kernel refuses; then nothing is left behind.
    pub fn by_events(
        tracefs: &Tracefs,
        owner: Owner,
        ask: WatchAsk,
        why: String,
    ) -> Result<Self, TraceError> {
        let watch = EventWatch::start(tracefs, owner, ask, why)?;
        Ok(Self(Source::Events(Box::new(watch))))
    }

    /// Why no programs count; `None`: they do.
    pub fn why_not_programs(&self) -> Option<&str> {
        match &self.0 {
            Source::Bpf(_) => None,
            Source::Events(watch) => Some(watch.why()),
        }
    }

    /// Takes out what the kernel has written meanwhile, before it is
    /// overwritten. Where programs count there is nothing to do.
    ///
    /// # Errors
    /// A pipe that cannot be read.
    pub fn keep_up(&mut self) -> Result<(), WatchError> {
        match &mut self.0 {
            Source::Bpf(_) => Ok(()),
            Source::Events(watch) => Ok(watch.keep_up()?),
        }
    }

    /// What was counted until now.
    ///
    /// # Errors
    /// What could not be read.
    pub fn read(&mut self) -> Result<Wakeups, WatchError> {
        match &mut self.0 {
            Source::Bpf(watch) => watch.read(),
            Source::Events(watch) => {
                watch.keep_up()?;
                Ok(watch.seen())
            }
        }
    }

    /// The waits that are open now.
    ///
    /// # Errors
    /// What could not be read.
    pub fn waiting(&mut self) -> Result<Waiting, WatchError> {
        match &mut self.0 {
            Source::Bpf(watch) => watch.waiting(),
            Source::Events(watch) => {
                watch.keep_up()?;
                Ok(watch.waiting())
            }
        }
    }

    /// Ends it. Dropping it does the same, and says nothing.
    ///
    /// # Errors
    /// The trace instance cannot be removed; the next command tries again.
    pub fn stop(self) -> Result<(), WatchError> {
        match self.0 {
            Source::Bpf(_) => Ok(()),
            Source::Events(watch) => Ok(watch.stop()?),
        }
    }
}

#[cfg(test)]
mod tests;
