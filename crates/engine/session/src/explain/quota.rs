//! CPU quotas around outliers: when the counters of control groups rose.

use std::collections::{BTreeSet, VecDeque};

use punctual_host::{Host, Quotas};
use punctual_model::{EventKind, Nanos, Throttle, TraceEvent};

use crate::time::monotonic;

/// Rises that are kept: at the shortest usual period of 10 ms, those of 40 s.
const KEPT: usize = 4_000;

/// Reads the counters of the groups that have a quota, again and again.
pub(super) struct QuotaHistory {
    host: Host,
    quotas: Quotas,
    read_at: Nanos,
    rises: VecDeque<Throttle>,
}

impl QuotaHistory {
    /// Of the groups above these threads; above this process where none is given.
    pub(super) fn begin(host: &Host, tids: &[u32]) -> Self {
        Self {
            host: host.clone(),
            quotas: host.quotas(tids).limited(),
            read_at: monotonic(),
            rises: VecDeque::new(),
        }
    }

    /// Reads them now: the more often, the better it is known when they rose.
    pub(super) fn look(&mut self) {
        if self.quotas.is_empty() {
            return;
        }
        let (from, rises) = (self.read_at, &mut self.rises);
        // A rise after this moment is seen the next time.
        self.read_at = monotonic();
        self.quotas.read(|group, by| {
            rises.push_back(Throttle {
                group: group.to_owned(),
                from,
                to: monotonic(),
                periods: by.throttled,
                throttled: by.throttled_time,
            });
        });
        let beyond = self.rises.len().saturating_sub(KEPT);
        self.rises.drain(..beyond);
    }

    /// The rises between two times.
    pub(super) fn between(&self, from: Nanos, to: Nanos) -> Vec<Throttle> {
        let fits = |rise: &&Throttle| rise.from <= to && rise.to >= from;
        self.rises.iter().filter(fits).cloned().collect()
    }

    /// The threads of these events that are in the throttled groups themselves.
    pub(super) fn inside(&self, throttles: &[Throttle], events: &[TraceEvent]) -> Vec<u32> {
        if throttles.is_empty() {
            return Vec::new();
        }
        let switched = events.iter().filter_map(|event| match &event.kind {
            EventKind::Switch { prev, next, .. } => Some([prev.pid, next.pid]),
            _ => None,
        });
        let tids: BTreeSet<u32> = switched.flatten().filter(|tid| *tid > 0).collect();
        let is_inside = |tid: &u32| {
            throttles
                .iter()
                .any(|throttle| self.host.is_in_group(*tid, &throttle.group))
        };
        tids.into_iter().filter(is_inside).collect()
    }
}
