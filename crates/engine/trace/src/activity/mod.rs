//! Watches interrupts, softirqs, works, timers, polls of network devices and interrupts between
//! CPUs: how often each source is active, how long it runs, and how long a request waits.
//!
//! A trace instance records the events of one kind, which are read several times per second and
//! counted in this process.

mod counter;
mod open;
mod raised;
mod source;

use std::time::Instant;

use punctual_model::{Activities, ActivityKind, Nanos};

use crate::clock::monotonic;
use crate::flight::{Ordered, Owner, Stream, Streamed};
use crate::{TraceError, Tracefs};
use counter::Counter;
pub use source::ActivityNames;

/// An event, and the filter that selects the needed ones.
type Wanted = (&'static str, Option<&'static str>);

/// Returns the events of a kind, and the number of events at the start of this list that begin an
/// activity. The kernel must have at least one event that begins an activity.
const fn events(kind: ActivityKind) -> (&'static [Wanted], usize) {
    match kind {
        ActivityKind::Irq => (
            &[
                ("irq_handler_entry", None),
                ("irq_handler_exit", None),
                // x86: interrupts without a device, such as the local timer.
                ("*_entry", None),
                ("*_exit", None),
                // The corresponding events of arm.
                ("ipi_entry", None),
                ("ipi_exit", None),
            ],
            1,
        ),
        ActivityKind::Softirq => (
            &[
                ("softirq_entry", None),
                ("softirq_exit", None),
                ("softirq_raise", None),
            ],
            1,
        ),
        ActivityKind::Work => (
            &[
                ("workqueue_execute_start", None),
                ("workqueue_execute_end", None),
                ("workqueue_queue_work", None),
            ],
            1,
        ),
        ActivityKind::Timer => (
            &[
                ("hrtimer_expire_entry", None),
                ("timer_expire_entry", None),
                ("hrtimer_expire_exit", None),
                ("timer_expire_exit", None),
                ("hrtimer_start", None),
            ],
            2,
        ),
        ActivityKind::Napi => (
            &[
                ("napi_poll", None),
                ("softirq_entry", Some("vec == 3")),
                ("softirq_exit", Some("vec == 3")),
            ],
            1,
        ),
        ActivityKind::Ipi => (&[("ipi_send_cpu", None), ("ipi_send_cpumask", None)], 2),
    }
}

/// Events that only some architectures have.
const OF_SOME: [&str; 4] = ["*_entry", "*_exit", "ipi_entry", "ipi_exit"];

/// Counts the activities of one kind until this is dropped.
#[derive(Debug)]
pub struct ActivityWatch {
    stream: Stream,
    counter: Counter,
    ordered: Ordered<Streamed>,
    began: Instant,
    missing: Vec<String>,
}

impl ActivityWatch {
    /// Starts counting in a trace instance owned by this process (`owner`). Keeps the `longest`
    /// occurrences.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have the events or rejects a step. In that case,
    /// nothing is left behind.
    pub fn start(
        tracefs: &Tracefs,
        owner: Owner,
        kind: ActivityKind,
        longest: usize,
        names: ActivityNames,
    ) -> Result<Self, TraceError> {
        let (wanted, starts) = events(kind);
        let (there, missing): (Vec<Wanted>, Vec<Wanted>) = wanted
            .iter()
            .partition(|(name, _)| Stream::has(tracefs, name));
        if wanted[..starts].iter().all(|start| missing.contains(start)) {
            return Err(TraceError::NoActivity {
                events: wanted[..starts].iter().map(|(name, _)| *name).collect(),
            });
        }
        let stream = Stream::watch(tracefs, owner, &there)?;
        Ok(Self {
            // Count only from now on, because earlier activities may have begun before their
            // events were enabled.
            counter: Counter::new(kind, longest, monotonic(), names),
            stream,
            ordered: Ordered::default(),
            began: Instant::now(),
            missing: missing
                .iter()
                .filter(|(name, _)| !OF_SOME.contains(name))
                .map(|(name, _)| (*name).to_owned())
                .collect(),
        })
    }

    /// Counts the events that have occurred since the last call. Call it about ten times a second,
    /// so that none are lost.
    ///
    /// # Errors
    /// Returns an error if a pipe cannot be read.
    pub fn keep_up(&mut self) -> Result<(), TraceError> {
        let now = monotonic();
        let read = self.stream.read()?;
        for item in self.ordered.add(read, now, |item| (item.time(), ())) {
            self.counter.take(&item);
        }
        Ok(())
    }

    /// Forgets the state of CPUs that are offline.
    pub fn keep_cpus(&mut self, is_online: impl Fn(u32) -> bool) {
        self.counter.keep_cpus(is_online);
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// Returns an error if a pipe cannot be read.
    pub fn read(&mut self) -> Result<Activities, TraceError> {
        self.keep_up()?;
        let elapsed = Nanos::from(self.began.elapsed());
        Ok(self.counter.seen(elapsed, self.missing.clone()))
    }

    /// Ends the watch. Dropping it does the same, but ignores errors.
    ///
    /// # Errors
    /// Returns an error if the trace instance cannot be removed. The next command tries again.
    pub fn stop(self) -> Result<(), TraceError> {
        self.stream.stop()
    }
}

#[cfg(test)]
mod tests;
