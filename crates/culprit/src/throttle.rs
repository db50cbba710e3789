//! CPU quotas of control groups: a throttled thread is runnable, and no event
//! says why others run instead. The counters of its groups do (`cpu.stat`).

use std::ops::Range;

use punctual_model::{Nanos, Segment, ShareKind, Throttle, Window};

use crate::walk::Stretch;

/// Shorter waits are usual among ordinary threads: a throttle of another CPU at
/// the same time looks the same (kernel: `sched_cfs_bandwidth_slice_us`, 5 ms).
const SLICE: Nanos = Nanos::from_millis(5);

/// Judges again who took the time while the victim was runnable, by the counters
/// of its control groups. Lengths stay as they are.
pub(crate) fn judge(window: &Window, mut stretches: Vec<Stretch>) -> Vec<Segment> {
    if !window.evidence.throttles.is_empty() {
        for wait in waits(&stretches) {
            judge_wait(window, &mut stretches[wait]);
        }
    }
    merged(stretches.into_iter().map(|stretch| stretch.segment))
}

/// The waits for the CPU: interrupts on top of a rival are part of one.
fn waits(stretches: &[Stretch]) -> Vec<Range<usize>> {
    let goes_on = |stretch: &Stretch| {
        use ShareKind::{Interrupt, Nmi, Scheduling, Softirq};
        stretch.rival.is_some()
            || [Interrupt, Nmi, Scheduling, Softirq].contains(&stretch.segment.kind)
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
        wait.iter()
            .find(|one| fits(one))
            .map(|one| one.segment.from),
        wait.iter().rfind(|one| fits(one)).map(|one| one.segment.to),
    ) else {
        return;
    };
    let lengths = wait.iter().filter(|one| fits(one));
    let waited = Nanos(lengths.map(|one| one.segment.length().0).sum());
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
        rewrite(&mut stretch.segment, &longest.group, decided);
    }
}

fn rewrite(segment: &mut Segment, group: &str, decided: bool) {
    let quota = format!("CPU quota of {group}");
    let rival = std::mem::take(&mut segment.who);
    let rank = segment.detail.take();
    // Where nobody had the CPU, it was a throttle already, and now has its name.
    if segment.kind == ShareKind::Throttled {
        (segment.who, segment.detail) = (quota, rank);
        return;
    }
    let rank = rank.map_or(String::new(), |rank| format!(" ({rank})"));
    let beside = Some(format!("{rival}{rank} ran meanwhile"));
    (segment.kind, segment.who, segment.detail) = match decided {
        true => (ShareKind::Throttled, quota, beside),
        false => (
            ShareKind::Unexplained,
            format!("throttled by the {quota}, or threads of equal rank"),
            beside,
        ),
    };
}

/// Neighbours that say the same as one.
fn merged(segments: impl Iterator<Item = Segment>) -> Vec<Segment> {
    let mut merged: Vec<Segment> = Vec::new();
    for segment in segments {
        match merged.last_mut() {
            Some(last)
                if (last.kind, &last.who, &last.detail, last.cpu)
                    == (segment.kind, &segment.who, &segment.detail, segment.cpu) =>
            {
                last.to = segment.to;
            }
            _ => merged.push(segment),
        }
    }
    merged
}
