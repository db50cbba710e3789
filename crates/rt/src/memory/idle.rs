//! Memory of a process that waits for long.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

/// Gives freed memory of the heap back to the kernel, also what lies below pieces that are in
/// use. The C library of glibc alone can do that; with another one nothing happens.
///
/// Not for a process that measures: it takes the allocator's locks, and the memory faults when
/// it is used again.
///
/// Source: malloc_trim(3).
pub fn release_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: works on free memory of the allocator, under the allocator's own locks.
    unsafe {
        let _ = libc::malloc_trim(0);
    }
}

/// Gives back what the process does not need while it waits: freed memory of the heap, and
/// the pages of its program and libraries that were mapped from their files and not changed.
/// Their content stays in the page cache. The next use of each costs a page fault without
/// reading from disk, where the kernel has not taken it for something else.
///
/// For a service between two pieces of work. Not for a process that measures: its page faults
/// would be in the measurement. Does nothing to locked pages.
///
/// Returns how many bytes of program and libraries were unmapped at most.
///
/// Source: madvise(2), MADV_DONTNEED: "subsequent accesses [...] repopulating the memory
/// contents from the up-to-date contents of the underlying mapped file".
pub fn release_memory() -> usize {
    release_heap();
    let mut bytes = 0usize;
    // SAFETY: `release` gets valid structures of the dynamic linker and the pointer to
    // `bytes`, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(release), (&raw mut bytes).cast()) };
    bytes
}

/// Unmaps the segments of an object that are not writable. What the dynamic linker changes and
/// protects afterwards (RELRO) lies in a segment that is writable, and stays.
unsafe extern "C" fn release(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    bytes: *mut c_void,
) -> c_int {
    // SAFETY: dl_iterate_phdr(3) passes a valid object, and the caller's pointer to a usize.
    let (object, bytes) = unsafe { (&*object, &mut *bytes.cast::<usize>()) };
    // SAFETY: asks for a number of the auxiliary vector.
    let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    let base = object.dlpi_addr as usize;
    if object.dlpi_phdr.is_null() || base == vdso {
        return 0;
    }
    // SAFETY: the linker's table of so many headers.
    let headers =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let page = page_size();
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        // The pages that belong to no other segment.
        let first = base + header.p_vaddr as usize;
        let start = first.next_multiple_of(page);
        let end = (first + header.p_memsz as usize) / page * page;
        let Some(length) = end.checked_sub(start).filter(|length| *length > 0) else {
            continue;
        };
        // SAFETY: whole pages of a private mapping of a file that nothing may write to: they
        // are read again from that file.
        let done = unsafe { madvise(start as *mut c_void, length, Advice::LinuxDontNeed) };
        // EINVAL for locked pages: these stay.
        if done.is_ok() {
            *bytes += length;
        }
    }
    0
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic in a test is the report")]
mod tests {
    use super::*;

    /// A constant of the program: pages that are not zero.
    static KNOWN: [u8; 1 << 20] = [0x5a; 1 << 20];

    fn is_known() -> bool {
        std::hint::black_box(&KNOWN)
            .iter()
            .all(|byte| *byte == 0x5a)
    }

    /// Pages of files that are mapped, in kB.
    fn of_files() -> u64 {
        in_use("RssFile:")
    }

    fn in_use(kind: &str) -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(kind));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.unwrap().parse().unwrap()
    }

    /// Private memory that is in use, in kB.
    #[cfg(target_env = "gnu")]
    fn of_the_heap() -> u64 {
        in_use("RssAnon:")
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn freed_memory_below_pieces_that_stay_is_given_back() {
        // Pieces too small for mappings of their own; each hundredth stays.
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

    #[test]
    fn pages_of_the_program_are_given_back_and_read_again() {
        assert!(is_known());
        let before = of_files();
        assert!(release_memory() > KNOWN.len());
        let after = of_files();
        assert!(after + 1_024 <= before, "{after} of {before} kB");
        assert!(is_known());
        // Writable memory is as it was: the allocator and the test harness go on.
        let grown: Vec<u64> = (0..100_000).collect();
        assert_eq!(grown.iter().sum::<u64>(), 4_999_950_000);
    }
}
