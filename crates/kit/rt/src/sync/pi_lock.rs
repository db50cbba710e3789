//! A lock with priority inheritance in one word (`futex(2)`: FUTEX_LOCK_PI), which a
//! condition can be moved to; the C library's mutex keeps its word to itself.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;

/// The word: 0, or the owner's thread number, with a bit where others wait.
#[derive(Debug)]
pub(super) struct PiLock(AtomicU32);

impl PiLock {
    /// An unlocked one.
    pub(super) fn new() -> Result<Self, Error> {
        let lock = Self(AtomicU32::new(0));
        // Of a lock that is free it is refused with EPERM, where the kernel knows it.
        // SAFETY: the word lives as long as the call.
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
            // SAFETY: the word lives as long as the call.
            let result =
                unsafe { syscall(&self.0, libc::FUTEX_LOCK_PI, 0, ptr::null(), ptr::null(), 0) };
            match result {
                Ok(()) => return Ok(()),
                // The owner is about to end.
                Err(libc::EAGAIN | libc::EINTR) => {}
                Err(code) => return Err(failed("FUTEX_LOCK_PI", code)),
            }
        }
    }

    /// Whether the calling thread is the owner.
    pub(super) fn is_own(&self) -> bool {
        self.0.load(Ordering::Relaxed) & libc::FUTEX_TID_MASK == own_number()
    }

    /// To be called by the owner.
    #[inline]
    pub(super) fn unlock(&self) {
        let alone =
            (self.0).compare_exchange(own_number(), 0, Ordering::Release, Ordering::Relaxed);
        if alone.is_err() {
            // Others wait. It is refused only to threads that do not own it.
            // SAFETY: the word lives as long as the call.
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

/// `futex(2)`, private to this process; the error number where it fails.
///
/// # Safety
/// `time` is null, a number that the operation takes in its place, or a valid timespec;
/// `second` is null or a word that lives as long as the call.
pub(super) unsafe fn syscall(
    word: &AtomicU32,
    operation: libc::c_int,
    value: u32,
    time: *const libc::c_void,
    second: *const AtomicU32,
    third: u32,
) -> Result<(), i32> {
    // SAFETY: as the caller promises; the word is borrowed.
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
    /// This thread's number; 0: not asked yet.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread's number, without a system call after the first time. The one
/// thread of a forked child has another number than the one that forked.
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
    // SAFETY: the handler writes to a thread-local without a destructor; it fails only
    // without memory.
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
