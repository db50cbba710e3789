//! A lock with priority inheritance in one word (`futex(2)`: FUTEX_LOCK_PI). The kernel can move
//! waiters from a condition to this lock. It cannot move them to the C library's mutex, whose word
//! is private.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;

/// The word of the lock: 0, or the thread ID of the owner, with a flag bit if threads are waiting.
#[derive(Debug)]
pub(super) struct PiLock(AtomicU32);

impl PiLock {
    /// Creates an unlocked lock.
    pub(super) fn new() -> Result<Self, Error> {
        let lock = Self(AtomicU32::new(0));
        // Unlocking a free lock fails with EPERM if the kernel supports the operation. SAFETY: the
        // word stays valid during the call.
        let answer = unsafe {
            syscall(
                &lock.0,
                libc::FUTEX_UNLOCK_PI,
                0,
                ptr::null(),
                ptr::null(),
                0,
            )
        };
        match answer {
            Err(libc::ENOSYS) => Err(failed("FUTEX_UNLOCK_PI", libc::ENOSYS)),
            _ => Ok(lock),
        }
    }

    pub(super) fn word(&self) -> *const AtomicU32 {
        &raw const self.0
    }

    #[inline]
    pub(super) fn lock(&self) -> Result<(), Error> {
        let free = (self.0).compare_exchange(0, own_number(), Ordering::Acquire, Ordering::Relaxed);
        if free.is_ok() {
            return Ok(());
        }
        loop {
            // SAFETY: the word stays valid during the call.
            let result =
                unsafe { syscall(&self.0, libc::FUTEX_LOCK_PI, 0, ptr::null(), ptr::null(), 0) };
            match result {
                Ok(()) => return Ok(()),
                // The owner is exiting.
                Err(libc::EAGAIN | libc::EINTR) => {}
                Err(code) => return Err(failed("FUTEX_LOCK_PI", code)),
            }
        }
    }

    /// Returns whether the calling thread is the owner.
    pub(super) fn is_own(&self) -> bool {
        self.0.load(Ordering::Relaxed) & libc::FUTEX_TID_MASK == own_number()
    }

    /// Unlocks. Only the owner may call this.
    #[inline]
    pub(super) fn unlock(&self) {
        let alone =
            (self.0).compare_exchange(own_number(), 0, Ordering::Release, Ordering::Relaxed);
        if alone.is_err() {
            // Other threads are waiting. The call fails only for a thread that is not the owner.
            // SAFETY: the word stays valid during the call.
            let _ = unsafe {
                syscall(
                    &self.0,
                    libc::FUTEX_UNLOCK_PI,
                    0,
                    ptr::null(),
                    ptr::null(),
                    0,
                )
            };
        }
    }
}

/// Calls `futex(2)`, private to this process. Returns the error number if it fails.
///
/// # Safety
/// `time` must be null, a number if the operation takes one in place of a time, or a valid
/// timespec. `second` must be null or a word that stays valid during the call.
pub(super) unsafe fn syscall(
    word: &AtomicU32,
    operation: libc::c_int,
    value: u32,
    time: *const libc::c_void,
    second: *const AtomicU32,
    third: u32,
) -> Result<(), i32> {
    // SAFETY: guaranteed by the caller; the word is borrowed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex as libc::c_long,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            time,
            second,
            third,
        )
    };
    match result {
        -1 => Err(io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)),
        _ => Ok(()),
    }
}

thread_local! {
    /// Thread ID of this thread, or 0 if it has not been read yet.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// Returns the thread ID of the calling thread, without a system call after the first time. It is
/// reset on fork, because the thread of a child process has another ID.
#[inline]
fn own_number() -> u32 {
    match NUMBER.get() {
        0 => ask(),
        number => number,
    }
}

#[cold]
fn ask() -> u32 {
    extern "C" fn forget() {
        NUMBER.set(0);
    }
    static AT_FORK: Once = Once::new();
    // SAFETY: the handler writes to a thread-local without a destructor. The call fails only if no
    // memory is available.
    AT_FORK.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forget));
    });
    let number = crate::current_tid().as_raw().unsigned_abs();
    NUMBER.set(number);
    number
}

#[cold]
fn failed(operation: &str, code: i32) -> Error {
    Error::os("futex", operation, io::Error::from_raw_os_error(code))
}
