//! The state that the two ends of a pair share in addition to the mechanism. The ends are threads
//! of one process, or of two processes with shared memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::{Nanos, ThreadUsage};
use punctual_rt::{SharedNumbers, Tid};

use crate::handover::Handover;

/// The waiting thread is between two waits.
pub(super) const BUSY: u64 = 0;
/// The waiting thread has announced its wait, and reads nothing until there is a post.
pub(super) const WAITING: u64 = 1;
/// The waiting thread has ended.
pub(super) const LEFT: u64 = 2;

/// The numbers of a [`SharedState`], in one of two kinds of memory.
#[derive(Debug)]
pub(super) enum Numbers {
    /// For two threads of this process. Shared memory would need a descriptor, and with 256 pairs,
    /// few descriptors may be left.
    Own(Box<Line>),
    /// For threads of two processes.
    Shared(Arc<SharedNumbers>),
}

/// Numbers that are on cache lines of their own.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Line([AtomicU64; SharedNumbers::COUNT]);

impl Numbers {
    /// Creates numbers that are all zero.
    pub(super) fn own() -> Self {
        Self::Own(Box::new(Line([const { AtomicU64::new(0) }; _])))
    }

    pub(super) fn state(&self) -> SharedState<'_> {
        match self {
            Self::Own(line) => SharedState(&line.0),
            Self::Shared(numbers) => SharedState::from_numbers(numbers),
        }
    }
}

/// Gives access to the numbers by their meaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedState<'a>(&'a [AtomicU64; SharedNumbers::COUNT]);

impl<'a> SharedState<'a> {
    pub(super) fn from_numbers(numbers: &'a SharedNumbers) -> Self {
        Self(numbers.numbers())
    }

    /// The state of the waiting thread.
    pub(super) fn waiter_state(self) -> &'a AtomicU64 {
        &self.0[0]
    }

    /// The posts.
    pub(super) fn posts(self) -> Handover<'a> {
        Handover {
            number: &self.0[1],
            sent_at: &self.0[2],
        }
    }

    /// Number of exchanges that came due, once known.
    pub(super) fn due(self) -> &'a AtomicU64 {
        &self.0[4]
    }

    /// Returns whether there will be no more posts.
    pub(super) fn has_ended(self) -> bool {
        self.0[5].load(Ordering::Acquire) != 0
    }

    /// See [`has_ended`](Self::has_ended).
    pub(super) fn end(self) {
        self.0[5].store(1, Ordering::Release);
    }

    /// Returns whether the posting thread should stop.
    pub(super) fn is_stopped(self) -> bool {
        self.0[6].load(Ordering::Relaxed) != 0
    }

    /// See [`is_stopped`](Self::is_stopped).
    pub(super) fn stop(self) {
        self.0[6].store(1, Ordering::Relaxed);
    }

    /// Returns the ID of the waiting thread, once it is waiting.
    pub(super) fn waiter(self) -> Option<Tid> {
        tid(&self.0[7])
    }

    pub(super) fn set_waiter(self, thread: Tid) {
        set_tid(&self.0[7], thread);
    }

    /// Returns the ID of the posting thread in a separate process, once it is ready.
    pub(super) fn partner(self) -> Option<Tid> {
        tid(&self.0[8])
    }

    pub(super) fn set_partner(self, thread: Tid) {
        set_tid(&self.0[8], thread);
    }

    /// Returns the usage of the posting thread in a separate process, once it has ended.
    pub(super) fn usage(self) -> ThreadUsage {
        let number = |place: usize| self.0[USAGE + place].load(Ordering::Acquire);
        ThreadUsage {
            page_faults_minor: number(0),
            page_faults_major: number(1),
            switches_voluntary: number(2),
            switches_involuntary: number(3),
            cpu_time_ns: Nanos(number(4)),
        }
    }

    pub(super) fn set_usage(self, usage: &ThreadUsage) {
        let numbers = [
            usage.page_faults_minor,
            usage.page_faults_major,
            usage.switches_voluntary,
            usage.switches_involuntary,
            usage.cpu_time_ns.0,
        ];
        for (place, number) in numbers.into_iter().enumerate() {
            self.0[USAGE + place].store(number, Ordering::Release);
        }
    }
}

/// The index of the posting thread's usage.
const USAGE: usize = 16;

fn tid(number: &AtomicU64) -> Option<Tid> {
    let raw = i32::try_from(number.load(Ordering::Acquire)).ok()?;
    Tid::from_raw(raw)
}

fn set_tid(number: &AtomicU64, thread: Tid) {
    number.store(thread.as_raw().unsigned_abs().into(), Ordering::Release);
}
