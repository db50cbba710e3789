//! Tests of what the locks guarantee, with real threads.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::*;
use crate::interrupt::{install_interrupt_handler, interrupt};
use crate::{Error, ThreadBuilder};

const PROTOCOLS: [Protocol; 2] = [Protocol::Plain, Protocol::Inherit];

#[test]
fn mutex_admits_single_thread() {
    for protocol in PROTOCOLS {
        let mutex = Mutex::new(0_u64, protocol).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let mut value = mutex.lock().unwrap();
                        // Read and write in separate steps, so that updates would be lost if two
                        // threads held the lock at once.
                        let read = *value;
                        std::hint::black_box(&mut value);
                        *value = read + 1;
                    }
                });
            }
        });
        assert_eq!(*mutex.lock().unwrap(), 8_000, "{protocol:?}");
    }
}

#[test]
fn a_forgotten_guard_does_no_harm() {
    for protocol in PROTOCOLS {
        let mutex = Mutex::new((), protocol).unwrap();
        std::mem::forget(mutex.lock().unwrap());
        drop(mutex);
    }
}

/// A condition with its lock. Both kinds of monitor implement this trait.
trait Condition: Sync {
    /// Waits until `ready` returns a value.
    fn take<T>(&self, ready: impl FnMut(&mut Option<u32>) -> Option<T>) -> T;
}

impl Condition for PthreadMonitor<Option<u32>> {
    fn take<T>(&self, mut ready: impl FnMut(&mut Option<u32>) -> Option<T>) -> T {
        let mut guard = self.lock().unwrap();
        loop {
            if let Some(value) = ready(&mut guard) {
                drop(guard);
                self.notify_all();
                return value;
            }
            guard.wait().unwrap();
        }
    }
}

impl Condition for Monitor<Option<u32>> {
    fn take<T>(&self, mut ready: impl FnMut(&mut Option<u32>) -> Option<T>) -> T {
        let mut guard = self.lock().unwrap();
        loop {
            if let Some(value) = ready(&mut guard) {
                guard.notify_all().unwrap();
                return value;
            }
            guard.wait().unwrap();
        }
    }
}

/// Sums a hundred values that one thread passes to another, one at a time.
fn handed_over(condition: &impl Condition) -> u32 {
    thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut sum = 0;
            loop {
                match condition.take(Option::take) {
                    0 => return sum,
                    value => sum += value,
                }
            }
        });
        for value in (0..=100).rev() {
            condition.take(|place| match place {
                Some(_) => None,
                None => {
                    *place = Some(value);
                    Some(())
                }
            });
        }
        taker.join().unwrap()
    })
}

#[test]
fn the_c_librarys_condition_hands_values_over() {
    for protocol in PROTOCOLS {
        let monitor = PthreadMonitor::new(None, protocol).unwrap();
        assert_eq!(handed_over(&monitor), 5_050, "{protocol:?}");
    }
}

#[test]
fn a_monitor_hands_values_over() {
    assert_eq!(handed_over(&Monitor::new(None).unwrap()), 5_050);
}

#[test]
fn a_monitor_excludes_and_wakes_all() {
    const THREADS: u32 = 4;
    let monitor = Monitor::new((0_u32, 0_u64)).unwrap();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut guard = monitor.lock().unwrap();
                guard.0 += 1;
                // All threads arrive and are released at the same time.
                while guard.0 <= THREADS {
                    guard.wait().unwrap();
                }
                drop(guard);
                for _ in 0..2_000 {
                    let mut guard = monitor.lock().unwrap();
                    let read = guard.1;
                    std::hint::black_box(&mut guard.1);
                    guard.1 = read + 1;
                }
            });
        }
        loop {
            let mut guard = monitor.lock().unwrap();
            if guard.0 == THREADS {
                guard.0 += 1;
                guard.notify_all().unwrap();
                break;
            }
            drop(guard);
            thread::yield_now();
        }
    });
    assert_eq!(monitor.into_inner().1, u64::from(THREADS) * 2_000);
}

