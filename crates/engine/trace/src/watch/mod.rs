//! Watches all wake-ups of the machine: measures how long each woken thread waited for its CPU.
//!
//! There are two sources, which give the same figures. BPF programs count in the kernel. If they
//! are not available, a trace instance records the scheduler's events, which are read and counted
//! here. BPF programs cost less, because only sums leave the kernel.

mod bpf;
mod counter;
mod events;
mod layout;
mod notes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_model::{Nanos, Wakeups};

use crate::flight::Owner;
use crate::{TraceError, Tracefs, WatchError};
use bpf::BpfWatch;
#[cfg(test)]
pub(crate) use bpf::OBJECT;
use events::EventWatch;

/// Maximum number of comms with separate rows.
const MOST_COMMS: usize = 512;

/// The settings of a watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchAsk {
    /// Whether to count by comm, in addition to the class.
    pub by_comm: bool,
    /// Whether to count only threads of the deadline and real-time classes.
    pub real_time_only: bool,
    /// The largest thread ID (kernel.pid_max).
    pub pid_max: u32,
    /// Number of longest waits to keep.
    pub longest: usize,
    /// Use of control groups; `None` to ignore them.
    pub groups: Option<GroupAsk>,
}

/// Use of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAsk {
    /// The hierarchy to use.
    pub of: GroupsOf,
    /// Whether to count by group.
    pub rows: bool,
    /// Whether to count only threads in the groups of [`WakeupWatch::count_only`].
    pub only: bool,
}

/// The hierarchy of control groups to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupsOf {
    /// The single hierarchy of control groups version 2.
    Unified,
    /// The hierarchy of the controller `cpu`, of control groups version 1.
    Scheduler,
}

/// Finds the number of the control group of a thread: the inode of the group's folder. `None` if
/// unknown, for example because the thread has ended.
pub type GroupFinder = Box<dyn FnMut(u32) -> Option<u64> + Send>;

/// A woken thread that has not been seen running since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitNote {
    /// ID of the woken thread.
    pub tid: u32,
    /// Time of the wake-up, on CLOCK_MONOTONIC.
    pub woken: Nanos,
    /// ID of the thread that was running at that time; 0 for an idle CPU.
    pub waker: u32,
}

/// The waits that are open at one time. A thread that was woken while it ran has a note, but does
/// not wait: `running` and /proc show whether it runs.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// The time, on CLOCK_MONOTONIC.
    pub at: Nanos,
    /// The threads that may wait.
    pub notes: Vec<WaitNote>,
    /// ID of the running thread of each CPU; 0 for none. CPUs without a context switch so far have
    /// 0 or are omitted.
    pub running: BTreeMap<u32, u32>,
}

/// Counts wake-ups until it is dropped.
#[derive(Debug)]
pub struct WakeupWatch(Source);

#[derive(Debug)]
enum Source {
    Bpf(Box<BpfWatch>),
    Events(Box<EventWatch>),
}

impl WakeupWatch {
    /// Longest interval between calls of [`keep_up`](Self::keep_up).
    pub const KEEP_UP: Duration = Duration::from_millis(100);

    /// Starts counting with BPF programs in the kernel.
    ///
    /// # Errors
    /// Returns an error if the kernel has no BTF, or rejects the programs (privileges, lockdown,
    /// version).
    pub fn by_programs(ask: WatchAsk) -> Result<Self, WatchError> {
        Ok(Self(Source::Bpf(Box::new(BpfWatch::start(ask)?))))
    }

    /// Starts counting from events, which the kernel writes into an instance of this process
    /// (`owner`). `why` is the reason why BPF programs are not used. `groups` finds the control
    /// group of a thread, if groups are used.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a step. Nothing is left behind then.
    pub fn by_events(
        tracefs: &Tracefs,
        owner: Owner,
        ask: WatchAsk,
        why: String,
        groups: Option<GroupFinder>,
    ) -> Result<Self, TraceError> {
        let watch = EventWatch::start(tracefs, owner, ask, why, groups)?;
        Ok(Self(Source::Events(Box::new(watch))))
    }

    /// Returns the reason why BPF programs are not used; `None` if they are used.
    pub fn why_not_programs(&self) -> Option<&str> {
        match &self.0 {
            Source::Bpf(_) => None,
            Source::Events(watch) => Some(watch.why()),
        }
    }

    /// Reads the new events of the kernel before they are overwritten. Does nothing if BPF programs
    /// count.
    ///
    /// # Errors
    /// Returns an error if a pipe cannot be read.
    pub fn keep_up(&mut self) -> Result<(), WatchError> {
        match &mut self.0 {
            Source::Bpf(_) => Ok(()),
            Source::Events(watch) => Ok(watch.keep_up()?),
        }
    }

    /// Replaces the control groups whose threads are counted, by the inodes of their
    /// folders.
    ///
    /// # Errors
    /// Returns an error if a map cannot be changed.
    pub fn count_only(&mut self, ids: &BTreeSet<u64>) -> Result<(), WatchError> {
        match &mut self.0 {
            Source::Bpf(watch) => watch.count_only(ids),
            Source::Events(watch) => {
                watch.count_only(ids);
                Ok(())
            }
        }
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// Returns an error if the data could not be read.
    pub fn read(&mut self) -> Result<Wakeups, WatchError> {
        match &mut self.0 {
            Source::Bpf(watch) => watch.read(),
            Source::Events(watch) => {
                watch.keep_up()?;
                Ok(watch.seen())
            }
        }
    }

    /// Returns the waits that are open now.
    ///
    /// # Errors
    /// Returns an error if the data could not be read.
    pub fn waiting(&mut self) -> Result<Waiting, WatchError> {
        match &mut self.0 {
            Source::Bpf(watch) => watch.waiting(),
            Source::Events(watch) => {
                watch.keep_up()?;
                Ok(watch.waiting())
            }
        }
    }

    /// Ends the watch. Dropping it does the same, but ignores errors.
    ///
    /// # Errors
    /// Returns an error if the trace instance cannot be removed. The next command tries again.
    pub fn stop(self) -> Result<(), WatchError> {
        match self.0 {
            Source::Bpf(_) => Ok(()),
            Source::Events(watch) => Ok(watch.stop()?),
        }
    }
}

#[cfg(test)]
mod tests;
