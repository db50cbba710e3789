//! Splits a job of an application, from its release to its completion, into shares.
//!
//! The thread's activity is a sequence of spans: running, runnable, asleep or stopped. Running and
//! runnable spans are split according to what was on the CPU. A sleep is split by the activity of
//! the thread that ended it. If that thread was asleep too, the thread that woke it is followed in
//! turn.

mod call;
mod chain;
mod counted;
mod cpu_span;
mod faults;
mod finder;
mod go_stops;
mod idle;
mod interrupt;
mod judge;
mod jvm;
mod learning;
mod pi_locks;
mod pools;
mod preempted;
mod release;
mod seen;
mod siblings;
mod split;
mod thread;
mod thread_activity;
mod thread_state;
mod tracks;
mod waker;
mod wakers;

use std::borrow::Cow;
use std::collections::BTreeSet;

use punctual_model::cause::Detail;
use punctual_model::{EventKind, Nanos, TraceEvent, Window};

pub use counted::Counted;
pub use finder::JobFinder;
pub use interrupt::interrupt_source;
pub use jvm::is_name_of_jvm;
pub use preempted::add_preempted;
pub use release::{Call, CallKind, FoundRelease, SeenWaits};
pub use seen::{Job, JobSeen, OpenJobSeen};
pub use siblings::Process;
pub use thread_activity::thread_activity;
pub use thread_state::CallNumbers;

use crate::cause_span::CauseSpan;
use crate::context::is_in_switch;
use split::Split;
use tracks::{Phase, Tracks};

/// Returns the segments from release to completion, in order. There are no gaps between them, and
/// none is empty.
pub(crate) fn walk(window: &Window) -> Vec<CauseSpan> {
    let events = sorted(window);
    let tracks = Tracks::from_events(window, &events);
    Split::new(window, &tracks).spans
}

/// Returns the detail for the share of user space of a job: the thread that was preempted for at
/// least half of this time, and ran again before the job ended. `None` if there is no such thread, or
/// if the job spent most of its time elsewhere. `may_hold`: whether the job can wait for a thread.
pub fn preempted_meanwhile(window: &Window, may_hold: &dyn Fn(u32) -> bool) -> Option<Detail> {
    let events = sorted(window);
    let tracks = Tracks::from_events(window, &events);
    preempted::preempted_meanwhile(window, &tracks, may_hold)
}

/// Removes the events of CPUs and threads that were not involved in the job.
pub fn keep_concerned(window: &mut Window) {
    let (cpus, threads) = {
        let events = sorted(window);
        let tracks = Tracks::from_events(window, &events);
        let split = Split::new(window, &tracks);
        let mut cpus: BTreeSet<u32> = split.spans.iter().map(|one| one.cpu).collect();
        for tid in &split.threads {
            let runs = tracks.spans(*tid, window.expected, window.actual);
            cpus.extend(runs.into_iter().filter_map(|span| span.cpu()));
        }
        // The events of the handler show which device it serves.
        let handlers = TraceEvent::HARDIRQ | TraceEvent::SOFTIRQ | TraceEvent::NMI;
        let by_handler = |event: &&TraceEvent| match &event.kind {
            EventKind::Waking { task, .. } => {
                split.threads.contains(&task.pid) && (event.pid == 0 || event.has(handlers))
            }
            _ => false,
        };
        cpus.extend(events.iter().filter(by_handler).map(|event| event.cpu));
        (cpus, split.threads)
    };
    let kept = stacks_kept(window);
    window.events.retain(|event| {
        let stack = matches!(event.kind, EventKind::KernelStack { .. });
        if stack && !(event.pid == window.victim.tid && kept.contains(&event.time)) {
            return false;
        }
        event.is_accounting()
            || cpus.contains(&event.cpu)
            || threads.contains(&event.pid)
            || threads.iter().any(|tid| event.kind.is_about(*tid))
    });
}

/// Returns the times of the stacks to keep, which are those of the longest sleeps.
fn stacks_kept(window: &Window) -> BTreeSet<Nanos> {
    const MOST: usize = 8;
    let events = sorted(window);
    let tracks = Tracks::from_events(window, &events);
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

/// Returns the events in order of time, without accounting events, which explain nothing by
/// themselves.
pub(crate) fn sorted(window: &Window) -> Cow<'_, [TraceEvent]> {
    let mut events = Cow::Borrowed(window.events.as_slice());
    let explains_nothing = |event: &TraceEvent| event.is_accounting() && !is_in_switch(event);
    if events.iter().any(explains_nothing) {
        events.to_mut().retain(|event| !explains_nothing(event));
    }
    if !events.is_sorted_by_key(|event| event.time) {
        // The sort is stable: events with equal times keep their order.
        events.to_mut().sort_by_key(|event| event.time);
    }
    events
}
