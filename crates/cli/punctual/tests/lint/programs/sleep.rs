// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sleeps with `thread::sleep`. The clean program sleeps until an absolute time.

#![allow(dead_code)]

#[path = "loop.rs"]
mod real_time;

use std::time::Duration;

use real_time::{PERIOD, PRIORITY, become_real_time, begin, now, ready};

fn main() {
    let has_fault = begin();
    become_real_time(PRIORITY);
    ready();
    let mut release = now();
    loop {
        if has_fault {
            std::thread::sleep(Duration::from_millis(1));
        } else {
            release = release.after(PERIOD);
            release.wait();
        }
    }
}
