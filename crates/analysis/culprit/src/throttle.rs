//! CPU quotas of control groups: a throttled thread is runnable, and no event
//! says why others run instead. The counters of its groups do (`cpu.stat`).

use std::ops::Range;

use punctual_model::{KernelPriority, Nanos, ShareKind, Task, Throttle, Window};

use crate::cause::{Detail, Limit, Name, Source, Unknown};
use crate::context::UNKNOWN_PRIORITY;
use crate::stretch::{Stretch, merged};

/// Shorter waits are usual among ordinary threads: a throttle of another CPU at
/// the same time looks the same (kernel: `sched_cfs_bandwidth_slice_us`, 5 ms).
const SLICE: Nanos = Nanos::from_millis(5);

/// Judges the time while the victim was runnable again, by the counters
/// of its control groups. Lengths stay as they are.
pub(crate) fn judge(window: &Window, mut stretches: Vec<Stretch>) -> Vec<Stretch> {
    if !window.evidence.throttles.is_empty() {
        for wait in waits(&stretches) {
            judge_wait(window, &mut stretches[wait]);
        }
    }
    merged(stretches)
}

/// The waits for the CPU: interrupts on top of a rival are part of one.
fn waits(stretches: &[Stretch]) -> Vec<Range<usize>> {
    let goes_on = |stretch: &Stretch| {
        use ShareKind::{Interrupt, Nmi, Scheduling, Softirq};
        stretch.rival.is_some()
            || [Interrupt, Nmi, Scheduling, Softirq].contains(&stretch.cause.source.kind())
    };
    let mut waits: Vec<Range<usize>> = Vec::new();
    for (place, stretch) in stretches.iter().enumerate() {
        match waits.last_mut() {
            _ if !goes_on(stretch) => {}
            Some(wait) if wait.end == place => wait.end = place + 1,
            _ => waits.push(place..place + 1),
        }
    }
    waits
}

/// What a throttle may have taken of one wait: the stretches in which no thread
/// of the throttled groups ran.
fn judge_wait(window: &Window, wait: &mut [Stretch]) {
    let inside = &window.evidence.in_group;
    let fits = |stretch: &Stretch| stretch.rival.is_some_and(|tid| !inside.contains(&tid));
    let (Some(from), Some(to)) = (
        wait.iter().find(|one| fits(one)).map(|one| one.from),
        wait.iter().rfind(|one| fits(one)).map(|one| one.to),
    ) else {
        return;
    };
    let lengths = wait.iter().filter(|one| fits(one));
    let waited = Nanos(lengths.map(|one| one.length().0).sum());
    // A throttle is counted when it ends, which lets the victim run.
    let throttles = window.evidence.throttles.iter();
    let fitting: Vec<&Throttle> = throttles
        .filter(|throttle| throttle.from <= to && throttle.to >= from)
        .collect();
    let throttled = Nanos(fitting.iter().map(|throttle| throttle.throttled.0).sum());
    let Some(longest) = fitting.iter().max_by_key(|throttle| throttle.throttled) else {
        return;
    };
    let decided = waited >= SLICE && throttled.0 >= waited.0 / 2;
    for stretch in wait.iter_mut().filter(|one| fits(one)) {
        rewrite(stretch, &longest.group, decided);
    }
}

fn rewrite(stretch: &mut Stretch, group: &str, decided: bool) {
    let cause = &mut stretch.cause;
    let quota = Source::Throttled(Limit::Quota(Some(group.to_owned())));
    // Where nobody had the CPU, it was a throttle already, and now has its name.
    match cause.source {
        Source::Throttled(_) => return cause.source = quota,
        Source::Unexplained(Unknown::IdleInstead(_)) if decided => return cause.source = quota,
        Source::Unexplained(Unknown::IdleInstead(_)) => return,
        _ => {}
    }
    let task = |name: &Name, prio| Task {
        pid: name.pid,
        comm: name.comm,
        prio,
    };
    let ran = match (&cause.source, &cause.detail) {
        (Source::Thread(_, name), Some(Detail::Rank(rank))) => {
            Some((task(name, rank.prio), rank.activity))
        }
        (Source::Unexplained(Unknown::PriorityOf(name)), _) => {
            Some((task(name, KernelPriority(UNKNOWN_PRIORITY)), None))
        }
        _ => None,
    };
    cause.detail = ran.map(|ran| Detail::Meanwhile(Some(ran)));
    cause.source = match decided {
        true => quota,
        false => Source::Unexplained(Unknown::QuotaOrEqual(group.to_owned())),
    };
}
