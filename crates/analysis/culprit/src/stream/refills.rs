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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, us};

    fn expired(at: u64, function: u64) -> TraceEvent {
        let (hrtimer, now_ns) = (1, 0);
        let kind = EventKind::HrtimerExpireEntry {
            hrtimer,
            function,
            now_ns,
        };
        event(at, 0, kind)
    }

    fn calls(all: &[(u64, u64)]) -> TimerCalls {
        let mut calls = TimerCalls::default();
        for (at, function) in all {
            calls.note(&expired(*at, *function));
        }
        calls
    }

    fn symbols() -> BTreeMap<u64, String> {
        [
            (100, "hrtimer_wakeup"),
            (200, "sched_cfs_period_timer"),
            (300, "sched_cfs_slack_timer"),
            (400, "tick_nohz_handler"),
        ]
        .map(|(address, name)| (address, name.to_owned()))
        .into()
    }

    #[test]
    fn last_call_within_a_time_counts() {
        let calls = calls(&[(10, 100), (20, 200), (30, 100), (40, 100), (90, 400)]);
        let within = |from, to| calls.last_within(us(from), us(to));
        assert_eq!(within(0, 99).len(), 3);
        assert_eq!(within(10, 30), [(100, us(30)), (200, us(20))].into());
        assert_eq!(within(11, 29), [(200, us(20))].into());
        assert_eq!(within(20, 20), [(200, us(20))].into());
        assert_eq!(within(41, 89), BTreeMap::new());
    }

    /// Only the latest calls are kept.
    #[test]
    fn number_of_calls_is_limited() {
        let all: Vec<(u64, u64)> = (1..=20).map(|at| (at, 100)).collect();
        let calls = calls(&all);
        let before = |to| calls.last_within(us(0), us(to)).get(&100).copied();
        assert_eq!(before(5), Some(us(5)));
        assert_eq!(before(4), None);
    }

    #[test]
    fn refill_is_known_by_its_function() {
        for (function, expected) in [
            (99, false),
            (100, false),
            (199, false),
            (200, true),
            (299, true),
            (300, true),
            (400, false),
        ] {
            assert_eq!(is_refill(function, &symbols()), expected, "{function}");
        }
        let last: LastCalls = [(100, us(90)), (200, us(20)), (300, us(30))].into();
        assert_eq!(last_refill(&last, &symbols()), Some(us(30)));
        assert_eq!(last_refill(&[(100, us(90))].into(), &symbols()), None);
    }

    /// If the name of a function is unknown, it may refill quotas.
    #[test]
    fn names_of_all_functions_must_be_known() {
        assert!(calls(&[(1, 100), (2, 450)]).are_named(&symbols()));
        assert!(!calls(&[(1, 100), (2, 50)]).are_named(&symbols()));
        assert!(!calls(&[]).are_named(&symbols()));
        let mut other = calls(&[]);
        other.note(&event(1, 0, EventKind::HrtimerExpireExit { hrtimer: 1 }));
        assert!(!other.are_named(&symbols()));
    }
}
