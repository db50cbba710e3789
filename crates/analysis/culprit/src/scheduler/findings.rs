//! Adds up the periods that contradict a rule, and names the limits that may explain them.

use std::collections::BTreeMap;

use punctual_model::cause::{Hold, Limit, SchedulerFinding, SchedulerRule};
use punctual_model::{KernelPriority, Nanos, Task};

use crate::events::HRTIMER_EXPIRE;

/// Maximum number of findings that are kept. More can only come from a damaged trace.
const MOST: usize = 10_000;

/// Maximum number of findings that are shown, those with the longest total.
const SHOWN: usize = 10;

/// Shorter periods are not counted: the scheduler may just be switching.
const SHORTEST: Nanos = Nanos::from_micros(100);

/// Longest run of ordinary threads that a deadline server allows: 50 ms in each second (kernel:
/// `fair_server_init`, `ext_server_init`), and a tick.
const SERVED: Nanos = Nanos::from_millis(60);

/// The period of a deadline server.
const SERVER_PERIOD: Nanos = Nanos::from_millis(1_000);

/// Shorter times do not look like the work of the deadline server.
const LEAST_SERVED: Nanos = Nanos::from_millis(10);

/// Facts about the trace and its kernel.
pub(crate) struct SchedulerFacts<'a> {
    /// Whether migrations are recorded. Otherwise, the queues are unknown.
    pub(crate) migrations: bool,
    /// Whether changes of priority by inheritance are recorded.
    pub(crate) inheritance: bool,
    /// Whether every refill of a quota is recorded.
    pub(crate) refills: bool,
    /// Whether a timer function refills quotas.
    pub(crate) is_refill: &'a dyn Fn(u64) -> bool,
    /// Number of the kernel's deadline servers for ordinary threads. `None` if unknown.
    pub(crate) servers: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    rule: SchedulerRule,
    thread: u32,
    cpu: u32,
}

impl Key {
    pub(super) const fn new(rule: SchedulerRule, thread: u32, cpu: u32) -> Self {
        Self { rule, thread, cpu }
    }
}

#[derive(Clone, Debug)]
struct Sum {
    thread: Task,
    by: Option<Task>,
    times: u64,
    total: Nanos,
    longest: Nanos,
    first: Nanos,
    /// Begin of the last period.
    last: Nanos,
    /// Number of periods with a call of each timer function.
    calls: BTreeMap<u64, u64>,
}

#[derive(Debug, Default)]
pub(super) struct Findings(BTreeMap<Key, Sum>);

impl Findings {
    pub(super) fn add(
        &mut self,
        key: Key,
        thread: Task,
        by: Option<Task>,
        (from, length): (Nanos, Nanos),
        calls: &[u64],
    ) {
        let timed = matches!(
            key.rule,
            SchedulerRule::NoIdleWhileRunnable | SchedulerRule::HigherFirst
        );
        if timed && length < SHORTEST || self.0.len() >= MOST && !self.0.contains_key(&key) {
            return;
        }
        let sum = self.0.entry(key).or_insert_with(|| Sum {
            thread,
            by,
            times: 0,
            total: Nanos::ZERO,
            longest: Nanos::ZERO,
            first: from,
            last: from,
            calls: BTreeMap::new(),
        });
        sum.times += 1;
        sum.total += length;
        sum.longest = sum.longest.max(length);
        sum.last = from;
        for function in calls {
            *sum.calls.entry(*function).or_default() += 1;
        }
    }

    /// Returns the findings that the trace supports, the longest first.
    pub(super) fn finish(self, facts: &SchedulerFacts<'_>) -> Vec<SchedulerFinding> {
        let supported = |key: &Key| match key.rule {
            SchedulerRule::Inheritance => facts.inheritance,
            _ => facts.migrations,
        };
        let all = self.0.into_iter().filter(|(key, _)| supported(key));
        let mut all: Vec<SchedulerFinding> =
            all.map(|(key, sum)| finding(key, sum, facts)).collect();
        all.sort_by_key(|one| std::cmp::Reverse((one.total_ns, one.times)));
        all.truncate(SHOWN);
        all
    }
}

fn finding(key: Key, sum: Sum, facts: &SchedulerFacts<'_>) -> SchedulerFinding {
    let (limit, mut possible) = limits(key.rule, &sum, facts);
    let quota_is_open = possible.contains(&Hold::Quota);
    if limit.is_none() {
        possible.push(Hold::Scheduler);
    }
    SchedulerFinding {
        rule: key.rule,
        thread: sum.thread,
        cpu: key.cpu,
        by: sum.by,
        times: sum.times,
        total_ns: sum.total,
        longest_ns: sum.longest,
        first_ns: sum.first,
        limit,
        possible,
        decided_by: quota_is_open.then(|| HRTIMER_EXPIRE.into()),
    }
}

/// Returns the limit that explains a finding, and otherwise those that may explain it.
fn limits(
    rule: SchedulerRule,
    sum: &Sum,
    facts: &SchedulerFacts<'_>,
) -> (Option<Limit>, Vec<Hold>) {
    let own = sum.thread.prio;
    let served = sum.by.is_some_and(|by| !by.prio.is_real_time());
    match rule {
        SchedulerRule::InOrder | SchedulerRule::Inheritance => (None, Vec::new()),
        _ if own.0 < 0 => (Some(Limit::DeadlineBudget), Vec::new()),
        SchedulerRule::NoIdleWhileRunnable if !own.is_real_time() => quota(sum, facts),
        SchedulerRule::NoIdleWhileRunnable => (None, throttling(own)),
        SchedulerRule::HigherFirst => match facts.servers {
            Some(servers @ 1..) if served && is_served(sum, servers) => {
                (Some(Limit::FairServer), Vec::new())
            }
            Some(1..) if served => (None, vec![Hold::FairServer]),
            Some(_) => (None, throttling(own)),
            None if served => (None, vec![Hold::RealTimeThrottling, Hold::FairServer]),
            None => (None, throttling(own)),
        },
    }
}

/// Returns whether this many deadline servers explain the periods: each of them runs ordinary threads
/// for its share of the time, in one piece.
fn is_served(sum: &Sum, servers: u64) -> bool {
    let turns = 1 + sum.last.saturating_sub(sum.first).0 / SERVER_PERIOD.0;
    let most = SERVED.0.saturating_mul(servers).saturating_mul(turns);
    (LEAST_SERVED..=SERVED).contains(&sum.longest) && sum.total.0 <= most
}

fn throttling(own: KernelPriority) -> Vec<Hold> {
    let real_time = own.is_real_time();
    real_time
        .then_some(Hold::RealTimeThrottling)
        .into_iter()
        .collect()
}

/// A quota explains idle CPUs if it was refilled in most of the periods.
fn quota(sum: &Sum, facts: &SchedulerFacts<'_>) -> (Option<Limit>, Vec<Hold>) {
    let refills = sum
        .calls
        .iter()
        .filter(|(function, _)| (facts.is_refill)(**function));
    let most = refills.map(|(_, times)| *times).max().unwrap_or(0);
    match () {
        () if most > 0 && most >= sum.times / 2 => (Some(Limit::Quota(None)), Vec::new()),
        () if facts.refills => (None, Vec::new()),
        () => (None, vec![Hold::Quota]),
    }
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
