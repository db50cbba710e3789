//! A buffer that never causes page faults.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::slice;

use super::{Mapping, MappingRequest};
use crate::Error;

/// Zeroed bytes on separate pages, locked in RAM and touched, so that no access causes a page
/// fault.
///
/// The size is exactly as requested. Whole pages are locked and count against RLIMIT_MEMLOCK. They
/// are regular pages that the kernel does not merge into huge pages later, because merging would
/// cause page faults. A forked child does not get them (`MADV_DONTFORK`). If it did, each page
/// would fault once after a `fork(2)` in order to be copied.
pub struct LockedBuffer {
    mapping: Mapping,
    bytes: usize,
}

// SAFETY: shared references only allow reading.
unsafe impl Sync for LockedBuffer {}

impl LockedBuffer {
    /// Creates a zeroed buffer of `bytes` bytes.
    ///
    /// # Errors
    /// Returns [`Error::BufferSize`] for an invalid size, [`Error::MemoryLockRefused`] with the
    /// limit and how to raise it, and [`Error::Os`] if there is not enough memory.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        let page = rustix::param::page_size();
        let most = isize::MAX.cast_unsigned() / page * page;
        if bytes == 0 || bytes > most {
            return Err(Error::BufferSize { bytes });
        }
        let mut mapping = Mapping::new(&MappingRequest::untouched(bytes))?;
        mapping.lock()?;
        // mlock has already faulted the pages in for writing, but the kernel may stop early without
        // an error. Touching a present page costs nothing.
        for page in 0..mapping.pages() {
            mapping.touch_with(page, 0);
        }
        Ok(Self { mapping, bytes })
    }
}

impl Deref for LockedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: there are `bytes` initialised bytes, at most isize::MAX, which stay mapped as
        // long as `self` exists.
        unsafe { slice::from_raw_parts(self.mapping.start().as_ptr(), self.bytes) }
    }
}

impl DerefMut for LockedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.mapping.start().as_ptr(), self.bytes) }
    }
}

impl fmt::Debug for LockedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedBuffer")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
