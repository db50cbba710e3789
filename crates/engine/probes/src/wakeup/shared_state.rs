//! The state that the two ends of a pair share beside the wake-up: threads of one
//! process, or of two with shared memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::{Nanos, ThreadUsage};
use punctual_rt::{SharedNumbers, Tid};

/// The waiting thread is on its way from one wait to the next.
pub(super) const BUSY: u64 = 0;
/// It has said that it waits, and will look at nothing before it was posted.
pub(super) const WAITING: u64 = 1;
/// It is gone.
pub(super) const LEFT: u64 = 2;

/// The numbers of a [`SharedState`], wherever they are.
#[derive(Debug)]
pub(super) enum Numbers {
    /// For threads of this process: memory that both processes have costs a descriptor,
    /// of which 256 pairs may have few left.
    Own(Box<Line>),
    /// For another process, too.
    Shared(Arc<SharedNumbers>),
}

/// On cache lines of their own.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Line([AtomicU64; SharedNumbers::COUNT]);

impl Numbers {
    /// All zero.
    pub(super) fn own() -> Self {
        Self::Own(Box::new(Line([const { AtomicU64::new(0) }; _])))
    }

    pub(super) fn state(&self) -> SharedState<'_> {
        match self {
            Self::Own(line) => SharedState(&line.0),
            Self::Shared(numbers) => SharedState::of(numbers),
        }
    }
}

/// The numbers by their meaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedState<'a>(&'a [AtomicU64; SharedNumbers::COUNT]);

impl<'a> SharedState<'a> {
    pub(super) fn of(numbers: &'a SharedNumbers) -> Self {
        Self(numbers.numbers())
    }

    /// Where the waiting thread is.
    pub(super) fn waiter_state(self) -> &'a AtomicU64 {
        &self.0[0]
    }

    /// Posts so far; written last, so that who sees it sees the next two.
    pub(super) fn posts(self) -> &'a AtomicU64 {
        &self.0[1]
    }

    /// The number of the exchange that was posted last.
    pub(super) fn exchange(self) -> &'a AtomicU64 {
        &self.0[2]
    }

    /// When, just before the post.
    pub(super) fn posted_at(self) -> &'a AtomicU64 {
        &self.0[3]
    }

    /// Exchanges that came due, once that is known.
    pub(super) fn due(self) -> &'a AtomicU64 {
        &self.0[4]
    }

    /// Whether there will be no more posts.
    pub(super) fn has_ended(self) -> bool {
        self.0[5].load(Ordering::Acquire) != 0
    }

    /// See [`has_ended`](Self::has_ended).
    pub(super) fn end(self) {
        self.0[5].store(1, Ordering::Release);
    }

    /// Whether the posting thread is to stop.
    pub(super) fn is_stopped(self) -> bool {
        self.0[6].load(Ordering::Relaxed) != 0
    }

    /// See [`is_stopped`](Self::is_stopped).
    pub(super) fn stop(self) {
        self.0[6].store(1, Ordering::Relaxed);
    }

    /// The waiting thread's number, once it waits.
    pub(super) fn waiter(self) -> Option<Tid> {
        tid(&self.0[7])
    }

    pub(super) fn set_waiter(self, thread: Tid) {
        set_tid(&self.0[7], thread);
    }

    /// The posting thread's number in a process of its own, once it is ready.
    pub(super) fn partner(self) -> Option<Tid> {
        tid(&self.0[8])
    }

    pub(super) fn set_partner(self, thread: Tid) {
        set_tid(&self.0[8], thread);
    }

    /// What the posting thread used in a process of its own, once it has ended.
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

/// Where the account of the posting thread begins.
const USAGE: usize = 16;

fn tid(number: &AtomicU64) -> Option<Tid> {
    let raw = i32::try_from(number.load(Ordering::Acquire)).ok()?;
    Tid::from_raw(raw)
}

fn set_tid(number: &AtomicU64, thread: Tid) {
    number.store(thread.as_raw().unsigned_abs().into(), Ordering::Release);
}
