//! What the locks promise, on real threads.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::*;
use crate::interrupt::{install_interrupt_handler, interrupt};
use crate::{Error, ThreadBuilder};

const PROTOCOLS: [Protocol; 2] = [Protocol::Plain, Protocol::Inherit];

#[test]
fn one_thread_at_a_time_has_the_value() {
    for protocol in PROTOCOLS {
        let mutex = Mutex::new(0_u64, protocol).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let mut value = mutex.lock().unwrap();
                        // Read and written apart: two at a time would lose some.
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

#[test]
fn a_monitor_hands_values_over() {
    for protocol in PROTOCOLS {
        let monitor = Monitor::new(None, protocol).unwrap();
        let sum: u32 = thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let mut sum = 0;
                loop {
                    let mut guard = monitor.lock().unwrap();
                    while guard.is_none() {
                        guard.wait().unwrap();
                    }
                    let value: u32 = guard.take().unwrap();
                    monitor.notify_all();
                    if value == 0 {
                        return sum;
                    }
                    sum += value;
                }
            });
            for value in (0..=100).rev() {
                let mut guard = monitor.lock().unwrap();
                while guard.is_some() {
                    guard.wait().unwrap();
                }
                *guard = Some(value);
                drop(guard);
                monitor.notify_one();
            }
            taker.join().unwrap()
        });
        assert_eq!(sum, 5_050, "{protocol:?}");
    }
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
fn a_futex_is_left_once_it_has_changed() {
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
    // It is another number: no wait at all.
    assert_eq!(futex.wait_while(499).unwrap(), Waited::Woken);
}

#[test]
fn a_signal_ends_the_wait_for_a_semaphore_and_a_futex() {
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
