//! A job of an application, from its release to its completion, split into shares.
//!
//! What the thread did is a chain of spans: it ran, was runnable, slept or was stopped.
//! Each is split by what stood on the CPU, and a sleep by what the thread did that ended
//! it, which may have slept itself: the wakers are followed.

mod chain;
mod finder;
mod lanes;
mod release;
mod split;
mod tracks;
mod waker;

use std::borrow::Cow;
use std::collections::BTreeSet;

use punctual_model::{EventKind, Nanos, TraceEvent, Window};

pub use finder::{CallNumbers, Job, JobFinder, JobSeen};
pub use lanes::lanes;
pub use release::{Call, CallKind, FoundRelease, SeenWaits};

use crate::stretch::Stretch;
use split::Split;
use tracks::{Phase, Tracks};

/// The stretches from the release to the completion, without gaps, in order, none empty.
pub(crate) fn walk(window: &Window) -> Vec<Stretch> {
    let events = sorted(window);
    let tracks = Tracks::of(window, &events);
    Split::of(window, &tracks).stretches
}

/// Leaves out the events of CPUs and threads that had no part in the job.
pub fn keep_concerned(window: &mut Window) {
    let (cpus, threads) = {
        let events = sorted(window);
        let tracks = Tracks::of(window, &events);
        let split = Split::of(window, &tracks);
        let mut cpus: BTreeSet<u32> = split.stretches.iter().map(|one| one.cpu).collect();
        for tid in &split.threads {
            let runs = tracks.spans(*tid, window.expected, window.actual);
            cpus.extend(runs.into_iter().filter_map(|span| span.cpu()));
        }
        (cpus, split.threads)
    };
    let kept = stacks_kept(window);
    window.events.retain(|event| {
        let stack = matches!(event.kind, EventKind::KernelStack { .. });
        if stack && !(event.pid == window.victim.tid && kept.contains(&event.time)) {
            return false;
        }
        event.is_beside()
            || cpus.contains(&event.cpu)
            || threads.contains(&event.pid)
            || threads.iter().any(|tid| event.kind.is_about(*tid))
    });
}

/// When the stacks were written of the longest sleeps: so many are kept.
fn stacks_kept(window: &Window) -> BTreeSet<Nanos> {
    const MOST: usize = 8;
    let events = sorted(window);
    let tracks = Tracks::of(window, &events);
    let tid = window.victim.tid;
    let mut sleeps = tracks.spans(tid, window.expected, window.actual);
    sleeps.retain(|span| matches!(span.phase, Phase::Asleep(_)));
    sleeps.sort_by_key(|span| std::cmp::Reverse(span.to - span.from));
    let at = |from: Nanos| {
        let of = |event: &&TraceEvent| {
            event.pid == tid && matches!(event.kind, EventKind::KernelStack { .. })
        };
        let mut stacks = events.iter().filter(of);
        stacks
            .find(|event| event.time >= from)
            .map(|event| event.time)
    };
    let longest = sleeps.iter().take(MOST);
    longest.filter_map(|span| at(span.from)).collect()
}

/// The events by time, without those that explain nothing by themselves.
pub(crate) fn sorted(window: &Window) -> Cow<'_, [TraceEvent]> {
    let mut events = Cow::Borrowed(window.events.as_slice());
    if events.iter().any(TraceEvent::is_beside) {
        events.to_mut().retain(|event| !event.is_beside());
    }
    if !events.is_sorted_by_key(|event| event.time) {
        // Stable: what has the same time stays as it was written.
        events.to_mut().sort_by_key(|event| event.time);
    }
    events
}
