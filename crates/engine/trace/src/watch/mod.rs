//! Watches all wake-ups on the machine, and measures how long each woken thread waited for its CPU.
//!
//! There are two sources, which provide the same figures. BPF programs count in the kernel. If they
//! are not available, a trace instance records the scheduler's events, which are read and counted
//! in this process. BPF programs cost less, because only sums leave the kernel.

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

/// Maximum number of comms that have separate rows.
const MOST_COMMS: usize = 512;

/// The settings of a watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchAsk {
    /// Whether to count by comm in addition to counting by class.
    pub by_comm: bool,
    /// Whether to count only threads of the deadline and real-time classes.
    pub real_time_only: bool,
    /// The largest thread ID (kernel.pid_max).
    pub pid_max: u32,
    /// How many of the longest waits to keep.
    pub longest: usize,
    /// How to use control groups; `None` to ignore them.
    pub groups: Option<GroupAsk>,
}

/// How to use control groups.
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
    /// The hierarchy of the controller `cpu` in control groups version 1.
    Scheduler,
}

/// Finds the number of a thread's control group, which is the inode of the group's folder. Returns
/// `None` if it is unknown, for example because the thread has ended.
pub type GroupFinder = Box<dyn FnMut(u32) -> Option<u64> + Send>;

/// A woken thread that has not been seen running since its wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitNote {
    /// ID of the woken thread.
    pub tid: u32,
    /// Time of the wake-up, on CLOCK_MONOTONIC.
    pub woken: Nanos,
    /// ID of the thread that was running at that time, or 0 if the CPU was idle.
    pub waker: u32,
}

/// The waits that have not ended at one point in time. A thread that was woken while it was running
/// has a note but is not waiting. `running` and /proc show whether a thread is running.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// This point in time, on CLOCK_MONOTONIC.
    pub at: Nanos,
    /// The threads that may be waiting.
    pub notes: Vec<WaitNote>,
    /// ID of the thread running on each CPU, or 0 for none. CPUs that have not had a context switch
    /// yet have 0 or are omitted.
    pub running: BTreeMap<u32, u32>,
}

/// Counts wake-ups until this is dropped.
#[derive(Debug)]
pub struct WakeupWatch(Source);

#[derive(Debug)]
enum Source {
    Bpf(Box<BpfWatch>),
    Events(Box<EventWatch>),
}

impl WakeupWatch {
    /// Maximum time between calls of [`keep_up`](Self::keep_up).
    pub const KEEP_UP: Duration = Duration::from_millis(100);

    /// Starts counting with BPF programs in the kernel.
    ///
    /// # Errors
    /// Returns an error if the kernel has no BTF, or rejects the programs (because of missing
    /// privileges, lockdown or its version).
    pub fn by_programs(ask: WatchAsk) -> Result<Self, WatchError> {
        Ok(Self(Source::Bpf(Box::new(BpfWatch::start(ask)?))))
    }

    /// Starts counting wake-ups using events, which the kernel writes into a trace instance owned
    /// by this process (`owner`). `why` is the reason why BPF programs are not used. If groups are
    /// used, `groups` finds the control group of a thread.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a step. In that case, nothing is left behind.
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

    /// Reads the kernel's new events before they are overwritten. If BPF programs do the counting,
    /// this does nothing.
    ///
    /// # Errors
    /// Returns an error if a pipe cannot be read.
    pub fn keep_up(&mut self) -> Result<(), WatchError> {
        match &mut self.0 {
            Source::Bpf(_) => Ok(()),
            Source::Events(watch) => Ok(watch.keep_up()?),
        }
    }

    /// Replaces the control groups whose threads are counted. The groups are given by the inodes of
    /// their folders.
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

    /// Returns the waits that have not ended yet.
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
