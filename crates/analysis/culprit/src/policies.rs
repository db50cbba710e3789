//! Finds threads that lost their real-time policy, and calls for a policy or for locked memory that
//! the kernel refused.

use std::collections::{BTreeMap, HashMap};

use punctual_model::cause::{PolicyChange, RefusedCall};
use punctual_model::{EventKind, KernelPriority, Nanos, Policy, Task, TraceEvent};

/// Maximum number of changes and of refused calls that are kept.
const MOST: usize = 20;

/// Changes of priority, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct PolicyChanges(Vec<PolicyChange>);

impl PolicyChanges {
    pub(crate) fn add(
        &mut self,
        thread: Task,
        (from, policy): (KernelPriority, Option<Policy>),
        at: Nanos,
    ) {
        if self.0.len() < MOST {
            self.0.push(PolicyChange {
                thread,
                from,
                policy,
                to: thread.prio,
                at_ns: at,
                at: None,
            });
        }
    }

    pub(crate) fn into_list(self) -> Vec<PolicyChange> {
        self.0
    }
}

/// Counts the refused calls for a policy or for locked memory, by thread, call and error.
#[derive(Debug, Default)]
pub struct RefusedCalls(BTreeMap<(u32, i64, u32), u64>);

impl RefusedCalls {
    /// Calls that change the policy of a thread, or lock memory.
    pub const CALLS: [&str; 6] = [
        "sched_setscheduler",
        "sched_setparam",
        "sched_setattr",
        "mlockall",
        "mlock",
        "mlock2",
    ];

    /// Applies an event. Only failed calls are counted.
    pub fn event(&mut self, event: &TraceEvent) {
        if let EventKind::SysExit {
            id,
            ret: ret @ -133..0,
        } = event.kind
        {
            let key = (event.pid, id, ret.unsigned_abs() as u32);
            if self.0.len() < 10 * MOST || self.0.contains_key(&key) {
                *self.0.entry(key).or_default() += 1;
            }
        }
    }

    /// Returns the refused calls. `call` names system calls, and `thread` threads. Calls and threads
    /// without a name are left out. A call that two events show, with its number and its name, counts
    /// once.
    pub fn named(
        &self,
        call: impl Fn(i64) -> Option<String>,
        thread: impl Fn(u32) -> Option<String>,
    ) -> Vec<RefusedCall> {
        let mut named: Vec<RefusedCall> = Vec::new();
        for ((tid, id, error), times) in &self.0 {
            let call = call(*id).filter(|call| Self::CALLS.contains(&call.as_str()));
            let Some((call, thread)) = call.zip(thread(*tid)) else {
                continue;
            };
            let is_same = |one: &&mut RefusedCall| {
                one.thread == thread && one.call == call && one.error == *error
            };
            if let Some(same) = named.iter_mut().find(is_same) {
                same.times = same.times.max(*times);
            } else if named.len() < MOST {
                named.push(RefusedCall {
                    thread,
                    call,
                    error: *error,
                    times: *times,
                });
            }
        }
        named.sort_by(|a, b| (&a.thread, &a.call).cmp(&(&b.thread, &b.call)));
        named
    }
}

/// Follows the threads of a running application, whose own policies are known at the start.
#[derive(Debug, Default)]
pub struct PolicyWatch {
    /// The policies of the real-time threads.
    own: HashMap<u32, (KernelPriority, Policy)>,
    changes: PolicyChanges,
    refused: RefusedCalls,
}

impl PolicyWatch {
    /// Sets the policy that a thread has itself, without inheritance. It is followed if it is a
    /// real-time policy.
    pub fn begin(&mut self, tid: u32, policy: Policy, priority: u8) {
        let prio = match policy {
            Policy::Deadline => KernelPriority(-1),
            policy if policy.is_real_time() => KernelPriority::real_time(priority),
            _ => return,
        };
        self.own.insert(tid, (prio, policy));
    }

