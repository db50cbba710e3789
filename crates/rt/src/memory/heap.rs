//! The heap that threads share.
#![allow(unsafe_code)]

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