#[test]
fn timed_out_wait_holds_the_lock() {
    let monitor = Monitor::new(0).unwrap();
    let mut guard = monitor.lock().unwrap();
    let deadline = crate::Clock::Monotonic.now() + std::time::Duration::from_millis(5);
    while guard.wait_until(deadline).unwrap() != Notified::TimedOut {}
    assert!(crate::Clock::Monotonic.now() >= deadline);
    *guard += 1;
    // The lock is held, so another thread gets it only after this guard is dropped.
    thread::scope(|scope| {
        let other = scope.spawn(|| *monitor.lock().unwrap());
        *guard += 1;
        drop(guard);
        assert_eq!(other.join().unwrap(), 2);
    });
    let again = monitor.lock().unwrap();
    assert!(monitor.lock().is_err(), "this thread has it already");
    drop(again);
}

/// The waiter with the highest priority is notified first, regardless of the order of arrival.
#[test]
fn the_highest_priority_is_notified_first() {
    if crate::max_permitted_priority() < 30 {
        punctual_testing::skip!(Right, "no right to real-time priorities");
        return;
    }
    let monitor = Monitor::new((0_u32, Vec::new())).unwrap();
    thread::scope(|scope| {
        let all: Vec<_> = [10, 30, 20]
            .into_iter()
            .map(|priority| {
                let builder = ThreadBuilder::new("waiter").policy(crate::Policy::Fifo { priority });
                let body = || {
                    let mut guard = monitor.lock().unwrap();
                    guard.0 += 1;
                    guard.wait().unwrap();
                    let own = crate::current_policy().unwrap();
                    guard.1.push(own);
                };
                builder.spawn_scoped(scope, body).unwrap()
            })
            .collect();
        for count in 0..3 {
            // The waiters notified earlier have released the lock, and the others are asleep by
            // now.
            loop {
                thread::sleep(std::time::Duration::from_millis(5));
                let mut guard = monitor.lock().unwrap();
                if guard.0 == 3 && guard.1.len() == count {
                    guard.notify_one().unwrap();
                    break;
                }
            }
        }
        all.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let order = monitor.into_inner().1;
    let fifo = |priority| crate::Policy::Fifo { priority };
    assert_eq!(order, [fifo(30), fifo(20), fifo(10)]);
}

#[test]
fn nobody_passes_a_barrier_alone() {
    let barrier = Barrier::new(NonZeroU32::new(3).unwrap()).unwrap();
    let come = AtomicU32::new(0);
    let chosen = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 1..=200 {
                    come.fetch_add(1, Ordering::SeqCst);
                    if barrier.wait() {
                        chosen.fetch_add(1, Ordering::SeqCst);
                    }
                    assert!(come.load(Ordering::SeqCst) >= 3 * round);
                }
            });
        }
    });
    assert_eq!(chosen.load(Ordering::SeqCst), 200);
}

#[test]
fn each_post_wakes_one_wait() {
    let (there, back) = (Semaphore::new(0).unwrap(), Semaphore::new(1).unwrap());
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..500 {
                while there.wait().unwrap() == Waited::Interrupted {}
                back.post().unwrap();
            }
        });
        for _ in 0..500 {
            while back.wait().unwrap() == Waited::Interrupted {}
            there.post().unwrap();
        }
    });
    assert!(Semaphore::new(u32::MAX).is_err());
}

#[test]
fn changed_futex_ends_the_wait() {
    let futex = Futex::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            for seen in 0..500 {
                while futex.value() == seen {
                    futex.wait_while(seen).unwrap();
                }
            }
        });
        for _ in 0..500 {
            futex.post().unwrap();
            thread::yield_now();
        }
    });
    assert_eq!(futex.value(), 500);
    // The number has changed, so this does not wait.
    assert_eq!(futex.wait_while(499).unwrap(), Waited::Woken);
}

#[test]
fn signal_ends_semaphore_and_futex_waits() {
    fn on_semaphore() -> Waited {
        Semaphore::new(0).unwrap().wait().unwrap()
    }
    fn on_futex() -> Waited {
        Futex::default().wait_while(0).unwrap()
    }
    install_interrupt_handler().unwrap();
    for wait in [on_semaphore, on_futex] {
        let thread = ThreadBuilder::new("waiter").spawn(wait).unwrap();
        while !thread.is_finished() {
            match interrupt(thread.tid()) {
                Ok(()) | Err(Error::NoSuchThread { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            thread::sleep(std::time::Duration::from_millis(2));
        }
        assert_eq!(thread.join().unwrap(), Waited::Interrupted);
    }
}
