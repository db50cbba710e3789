//! Owners of locks with priority inheritance. While the owner runs on another CPU, the kernel lets
//! the waiter spin, so no wake-up names the owner.

use std::collections::BTreeMap;

use punctual_model::{EventKind, Nanos, TraceEvent};

/// FUTEX_LOCK_PI, FUTEX_UNLOCK_PI and FUTEX_LOCK_PI2 (`include/uapi/linux/futex.h`).
const LOCK_PI: [u64; 2] = [6, 13];
const UNLOCK_PI: u64 = 7;

/// Mask that selects the operation of futex(2), without flags.
pub(crate) const FUTEX_OPERATION: u64 = 0x7f;

/// Events that show the owners of locks.
#[derive(Clone, Debug, Default)]
pub(crate) struct PiLocks {
    /// By waiter: the thread that got its priority or that the futex names as the owner.
    owners: BTreeMap<u32, Vec<(Nanos, u32)>>,
    /// By owner: the times at which it lost an inherited priority.
    released: BTreeMap<u32, Vec<Nanos>>,
}

/// Time in which a thread waits for a lock of another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spin {
    pub(crate) owner: u32,
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
}

impl PiLocks {
    pub(crate) fn note(&mut self, event: &TraceEvent) {
        match &event.kind {
            EventKind::FutexOwner { owner, .. } if *owner != event.pid => {
                self.own(event, *owner);
            }
            EventKind::PiSetprio { task, .. } if task.pid == event.pid => {
                self.released.entry(task.pid).or_default().push(event.time);
            }
            EventKind::PiSetprio { task, .. } => {
                self.own(event, task.pid);
            }
            _ => {}
        }
    }

    fn own(&mut self, event: &TraceEvent, owner: u32) {
        let owners = self.owners.entry(event.pid).or_default();
        owners.push((event.time, owner));
    }

    /// Returns when a thread waits for the owner of a lock in a call of futex(2) with these times
    /// and arguments. `unlocks` returns the times at which a thread unlocks a futex.
    pub(crate) fn spin(
        &self,
        tid: u32,
        (from, to): (Nanos, Nanos),
        [futex, operation]: [u64; 2],
        unlocks: impl Fn(u32, &dyn Fn([u64; 2]) -> bool) -> Vec<Nanos>,
    ) -> Option<Spin> {
        if !LOCK_PI.contains(&(operation & FUTEX_OPERATION)) {
            return None;
        }
        let owners = self.owners.get(&tid)?;
        // The first one is the owner of this lock. Later ones are owners of locks that it waits
        // for in turn.
        let first = owners.partition_point(|(at, _)| *at < from);
        let (since, owner) = *owners.get(first).filter(|(at, _)| *at < to)?;
        let is_unlock = |args: [u64; 2]| args[0] == futex && args[1] & FUTEX_OPERATION == UNLOCK_PI;
        let mut ends = unlocks(owner, &is_unlock);
        ends.extend(self.released.get(&owner).into_iter().flatten());
        let end = ends.into_iter().filter(|at| *at > since).min();
        Some(Spin {
            owner,
            from: since,
            to: end.map_or(to, |end| end.min(to)),
        })
    }
}
