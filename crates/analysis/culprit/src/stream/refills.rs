//! Refills of CPU quotas, which let throttled threads run again.

use std::collections::{BTreeMap, VecDeque};

use punctual_model::{EventKind, Nanos, TraceEvent};

/// Maximum number of timer functions that are followed. A kernel has a few hundred such functions.
const FUNCTIONS: usize = 1_000;

/// Number of recent calls that are kept per function. Quotas are refilled at most once per
/// millisecond.
const CALLS: usize = 16;

/// The timers that refill quotas (kernel: `kernel/sched/fair.c`).
const REFILLS: [&str; 2] = ["sched_cfs_period_timer", "sched_cfs_slack_timer"];

/// The recent calls of timer functions. Their names are known only at the end of the trace.
#[derive(Debug, Default)]
pub(super) struct TimerCalls(BTreeMap<u64, VecDeque<Nanos>>);

/// The last call of each timer function within a span of time.
pub(super) type LastCalls = BTreeMap<u64, Nanos>;

impl TimerCalls {
    pub(super) fn note(&mut self, event: &TraceEvent) {
        let EventKind::HrtimerExpireEntry { function, .. } = event.kind else {
            return;
        };
        if self.0.len() >= FUNCTIONS && !self.0.contains_key(&function) {
            return;
        }
        let calls = self.0.entry(function).or_default();
        if calls.len() >= CALLS {
            calls.pop_front();
        }
        calls.push_back(event.time);
    }

    /// Returns whether timer functions were called, and the name of each is known. A refill would
    /// then be known.
    pub(super) fn are_named(&self, symbols: &BTreeMap<u64, String>) -> bool {
        let named = |function: &u64| symbols.range(..=*function).next_back().is_some();
        !self.0.is_empty() && self.0.keys().all(named)
    }

    /// Returns the last call of each function from `from` to `to`.
    pub(super) fn last_within(&self, from: Nanos, to: Nanos) -> LastCalls {
        let last = |calls: &VecDeque<Nanos>| {
            let mut calls = calls.iter().rev().copied();
            calls.find(|at| *at <= to).filter(|at| *at >= from)
        };
        let calls = self.0.iter();
        calls
            .filter_map(|(function, calls)| Some((*function, last(calls)?)))
            .collect()
    }
}

/// Returns the last refill of any quota among these calls.
pub(super) fn last_refill(calls: &LastCalls, symbols: &BTreeMap<u64, String>) -> Option<Nanos> {
    let refills = calls
        .iter()
        .filter(|(function, _)| is_refill(**function, symbols));
    refills.map(|(_, at)| *at).max()
}

/// Returns whether a timer function refills quotas.
pub(super) fn is_refill(function: u64, symbols: &BTreeMap<u64, String>) -> bool {
    let symbol = symbols.range(..=function).next_back();
    symbol.is_some_and(|(_, name)| REFILLS.contains(&name.as_str()))
}
