//! CPU quotas of control groups. A throttled thread is runnable, and no event shows why other
//! threads run instead. The counters of its control groups (`cpu.stat`) show this. A trace of
//! another tool has no counters, but it may show when the kernel refills quotas. A throttled thread
//! can run again only after a refill.

use std::collections::BTreeMap;
use std::ops::Range;

use punctual_model::cause::{Cause, Detail, Limit, Missing, Name, Rival, Role, Source, Unknown};
use punctual_model::{Nanos, ShareKind, Task, Text, Throttle, Window};

use crate::cause_span::{CauseSpan, merged};
use crate::held::undecided_by;

/// Minimum length of a wait that is attributed to a quota. Shorter waits are normal between
/// ordinary threads, and a throttle on another CPU at the same time would look the same (kernel:
/// `sched_cfs_bandwidth_slice_us`, 5 ms).
const SLICE: Nanos = Nanos::from_millis(5);

/// Judges the segments after the victim became runnable again, using the counters of its control
/// groups. Does not change the total length.
pub(crate) fn judge(window: &Window, mut spans: Vec<CauseSpan>) -> Vec<CauseSpan> {
    if !window.evidence.throttles.is_empty() {
        for wait in waits(&spans) {
            judge_wait(window, &mut spans[wait]);
        }
    }
    if let Some(refilled) = window.evidence.quota_refilled {
        spans = split_at(spans, refilled);
        let before = spans.iter_mut().filter(|one| one.to <= refilled);
        for span in before.filter(|one| one.rival.is_some()) {
            let idle = matches!(span.cause.source, Source::NotRun(_));
            rewrite(span, None, idle);
        }
    }
    if let Some(event) = undecided_by(window) {
        for wait in waits(&spans) {
            suspect(&event, &mut spans[wait]);
        }
    }
    merged(spans)
}

/// Longest time that one thread usually runs while others of equal rank wait: the longest slice of
/// the scheduler (kernel: `sysctl_sched_latency`, 24 ms on 8 CPUs), and a tick.
const TURN: Nanos = Nanos::from_millis(30);

/// Each further thread of equal rank shortens the slices of all, but a slice ends with a tick (4 ms at
/// 250 Hz).
const FURTHER: Nanos = Nanos::from_millis(4);

/// Maximum number of turns of one thread while an equal one waits. The second turn makes up for a turn
/// of the waiting thread that was too long.
const FAIR_TURNS: usize = 2;

/// Minimum length of a turn. A thread with shorter runs may have slept in between.
const SHORTEST_TURN: Nanos = Nanos::from_millis(1);

/// Returns whether an equal thread had more turns in a wait than a fair scheduler gives it.
fn is_unfair(wait: &[CauseSpan]) -> bool {
    let mut runs: Vec<(u32, Nanos)> = Vec::new();
    for one in wait {
        match (one.rival, runs.last_mut()) {
            (None, _) => {}
            (Some(rival), Some((last, ran))) if *last == rival => *ran += one.length(),
            (Some(rival), _) => runs.push((rival, one.length())),
        }
    }
    let is_turn = |rival, run: &(u32, Nanos)| run.0 == rival && run.1 >= SHORTEST_TURN;
    let turns = |rival| runs.iter().filter(|run| is_turn(rival, run)).count();
    runs.iter().any(|(rival, _)| turns(*rival) > FAIR_TURNS)
}

/// Withdraws the charge against the threads that ran in a wait, if the trace cannot show quotas and
/// the wait does not look like the turns of equal threads: the CPU was also idle, one thread ran for
/// longer than its turn or too often, or all ran for longer than their turns.
fn suspect(event: &Text, wait: &mut [CauseSpan]) {
    let mut ran: BTreeMap<u32, Nanos> = BTreeMap::new();
    for one in wait.iter() {
        if let Some(rival) = one.rival {
            *ran.entry(rival).or_default() += one.length();
        }
    }
    let idle = wait
        .iter()
        .any(|one| matches!(one.cause.source, Source::NotRun(_)));
    let total = Nanos(ran.values().map(|ran| ran.0).sum());
    let further = (ran.len() as u64).saturating_sub(1);
    let turns = TURN + Nanos(FURTHER.0 * further);
    let is_short = total <= turns && ran.values().all(|ran| *ran <= TURN);
    if !idle && is_short && !is_unfair(wait) {
        return;
    }
    for one in wait.iter_mut() {
        let equal = matches!(
            one.cause.source,
            Source::Thread {
                role: Role::Competing,
                ..
            }
        );
        if one.rival.is_some() && equal {
            let unknown = Cause::not_recorded(Missing::QuotaOrEqual, &[&event.0]);
            one.cause = unknown.with(meanwhile(&one.cause));
        }
    }
}

