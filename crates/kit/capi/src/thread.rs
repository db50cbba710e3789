//! The scheduling policy, CPUs, memory and clock of the calling thread.

use std::ffi::c_int;
use std::time::Duration;

use punctual_rt::{Clock, LockMode, Policy, ThreadRef};

use crate::error::{Failure, answer};
use crate::sized::{Sized_, read};

/// Converts a duration that the caller passed, which must not be negative.
pub(crate) fn duration(ns: i64, what: &str) -> Result<Duration, Failure> {
    let positive = u64::try_from(ns).map(Duration::from_nanos);
    positive.map_err(|_| Failure::new(libc::EINVAL, format!("{what} is {ns}, below 0")))
}

/// A scheduling policy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_policy_t {
    /// Set to sizeof this structure.
    pub size: usize,
    /// SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO or SCHED_RR from sched.h.
    pub policy: i32,
    /// 1 to 99 for SCHED_FIFO and SCHED_RR.
    pub priority: i32,
    /// -20 to 19 for SCHED_OTHER and SCHED_BATCH.
    pub nice: i32,
    /// Must be 0.
    pub reserved: i32,
}

// SAFETY: all fields are plain numbers, and the first one is the size.
unsafe impl Sized_ for punctual_policy_t {
    const NAME: &'static str = "punctual_policy_t";
}

/// Sets the policy of the calling thread. Errors: EPERM, with a message that names the limit and
/// how to raise it; EINVAL. For SCHED_DEADLINE, use punctual_deadline_new().
///
/// A thread with a real-time policy drops to SCHED_OTHER before it ends. The threads and processes
/// that it starts do not inherit the policy, so each of them has to set its own.
///
/// # Safety
/// `policy` points to a structure that begins with its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_set_policy(policy: *const punctual_policy_t) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let wanted = unsafe { read(policy)? };
        let priority = u8::try_from(wanted.priority).unwrap_or(u8::MAX);
        let nice = wanted.nice;
        let policy = match wanted.policy {
            libc::SCHED_OTHER => Policy::Other { nice },
            libc::SCHED_BATCH => Policy::Batch { nice },
            libc::SCHED_IDLE => Policy::Idle,
            libc::SCHED_FIFO => Policy::Fifo { priority },
            libc::SCHED_RR => Policy::RoundRobin { priority },
            other => {
                let why = format!("policy number {other} cannot be set with this function");
                return Err(Failure::new(libc::EINVAL, why));
            }
        };
        Ok(punctual_rt::set_policy(ThreadRef::Current, &policy)?)
    })
}

/// Returns the highest real-time priority that this process may set; 0 if it may set none.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_max_priority() -> c_int {
    c_int::from(punctual_rt::max_permitted_priority())
}

/// Binds the calling thread to `count` CPUs. Errors: EINVAL for a CPU that does not exist, is
/// offline, or is outside the cpuset.
///
/// # Safety
/// `cpus` points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_set_affinity(cpus: *const u32, count: usize) -> c_int {
    answer(|| {
        if cpus.is_null() {
            return Err(Failure::null("cpus"));
        }
        // SAFETY: the caller guarantees this.
        let cpus = unsafe { std::slice::from_raw_parts(cpus, count) };
        Ok(punctual_rt::affinity::set(ThreadRef::Current, cpus)?)
    })
}

/// Keeps all current and future memory of this process in RAM until the process ends, each page
/// from its first access on. Errors: ENOMEM or EPERM, with the limit in the message.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_lock_memory() -> c_int {
    answer(|| {
        // The lock lasts until the process ends, because C has no scope that could end it earlier.
        std::mem::forget(punctual_rt::lock_process_memory(LockMode::OnFault)?);
        Ok(())
    })
}

/// Touches `bytes` bytes of the calling thread's stack. Errors: EINVAL if the stack is smaller.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_prefault_stack(bytes: usize) -> c_int {
    answer(|| Ok(punctual_rt::prefault_stack(bytes)?))
}

/// Returns CLOCK_MONOTONIC in nanoseconds. With the common clock sources, this makes no system
/// call.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_now_ns() -> i64 {
    Clock::Monotonic.now().as_nanos().cast_signed()
}
