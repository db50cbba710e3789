//! Thread IDs of the kernel.

use std::fmt;

/// The kernel's thread ID (`gettid(2)`), as shown by `ps -L`.
///
/// The kernel may reuse it once the thread has ended and been joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(i32);

impl Tid {
    /// Returns the thread with this ID, or `None` if the number is not a valid thread ID (zero or
    /// negative).
    pub const fn from_raw(raw: i32) -> Option<Self> {
        if raw > 0 { Some(Self(raw)) } else { None }
    }

    /// Returns the number.
    pub const fn as_raw(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the thread ID of the calling thread.
pub fn current_tid() -> Tid {
    Tid(rustix::thread::gettid().as_raw_nonzero().get())
}

/// The thread that a setting applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadRef {
    /// The calling thread.
    Current,
    /// The thread with this ID, which may belong to another process.
    Tid(Tid),
}

impl ThreadRef {
    /// Returns the number that system calls expect, where 0 is the calling thread.
    pub(crate) const fn as_raw(self) -> i32 {
        match self {
            Self::Current => 0,
            Self::Tid(tid) => tid.as_raw(),
        }
    }
}

impl From<Tid> for ThreadRef {
    fn from(tid: Tid) -> Self {
        Self::Tid(tid)
    }
}

impl fmt::Display for ThreadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Current => f.write_str("this thread"),
            Self::Tid(tid) => write!(f, "thread {tid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        let here = current_tid();
        let there = std::thread::spawn(current_tid).join().unwrap();
        assert_ne!(here, there);
        assert_eq!(Tid::from_raw(here.as_raw()), Some(here));
    }

    #[test]
    fn zero_and_negatives_are_no_threads() {
        assert_eq!(Tid::from_raw(0), None);
        assert_eq!(Tid::from_raw(-1), None);
    }
}
