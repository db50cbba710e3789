//! Memory that faults anew each time.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::Error;

/// A private anonymous mapping that nobody has touched: the first touch of each
/// page faults. Unmapped when dropped.
///
/// Without huge pages (`MADV_NOHUGEPAGE`), so that a page is a fault.
#[derive(Debug)]
pub struct FreshMemory {
    start: NonNull<u8>,
    bytes: usize,
    page: usize,
    next: usize,
}

// SAFETY: it owns its mapping as a Box owns its memory, and has no shared
// access.
unsafe impl Send for FreshMemory {}

impl FreshMemory {
    /// Maps `bytes` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// [`Error::BufferSize`] for none or too many; [`Error::Os`] where the
    /// kernel has no room for them (mmap(2); with all future mappings locked
    /// also beyond RLIMIT_MEMLOCK).
    pub fn map(bytes: usize) -> Result<Self, Error> {
        let page = rustix::param::page_size();
        let mapped = bytes
            .checked_next_multiple_of(page)
            .filter(|&mapped| mapped > 0 && mapped <= isize::MAX.cast_unsigned())
            .ok_or(Error::BufferSize { bytes })?;
        // SAFETY: a new private mapping where the kernel chooses; no existing
        // memory is concerned.
        let address = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }
        .map_err(|errno| Error::os("mmap", format!("{mapped} bytes"), errno.into()))?;
        let start = NonNull::new(address.cast::<u8>()).ok_or(Error::BufferSize { bytes })?;
        // A kernel without huge pages refuses the advice and needs none.
        // SAFETY: this mapping only.
        let _ = unsafe { madvise(address, mapped, Advice::LinuxNoHugepage) };
        Ok(Self {
            start,
            bytes: mapped,
            page,
            next: 0,
        })
    }

    /// Touches up to `pages` more pages, and tells how many were left to touch:
    /// each is one minor page fault.
    pub fn touch(&mut self, pages: usize) -> usize {
        let left = (self.bytes - self.next) / self.page;
        let pages = pages.min(left);
        for _ in 0..pages {
            // SAFETY: within the mapping, which is ours alone. Volatile, so
            // that it is not left out.
            unsafe { self.start.as_ptr().add(self.next).write_volatile(1) };
            self.next += self.page;
        }
        pages
    }
}

impl Drop for FreshMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it is ever given
        // out. It can fail only for want of kernel memory to split a
        // neighbouring mapping; then the memory leaks.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread_usage;

    #[test]
    fn each_page_faults_once() {
        std::thread::spawn(|| {
            let pages = 200;
            let mut memory = FreshMemory::map(pages * rustix::param::page_size() - 1).unwrap();
            let before = thread_usage().minor_faults;
            assert_eq!(memory.touch(150), 150);
            assert_eq!(memory.touch(150), 50);
            assert_eq!(memory.touch(150), 0);
            let faults = thread_usage().minor_faults - before;
            assert!(faults >= pages as u64, "{faults}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(matches!(
            FreshMemory::map(0),
            Err(Error::BufferSize { bytes: 0 })
        ));
        assert!(FreshMemory::map(usize::MAX).is_err());
        assert!(FreshMemory::map(isize::MAX as usize / 2).is_err());
    }
}
