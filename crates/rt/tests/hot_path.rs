//! Nothing on the way from one wake-up to the next allocates.
#![allow(clippy::unwrap_used)] // helpers of tests are tests
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use punctual_rt::{Clock, Instant, Nanosleep, PeriodicWait, SignalTimer, TimerFd, Wake};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator, with a count of the calls beside it; a
// thread-local without a destructor can be used at any time.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const INTERVAL: Duration = Duration::from_micros(500);
const CLOCK: Clock = Clock::Monotonic;

/// Waits 50 times, and says how often memory was allocated or freed.
fn allocations_of<W: PeriodicWait>(make: impl FnOnce(Instant) -> W) -> u64 {
    let mut deadline = CLOCK.now() + INTERVAL;
    let mut wait = make(deadline);
    let before = ALLOCATIONS.get();
    for _ in 0..50 {
        assert_eq!(wait.wait_until(deadline).unwrap(), Wake::Due);
        assert!(CLOCK.now() >= deadline);
        deadline += INTERVAL;
    }
    ALLOCATIONS.get() - before
}

#[test]
fn waiting_does_not_allocate() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get() - before, 2, "the test's own measure");

    let nanosleep = |_| Nanosleep::new(CLOCK).unwrap();
    let timer_fd = |first| TimerFd::new(CLOCK, first, INTERVAL).unwrap();
    let signal_timer = |first| SignalTimer::new(CLOCK, first, INTERVAL).unwrap();
    assert_eq!(allocations_of(nanosleep), 0);
    assert_eq!(allocations_of(timer_fd), 0);
    assert_eq!(allocations_of(signal_timer), 0);
}
