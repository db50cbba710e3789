//! The search for the release wait of a thread.

use std::collections::VecDeque;

use punctual_model::{Nanos, TraceEvent};

use super::release::Waits;
use super::thread_state::Stages;

/// Maximum number of events and changes of the stage kept per thread: enough for a few thousand waits.
pub(super) const REMEMBERED: usize = 20_000;

/// Search for the release wait.
#[derive(Clone, Debug)]
pub(super) struct Learning {
    pub(super) since: Nanos,
    pub(super) waits: Waits,
    /// The newest events and changes, without a gap. When they are replayed, a gap would look like a
    /// job.
    pub(super) kept: VecDeque<Kept>,
    /// The stage before all of this.
    pub(super) stages: Stages,
    /// Jobs between this time and the oldest kept event are not counted.
    pub(super) dropped_since: Option<Nanos>,
}

/// An event, or a change of the stage.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Event(TraceEvent),
    Stage(Stages, Nanos),
}

impl Kept {
    pub(super) const fn time(&self) -> Nanos {
        match self {
            Self::Event(event) => event.time,
            Self::Stage(_, at) => *at,
        }
    }
}

impl Learning {
    /// Begins a search at this time.
    pub(super) fn new(since: Nanos, stages: Stages) -> Self {
        Self {
            since,
            waits: Waits::default(),
            kept: VecDeque::new(),
            stages,
            dropped_since: None,
        }
    }

    /// Keeps an event or a change, in place of the oldest one if there are too many.
    pub(super) fn keep(&mut self, kept: Kept) {
        if self.kept.len() >= REMEMBERED {
            match self.kept.pop_front() {
                Some(Kept::Event(event)) => {
                    self.dropped_since.get_or_insert(event.time);
                }
                Some(Kept::Stage(stages, _)) => self.stages = stages,
                None => {}
            }
        }
        self.kept.push_back(kept);
    }

    /// Drops the kept events after an interruption.
    pub(super) fn interrupt(&mut self, stages: Stages) {
        self.kept.clear();
        self.stages = stages;
        self.waits.interrupt();
        self.dropped_since = None;
    }

    /// Returns whether there have been enough waits in the time so far.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        let (elapsed, count) = (now.saturating_sub(self.since), self.waits.count);
        (elapsed >= Nanos::from_millis(300) && count >= 30)
            || (elapsed >= Nanos::from_secs(2) && count >= 5 && !self.waits.may_be_idle_elsewhere())
            || (elapsed >= Nanos::from_secs(10) && count >= 2)
    }
}
