//! The heap that threads share.
#![allow(unsafe_code)]

/// Lets the process keep up to `bytes` of memory that it freed, for what it
/// allocates next, instead of giving it back to the kernel at once.
///
/// For a process that allocates and frees large pieces in turns: each time they
/// come back from the kernel, every page of them is a fault. Where another C
/// library decides that by itself, this does nothing.
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

/// Lets all threads of the process allocate from one heap. The GNU C library
/// gives each thread one of its own instead, which keeps what was freed: with
/// locked memory that stays in RAM for good, for each thread anew.
///
/// For a process whose threads allocate little once they run: they then wait
/// for one another. To be called before the first thread is started, as those
/// that have a heap keep it. Other C libraries have one heap anyhow, and there
/// this does nothing.
///
/// Source: mallopt(3), M_ARENA_MAX.
pub fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number inside the allocator, which takes its own lock.
    unsafe {
        // It refuses only what it does not know, and then all is as it was.
        let _ = libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
