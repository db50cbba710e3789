//! Brings a stack into RAM before it is needed.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::io;
use std::mem::MaybeUninit;

use rustix::process::{Resource, getrlimit};

use crate::Error;

/// Bytes touched per step: far more than the frame itself needs, and less than the stack of any
/// thread.
const STEP: usize = 16 << 10;

/// Touches the next `bytes` bytes of the calling thread's stack, so that later calls find them in
/// RAM. With locked memory they stay there.
///
/// # Errors
/// Returns [`Error::StackTooSmall`] if the thread has less stack left, including a reserve for its
/// work.
pub fn prefault_stack(bytes: usize) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    let left = left()?;
    // Each step also needs a stack frame, which is larger in a debug build, and the caller needs
    // some stack afterwards.
    let available = left.saturating_sub(2 * STEP) / 9 * 8;
    if bytes > available {
        return Err(Error::StackTooSmall {
            asked: bytes,
            available,
        });
    }
    touch(bytes);
    Ok(())
}

/// Recurses down the stack and touches only its own frames.
#[inline(never)]
fn touch(bytes: usize) {
    let mut frame = [0_u8; STEP];
    // Keeps the compiler from removing the frame or its initialisation, and from turning the call
    // below into a jump that reuses the frame.
    black_box(&mut frame);
    if bytes > STEP {
        touch(bytes - STEP);
    }
    black_box(&mut frame);
}

/// Returns the number of bytes between the current frame and the end of this thread's stack.
fn left() -> Result<usize, Error> {
    let failed = |call, code| {
        Error::os(
            call,
            "the calling thread".to_owned(),
            io::Error::from_raw_os_error(code),
        )
    };
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the call initialises `attributes` if it returns 0.
    let code = unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) };
    if code != 0 {
        return Err(failed("pthread_getattr_np", code));
    }
    let mut lowest = std::ptr::null_mut();
    let mut size = 0;
    // SAFETY: `attributes` is initialised, read once and destroyed once.
    let code = unsafe {
        let code = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        code
    };
    if code != 0 {
        return Err(failed("pthread_attr_getstack", code));
    }
    let mut lowest = lowest as usize;
    if rustix::process::getpid() == rustix::thread::gettid()
        && let Some(limit) = getrlimit(Resource::Stack).current
    {
        // The stack of the main thread grows on use up to the limit. musl only reports its current
        // size.
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        lowest = lowest.min((lowest + size).saturating_sub(limit));
    }
    let here = &raw const size as usize;
    Ok(here.saturating_sub(lowest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread_usage;

    fn in_thread<T: Send + 'static>(stack: usize, f: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::Builder::new()
            .stack_size(stack)
            .spawn(f)
            .unwrap()
            .join()
            .unwrap()
    }

    #[test]
    fn what_was_touched_does_not_fault_again() {
        in_thread(2 << 20, || {
            let bytes = 1 << 20;
            let before = thread_usage().minor_faults;
            prefault_stack(bytes).unwrap();
            let first = thread_usage().minor_faults;
            prefault_stack(bytes).unwrap();
            let second = thread_usage().minor_faults;
            assert!(first > before, "the first touch must fault");
            assert_eq!(second, first, "the second must not");
        });
    }

    #[test]
    fn excess_stack_is_error_not_overflow() {
        in_thread(256 << 10, || {
            for bytes in [256 << 10, 1 << 30, usize::MAX] {
                let Err(Error::StackTooSmall { asked, available }) = prefault_stack(bytes) else {
                    panic!("{bytes} bytes must be refused");
                };
                assert_eq!(asked, bytes);
                // The reported size is really available.
                prefault_stack(available).unwrap();
            }
            prefault_stack(0).unwrap();
        });
    }
}
