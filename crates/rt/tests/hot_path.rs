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

fn allocations_of(wait: &mut dyn PeriodicWait, first: Instant, interval: Duration) -> u64 {
    let mut deadline = first;
    let before = ALLOCATIONS.get();
    for _ in 0..50 {
        assert_eq!(wait.wait_until(deadline).unwrap(), Wake::Due);
        std::hint::black_box(Clock::Monotonic.now());
        deadline += interval;
    }
    ALLOCATIONS.get() - before
}

#[test]
fn waiting_does_not_allocate() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get() - before, 2, "the test's own measure");

    let interval = Duration::from_micros(500);
    let clock = Clock::Monotonic;
    let first = clock.now() + interval;
    let mut nanosleep = Nanosleep::new(clock).unwrap();
    let mut timer_fd = TimerFd::new(clock, first, interval).unwrap();
    let mut signal_timer = SignalTimer::new(clock, first, interval).unwrap();
    assert_eq!(allocations_of(&mut nanosleep, first, interval), 0);
    assert_eq!(allocations_of(&mut timer_fd, first, interval), 0);
    assert_eq!(allocations_of(&mut signal_timer, first, interval), 0);
}
