//! A job of an application, from its release to its completion, split into shares.
//!
//! What the thread did is a chain of spans: it ran, was runnable, slept or was stopped.
//! Each is split by what stood on the CPU, and a sleep by what the thread did that ended
//! it, which may have slept itself: the wakers are followed.

mod cause;
mod chain;
mod finder;
mod lanes;
mod release;
mod split;
mod tracks;
mod waker;

use std::borrow::Cow;
use std::collections::BTreeSet;

use punctual_model::{TraceEvent, Window};

pub(crate) use cause::{Awaited, Device, Leaf, Wait};
pub use finder::{Job, JobFinder, JobSeen};
pub use lanes::lanes;
pub use release::{Call, CallKind, FoundRelease, SeenWaits};

use crate::stretch::Stretch;
use crate::throttle;
use split::Split;
use tracks::Tracks;

/// The stretches from the release to the completion, without gaps, in order, none empty.
pub(crate) fn walk(window: &Window) -> Vec<Stretch> {
    let events = sorted(window);
    let tracks = Tracks::of(window, &events);
    throttle::judge(window, Split::of(window, &tracks).stretches)
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
    window.events.retain(|event| {
        cpus.contains(&event.cpu)
            || threads.contains(&event.pid)
            || threads.iter().any(|tid| event.kind.is_about(*tid))
    });
}

fn sorted(window: &Window) -> Cow<'_, [TraceEvent]> {
    let mut events = Cow::Borrowed(window.events.as_slice());
    if !events.is_sorted_by_key(|event| event.time) {
        // Stable: what has the same time stays as it was written.
        events.to_mut().sort_by_key(|event| event.time);
    }
    events
}
