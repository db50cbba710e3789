//! Memory of a process that is idle for a long time.
#![allow(unsafe_code)]

/// Returns freed heap memory to the kernel, including memory below blocks in use. Only glibc
/// supports this; it does nothing with other C libraries.
///
/// Do not call it while measuring, because it takes the locks of the allocator, and the next use of
/// the memory causes page faults.
///
/// Source: malloc_trim(3).
pub fn release_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: works on free memory of the allocator, under the allocator's own locks.
    unsafe {
        let _ = libc::malloc_trim(0);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic in a test is the report")]
mod tests {
    use super::*;

    fn in_use(kind: &str) -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(kind));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.unwrap().parse().unwrap()
    }

    /// Returns the private memory in use, in kB.
    #[cfg(target_env = "gnu")]
    fn of_the_heap() -> u64 {
        in_use("RssAnon:")
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn freed_memory_below_kept_pieces_is_returned() {
        // These blocks are too small for separate mappings. One in a hundred is kept.
        let mut all: Vec<Option<Vec<u8>>> = (0..20_000).map(|_| Some(vec![1; 1_000])).collect();
        for (place, piece) in all.iter_mut().enumerate() {
            if place % 100 != 0 {
                *piece = None;
            }
        }
        let before = of_the_heap();
        release_heap();
        let after = of_the_heap();
        assert!(after + 4_096 <= before, "{after} of {before} kB");
        assert!(all.iter().flatten().all(|piece| piece[999] == 1));
    }
}
