//! Activities in progress.

use std::collections::HashMap;

use punctual_model::{Nanos, Vector};

use super::raised::Raised;
use super::source::Source;

/// Maximum number of activities in progress on one CPU. More can only result from lost events.
const MOST_OPEN: usize = 16;

/// A value that is equal in the events at the start and at the end of an activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Irq(u32),
    Vector(Vector),
    Softirq(u32),
    /// Address of a timer or work.
    Object(u64),
}

/// An activity in progress.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) id: Id,
    pub(super) source: Source,
    pub(super) since: Nanos,
    pub(super) cpu: u32,
    pub(super) thread: u32,
    pub(super) delay: Option<Nanos>,
}

/// State of one CPU.
#[derive(Debug, Default)]
pub(super) struct Cpu {
    /// The activities in progress, the innermost last.
    pub(super) open: Vec<Open>,
    pub(super) raised: HashMap<u32, Raised>,
    /// Number of softirqs that have begun.
    pub(super) softirqs: u64,
    /// End of the previous poll in this run of `NET_RX`, or its start.
    pub(super) polled: Option<Nanos>,
    /// End of the latest gap in the events.
    pub(super) blind_until: Nanos,
}

impl Cpu {
    /// Adds an activity. An activity does not nest in itself, so if it is in progress, its
    /// end is missing, and so are the ends of those that interrupted it.
    pub(super) fn begin(&mut self, open: Open) {
        if let Some(place) = self.open.iter().position(|other| other.id == open.id) {
            self.open.truncate(place);
        }
        if self.open.len() >= MOST_OPEN {
            self.open.clear();
        }
        self.open.push(open);
    }

    /// Removes an activity, and those inside it, whose ends are missing. Returns `None` if its
    /// start is missing.
    pub(super) fn end(&mut self, id: &Id) -> Option<Open> {
        let place = self.open.iter().rposition(|open| open.id == *id)?;
        let ended = self.open.drain(place..).next()?;
        (ended.since >= self.blind_until).then_some(ended)
    }

    /// Forgets what is in progress and what was requested.
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.raised.clear();
        self.polled = None;
    }
}
