//! Threads of Java virtual machines.

use std::collections::BTreeSet;

use punctual_host::Host;
use punctual_model::{EventKind, Task, TraceEvent};

/// Returns the threads in these events that belong to the virtual machine of a thread's process.
pub(super) fn threads(host: &Host, tid: u32, events: &[TraceEvent]) -> Vec<u32> {
    let named: BTreeSet<u32> = events
        .iter()
        .flat_map(tasks)
        .filter(|task| punctual_culprit::is_name_of_jvm(&task.comm))
        .map(|task| task.pid)
        .collect();
    if named.is_empty() || !host.maps_library(tid, "libjvm.so") {
        return Vec::new();
    }
    let named = named.into_iter();
    named
        .filter(|other| host.share_process(tid, *other))
        .collect()
}

fn tasks(event: &TraceEvent) -> impl Iterator<Item = &Task> {
    let (one, other) = match &event.kind {
        EventKind::Switch { prev, next, .. } => (Some(prev), Some(next)),
        EventKind::Waking { task, .. } => (Some(task), None),
        _ => (None, None),
    };
    one.into_iter().chain(other)
}