    /// Forgets a thread whose ID was reused.
    pub fn forget(&mut self, tid: u32) {
        self.own.remove(&tid);
    }

    /// Applies an event of the threads.
    pub fn event(&mut self, event: &TraceEvent) {
        match &event.kind {
            EventKind::Switch { prev, next, .. } => {
                self.runs(prev, event.time);
                self.runs(next, event.time);
            }
            _ => self.refused.event(event),
        }
    }

    /// Compares the priority of a running thread with its own. Inheritance only raises a priority,
    /// so a lower one proves that its policy has changed.
    fn runs(&mut self, task: &Task, at: Nanos) {
        if task.prio == KernelPriority::UNKNOWN {
            return;
        }
        let Some((own, policy)) = self.own.get(&task.pid).copied() else {
            return;
        };
        if !own.is_above(task.prio) {
            return;
        }
        self.changes.add(*task, (own, Some(policy)), at);
        // A higher priority of an ordinary thread may be inherited.
        if task.prio.is_real_time() {
            self.own.insert(task.pid, (task.prio, policy));
        } else {
            self.own.remove(&task.pid);
        }
    }

    /// Returns the changes, the earliest first.
    pub fn changes(&mut self) -> Vec<PolicyChange> {
        std::mem::take(&mut self.changes).into_list()
    }

    /// Returns the refused calls.
    pub const fn refused(&self) -> &RefusedCalls {
        &self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Comm, TaskState};

    fn task(pid: u32, prio: i16) -> Task {
        Task {
            pid,
            comm: Comm::new(b"motion"),
            prio: KernelPriority(prio),
        }
    }

    fn event(time: u64, pid: u32, kind: EventKind) -> TraceEvent {
        TraceEvent {
            time: Nanos(time),
            cpu: 1,
            pid,
            flags: 0,
            preempt_count: 0,
            kind,
        }
    }

    fn switch(time: u64, prev: Task, next: Task) -> TraceEvent {
        let kind = EventKind::Switch {
            prev,
            prev_state: TaskState::default(),
            next,
        };
        event(time, prev.pid, kind)
    }

    fn watch() -> PolicyWatch {
        let mut watch = PolicyWatch::default();
        watch.begin(5, Policy::Fifo, 60);
        watch.begin(6, Policy::Other, 0);
        watch
    }

    #[test]
    fn lost_policy_is_found_once() {
        let mut watch = watch();
        watch.event(&switch(100, task(9, 120), task(5, 39)));
        watch.event(&switch(200, task(5, 39), task(9, 120)));
        watch.event(&switch(300, task(9, 120), task(5, 120)));
        watch.event(&switch(400, task(5, 120), task(9, 120)));
        let found = watch.changes();
        let [change] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!((change.thread.pid, change.at_ns), (5, Nanos(300)));
        assert_eq!((change.from.0, change.to.0), (39, 120));
        assert!(change.sentence().contains("fifo 60"));
    }

    /// A boost and its end, an ordinary thread with another nice value, and unknown priorities.
    #[test]
    fn inheritance_is_no_change() {
        let mut watch = watch();
        for (time, prio) in [(100, 39), (200, 9), (300, 39), (400, i16::MAX)] {
            watch.event(&switch(time, task(9, 120), task(5, prio)));
        }
        for (time, prio) in [(500, 39), (600, 120), (700, 130)] {
            watch.event(&switch(time, task(9, 120), task(6, prio)));
        }
        assert_eq!(watch.changes(), []);
    }

    #[test]
    fn lowered_priority_is_followed_further() {
        let mut watch = watch();
        watch.event(&switch(100, task(9, 120), task(5, 89)));
        watch.event(&switch(200, task(9, 120), task(5, 120)));
        let to: Vec<i16> = watch.changes().iter().map(|one| one.to.0).collect();
        assert_eq!(to, [89, 120]);
    }

