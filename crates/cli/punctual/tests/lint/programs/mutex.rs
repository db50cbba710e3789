// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes a `Mutex` that a thread of higher priority holds. The clean program reads an atomic.

#![allow(dead_code)]

#[path = "loop.rs"]
mod real_time;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use real_time::{PERIOD, PRIORITY, become_real_time, begin, cpu, first_release, pin, ready};

static LOCK: Mutex<u64> = Mutex::new(0);
static VALUE: AtomicU64 = AtomicU64::new(0);

fn main() {
    let has_fault = begin();
    std::thread::Builder::new()
        .stack_size(512 << 10)
        .spawn(move || {
            pin(1 - cpu());
            become_real_time(PRIORITY + 1);
            let mut release = first_release(0);
            loop {
                let held = has_fault.then(|| LOCK.lock().unwrap());
                release.after(PERIOD / 2).wait();
                VALUE.fetch_add(1, Ordering::Relaxed);
                drop(held);
                release = release.after(PERIOD);
                release.wait();
            }
        })
        .unwrap();
    become_real_time(PRIORITY);
    ready();
    let mut release = first_release(PERIOD / 4);
    let mut sum = 0;
    loop {
        if has_fault {
            *LOCK.lock().unwrap() += 1;
        }
        sum += VALUE.load(Ordering::Relaxed);
        std::hint::black_box(sum);
        release = release.after(PERIOD);
        release.wait();
    }
}
