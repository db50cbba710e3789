//! Waits that sibling processes end for each other, such as the waits of PostgreSQL's backends for a
//! lock in shared memory. Processes are siblings if the same process created them by fork(2), and
//! they run the same program since then.

use std::collections::BTreeMap;

use super::release::Call;

/// A process, as needed for the choice of the release wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its PID.
    pub id: u32,
    /// Equal for siblings; `None` if unknown.
    pub family: Option<[u64; 3]>,
}

impl Process {
    pub(super) fn is_sibling_of(self, other: Self) -> bool {
        self.id != other.id && self.family.is_some() && self.family == other.family
    }
}

/// Minimum number of wake-ups in each direction between siblings.
const MUTUAL: u64 = 3;

/// Maximum number of entries in each table.
const ENTRIES: usize = 16_384;

/// The wake-ups between sibling processes.
#[derive(Clone, Debug)]
pub(super) struct Siblings {
    woken: BTreeMap<(u32, Call), Woken>,
    /// Number of siblings' waits that a thread has ended, by system call. Descriptors of the same
    /// object can have different numbers in the processes.
    wakes: BTreeMap<(u32, i64), u64>,
}

/// Wake-ups of a thread at one place.
#[derive(Clone, Copy, Debug, Default)]
struct Woken {
    by_siblings: u64,
    /// Wake-ups by siblings whose own wake-ups are recorded.
    by_watched: u64,
    by_others: u64,
}

impl Siblings {
    pub(super) const fn new() -> Self {
        Self {
            woken: BTreeMap::new(),
            wakes: BTreeMap::new(),
        }
    }

    /// Adds a wake-up. `by`: the thread of a sibling that caused it, and whether this thread is
    /// watched; `Some(None)` for other causes, and `None` if the cause is unknown.
    pub(super) fn add(&mut self, tid: u32, call: Call, by: Option<Option<(u32, bool)>>) {
        let (Some(by), Some(woken)) = (by, self.woken_at(tid, call)) else {
            return;
        };
        let Some((by, watched)) = by else {
            woken.by_others += 1;
            return;
        };
        woken.by_siblings += 1;
        woken.by_watched += u64::from(watched);
        if watched && (self.wakes.len() < ENTRIES || self.wakes.contains_key(&(by, call.id))) {
            *self.wakes.entry((by, call.id)).or_default() += 1;
        }
    }

    fn woken_at(&mut self, tid: u32, call: Call) -> Option<&mut Woken> {
        let place = (tid, call);
        let has_room = self.woken.len() < ENTRIES || self.woken.contains_key(&place);
        has_room.then(|| self.woken.entry(place).or_default())
    }

    /// Forgets a thread whose ID was reused.
    pub(super) fn forget(&mut self, tid: u32) {
        self.woken.retain(|(of, _), _| *of != tid);
        self.wakes.retain(|(of, _), _| *of != tid);
    }

    /// Returns whether siblings end most waits of the thread at this place, and the thread ends
    /// such waits of siblings. If it ends none, they may pass work on to it. That is unknown for
    /// siblings whose wake-ups are not recorded.
    pub(super) fn are_mutual(&self, tid: u32, call: Call) -> bool {
        let Some(woken) = self.woken.get(&(tid, call)) else {
            return false;
        };
        let mostly_unwatched = woken.by_siblings - woken.by_watched > woken.by_watched;
        let wakes = || self.wakes.get(&(tid, call.id)).copied().unwrap_or(0);
        woken.by_siblings >= MUTUAL
            && woken.by_siblings > woken.by_others
            && (mostly_unwatched || wakes() >= MUTUAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Call = Call { id: 7, argument: 4 };
    const TID: u32 = 1;

    /// Wake-ups of the thread at the place: by watched and unwatched siblings, and by others. The
    /// thread itself wakes a sibling this often, at another descriptor.
    fn mutual(watched: u64, unwatched: u64, others: u64, wakes: u64) -> bool {
        let mut siblings = Siblings::new();
        for (count, by) in [
            (watched, Some((2, true))),
            (unwatched, Some((3, false))),
            (others, None),
        ] {
            for _ in 0..count {
                siblings.add(TID, PLACE, Some(by));
            }
        }
        let other = Call {
            argument: 9,
            ..PLACE
        };
        for _ in 0..wakes {
            siblings.add(2, other, Some(Some((TID, true))));
        }
        siblings.are_mutual(TID, PLACE)
    }

    #[test]
    fn siblings_wake_each_other() {
        assert!(mutual(3, 0, 0, 3));
        assert!(!mutual(2, 0, 0, 3) && !mutual(3, 0, 0, 2));
        // Most wake-ups are by siblings.
        assert!(mutual(5, 0, 4, 3) && !mutual(5, 0, 5, 3));
        // Wake-ups of siblings that are not watched are unknown.
        assert!(mutual(0, 3, 0, 0) && !mutual(0, 2, 0, 0));
        assert!(mutual(2, 3, 0, 0) && !mutual(3, 3, 0, 0));
        assert!(!mutual(0, 0, 0, 9));
    }

    #[test]
    fn wake_ups_at_other_calls_and_of_unknown_threads_prove_nothing() {
        let mut siblings = Siblings::new();
        for _ in 0..5 {
            siblings.add(TID, PLACE, Some(Some((2, true))));
            siblings.add(2, Call { id: 8, ..PLACE }, Some(Some((TID, true))));
            siblings.add(4, PLACE, None);
        }
        assert!(!siblings.are_mutual(TID, PLACE) && !siblings.are_mutual(4, PLACE));
        for _ in 0..3 {
            siblings.add(2, PLACE, Some(Some((TID, true))));
        }
        assert!(siblings.are_mutual(TID, PLACE) && siblings.are_mutual(2, PLACE));
        // Another thread may get its ID.
        siblings.forget(TID);
        assert!(!siblings.are_mutual(TID, PLACE) && siblings.are_mutual(2, PLACE));
    }

    #[test]
    fn processes_of_one_family_are_siblings() {
        let process = |id, family: Option<u64>| Process {
            id,
            family: family.map(|family| [family, 2, 3]),
        };
        let own = process(1, Some(1));
        assert!(own.is_sibling_of(process(2, Some(1))));
        for other in [process(1, Some(1)), process(2, Some(9)), process(2, None)] {
            assert!(!own.is_sibling_of(other), "{other:?}");
        }
        assert!(!process(1, None).is_sibling_of(process(2, None)));
    }
}
