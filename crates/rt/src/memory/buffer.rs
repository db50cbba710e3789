//! A buffer that never faults.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};

use super::{explain, lock};
use crate::Error;

/// Zeroed bytes on pages of their own, locked in RAM and touched, so that
/// neither the first nor any later access takes a page fault.
///
/// Its size is what was asked for; whole pages are locked, and count against
/// RLIMIT_MEMLOCK. A forked child does not have it (`MADV_DONTFORK`):
/// otherwise each page would fault once after a `fork(2)`, to be copied.
pub struct LockedBuffer {
    start: NonNull<u8>,
    bytes: usize,
    mapped: usize,
}

// SAFETY: it owns its mapping as a Box owns its memory; shared references only
// read.
unsafe impl Send for LockedBuffer {}
// SAFETY: as above.
unsafe impl Sync for LockedBuffer {}

impl LockedBuffer {
    /// A zeroed buffer of `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::BufferSize`] for none or too many; [`Error::MemoryLockRefused`]
    /// with the limit and how to raise it; [`Error::Os`] if there is no memory.
    pub fn new(bytes: usize) -> Result<Self, Error> {
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
        };
        let what = || format!("a buffer of {bytes} bytes");
        // With all future mappings locked (MCL_FUTURE), the mapping itself
        // fails with EAGAIN beyond the limit.
        let address = address.map_err(|errno| explain("mmap", what(), errno))?;
        let start = NonNull::new(address.cast::<u8>()).ok_or(Error::BufferSize { bytes })?;
        let mut buffer = Self {
            start,
            bytes,
            mapped,
        };
        buffer
            .lock()
            .map_err(|(call, errno)| explain(call, what(), errno))?;
        Ok(buffer)
    }

    /// Locks and touches the pages. On failure the drop unmaps them.
    fn lock(&mut self) -> Result<(), (&'static str, rustix::io::Errno)> {
        let address = self.start.as_ptr().cast();
        // SAFETY: this mapping only; a child that lacks it has no handle on it
        // in safe code either, as forking is unsafe.
        unsafe { madvise(address, self.mapped, Advice::LinuxDontFork) }
            .map_err(|errno| ("madvise", errno))?;
        // SAFETY: this mapping only.
        unsafe { mlock(address, self.mapped) }.map_err(|errno| ("mlock", errno))?;
        // mlock has read the pages in for writing, except that a kernel may
        // stop early in silence; a touch that finds them there costs nothing.
        for offset in (0..self.mapped).step_by(rustix::param::page_size()) {
            // SAFETY: within the mapping. Volatile, so that it is not left out.
            unsafe { self.start.as_ptr().add(offset).write_volatile(0) };
        }
        lock::enter(self.start.as_ptr() as usize, self.mapped);
        Ok(())
    }
}

impl Drop for LockedBuffer {
    fn drop(&mut self) {
        lock::leave(self.start.as_ptr() as usize);
        // SAFETY: the mapping is ours, and no reference to it outlives self.
        // Unmapping unlocks too. It can fail only for want of kernel memory to
        // split a neighbouring mapping; then the memory leaks.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

impl Deref for LockedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `bytes` initialised bytes, at most isize::MAX, mapped as
        // long as self lives.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for LockedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl fmt::Debug for LockedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedBuffer")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
