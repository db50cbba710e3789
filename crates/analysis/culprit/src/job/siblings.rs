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