/// Splits the segment that contains a time at that time.
fn split_at(spans: Vec<CauseSpan>, at: Nanos) -> Vec<CauseSpan> {
    let cut = |one: CauseSpan| {
        if one.from < at && at < one.to {
            let (mut before, mut after) = (one.clone(), one);
            (before.to, after.from) = (at, at);
            vec![before, after]
        } else {
            vec![one]
        }
    };
    spans.into_iter().flat_map(cut).collect()
}

/// Returns the waits for the CPU. Interrupts on top of another thread that runs instead also belong
/// to the wait.
fn waits(spans: &[CauseSpan]) -> Vec<Range<usize>> {
    let goes_on = |span: &CauseSpan| {
        use ShareKind::{Interrupt, Nmi, Scheduling, Softirq};
        span.rival.is_some()
            || [Interrupt, Nmi, Scheduling, Softirq].contains(&span.cause.source.kind())
    };
    let mut waits: Vec<Range<usize>> = Vec::new();
    for (place, span) in spans.iter().enumerate() {
        match waits.last_mut() {
            _ if !goes_on(span) => {}
            Some(wait) if wait.end == place => wait.end = place + 1,
            _ => waits.push(place..place + 1),
        }
    }
    waits
}

/// Judges the part of a wait that a throttle may have caused: the segments without a running
/// thread of the throttled groups.
fn judge_wait(window: &Window, wait: &mut [CauseSpan]) {
    let inside = &window.evidence.in_group;
    let fits = |span: &CauseSpan| span.rival.is_some_and(|tid| !inside.contains(&tid));
    let (Some(from), Some(to)) = (
        wait.iter().find(|one| fits(one)).map(|one| one.from),
        wait.iter().rfind(|one| fits(one)).map(|one| one.to),
    ) else {
        return;
    };
    let lengths = wait.iter().filter(|one| fits(one));
    let waited = Nanos(lengths.map(|one| one.length().0).sum());
    // The kernel increments the counters when the throttling ends. At that time, the victim can run
    // again.
    let throttles = window.evidence.throttles.iter();
    let fitting: Vec<&Throttle> = throttles
        .filter(|throttle| throttle.from <= to && throttle.to >= from)
        .collect();
    let throttled = Nanos(fitting.iter().map(|throttle| throttle.throttled.0).sum());
    let Some(longest) = fitting.iter().max_by_key(|throttle| throttle.throttled) else {
        return;
    };
    let decided = waited >= SLICE && throttled.0 >= waited.0 / 2;
    for span in wait.iter_mut().filter(|one| fits(one)) {
        rewrite(span, Some(&longest.group), decided);
    }
}

/// Names the quota of `group` as the cause if `decided`, and otherwise as one of two possible
/// causes.
fn rewrite(span: &mut CauseSpan, group: Option<&str>, decided: bool) {
    let cause = &mut span.cause;
    let quota = Source::Throttled(Limit::Quota(group.map(str::to_owned)));
    // The idle CPU was already attributed to throttling; now the control group is known.
    match cause.source {
        Source::Throttled(_) => return cause.source = quota,
        Source::NotRun(_) if decided => {
            return *cause = Cause::new(quota).with(Detail::Meanwhile(None));
        }
        Source::NotRun(_) => return,
        _ => {}
    }
    cause.detail = meanwhile(cause);
    cause.source = if decided {
        quota
    } else {
        Source::Unexplained(Unknown::QuotaOrEqual(group.map(str::to_owned)))
    };
}

/// Returns the thread that the cause names, as the one that ran meanwhile.
fn meanwhile(cause: &Cause) -> Option<Detail> {
    let task = |name: &Name, prio| Task {
        pid: name.pid.unwrap_or_default(),
        comm: name.comm,
        prio,
    };
    let ran = match (&cause.source, &cause.detail) {
        (Source::Thread { thread, .. }, Some(Detail::Rank(rank))) => Some(Rival {
            task: task(thread, rank.prio),
            activity: rank.activity.clone(),
        }),
        _ => None,
    };
    ran.map(|ran| Detail::Meanwhile(Some(ran)))
}
