//! Numbers shared by two processes.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{Error, SharedFutex};

/// Numbers, all zero at first, and a [`SharedFutex`], in memory that several processes have mapped.
/// The file has no name (`memfd_create(2)`): another process gets it by inheriting the descriptor
/// ([`spawn_with`](crate::spawn_with)). The pages are present after creation.
#[derive(Debug)]
pub struct SharedNumbers {
    memory: NonNull<Layout>,
    file: OwnedFd,
}

/// Layout of the mapping. Every bit pattern is valid in it.
#[repr(C)]
struct Layout {
    numbers: [AtomicU64; SharedNumbers::COUNT],
    /// On a separate cache line, because the numbers fill whole lines.
    futex: AtomicU32,
}

// SAFETY: this value owns its mapping, which contains only atomic numbers.
unsafe impl Send for SharedNumbers {}
// SAFETY: as above.
unsafe impl Sync for SharedNumbers {}

/// No process can change the length of the file, so no page of the mapping disappears.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

impl SharedNumbers {
    /// Number of numbers.
    pub const COUNT: usize = 32;

    const BYTES: usize = size_of::<Layout>();

    /// Creates the numbers.
    ///
    /// # Errors
    /// Returns [`Error::Os`] if memory or file descriptors are not available.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the name is a string that ends in a zero byte.
        let fd = unsafe {
            libc::memfd_create(
                c"punctual-numbers".as_ptr(),
                libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
            )
        };
        if fd < 0 {
            return Err(failed("memfd_create"));
        }
        // SAFETY: the descriptor is new and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the call takes only integers.
        if unsafe { libc::ftruncate(fd, Self::BYTES as _) } != 0 {
            return Err(failed("ftruncate"));
        }
        // SAFETY: the call takes only integers.
        if unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, SEALS) } != 0 {
            return Err(failed("fcntl F_ADD_SEALS"));
        }
        Self::map(file)
    }

    /// Maps the numbers of another process, using an inherited descriptor.
    ///
    /// # Errors
    /// Returns [`Error::Os`]: EINVAL if the descriptor does not refer to such numbers.
    pub fn attach(file: OwnedFd) -> Result<Self, Error> {
        // SAFETY: the call takes only integers.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let length = rustix::fs::fstat(&file).map(|stat| stat.st_size);
        if seals < 0 || seals & SEALS != SEALS || length != Ok(Self::BYTES as _) {
            let source = io::ErrorKind::InvalidInput.into();
            return Err(Error::os("fcntl F_GET_SEALS", WHAT, source));
        }
        Self::map(file)
    }

    fn map(file: OwnedFd) -> Result<Self, Error> {
        // SAFETY: this creates a new mapping at an address that the kernel chooses. The file is at
        // least as long as the mapping and, because it is sealed, stays that long.
        let memory = unsafe {
            mmap(
                ptr::null_mut(),
                Self::BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                &file,
                0,
            )
        };
        let memory = memory.map_err(|errno| Error::os("mmap", WHAT, errno.into()))?;
        match NonNull::new(memory.cast()) {
            Some(memory) => Ok(Self { memory, file }),
            None => Err(Error::os("mmap", WHAT, io::ErrorKind::InvalidInput.into())),
        }
    }

    fn layout(&self) -> &Layout {
        // SAFETY: the memory stays mapped as long as `self` exists, it is page-aligned, and the
        // file is long enough. Other processes access it as atomic numbers.
        unsafe { self.memory.as_ref() }
    }

    /// Returns the numbers.
    #[inline]
    pub fn numbers(&self) -> &[AtomicU64; Self::COUNT] {
        &self.layout().numbers
    }

    /// Returns the futex.
    #[inline]
    pub fn futex(&self) -> SharedFutex<'_> {
        SharedFutex::new(&self.layout().futex)
    }
}

impl AsFd for SharedNumbers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedNumbers {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference into it remains.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), Self::BYTES) };
    }
}

const WHAT: &str = "numbers that processes share";

#[cold]
fn failed(call: &'static str) -> Error {
    Error::os(call, WHAT, io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn both_mappings_have_the_same_numbers() {
        let one = SharedNumbers::new().unwrap();
        let descriptor = one.as_fd().try_clone_to_owned().unwrap();
        let other = SharedNumbers::attach(descriptor).unwrap();
        for (place, number) in one.numbers().iter().enumerate() {
            assert_eq!(number.swap(place as u64 + 1, Ordering::Relaxed), 0);
        }
        let read = other.numbers().iter().map(|n| n.load(Ordering::Relaxed));
        assert!(read.eq(1..=SharedNumbers::COUNT as u64));
        let seen = one.futex().value();
        other.futex().post().unwrap();
        assert_ne!(one.futex().value(), seen);
        // Returns at once, because the value has already changed.
        one.futex().wait_while(seen).unwrap();
    }

    #[test]
    fn another_file_is_refused() {
        let (reader, _writer) = io::pipe().unwrap();
        let error = SharedNumbers::attach(reader.into()).unwrap_err();
        assert!(error.to_string().contains("processes share"), "{error}");
        // SAFETY: the name is a string that ends in a zero byte.
        let fd = unsafe { libc::memfd_create(c"short".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: the descriptor is new and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        assert!(SharedNumbers::attach(file).is_err());
    }

    #[test]
    fn futex_wakes_across_mappings() {
        let one = SharedNumbers::new().unwrap();
        let other = SharedNumbers::attach(one.as_fd().try_clone_to_owned().unwrap()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while one.futex().value() == 0 {
                    one.futex().wait_while(0).unwrap();
                }
            });
            std::thread::sleep(std::time::Duration::from_millis(2));
            other.futex().post().unwrap();
        });
    }
}
