//! What one thread measures, counted by it alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use punctual_grid::index_of;

use crate::layout::{self, lane};
use crate::memory::Memory;

/// What the samples of a lane are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// Wake-up latency: from the release of a job to its start.
    Latency = 0,
    /// Response time: from the release of a job to its completion.
    Response = 1,
    /// Execution time: from the start of a job to its completion.
    Execution = 2,
    /// A duration of another meaning, which the lane's name says.
    Other = 3,
}

impl Kind {
    /// Each.
    pub const ALL: [Self; 4] = [Self::Latency, Self::Response, Self::Execution, Self::Other];

    /// Its name on screen and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Response => "response",
            Self::Execution => "execution",
            Self::Other => "other",
        }
    }

    /// That of a number; one from the future is [`Kind::Other`].
    pub(crate) fn of(number: u64) -> Self {
        let known = Self::ALL.into_iter().find(|kind| *kind as u64 == number);
        known.unwrap_or(Self::Other)
    }
}

/// What a lane is for.
#[derive(Clone, Copy, Debug)]
pub struct LaneSpec<'a> {
    /// Its name, cut at 32 bytes: `control`.
    pub name: &'a str,
    /// What its samples are.
    pub kind: Kind,
    /// The period in ns; 0 where there is none.
    pub period_ns: u64,
    /// Each sample above this, in ns, is kept with its time; 0: only the largest of
    /// each second.
    pub budget_ns: u64,
}

/// So long is a sample the one to beat for the ring: then the next largest gets in.
const WINDOW_NS: u64 = 1_000_000_000;

/// A lane. Recording makes no system call, no allocation, takes no lock and uses no
/// floating point; it costs about 5 ns.
#[derive(Debug)]
pub struct Lane {
    memory: Arc<Memory>,
    /// The place of its first word.
    first: usize,
    budget_ns: u64,
    /// The largest sample since `window`, a time.
    largest_ns: u64,
    window: u64,
    /// Copies of what only this lane writes.
    run: u64,
    min_ns: u64,
    max_ns: u64,
    ring_head: u64,
}

impl Lane {
    pub(crate) fn new(memory: Arc<Memory>, first: usize, budget_ns: u64) -> Self {
        Self {
            memory,
            first,
            budget_ns,
            largest_ns: 0,
            window: 0,
            run: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            ring_head: 0,
        }
    }

    /// Counts one sample: `ns` nanoseconds, of a job that was released at `at_ns` on
    /// CLOCK_MONOTONIC. A negative one (a wake-up before its time) is counted as early.
    #[inline]
    pub fn record(&mut self, at_ns: u64, ns: i64) {
        let Ok(ns) = u64::try_from(ns) else {
            self.add(lane::EARLY, 1);
            return self.recorded();
        };
        match index_of(ns) {
            Some(index) => self.add(lane::BUCKETS + index, 1),
            None => self.add(lane::OVERFLOW, 1),
        }
        self.add(lane::SUM_NS, ns);
        if ns > self.max_ns {
            self.max_ns = ns;
            self.set(lane::MAX_NS, ns);
        }
        if ns < self.min_ns {
            self.min_ns = ns;
            self.set(lane::MIN_NS, ns);
        }
        if at_ns.wrapping_sub(self.window) >= WINDOW_NS {
            self.window = at_ns;
            self.largest_ns = 0;
        }
        let over = self.budget_ns != 0 && ns > self.budget_ns;
        if ns > self.largest_ns || over {
            self.keep(at_ns, ns, over);
        }
        self.recorded();
    }

    /// Sets the account of the periods so far, as [`Periodic`] of the crate
    /// `punctual-rt` keeps it: due = run + missed. A lane that never calls it has no
    /// periods, and every sample was due.
    ///
    /// [`Periodic`]: https://docs.rs/punctual-rt
    #[inline]
    pub fn account(&mut self, due: u64, missed: u64, late: u64) {
        self.set(lane::DUE, due);
        self.set(lane::MISSED, missed);
        self.set(lane::LATE, late);
    }

    /// Samples recorded.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Rare: a sample that is the largest of its second, or above the budget.
    #[cold]
    fn keep(&mut self, at_ns: u64, ns: u64, over: bool) {
        self.largest_ns = self.largest_ns.max(ns);
        if over {
            self.add(lane::OVER_BUDGET, 1);
        }
        let place = self.ring_head as usize % layout::RING_ENTRIES;
        let entry = lane::RING + place * layout::RING_ENTRY_WORDS;
        // Odd while it is written, so that a reader does not take a half.
        self.set(entry, 2 * self.ring_head + 1);
        fence(Ordering::Release);
        self.set(entry + 1, at_ns);
        self.set(entry + 2, ns);
        self.word(entry)
            .store(2 * self.ring_head + 2, Ordering::Release);
        self.ring_head += 1;
        self.word(lane::RING_HEAD)
            .store(self.ring_head, Ordering::Release);
    }

    #[inline]
    fn recorded(&mut self) {
        self.run += 1;
        // Last: a reader that finds it unchanged has a whole picture.
        self.word(lane::RUN).store(self.run, Ordering::Release);
    }

    #[inline(always)]
    fn word(&self, place: usize) -> &AtomicU64 {
        self.memory.word(self.first + place)
    }

    #[inline(always)]
    fn set(&self, place: usize, value: u64) {
        self.word(place).store(value, Ordering::Relaxed);
    }

    /// There is one writer: no locked instruction is needed.
    #[inline(always)]
    fn add(&self, place: usize, count: u64) {
        let word = self.word(place);
        let sum = word.load(Ordering::Relaxed).wrapping_add(count);
        word.store(sum, Ordering::Relaxed);
    }
}
