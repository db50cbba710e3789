//! Busy work of a given duration.

use std::time::Duration;

use crate::clock::{self, Clock, Instant, nanos};

/// Keeps the calling thread busy until it has used this much CPU time (CLOCK_THREAD_CPUTIME_ID). As
/// with real work, time during which the thread is not running is not counted. Under a real-time
/// policy, this starves threads of lower priority on the same CPU.
pub fn spin_for(cpu_time: Duration) {
    let used = || clock::read(libc::CLOCK_THREAD_CPUTIME_ID);
    let until = used().saturating_add(nanos(cpu_time));
    while used() < until {
        std::hint::spin_loop();
    }
}

/// Keeps the calling thread busy until `end` on CLOCK_MONOTONIC, even if it is preempted in
/// between.
pub fn spin_until(end: Instant) {
    while Clock::Monotonic.now() < end {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_uses_the_cpu_time_asked_for() {
        std::thread::spawn(|| {
            let before = crate::thread_usage().cpu_time;
            spin_for(Duration::from_millis(5));
            let used = crate::thread_usage().cpu_time - before;
            assert!(used >= Duration::from_millis(5), "{used:?}");
            spin_for(Duration::ZERO);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn it_ends_at_the_time_asked_for() {
        let end = Clock::Monotonic.now() + Duration::from_millis(2);
        spin_until(end);
        assert!(Clock::Monotonic.now() >= end);
        // If the end has already passed, this does no work at all.
        spin_until(Instant::from_nanos(0));
    }
}
