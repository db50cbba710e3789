//! System calls of a trace that the kernel's numbers do not state: those with a name only, and sleeps in
//! calls that are not recorded.

use std::collections::{BTreeMap, BTreeSet};

use punctual_host::system_call_numbers;
use punctual_model::{EventKind, TaskState, TraceEvent};
use punctual_tracefile::TraceHead;

use crate::observe::jobs::SLEEP;

/// The numbers of calls that a trace states by name (`syscalls:sys_enter_futex`), on this machine's
/// architecture.
#[derive(Default)]
pub(super) struct CallsByName(BTreeMap<i64, i64>);

impl CallsByName {
    /// Sets the number of a call that only its name states. Returns whether the event is such a call.
    pub(super) fn number(&mut self, event: &mut TraceEvent, head: &TraceHead) -> bool {
        let (EventKind::SysEnter { id, .. } | EventKind::SysExit { id, .. }) = &mut event.kind
        else {
            return false;
        };
        // With events by number, only the results of policy calls are also read by name.
        if *id >= 0
            || head
                .calls
                .get(id)
                .is_none_or(|call| !head.shows_by_name(call))
        {
            return false;
        }
        let stated = *id;
        *id = *self.0.entry(stated).or_insert_with(|| {
            let call = head.calls.get(&stated).map(String::as_str);
            let numbers = system_call_numbers(call.unwrap_or_default());
            numbers.first().copied().unwrap_or(stated)
        });
        true
    }
}

/// Makes system calls of the sleeps whose call is not recorded.
#[derive(Default)]
pub(super) struct Sleeps {
    asleep: BTreeSet<u32>,
    /// The threads with recorded calls, and whether each is in one.
    in_call: BTreeMap<u32, bool>,
    has_calls: bool,
    /// Whether a thread with recorded calls also sleeps outside of them.
    is_partial: bool,
}

impl Sleeps {
    /// Returns the events around a switch that make a system call of a sleep: its begin before the
    /// switch, and its end after the switch back to the thread.
    pub(super) fn around(
        &mut self,
        event: &TraceEvent,
        watched: &dyn Fn(u32) -> bool,
    ) -> [Option<TraceEvent>; 2] {
        let EventKind::Switch {
            prev,
            prev_state,
            next,
        } = &event.kind
        else {
            let enters = matches!(event.kind, EventKind::SysEnter { .. });
            if watched(event.pid) && (enters || matches!(event.kind, EventKind::SysExit { .. })) {
                self.in_call.insert(event.pid, enters);
                self.has_calls = true;
            }
            return [None, None];
        };
        let of_thread = |pid: u32, kind| TraceEvent {
            pid,
            kind,
            ..event.clone()
        };
        let call = self.in_call.get(&prev.pid);
        let falls_asleep = !prev.is_idle() && is_interruptible(*prev_state) && call != Some(&true);
        let begin = falls_asleep.then(|| {
            self.is_partial |= call.is_some();
            self.asleep.insert(prev.pid);
            let (id, args) = (SLEEP, [0; 2]);
            of_thread(prev.pid, EventKind::SysEnter { id, args })
        });
        let end = self.asleep.remove(&next.pid).then(|| {
            let (id, ret) = (SLEEP, 0);
            of_thread(next.pid, EventKind::SysExit { id, ret })
        });
        [begin, end]
    }

    /// Forgets the calls that threads are in, because events are missing.
    pub(super) fn lost(&mut self) {
        self.in_call.clear();
    }

    /// Returns what the trace lacks.
    pub(super) fn warning(&self) -> Option<&'static str> {
        if self.is_partial {
            return Some(
                "the trace has only some system calls of these threads: all their other \
                 interruptible sleeps count as one wait, so a job can end too early. Record \
                 raw_syscalls:sys_enter and raw_syscalls:sys_exit",
            );
        }
        (!self.has_calls).then_some(
            "the trace has no system calls of these threads, so each interruptible sleep ends a job: \
             a job that waits, such as for a lock, counts as several. Record raw_syscalls:sys_enter \
             and raw_syscalls:sys_exit",
        )
    }
}

const fn is_interruptible(state: TaskState) -> bool {
    !(state.is_runnable()
        || state.is_uninterruptible()
        || state.is_stopped()
        || state.is_traced()
        || state.is_exit())
}
