//! The counters of one thread. Only that thread writes to them.

use std::sync::Arc;

use crate::atomic::{AtomicU64, Ordering, fence};
use crate::buckets::index_of;

use crate::layout::{self, channel};
use crate::memory::Memory;

/// Meaning of the samples of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// Wake-up latency: from the release of a job to its start.
    Latency = 0,
    /// Response time: from the release of a job to its completion.
    Response = 1,
    /// Execution time: from the start of a job to its completion.
    Execution = 2,
    /// Another duration, described by the name of the channel.
    Other = 3,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Latency, Self::Response, Self::Execution, Self::Other];

    /// Returns the name used on screen and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Response => "response",
            Self::Execution => "execution",
            Self::Other => "other",
        }
    }

    /// Returns the kind with this number. Unknown numbers become [`Kind::Other`].
    pub(crate) fn from_number(number: u64) -> Self {
        let known = Self::ALL.into_iter().find(|kind| *kind as u64 == number);
        known.unwrap_or(Self::Other)
    }
}

/// Configuration of a channel.
#[derive(Clone, Copy, Debug)]
pub struct ChannelSpec<'a> {
    /// Name, truncated to 32 bytes, such as `control`.
    pub name: &'a str,
    /// Meaning of the channel's samples.
    pub kind: Kind,
    /// Period in ns; 0 if there is none.
    pub period_ns: u64,
    /// Threshold in ns. Each larger sample is stored with its time. If the threshold is 0, only the
    /// largest sample of each second is stored.
    pub budget_ns: u64,
}

/// Length of the window of which the largest sample is stored. The first sample after the end of a
/// window starts a new one.
const WINDOW_NS: u64 = 1_000_000_000;

/// A channel. Recording a sample makes no system call, does not allocate or lock, and uses no floating
/// point. It costs about 5 ns.
#[derive(Debug)]
pub struct Channel {
    memory: Arc<Memory>,
    /// Index of the channel's first word.
    first: usize,
    budget_ns: u64,
    /// The largest sample since the time `window`.
    largest_ns: u64,
    window: u64,
    /// Copies of the counters to which only this channel writes.
    run: u64,
    min_ns: u64,
    max_ns: u64,
    ring_head: u64,
}

impl Channel {
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

    /// Counts a sample of `ns` nanoseconds, for a job released at `at_ns` on CLOCK_MONOTONIC. A
    /// negative sample (an early wake-up) is counted as early.
    #[inline]
    pub fn record(&mut self, at_ns: u64, ns: i64) {
        let Ok(ns) = u64::try_from(ns) else {
            self.add(channel::EARLY, 1);
            return self.recorded();
        };
        match index_of(ns) {
            Some(index) => self.add(channel::BUCKETS + index, 1),
            None => self.add(channel::OVERFLOW, 1),
        }
        self.add(channel::SUM_NS, ns);
        if ns > self.max_ns {
            self.max_ns = ns;
            self.set(channel::MAX_NS, ns);
        }
        if ns < self.min_ns {
            self.min_ns = ns;
            self.set(channel::MIN_NS, ns);
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

    /// Sets the period accounting so far, as [`Periodic`] of the crate `punctual-rt` computes it:
    /// due = run + missed. If this is never called, the channel has no periods, and every sample
    /// counts as due.
    ///
    /// [`Periodic`]: https://docs.rs/punctual-rt
    #[inline]
    pub fn account(&mut self, due: u64, missed: u64, late: u64) {
        self.set(channel::DUE, due);
        self.set(channel::MISSED, missed);
        self.set(channel::LATE, late);
    }

    /// Returns the number of recorded samples.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Stores a sample that is the largest of its second or above the budget. This is rarely
    /// called.
    #[cold]
    fn keep(&mut self, at_ns: u64, ns: u64, over: bool) {
        self.largest_ns = self.largest_ns.max(ns);
        if over {
            self.add(channel::OVER_BUDGET, 1);
        }
        let place = self.ring_head as usize % layout::RING_ENTRIES;
        let entry = channel::RING + place * layout::RING_ENTRY_WORDS;
        // The sequence number is odd during the write, so that a reader does not accept a torn
        // entry.
        self.set(entry, 2 * self.ring_head + 1);
        fence(Ordering::Release);
        self.set(entry + 1, at_ns);
        self.set(entry + 2, ns);
        self.set(entry, 2 * self.ring_head + 2);
        self.ring_head += 1;
        self.set(channel::RING_HEAD, self.ring_head);
    }

    #[inline]
    fn recorded(&mut self) {
        self.run += 1;
        // This word is written last, so a reader that finds it unchanged has a consistent snapshot.
        self.set(channel::RUN, self.run);
    }

    #[inline(always)]
    fn word(&self, place: usize) -> &AtomicU64 {
        self.memory.word(self.first + place)
    }

    /// Stores a word after all words that were stored before it. A reader that sees the sum of a
    /// sample therefore also sees its bucket. On x86, this costs nothing.
    #[inline(always)]
    fn set(&self, place: usize, value: u64) {
        self.word(place).store(value, Ordering::Release);
    }

    /// Adds to a counter. Because there is only one writer, no locked instruction is needed.
    #[inline(always)]
    fn add(&self, place: usize, count: u64) {
        let sum = self.word(place).load(Ordering::Relaxed).wrapping_add(count);
        self.set(place, sum);
    }
}
