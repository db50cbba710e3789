//! Settings of the heap shared by all threads.
#![allow(unsafe_code)]

/// Lets the process keep up to `bytes` of freed memory for later allocations, instead of returning
/// it to the kernel at once.
///
/// This helps a process that repeatedly allocates and frees large blocks, because memory that was
/// returned to the kernel causes a fault on every page when it is allocated again. Does nothing
/// with other C libraries, which decide this themselves.
///
/// Source: mallopt(3), M_TRIM_THRESHOLD, M_MMAP_THRESHOLD.
pub fn keep_heap(bytes: usize) {
    #[cfg(target_env = "gnu")]
    {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        for what in [libc::M_TRIM_THRESHOLD, libc::M_MMAP_THRESHOLD] {
            // SAFETY: sets a number inside the allocator, which takes its own lock.
            let _ = unsafe { libc::mallopt(what, bytes) };
        }
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = bytes;
}

/// Makes all threads of the process allocate from one heap. By default, the GNU C library gives
/// each thread a separate heap that keeps freed memory. With locked memory, each of these heaps
/// stays in RAM permanently.
///
/// Suitable for a process whose threads allocate little once they are running, because they contend
/// for the heap. Call it before starting the first thread, because threads that already have a heap
/// keep it. Does nothing with other C libraries, which have only one heap anyway.
///
/// Source: mallopt(3), M_ARENA_MAX.
pub fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number inside the allocator, which takes its own lock.
    unsafe {
        // Fails only if the parameter is unknown, and changes nothing in that case.
        let _ = libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
