//! Wake-ups counted from the kernel's trace: an instance of our own with three
//! events of the scheduler, read several times a second.

use std::time::Instant;

use punctual_model::{Nanos, Wakeups};

use super::counter::Counter;
use super::{Waiting, WatchAsk};
use crate::event::Level;
use crate::flight::{Heard, Owner, Plan, Stream, monotonic};
use crate::{TraceError, Tracefs};

/// The events, with the filter for those of real-time threads: of the others
/// the kernel then writes nothing.
const EVENTS: [(&str, &str); 3] = [
    ("sched_switch", "prev_prio < 100 || next_prio < 100"),
    ("sched_waking", "prio < 100"),
    ("sched_wakeup_new", "prio < 100"),
];

/// The ring buffers of all CPUs together; a tenth of a second of a hundred
/// thousand wake-ups a second takes one.
const BUFFER_KIB: usize = 8 << 10;

/// Those of one CPU.
const KIB_PER_CPU: std::ops::RangeInclusive<usize> = 256..=2_048;

/// Counts what the kernel writes.
#[derive(Debug)]
pub(super) struct EventWatch {
    stream: Stream,
    counter: Counter,
    /// Written when another CPU's events had been read already: what comes
    /// before them may still be to come.
    early: Vec<Heard>,
    /// Until when all events have been read.
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
    ) -> Result<Self, TraceError> {
        let cpus = aya::util::nr_cpus().unwrap_or(1).max(1);
        let kib = (BUFFER_KIB / cpus).clamp(*KIB_PER_CPU.start(), *KIB_PER_CPU.end());
        let names = EVENTS.map(|(name, _)| name);
        // Also this process's CLOCK_MONOTONIC may be another than the kernel's
        // (time_namespaces(7)): a recorder knows how to find that out.
        let small = Plan {
            level: Level::Usual,
            bytes_per_cpu: 64 << 10,
        };
        let recorder = tracefs.arm(small, owner, None)?;
        let clock = recorder.clock();
        recorder.stop()?;
        let stream = Stream::open(tracefs, owner, clock, kib, &names)?;
        // Waits go from one CPU's event to another's, and times are told.
        if !stream.has_same_clock() {
            return Err(TraceError::NoClock);
        }
        for (name, filter) in EVENTS {
            let filter = ask.real_time_only.then_some(filter);
            // A kernel that takes no filter writes all: we tell them apart.
            match stream.on(name, filter) {
                Err(_) if filter.is_some() => stream.on(name, None)?,
                on => on?,
            }
        }
        // Before this, what waits may wait for the events to be switched on.
        let began = Instant::now();
        let counter = Counter::new(ask, stream.cpus()).from(monotonic());
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

    /// Counts what was written since the last time.
    pub(super) fn keep_up(&mut self) -> Result<(), TraceError> {
        // One CPU is read after the other: only what was written before the
        // first of them is known to be complete.
        let until = monotonic();
        let heard = self.stream.read()?;
        self.early.extend(heard);
        self.early.sort_by_key(Heard::time);
        let whole = self.early.partition_point(|heard| heard.time() < until);
        for heard in self.early.drain(..whole) {
            self.counter.take(&heard);
        }
        self.read_until = until;
        Ok(())
    }

    pub(super) fn seen(&self) -> Wakeups {
        let elapsed = Nanos::from(self.began.elapsed());
        self.counter.seen(elapsed, &self.why)
    }

    /// The waits that were open when the trace was last read.
    pub(super) fn waiting(&self) -> Waiting {
        self.counter.waiting(self.read_until)
    }

    pub(super) fn stop(self) -> Result<(), TraceError> {
        self.stream.stop()
    }
}
