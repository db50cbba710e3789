//! The search for the release wait of a thread.

use std::collections::VecDeque;

use punctual_model::{Nanos, TraceEvent};

use super::release::Waits;

/// Maximum number of events kept per thread: enough for a few thousand waits.
pub(super) const REMEMBERED: usize = 20_000;

/// Search for the release wait.
#[derive(Clone, Debug)]
pub(super) struct Learning {
    pub(super) since: Nanos,
    pub(super) waits: Waits,
    /// The newest events, without a gap. When the events are replayed, a gap would look like a job.
    pub(super) events: VecDeque<TraceEvent>,
    /// Jobs between this time and the oldest kept event are not counted.
    pub(super) dropped_since: Option<Nanos>,
}

impl Learning {
    /// Begins a search at this time.
    pub(super) fn new(since: Nanos) -> Self {
        Self {
            since,
            waits: Waits::default(),
            events: VecDeque::new(),
            dropped_since: None,
        }
    }

    /// Keeps an event, in place of the oldest one if there are too many.
    pub(super) fn keep(&mut self, event: &TraceEvent) {
        if self.events.len() >= REMEMBERED
            && let Some(dropped) = self.events.pop_front()
        {
            self.dropped_since.get_or_insert(dropped.time);
        }
        self.events.push_back(event.clone());
    }

    /// Returns whether there have been enough waits in the time so far.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        let (elapsed, count) = (now.saturating_sub(self.since), self.waits.count);
        (elapsed >= Nanos::from_millis(300) && count >= 30)
            || (elapsed >= Nanos::from_secs(2) && count >= 5)
            || (elapsed >= Nanos::from_secs(10) && count >= 2)
    }
}
