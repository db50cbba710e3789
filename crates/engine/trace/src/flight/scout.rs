//! The scout, a stream of the wake-ups and context switches of a few threads. The kernel discards
//! the events of all other threads.

use std::collections::BTreeMap;

use punctual_model::{Comm, CounterReading, KernelPriority, Nanos, TraceEvent};

use super::name::Owner;
use super::ordered::Ordered;
use super::stream::{Stream, Streamed};
use crate::clock::{ClockMap, monotonic};
use crate::stage::Stage;
use crate::{TraceError, Tracefs};

/// The events of a scout, with the field of each that contains a thread ID.
const WATCHED: [(&str, &[&str]); 3] = [
    ("sched_switch", &["prev_pid", "next_pid"]),
    ("sched_waking", &["pid"]),
    ("sched_process_exit", &["pid"]),
];

/// Additional events that show the jobs of a thread. If the kernel does not have these events,
/// waits are still known, but not their system calls.
const OF_JOBS: [(&str, &[&str]); 2] = [
    ("sys_enter", &["common_pid"]),
    ("sys_exit", &["common_pid"]),
];

/// Size of the ring buffer of each CPU: enough for a second with a few thousand context switches.
const KIB_PER_CPU: usize = 256;

/// Size of the ring buffer of each CPU if system calls are recorded: enough for a second with about
/// ten thousand calls.
const KIB_PER_CPU_OF_JOBS: usize = 1_024;

/// Maximum length of a filter, in characters. The kernel's limit is one page.
const LONGEST_FILTER: usize = 3_500;

/// A trace instance with the scheduler's events of a few threads. Dropping it or calling
/// [`stop`](Self::stop) removes it.
#[derive(Debug)]
pub struct Scout {
    stream: Stream,
    events: Vec<(&'static str, &'static [&'static str])>,
    ordered: Ordered<ScoutEvent>,
    lost: u64,
}

/// The threads to follow, and which of their system calls to record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// The threads.
    pub tids: Vec<u32>,
    /// The system calls that wait for the release of a job.
    pub calls: Vec<i64>,
    /// Threads for which it is not known yet which call waits for the release. All their system
    /// calls are recorded.
    pub learning: Vec<u32>,
    /// The release waits of the other threads that have not ended. A job recorder needs them to find
    /// out in the kernel that a job took too long.
    pub releases: BTreeMap<u32, Vec<ReleaseCall>>,
}

/// A release wait of a thread: a system call and its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseCall {
    /// The number of the call.
    pub id: i64,
    /// The first argument.
    pub argument: u64,
    /// Bits of the argument that may differ.
    pub ignored: u64,
}

/// A job that a job recorder lists as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedJob {
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// Its priority.
    pub prio: KernelPriority,
    /// The CPU on which it completed the job.
    pub cpu: u32,
    /// When the timer that ended its release wait was due, or when another event ended it.
    pub release: Nanos,
    /// Time at which it returned to its release wait.
    pub completion: Nanos,
    /// CPU time from release to completion.
    pub ran: Nanos,
}

/// An item in the stream of a scout.
#[derive(Clone, Debug, PartialEq)]
pub enum ScoutEvent {
    /// An event.
    Event(TraceEvent),
    /// A job recorder read a performance counter of a watched thread, just before the event at the
    /// same time.
    Counter(CounterReading),
    /// Events of a CPU were overwritten before they were read. The activity of this CPU in this
    /// interval is only partly known.
    Gap {
        /// Time of the last event before the lost events, or earlier.
        from: Nanos,
        /// Time of the first event after the lost events.
        until: Nanos,
    },
    /// A thread begins its release wait, and a job recorder counts its jobs from now on. Until it
    /// returns the thread, it records no other events of it.
    Taken {
        /// Time of the change.
        at: Nanos,
        /// The thread.
        tid: u32,
    },
    /// A job recorder counts the jobs of a thread no longer, from its job in progress on.
    Returned {
        /// Time of the change.
        at: Nanos,
        /// The thread, which is not asleep.
        tid: u32,
        /// Release of the job in progress, and the CPU time since then.
        open: Option<(Nanos, Nanos)>,
    },
    /// A job of such a thread that was not counted, because it was long.
    Job(ListedJob),
    /// A job recorder changed its stage.
    Stage {
        /// Time of the change.
        at: Nanos,
        /// The stage from then on.
        stage: Stage,
    },
}

impl Tracefs {
    /// Creates a scout that does not watch any threads yet. `clock` is the clock of a recorder in
    /// this tracefs.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a step. In that case, nothing is left behind.
    pub fn scout(&self, owner: Owner, clock: ClockMap) -> Result<Scout, TraceError> {
        self.scout_of(owner, clock, KIB_PER_CPU, WATCHED.to_vec())
    }

    /// Like [`scout`](Self::scout), but also records the system calls of the watched threads, if
    /// the kernel has the events for this ([`Scout::has_calls`]).
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a step. In that case, nothing is left behind.
    pub fn scout_of_jobs(&self, owner: Owner, clock: ClockMap) -> Result<Scout, TraceError> {
        let mut events = WATCHED.to_vec();
        let format = self.file("events/raw_syscalls/sys_enter/format");
        if self.text_if_there(&format)?.is_some() {
            events.extend(OF_JOBS);
        }
        self.scout_of(owner, clock, KIB_PER_CPU_OF_JOBS, events)
    }

