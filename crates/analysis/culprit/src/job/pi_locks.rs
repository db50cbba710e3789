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

#[cfg(test)]
mod tests {
    use punctual_model::KernelPriority;

    use super::*;
    use crate::testing::{event, task, us};

    const TID: u32 = 100;
    const LOCK: u64 = 0x7f10;

    fn owned(at: u64, owner: u32) -> TraceEvent {
        event(at, TID, EventKind::FutexOwner { futex: LOCK, owner })
    }

    fn inherits(at: u64, by: u32, pid: u32) -> TraceEvent {
        let kind = EventKind::PiSetprio {
            task: task("t", pid, 120),
            newprio: KernelPriority(4),
        };
        event(at, by, kind)
    }

    /// Returns owner, begin and end in µs of the wait in a call from 100 to 900 µs. The owner unlocks
    /// this futex at these times.
    fn spin(events: &[TraceEvent], operation: u64, unlocked: &[u64]) -> Option<(u32, u64, u64)> {
        let mut locks = PiLocks::default();
        events.iter().for_each(|event| locks.note(event));
        let unlocks = |_: u32, is_unlock: &dyn Fn([u64; 2]) -> bool| {
            assert!(is_unlock([LOCK, 7]) && is_unlock([LOCK, 7 | 128]));
            assert!(!is_unlock([LOCK, 6]) && !is_unlock([LOCK + 8, 7]));
            unlocked.iter().map(|at| us(*at)).collect()
        };
        let found = locks.spin(TID, (us(100), us(900)), [LOCK, operation], unlocks)?;
        Some((found.owner, found.from.0 / 1_000, found.to.0 / 1_000))
    }

    #[test]
    fn waiter_spins_from_the_owner_until_its_release() {
        let own = |at| [owned(at, 20)];
        for operation in [6, 13, 6 | 128, 13 | 128] {
            assert_eq!(spin(&own(200), operation, &[]), Some((20, 200, 900)));
        }
        for operation in [0, 7, 8, 9, 128] {
            assert_eq!(spin(&own(200), operation, &[]), None);
        }
        // The owner must be seen in the call.
        assert_eq!(spin(&own(100), 6, &[]), Some((20, 100, 900)));
        assert_eq!(
            (spin(&own(99), 6, &[]), spin(&own(900), 6, &[])),
            (None, None)
        );
        assert_eq!(spin(&own(899), 6, &[]), Some((20, 899, 900)));
        // The first release after that ends the wait.
        assert_eq!(spin(&own(200), 6, &[150, 500, 400]), Some((20, 200, 400)));
        assert_eq!(spin(&own(200), 6, &[200, 950]), Some((20, 200, 900)));
        // The first owner is that of this lock.
        assert_eq!(
            spin(&[owned(200, 20), owned(300, 21)], 6, &[]),
            Some((20, 200, 900))
        );
    }

    #[test]
    fn inheritance_shows_owner_and_release() {
        let lends = || inherits(200, TID, 20);
        assert_eq!(spin(&[lends()], 6, &[]), Some((20, 200, 900)));
        let released = [lends(), inherits(600, 20, 20)];
        assert_eq!(spin(&released, 6, &[]), Some((20, 200, 600)));
        assert_eq!(spin(&released, 6, &[500]), Some((20, 200, 500)));
        // Its own change of priority makes a thread no owner, nor does that of another waiter.
        assert_eq!(spin(&[inherits(200, TID, TID)], 6, &[]), None);
        assert_eq!(spin(&[inherits(200, 77, 20)], 6, &[]), None);
        assert_eq!(spin(&[owned(200, TID)], 6, &[]), None);
    }
}
