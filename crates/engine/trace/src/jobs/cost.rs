//! Measures the cost of recording system calls.

use std::time::{Duration, Instant};

use punctual_model::Nanos;

/// The cost of recording a system call and its return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCost {
    /// Cost for a thread that is not watched. This is not zero, because the kernel's tracepoints
    /// affect all threads.
    pub other: Nanos,
    /// Cost for a watched thread.
    pub watched: Nanos,
}

impl CallCost {
    /// Returns the cost of `all` calls, including `watched` calls made by watched threads.
    pub(super) const fn total(self, [all, watched]: [u64; 2]) -> Nanos {
        let other = all.saturating_sub(watched);
        Nanos(
            other
                .saturating_mul(self.other.0)
                .saturating_add(watched.saturating_mul(self.watched.0)),
        )
    }
}

const CALLS: u32 = 500;
const BATCHES: u32 = 9;

/// Returns the time that a short system call of the calling thread takes. Several batches of calls
/// are measured, and the fastest batch counts, because it was disturbed least.
pub(super) fn of_a_call() -> Nanos {
    let batch = || {
        let begun = Instant::now();
        for _ in 0..CALLS {
            // This calls getppid(2).
            std::hint::black_box(std::os::unix::process::parent_id());
        }
        begun.elapsed() / CALLS
    };
    let batches = (0..BATCHES).map(|_| batch());
    Nanos::from(batches.min().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_watched_threads_take_more() {
        let cost = CallCost {
            other: Nanos(100),
            watched: Nanos(250),
        };
        assert_eq!(cost.total([10, 4]), Nanos(600 + 1_000));
        assert_eq!(cost.total([u64::MAX, 0]), Nanos(u64::MAX));
        assert!(of_a_call() > Nanos::ZERO);
    }
}
