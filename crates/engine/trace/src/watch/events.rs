//! Counts wake-ups using trace events. A separate instance with three scheduler events is read
//! several times per second.

use std::collections::BTreeSet;
use std::time::Instant;

use punctual_model::{Nanos, Wakeups};

use super::counter::Counter;
use super::{GroupFinder, Waiting, WatchAsk};
use crate::clock::monotonic;
use crate::flight::{Owner, Stream, Streamed};
use crate::{TraceError, Tracefs};

/// The events, each with a filter for real-time threads, so that the kernel discards the events of
/// other threads.
const EVENTS: [(&str, &str); 3] = [
    ("sched_switch", "prev_prio < 100 || next_prio < 100"),
    ("sched_waking", "prio < 100"),
    ("sched_wakeup_new", "prio < 100"),
];

/// Counts wake-ups using the kernel's events.
#[derive(Debug)]
pub(super) struct EventWatch {
    stream: Stream,
    counter: Counter,
    /// Events that have been read but not counted yet, because earlier events of other CPUs may not
    /// have been read yet.
    early: Vec<Streamed>,
    /// Time before which the events of all CPUs have been read.
    read_until: Nanos,
    began: Instant,
    why: String,
}

impl EventWatch {
    pub(super) fn start(
        tracefs: &Tracefs,
        owner: Owner,
        ask: WatchAsk,
        why: String,
        groups: Option<GroupFinder>,
    ) -> Result<Self, TraceError> {
        let wanted = EVENTS.map(|(name, filter)| (name, ask.real_time_only.then_some(filter)));
        let stream = Stream::watch(tracefs, owner, &wanted)?;
        // Count only from now on, because earlier waits may have begun before the events were
        // enabled.
        let began = Instant::now();
        let counter = Counter::new(ask, stream.cpus());
        let counter = counter.from(monotonic()).with_groups(groups);
        Ok(Self {
            counter,
            stream,
            early: Vec::new(),
            read_until: Nanos::ZERO,
            began,
            why,
        })
    }

    pub(super) fn why(&self) -> &str {
        &self.why
    }

    /// Counts the events that have occurred since the last call.
    pub(super) fn keep_up(&mut self) -> Result<(), TraceError> {
        // CPUs are read one after the other, so the events are complete only up to the time of the
        // first read.
        let until = monotonic();
        let events = self.stream.read()?;
        self.early.extend(events);
        self.early.sort_by_key(Streamed::time);
        let whole = self.early.partition_point(|events| events.time() < until);
        for events in self.early.drain(..whole) {
            self.counter.take(&events);
        }
        self.read_until = until;
        Ok(())
    }

    pub(super) fn count_only(&mut self, ids: &BTreeSet<u64>) {
        self.counter.count_only(ids);
    }

    pub(super) fn seen(&self) -> Wakeups {
        let elapsed = Nanos::from(self.began.elapsed());
        self.counter.seen(elapsed, &self.why)
    }

    /// Returns the waits that had not ended when the trace was last read.
    pub(super) fn waiting(&self) -> Waiting {
        self.counter.waiting(self.read_until)
    }

    pub(super) fn stop(self) -> Result<(), TraceError> {
        self.stream.stop()
    }
}
