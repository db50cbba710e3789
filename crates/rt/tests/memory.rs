//! Locked memory. In one test, because locking is a setting of the whole
//! process.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // helpers of tests are tests

use std::fs;
use std::hint::black_box;

use punctual_rt::{Error, LockMode, LockedBuffer, lock_process_memory, thread_usage};

/// A line of `/proc/self/status`, in bytes.
fn status_bytes(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

/// Touches each page, and says how many faults that took.
fn faults_of_touching(bytes: &mut [u8]) -> u64 {
    let before = thread_usage();
    for page in bytes.chunks_mut(512) {
        page[0] = black_box(1);
    }
    let after = thread_usage();
    (after.minor_faults + after.major_faults) - (before.minor_faults + before.major_faults)
}

#[test]
fn locked_memory_stays_and_is_released() {
    buffers_are_zeroed_locked_and_do_not_fault();
    sizes_that_cannot_be_are_refused();
    the_whole_process_is_locked_and_unlocked();
    on_fault_takes_no_more_than_is_touched();
}

fn buffers_are_zeroed_locked_and_do_not_fault() {
    let mut ordinary = vec![0_u8; 4 << 20];
    assert!(
        faults_of_touching(&mut ordinary) > 0,
        "the test's own measure"
    );

    let mut buffer = match LockedBuffer::new((1 << 20) + 1) {
        Ok(buffer) => buffer,
        Err(error) => {
            assert!(error.is_privilege(), "{error}");
            eprintln!("SKIP locked buffer: {error}");
            return;
        }
    };
    assert_eq!(buffer.len(), (1 << 20) + 1);
    assert!(buffer.iter().all(|&byte| byte == 0));
    let locked = status_bytes("VmLck:");
    assert!(locked > 1 << 20);

    let mut fresh = LockedBuffer::new(1 << 20).unwrap();
    assert_eq!(faults_of_touching(&mut fresh), 0);
    assert_eq!(faults_of_touching(&mut buffer), 0);

    drop(buffer);
    drop(fresh);
    assert!(status_bytes("VmLck:") < locked);
}

fn sizes_that_cannot_be_are_refused() {
    for bytes in [0, usize::MAX, usize::MAX / 2 + 1] {
        let error = LockedBuffer::new(bytes).unwrap_err();
        assert!(matches!(error, Error::BufferSize { .. }), "{error}");
    }
    // Fits the address space's arithmetic, not the address space.
    let error = LockedBuffer::new(1 << 60).unwrap_err();
    assert!(!matches!(error, Error::BufferSize { .. }), "{error}");
}

fn the_whole_process_is_locked_and_unlocked() {
    let before = status_bytes("VmLck:");
    let Some(first) = try_lock(LockMode::Current) else {
        return;
    };
    assert!(status_bytes("VmLck:") > before);
    let second = lock_process_memory(LockMode::CurrentAndFuture).unwrap();
    assert_eq!(second.mode(), LockMode::CurrentAndFuture);
    let buffer = LockedBuffer::new(1 << 20).unwrap();
    drop(first);
    assert!(status_bytes("VmLck:") > 2 << 20, "the second still holds");
    drop(second);
    let locked = status_bytes("VmLck:");
    assert_eq!(locked, before + (1 << 20), "the buffer stays locked");
    drop(buffer);
    assert_eq!(status_bytes("VmLck:"), before);
}

fn on_fault_takes_no_more_than_is_touched() {
    let growth = |mode| {
        let lock = try_lock(mode)?;
        let before = status_bytes("VmRSS:");
        let untouched = black_box(Vec::<u8>::with_capacity(64 << 20));
        let after = status_bytes("VmRSS:");
        drop(untouched);
        drop(lock);
        Some(after.saturating_sub(before))
    };
    if let Some(growth) = growth(LockMode::OnFault) {
        assert!(growth < 32 << 20, "{growth}");
    }
    if let Some(growth) = growth(LockMode::CurrentAndFuture) {
        assert!(growth >= 64 << 20, "{growth}");
    }
}

fn try_lock(mode: LockMode) -> Option<punctual_rt::MemoryLock> {
    match lock_process_memory(mode) {
        Ok(lock) => Some(lock),
        Err(error) => {
            assert!(error.is_privilege(), "{error}");
            eprintln!("SKIP locking with {mode:?}: {error}");
            None
        }
    }
}
