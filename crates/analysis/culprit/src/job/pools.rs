//! Threads of pools, which are idle in two waits. In runtimes such as Go's and tokio, one idle
//! thread at a time waits for events of the process, and the other idle threads are parked, each in
//! a futex. A thread does the one or the other from job to job.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::Nanos;

use super::release::{Call, CallKind, KindOf};
use super::siblings::Process;

/// A wait, with its beginning and end.
pub(super) type Waited = (Call, Nanos, Nanos);

/// Minimum number of times that another thread continues to wait for events.
const HANDOVERS: u64 = 3;

/// Minimum ratio between these times and those at which two threads waited simultaneously.
const PER_OVERLAP: u64 = 20;

/// Maximum number of places where threads wait for events, and of places whose kind is remembered.
const PLACES: usize = 4096;

/// The waits for events of all processes.
#[derive(Clone, Debug)]
pub(super) struct Pools {
    /// Processes of threads; `None` if unknown.
    processes: BTreeMap<u32, Option<Process>>,
    /// Threads whose processes are needed.
    needed: BTreeSet<u32>,
    by_place: BTreeMap<(u32, Call), EventWait>,
    /// Whether the threads wait for events at a place.
    kinds: BTreeMap<(u32, Call), bool>,
}

/// A place where threads of a process wait for events.
#[derive(Clone, Debug, Default)]
struct EventWait {
    /// The thread whose wait ended last, with this time, and the last other thread before it.
    last: Option<(u32, Nanos)>,
    before: Option<(u32, Nanos)>,
    handovers: u64,
    overlaps: u64,
}

impl EventWait {
    fn add(&mut self, tid: u32, from: Nanos, to: Nanos) {
        let is_same = self.last.is_some_and(|(last, _)| last == tid);
        if !is_same {
            self.handovers += u64::from(self.last.is_some());
            self.before = self.last;
        }
        self.overlaps += u64::from(self.before.is_some_and(|(_, end)| end > from));
        self.last = Some((tid, to));
    }

    /// Returns whether several threads wait here in turn. A thread that finds another one here must
    /// be idle elsewhere. If several threads wait here at the same time, they need no other place.
    const fn is_taken_in_turn(&self) -> bool {
        self.handovers >= HANDOVERS && self.overlaps.saturating_mul(PER_OVERLAP) <= self.handovers
    }
}

impl Pools {
    pub(super) const fn new() -> Self {
        Self {
            processes: BTreeMap::new(),
            needed: BTreeSet::new(),
            by_place: BTreeMap::new(),
            kinds: BTreeMap::new(),
        }
    }

    /// Sets the process of a thread.
    pub(super) fn joins(&mut self, tid: u32, process: Option<Process>) {
        self.needed.remove(&tid);
        self.processes.insert(tid, process);
    }

    /// Forgets a thread whose ID was reused.
    pub(super) fn forget(&mut self, tid: u32) {
        self.processes.remove(&tid);
        self.kinds.retain(|(of, _), _| *of != tid);
    }

    /// Returns the threads whose processes are needed.
    pub(super) const fn needed(&self) -> &BTreeSet<u32> {
        &self.needed
    }

    fn process(&mut self, tid: u32) -> Option<u32> {
        match self.processes.get(&tid) {
            Some(process) => process.map(|process| process.id),
            None => {
                self.needed.insert(tid);
                None
            }
        }
    }

    /// Returns whether two threads belong to sibling processes; `None` if this is not known yet.
    pub(super) fn are_siblings(&mut self, one: u32, other: u32) -> Option<bool> {
        let (first, second) = (self.processes.get(&one), self.processes.get(&other));
        if let (Some(first), Some(second)) = (first, second) {
            let both = first.zip(*second);
            return Some(both.is_some_and(|(first, second)| first.is_sibling_of(second)));
        }
        let unknown = [one, other].into_iter();
        let unknown = unknown.filter(|tid| !self.processes.contains_key(tid));
        if self.processes.len() < PLACES {
            self.needed.extend(unknown);
        }
        None
    }

    /// Adds a wait of a thread, if it is one for events.
    pub(super) fn add(&mut self, tid: u32, (call, from, to): Waited, kind: KindOf<'_>) {
        let is_for_events = || kind(tid, call) == Some(CallKind::Any);
        let known = self.kinds.get(&(tid, call)).copied();
        let is_for_events = known.unwrap_or_else(|| {
            let is = is_for_events();
            if self.kinds.len() < PLACES {
                self.kinds.insert((tid, call), is);
            }
            is
        });
        if is_for_events
            && let Some(process) = self.process(tid)
            && (self.by_place.len() < PLACES || self.by_place.contains_key(&(process, call)))
        {
            let wait = self.by_place.entry((process, call)).or_default();
            wait.add(tid, from, to);
        }
    }

