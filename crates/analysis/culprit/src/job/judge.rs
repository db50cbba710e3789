//! Judges which waits of a thread are its release waits.

use super::release::{Call, CallKind, KindOf, Waits};
use super::seen::JobSeen;
use super::siblings::Siblings;
use super::thread_state::CallNumbers;

/// The knowledge about a thread that decides which of its waits are release waits.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) tid: u32,
    /// Place where the threads of the process wait for events in turn.
    pub(super) event_wait: Option<Call>,
    pub(super) siblings: &'a Siblings,
    pub(super) numbers: &'a CallNumbers,
    pub(super) kind: KindOf<'a>,
}

impl Judge<'_> {
    /// Marks the places where siblings end each other's waits.
    pub(super) fn mark_mutual(&self, waits: &mut Waits) {
        waits.mark_mutual(&|call| self.siblings.are_mutual(self.tid, call));
    }

    /// Finds the other idle waits of the thread, if it does not belong to a pool. Returns
    /// whether they have changed.
    pub(super) fn find_idle(&self, seen: &mut JobSeen) -> bool {
        let may_be = |call: Call| match (self.kind)(self.tid, call) {
            Some(CallKind::Timer) => true,
            Some(_) => self.numbers.futex.contains(&call.id),
            None => false,
        };
        let known: Vec<Call> = seen.also_idle.iter().map(|found| found.call).collect();
        let release = seen.release.filter(|_| seen.second_release.is_none());
        let calls = release.map_or_else(Vec::new, |first| {
            (seen.waits).also_idle((first.call, &known), &may_be)
        });
        let has_changed = calls != known;
        seen.also_idle = calls.iter().map(|call| seen.waits.found(*call)).collect();
        has_changed
    }

    /// Finds the second release wait of a thread of a pool: the wait for events, or the longest wait
    /// in a futex that is not a lock. Returns whether it has changed.
    pub(super) fn find_second(&self, seen: &mut JobSeen) -> bool {
        let fits = |call: &Call| (self.kind)(self.tid, *call).is_some();
        let second = self.event_wait.filter(fits).and_then(|event_wait| {
            let first = seen.release?.call;
            if first == event_wait {
                return (seen.waits)
                    .longest_of(&self.numbers.futex, &|call| (self.kind)(self.tid, call));
            }
            self.numbers.futex.contains(&first.id).then_some(event_wait)
        });
        let before = seen.second_release.map(|found| found.call);
        seen.second_release = second.map(|call| seen.waits.found(call));
        before != second
    }
}
