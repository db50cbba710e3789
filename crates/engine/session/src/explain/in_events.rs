//! Facts about a thread that its events state.

use punctual_model::{Comm, EventKind, TraceEvent};

/// Returns the CPU on which the thread was last seen.
pub(super) fn ended_on(events: &[TraceEvent], tid: u32) -> Option<u32> {
    let on = |event: &&TraceEvent| match &event.kind {
        EventKind::Switch { next, .. } => next.pid == tid,
        _ => event.pid == tid,
    };
    events.iter().rev().find(on).map(|event| event.cpu)
}

/// Returns the thread's name according to the events.
pub(super) fn name_of(events: &[TraceEvent], tid: u32) -> Comm {
    let named = |event: &TraceEvent| match &event.kind {
        EventKind::Switch { next, .. } if next.pid == tid => Some(next.comm),
        EventKind::Switch { prev, .. } if prev.pid == tid => Some(prev.comm),
        EventKind::Waking { task, .. } if task.pid == tid => Some(task.comm),
        _ => None,
    };
    events.iter().find_map(named).unwrap_or_default()
}
