//! Selects the events of a late thread.

use std::collections::BTreeSet;

use super::{EventKind, TraceEvent};

/// Selects the events that may explain a late thread: all events on certain CPUs, and events on
/// other CPUs that name certain threads or interrupt these CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceStart {
    /// The CPUs where the thread ran or was woken.
    pub cpus: BTreeSet<u32>,
    /// The thread, its wakers, and the holders of its locks.
    pub threads: BTreeSet<u32>,
}

impl SliceStart {
    /// Returns the CPUs and threads whose events may explain why `victim` was late. It should have
    /// run on `cpu`.
    pub fn from_events<'a>(
        events: impl Iterator<Item = &'a TraceEvent>,
        victim: u32,
        cpu: Option<u32>,
    ) -> Self {
        let mut story = Self {
            cpus: cpu.into_iter().collect(),
            threads: BTreeSet::from([victim]),
        };
        for event in events {
            match &event.kind {
                EventKind::Waking { task, .. } | EventKind::Wakeup { task, .. }
                    if task.pid == victim =>
                {
                    story.cpus.insert(event.cpu);
                    story.threads.insert(event.pid);
                }
                // A thread that inherits the victim's priority holds a lock that the victim is
                // waiting for.
                EventKind::PiSetprio { task, .. } if event.pid == victim => {
                    story.threads.insert(task.pid);
                }
                EventKind::Migrate { task, dest_cpu, .. } if task.pid == victim => {
                    story.cpus.insert(*dest_cpu);
                }
                EventKind::Switch { prev, next, .. }
                    if prev.pid == victim || next.pid == victim =>
                {
                    story.cpus.insert(event.cpu);
                }
                _ => {}
            }
        }
        // The idle threads of all CPUs have the ID 0. Do not select those of other CPUs.
        story.threads.remove(&0);
        story
    }

    /// Returns whether an event is selected.
    pub fn concerns(&self, event: &TraceEvent) -> bool {
        let named = |pid: u32| self.threads.contains(&pid);
        self.cpus.contains(&event.cpu)
            || named(event.pid)
            || matches!(&event.kind, EventKind::IpiSend { cpus, .. }
                if cpus.iter().any(|cpu| self.cpus.contains(cpu)))
            || (self.threads.iter()).any(|tid| event.kind.is_about(*tid))
    }
}
