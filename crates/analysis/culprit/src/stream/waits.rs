//! The waits of each thread.

use std::collections::BTreeMap;

use punctual_model::{Histogram, SignedNanos, Task};

use crate::Late;

/// Maximum number of threads with separate figures. Each takes 36 kB of memory.
const MOST: usize = 200;

/// The waits of one thread.
#[derive(Clone, Debug)]
pub struct ThreadWaits {
    /// The thread, with its last name and priority.
    pub task: Task,
    /// All waits of the thread, late or not.
    pub histogram: Histogram,
}

/// The waits of all threads.
#[derive(Debug, Default)]
pub(super) struct WaitsByThread {
    threads: BTreeMap<u32, ThreadWaits>,
    /// Waits of the threads beyond the limit.
    others: Option<Histogram>,
}

impl WaitsByThread {
    pub(super) fn record(&mut self, wait: &Late) {
        let latency = SignedNanos(i64::try_from(wait.latency().0).unwrap_or(i64::MAX));
        let task = Task {
            pid: wait.tid,
            comm: wait.comm,
            prio: wait.prio,
        };
        if self.threads.len() < MOST || self.threads.contains_key(&wait.tid) {
            let thread = self.threads.entry(wait.tid).or_insert_with(|| ThreadWaits {
                task,
                histogram: Histogram::new(),
            });
            thread.task = task;
            thread.histogram.record(latency);
        } else {
            let others = self.others.get_or_insert_with(Histogram::new);
            others.record(latency);
        }
    }

    pub(super) fn into_parts(self) -> (Vec<ThreadWaits>, Option<Histogram>) {
        (self.threads.into_values().collect(), self.others)
    }
}
