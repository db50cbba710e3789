//! CPU quotas around outliers: times at which the counters of control groups increased.

use std::collections::{BTreeSet, VecDeque};

use punctual_host::{Host, Quotas};
use punctual_model::{EventKind, Nanos, Text, Throttle, TraceEvent};

use crate::lifecycle::monotonic;

/// Maximum number of increases that are kept. At the shortest usual period of 10 ms, these are the
/// increases of 40 s.
const KEPT: usize = 4_000;

/// Repeatedly reads the counters of the groups that have a quota.
pub(super) struct QuotaHistory {
    host: Host,
    quotas: Quotas,
    read_at: Nanos,
    rises: VecDeque<Throttle>,
}

impl QuotaHistory {
    /// Starts with the groups that contain these threads, or this process if no threads are given.
    pub(super) fn begin(host: &Host, tids: &[u32]) -> Self {
        Self {
            host: host.clone(),
            quotas: host.quotas(tids).limited(),
            read_at: monotonic(),
            rises: VecDeque::new(),
        }
    }

    /// Returns whether there are groups with a quota.
    pub(super) fn has_groups(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// Reads the counters now. More frequent readings give more precise times.
    pub(super) fn look(&mut self) {
        if self.quotas.is_empty() {
            return;
        }
        let (from, rises) = (self.read_at, &mut self.rises);
        // An increase after this time is seen by the next reading.
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

    /// Returns the increases between two times.
    pub(super) fn between(&self, from: Nanos, to: Nanos) -> Vec<Throttle> {
        let fits = |rise: &&Throttle| rise.from <= to && rise.to >= from;
        self.rises.iter().filter(fits).cloned().collect()
    }

    /// Returns the name of the sched_ext scheduler that is enabled now.
    pub(super) fn sched_ext(&self) -> Option<Text> {
        self.host.sched_ext().map(|name| Text::from(name.as_str()))
    }

    /// Returns the threads in these events that belong to the throttled groups.
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