    fn scout_of(
        &self,
        owner: Owner,
        clock: ClockMap,
        kib_per_cpu: usize,
        events: Vec<(&'static str, &'static [&'static str])>,
    ) -> Result<Scout, TraceError> {
        let names: Vec<&str> = events.iter().map(|(name, _)| *name).collect();
        Ok(Scout {
            stream: Stream::open(self, owner, clock, kib_per_cpu, &names)?,
            events,
            ordered: Ordered::default(),
            lost: 0,
        })
    }
}

impl Scout {
    /// Replaces the threads and system calls to follow.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a filter.
    pub fn follow(&self, followed: &Followed) -> Result<(), TraceError> {
        let tids = followed.tids.as_slice();
        for (name, fields) in &self.events {
            match tids.is_empty() {
                true => self.stream.off(name)?,
                false if name.starts_with("sys_") => {
                    self.stream
                        .on(name, Some(&filter_of_calls(fields, followed)))?;
                }
                false => self.stream.on(name, Some(&filter(fields, tids)))?,
            }
        }
        Ok(())
    }

    /// Returns whether the scout records system calls.
    pub fn has_calls(&self) -> bool {
        self.events.len() > WATCHED.len()
    }

    /// Returns the new events in ascending order of time. Only a later call returns events that are
    /// newer than [`HELD_BACK`](super::HELD_BACK).
    ///
    /// # Errors
    /// Returns an error if a pipe cannot be read.
    pub fn read(&mut self) -> Result<Vec<ScoutEvent>, TraceError> {
        let now = monotonic();
        let read = self.stream.read()?.into_iter();
        let read = read.map(|events| match events {
            Streamed::Event(event) => ScoutEvent::Event(event),
            Streamed::Gap { from, to, lost, .. } => {
                self.lost += lost;
                ScoutEvent::Gap { from, until: to }
            }
        });
        let key = |one: &ScoutEvent| (one.time(), ());
        Ok(self.ordered.add(read.collect(), now, key))
    }

    /// Returns a warning if another program has stopped or reset the scout.
    pub fn reset_by_others(&self) -> Option<String> {
        self.stream.reset_by_others()
    }

    /// Returns the minimum number of events that were overwritten before they were read.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Removes the instance.
    ///
    /// # Errors
    /// Returns an error if the kernel does not remove the instance. The next program tries again.
    pub fn stop(self) -> Result<(), TraceError> {
        self.stream.stop()
    }
}

impl ScoutEvent {
    pub(crate) const fn time(&self) -> Nanos {
        match self {
            Self::Event(event) => event.time,
            Self::Counter(reading) => reading.time,
            Self::Gap { from, .. } => *from,
            Self::Job(job) => job.completion,
            Self::Stage { at, .. } | Self::Taken { at, .. } | Self::Returned { at, .. } => *at,
        }
    }
}

/// Builds the filter for the system calls to follow.
fn filter_of_calls(fields: &[&str], followed: &Followed) -> String {
    let Followed {
        tids,
        calls,
        learning,
        ..
    } = followed;
    let all = tids.iter().all(|tid| learning.contains(tid));
    let ids: Vec<String> = calls.iter().map(|id| format!("id == {id}")).collect();
    let of_calls = |tids: &[u32]| format!("({}) && ({})", filter(fields, tids), ids.join(" || "));
    match (all || calls.is_empty(), learning.is_empty()) {
        (true, _) => filter(fields, tids),
        (false, true) => of_calls(tids),
        (false, false) => format!("({}) || {}", of_calls(tids), filter(fields, learning)),
    }
}

/// Formats a filter such as `prev_pid == 1 || next_pid == 1`. If that would be too long, the filter
/// selects the range of these thread IDs instead, and the reader discards the events of other
/// threads.
fn filter(fields: &[&str], tids: &[u32]) -> String {
    let all: Vec<String> = fields
        .iter()
        .flat_map(|field| tids.iter().map(move |tid| format!("{field} == {tid}")))
        .collect();
    let all = all.join(" || ");
    match (tids.iter().min(), tids.iter().max()) {
        (Some(first), Some(last)) if all.len() > LONGEST_FILTER => {
            let range = |field: &&str| format!("({field} >= {first} && {field} <= {last})");
            let ranges: Vec<String> = fields.iter().map(range).collect();
            ranges.join(" || ")
        }
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_release_wait_narrows_followed_calls() {
        let followed = |calls: &[i64], learning: &[u32]| {
            let followed = Followed {
                tids: vec![3, 4],
                calls: calls.to_vec(),
                learning: learning.to_vec(),
                ..Followed::default()
            };
            filter_of_calls(&["common_pid"], &followed)
        };
        let both = "common_pid == 3 || common_pid == 4";
        assert_eq!(followed(&[], &[3, 4]), both);
        assert_eq!(followed(&[35], &[3, 4]), both);
        let narrowed = format!("({both}) && (id == 35 || id == 219)");
        assert_eq!(followed(&[35, 219], &[]), narrowed);
        let partly = format!("({narrowed}) || common_pid == 4");
        assert_eq!(followed(&[35, 219], &[4]), partly);
    }

    #[test]
    fn filter_names_each_thread_per_field() {
        assert_eq!(filter(&["pid"], &[3, 4]), "pid == 3 || pid == 4");
        assert_eq!(
            filter(&["prev_pid", "next_pid"], &[3]),
            "prev_pid == 3 || next_pid == 3"
        );
        let many: Vec<u32> = (10..2_000).collect();
        assert_eq!(
            filter(&["prev_pid", "next_pid"], &many),
            "(prev_pid >= 10 && prev_pid <= 1999) || (next_pid >= 10 && next_pid <= 1999)"
        );
    }
}
