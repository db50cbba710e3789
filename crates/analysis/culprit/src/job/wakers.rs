//! Which thread woke which one last.

use std::collections::BTreeMap;

use punctual_model::{EventKind, Nanos, TraceEvent};

use super::idle::End;

/// Maximum length of a chain of wake-ups from a request to its answer.
const CHAIN: usize = 8;

/// Maximum number of threads whose last wake-up is kept.
const THREADS: usize = 16_384;

/// The last wake-up of each thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Wakers {
    /// The waker, unless it is an interrupt, and the time.
    last: BTreeMap<u32, (Option<u32>, Nanos)>,
}

impl Wakers {
    pub(super) const fn new() -> Self {
        Self {
            last: BTreeMap::new(),
        }
    }

    /// Notes a wake-up, or the end of a thread.
    pub(super) fn take(&mut self, event: &TraceEvent) {
        match &event.kind {
            EventKind::Waking { task, .. }
                if self.last.len() < THREADS || self.last.contains_key(&task.pid) =>
            {
                let wake = (thread_that_wakes(event), event.time);
                self.last.insert(task.pid, wake);
            }
            EventKind::ProcessExit { task } => {
                self.last.remove(&task.pid);
            }
            _ => {}
        }
    }

    /// Returns what ended a wait with this event; `None` if it is unknown. `from`: beginning of the
    /// wait. `since`: release of the job with the wait. `waker`: whether the current thread, if it is
    /// watched, also waits at the same place, and its last release.
    pub(super) fn end(
        &self,
        event: &TraceEvent,
        (from, since): (Nanos, Nanos),
        waker: Option<(bool, Option<Nanos>)>,
    ) -> Option<End> {
        let EventKind::Waking { task, .. } = &event.kind else {
            return None;
        };
        let Some(by) = thread_that_wakes(event) else {
            return Some(End::Timeout);
        };
        let (is_peer, released) = waker?;
        Some(if !is_peer && self.answers(task.pid, by, since) {
            End::Answered
        } else if released.is_some_and(|at| at > from) {
            End::Passed
        } else {
            End::Held { is_peer }
        })
    }

    /// Returns whether `tid` woke `by` since this time, directly or through other threads. A
    /// wake-up of `tid` by `by` is then an answer.
    fn answers(&self, tid: u32, by: u32, since: Nanos) -> bool {
        let mut at = by;
        for _ in 0..CHAIN {
            match self.last.get(&at) {
                Some((Some(waker), time)) if *time >= since => {
                    if *waker == tid {
                        return true;
                    }
                    at = *waker;
                }
                _ => return false,
            }
        }
        false
    }
}

/// Returns the thread whose own code caused a wake-up; `None` if an interrupt did, or may have.
pub(super) fn thread_that_wakes(event: &TraceEvent) -> Option<u32> {
    let in_handler = event.has(TraceEvent::HARDIRQ) || event.has(TraceEvent::SOFTIRQ);
    (event.pid != 0 && !in_handler).then_some(event.pid)
}