    #[test]
    fn refused_calls_are_named_and_counted() {
        let mut watch = watch();
        for (id, ret) in [(144, -1), (144, -1), (151, -12), (0, -11), (144, 0)] {
            watch.event(&event(1, 5, EventKind::SysExit { id, ret }));
        }
        let name = |id| {
            let name = match id {
                144 => "sched_setscheduler",
                151 => "mlockall",
                _ => "read",
            };
            Some(name.to_owned())
        };
        let refused = watch.refused();
        let refused = refused.named(name, |tid| Some(format!("motion-{tid}")));
        let found: Vec<(&str, u32, u64)> = (refused.iter())
            .map(|one| (one.call.as_str(), one.error, one.times))
            .collect();
        assert_eq!(found, [("mlockall", 12, 1), ("sched_setscheduler", 1, 2)]);
        // The same calls, as an event with another number shows them.
        watch.event(&event(1, 5, EventKind::SysExit { id: -1, ret: -12 }));
        let name = |id| {
            (id != 0)
                .then(|| name(if id == -1 { 151 } else { id }))
                .flatten()
        };
        let twice = watch
            .refused()
            .named(name, |tid| Some(format!("motion-{tid}")));
        let times: Vec<u64> = twice.iter().map(|one| one.times).collect();
        assert_eq!(times, [1, 2]);
    }

    #[test]
    fn policies_of_all_real_time_threads_are_followed() {
        let mut watch = PolicyWatch::default();
        watch.begin(1, Policy::Deadline, 0);
        watch.begin(2, Policy::RoundRobin, 99);
        watch.begin(3, Policy::Fifo, 1);
        watch.begin(4, Policy::Batch, 0);
        for tid in 1..=4 {
            watch.event(&switch(100, task(9, 120), task(tid, 120)));
        }
        let changes = watch.changes();
        let found: Vec<(u32, i16)> = (changes.iter())
            .map(|change| (change.thread.pid, change.from.0))
            .collect();
        assert_eq!(found, [(1, -1), (2, 0), (3, 98)]);
        assert_eq!(watch.changes(), []);
        // Another thread got the ID.
        watch.begin(5, Policy::Fifo, 60);
        watch.forget(5);
        watch.event(&switch(100, task(9, 120), task(5, 120)));
        assert_eq!(watch.changes(), []);
    }

    #[test]
    fn first_changes_and_calls_are_kept() {
        let mut changes = PolicyChanges::default();
        for tid in 0..25 {
            let at = Nanos(u64::from(tid));
            changes.add(task(tid, 120), (KernelPriority(9), None), at);
        }
        let found = changes.into_list();
        assert_eq!((found.len(), found[19].thread.pid), (20, 19));
        let mut refused = RefusedCalls::default();
        for tid in 0..205 {
            refused.event(&event(1, tid, EventKind::SysExit { id: 1, ret: -1 }));
        }
        refused.event(&event(1, 3, EventKind::SysExit { id: 1, ret: -1 }));
        assert_eq!(refused.0.len(), 200);
        assert_eq!(refused.0[&(3, 1, 1)], 2);
        let named = refused.named(|_| Some("mlock".to_owned()), |tid| Some(format!("t-{tid}")));
        assert_eq!(named.len(), 20);
        assert_eq!(refused.named(|_| None, |_| Some(String::new())), []);
        assert_eq!(refused.named(|_| Some("mlock".to_owned()), |_| None), []);
    }

    /// Only values from -133 to -1 are error numbers of these calls.
    #[test]
    fn other_return_values_are_no_refusals() {
        let count = |ret: i64| {
            let mut refused = RefusedCalls::default();
            refused.event(&event(1, 5, EventKind::SysExit { id: 1, ret }));
            refused.0.len()
        };
        assert_eq!((count(-133), count(-1)), (1, 1));
        assert_eq!((count(-134), count(0), count(7)), (0, 0, 0));
    }
}
