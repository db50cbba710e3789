//! Nothing between one wake-up and the next allocates.
#![allow(clippy::unwrap_used)] // also in test helpers

use std::time::Duration;

use punctual_rt::{
    AllocationGuard, Clock, CountingAllocator, Instant, Nanosleep, OverrunPolicy, Periodic,
    PeriodicWait, SignalTimer, SystemCallGuard, TimerFd, Wake,
};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator::system();

const INTERVAL: Duration = Duration::from_micros(500);
const CLOCK: Clock = Clock::Monotonic;

/// Waits 50 times, and returns the number of allocations and deallocations.
fn allocations_of<W: PeriodicWait>(make: impl FnOnce(Instant) -> W) -> u64 {
    let mut deadline = CLOCK.now() + INTERVAL;
    let mut wait = make(deadline);
    let mut guard = AllocationGuard::new().unwrap();
    guard.region(|| {
        for _ in 0..50 {
            assert_eq!(wait.wait_until(deadline).unwrap(), Wake::Due);
            assert!(CLOCK.now() >= deadline);
            deadline += INTERVAL;
        }
    });
    guard.violations().count
}

#[test]
fn waiting_does_not_allocate() {
    let mut guard = AllocationGuard::new().unwrap();
    guard.region(|| drop(std::hint::black_box(Box::new(1))));
    drop(Box::new(1));
    assert_eq!(guard.violations().count, 2, "the test's own measure");

    let nanosleep = |_| Nanosleep::new(CLOCK).unwrap();
    let timer_fd = |first| TimerFd::new(CLOCK, first, INTERVAL).unwrap();
    let signal_timer = |first| SignalTimer::new(CLOCK, first, INTERVAL).unwrap();
    assert_eq!(allocations_of(nanosleep), 0);
    assert_eq!(allocations_of(timer_fd), 0);
    assert_eq!(allocations_of(signal_timer), 0);
}

/// A wait that returns immediately, so that only the loop itself is measured.
struct NoWait;

impl PeriodicWait for NoWait {
    fn wait_until(&mut self, _: Instant) -> Result<Wake, punctual_rt::Error> {
        Ok(Wake::Due)
    }
}

/// An iteration makes no system call except that of its wait, as the system call guard confirms.
#[test]
fn iteration_only_waits_and_allocates_nothing() {
    let first = CLOCK.now();
    let turns = |policy| Periodic::with_wait(NoWait, CLOCK, first, INTERVAL, policy).unwrap();
    for policy in [
        OverrunPolicy::Skip,
        OverrunPolicy::CatchUp(3),
        OverrunPolicy::Rephase,
    ] {
        let mut periodic = turns(policy);
        let mut allocations = AllocationGuard::new().unwrap();
        let mut jobs =
            || allocations.region(|| (0..100).all(|_| periodic.wait().unwrap().is_some()));
        match SystemCallGuard::new() {
            Ok(mut calls) => {
                assert!(calls.region(jobs));
                let violations = calls.violations();
                assert_eq!(violations.count, 0, "{policy:?}: {violations}");
            }
            Err(error) => {
                punctual_testing::skip_refused("system calls", &error);
                assert!(jobs());
            }
        }
        assert_eq!(allocations.violations().count, 0, "{policy:?}");
        assert!(periodic.account().balances());
    }
}