    /// Returns the place where the threads of this thread's process wait for events in turn.
    pub(super) fn event_wait(&mut self, tid: u32) -> Option<Call> {
        if self.by_place.is_empty() {
            return None;
        }
        let process = self.process(tid)?;
        let all = Call {
            id: i64::MIN,
            argument: 0,
        };
        let of_process = self.by_place.range((process, all)..);
        of_process
            .take_while(|((of, _), _)| *of == process)
            .filter(|(_, wait)| wait.is_taken_in_turn())
            .max_by_key(|(_, wait)| wait.handovers)
            .map(|((_, call), _)| *call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: Call = Call {
        id: 232,
        argument: 4,
    };

    fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    /// Waits for events: the thread, and begin and end in µs.
    fn wait(all: &[(u32, u64, u64)]) -> EventWait {
        let mut wait = EventWait::default();
        for (tid, from, to) in all {
            wait.add(*tid, us(*from), us(*to));
        }
        wait
    }

    /// Threads that wait one after the other, each for 10 µs.
    fn in_turn(threads: &[u32]) -> Vec<(u32, u64, u64)> {
        let turns = threads.iter().zip(0..);
        turns
            .map(|(tid, turn)| (*tid, 10 * turn, 10 * turn + 10))
            .collect()
    }

    #[test]
    fn threads_of_a_pool_take_turns() {
        let is_pool = |threads: &[u32]| wait(&in_turn(threads)).is_taken_in_turn();
        assert!(is_pool(&[1, 2, 1, 2]) && !is_pool(&[1, 2, 1]));
        assert!(is_pool(&[1, 1, 2, 2, 3, 3, 1]) && !is_pool(&[1; 20]));
    }

    #[test]
    fn threads_that_wait_at_the_same_time_are_no_pool() {
        // Of 21 waits, a single one overlaps with the wait before.
        let with_overlap = |turns: usize| {
            let threads: Vec<u32> = (0..=turns as u32).map(|turn| turn % 2).collect();
            let mut waits = in_turn(&threads);
            waits[5].1 -= 1;
            let found = wait(&waits);
            assert_eq!((found.handovers, found.overlaps), (turns as u64, 1));
            found.is_taken_in_turn()
        };
        assert!(with_overlap(20) && !with_overlap(19));
        // The waits of one thread do not overlap with each other.
        let same = wait(&[(1, 0, 10), (1, 5, 20), (2, 20, 30)]);
        assert_eq!((same.handovers, same.overlaps), (1, 0));
        let other = wait(&[(1, 0, 10), (2, 10, 20), (2, 9, 30)]);
        assert_eq!(other.overlaps, 1);
    }

    fn process(id: u32) -> Option<Process> {
        Some(Process {
            id,
            family: Some([1, 2, 3]),
        })
    }

    #[test]
    fn place_of_the_process_is_that_with_the_most_turns() {
        let mut pools = Pools::new();
        let kind = |_: u32, call: Call| {
            Some(if call.id == EVENTS.id {
                CallKind::Any
            } else {
                CallKind::Other
            })
        };
        assert_eq!(pools.event_wait(1), None);
        for (tid, id) in [(1, 10), (2, 10), (3, 20), (4, 20)] {
            pools.joins(tid, process(id));
        }
        let second = Call {
            argument: 5,
            ..EVENTS
        };
        let futex = Call {
            id: 202,
            argument: 4,
        };
        for (turn, tid) in [1, 2, 1, 2, 1].into_iter().enumerate() {
            let (from, to) = (us(100 * turn as u64), us(100 * turn as u64 + 50));
            pools.add(tid, (EVENTS, from, to), &kind);
            pools.add(tid, (futex, from, to), &kind);
            if turn < 4 {
                pools.add(tid, (second, from, to), &kind);
            }
        }
        assert_eq!(
            (pools.event_wait(1), pools.event_wait(2)),
            (Some(EVENTS), Some(EVENTS))
        );
        assert_eq!(pools.event_wait(3), None);
        // The process of a thread must be known.
        assert_eq!(pools.event_wait(9), None);
        assert!(pools.needed().contains(&9));
        pools.joins(9, None);
        assert!(pools.needed().is_empty());
        assert_eq!(pools.event_wait(9), None);
        pools.forget(1);
        assert_eq!(pools.event_wait(1), None);
        assert!(pools.needed().contains(&1));
    }

    #[test]
    fn processes_that_are_not_known_yet_are_asked_for() {
        let mut pools = Pools::new();
        pools.joins(1, process(10));
        assert_eq!(pools.are_siblings(1, 2), None);
        assert_eq!(pools.needed(), &BTreeSet::from([2]));
        pools.joins(2, process(20));
        assert_eq!(pools.are_siblings(1, 2), Some(true));
        pools.joins(3, process(10));
        assert_eq!(pools.are_siblings(1, 3), Some(false));
        pools.joins(4, None);
        assert_eq!(
            (pools.are_siblings(1, 4), pools.are_siblings(4, 1)),
            (Some(false), Some(false))
        );
        assert_eq!(pools.are_siblings(7, 8), None);
        assert_eq!(pools.needed(), &BTreeSet::from([7, 8]));
    }
}
