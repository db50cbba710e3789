// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop of `loop.h` for programs in Rust, without any crate.

use std::ffi::{c_int, c_long, c_uint, c_ulong};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Time {
    seconds: c_long,
    ns: c_long,
}

unsafe extern "C" {
    fn alarm(seconds: c_uint) -> c_uint;
    fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    fn clock_nanosleep(clock: c_int, flags: c_int, until: *const Time, left: *mut Time) -> c_int;
    fn mlockall(flags: c_int) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
    fn sched_setaffinity(pid: c_int, size: usize, set: *const c_ulong) -> c_int;
    fn sched_setscheduler(pid: c_int, policy: c_int, parameters: *const c_int) -> c_int;
    fn setrlimit(resource: c_int, limit: *const [c_ulong; 2]) -> c_int;
}

pub const PERIOD: c_long = 1_000_000;
pub const PRIORITY: c_int = 20;

const NO_RIGHT: i32 = 77;
const MONOTONIC: c_int = 1;
const ABSOLUTE: c_int = 1;

pub fn become_real_time(priority: c_int) {
    if unsafe { sched_setscheduler(0, 1, &priority) } != 0 {
        std::process::exit(NO_RIGHT);
    }
    touch_stack();
}

#[inline(never)]
fn touch_stack() {
    std::hint::black_box([1_u8; 256 << 10]);
}

/// Pins the calling thread to a CPU.
pub fn pin(cpu: u32) {
    let set = 1 << cpu;
    assert_eq!(unsafe { sched_setaffinity(0, size_of_val(&set), &set) }, 0);
}

/// Returns the CPU of the program.
pub fn cpu() -> u32 {
    std::env::args().nth(2).unwrap().parse().unwrap()
}

/// Returns whether the program has its fault.
pub fn begin() -> bool {
    pin(cpu());
    unsafe {
        prctl(1, 9); // PR_SET_PDEATHSIG, SIGKILL
        alarm(60);
        assert_eq!(setrlimit(15, &[1_000_000; 2]), 0); // RLIMIT_RTTIME
        if mlockall(3) != 0 {
            std::process::exit(NO_RIGHT);
        }
    }
    std::env::args().nth(1).unwrap() == "fault"
}

pub fn ready() {
    println!("ready");
}

pub fn now() -> Time {
    let mut time = Time { seconds: 0, ns: 0 };
    unsafe { clock_gettime(MONOTONIC, &mut time) };
    time
}

/// Returns a time after a full millisecond, so that threads have known phases.
pub fn first_release(phase: c_long) -> Time {
    let mut time = now();
    time.ns -= time.ns % PERIOD;
    time.after(phase)
}

impl Time {
    pub fn after(mut self, ns: c_long) -> Self {
        self.ns += ns;
        if self.ns >= 1_000_000_000 {
            self.ns -= 1_000_000_000;
            self.seconds += 1;
        }
        self
    }

    pub fn wait(&self) {
        unsafe { while clock_nanosleep(MONOTONIC, ABSOLUTE, self, std::ptr::null_mut()) != 0 {} }
    }
}
