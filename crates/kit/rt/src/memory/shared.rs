//! Numbers that two processes have in common.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{Error, SharedFutex};

/// Numbers in memory that more than one process has mapped, all zero at first,
/// and a [`SharedFutex`]. Their file has no name (`memfd_create(2)`): another
/// process gets it by inheriting the descriptor
/// ([`spawn_with`](crate::spawn_with)). The pages are there when this is made.
#[derive(Debug)]
pub struct SharedNumbers {
    memory: NonNull<Layout>,
    file: OwnedFd,
}

/// What both sides map. Every pattern of bits is valid in it.
#[repr(C)]
struct Layout {
    numbers: [AtomicU64; SharedNumbers::COUNT],
    /// On a cache line of its own, as long as the numbers fill whole ones.
    futex: AtomicU32,
}

// SAFETY: it owns its mapping, in which there are only atomic numbers.
unsafe impl Send for SharedNumbers {}
// SAFETY: as above.
unsafe impl Sync for SharedNumbers {}

/// The file keeps its length, whoever has it: no page of the mapping goes.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

impl SharedNumbers {
    /// How many numbers there are.
    pub const COUNT: usize = 32;

    const BYTES: usize = size_of::<Layout>();

    /// New ones.
    ///
    /// # Errors
    /// [`Error::Os`] without memory or file descriptors for them.
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
        // SAFETY: the descriptor is new and owned by nobody else.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: takes numbers only.
        if unsafe { libc::ftruncate(fd, Self::BYTES as _) } != 0 {
            return Err(failed("ftruncate"));
        }
        // SAFETY: takes numbers only.
        if unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, SEALS) } != 0 {
            return Err(failed("fcntl F_ADD_SEALS"));
        }
        Self::map(file)
    }

    /// Those of another process, by the descriptor that was inherited from it.
    ///
    /// # Errors
    /// [`Error::Os`]: EINVAL if there are none behind the descriptor.
    pub fn attach(file: OwnedFd) -> Result<Self, Error> {
        // SAFETY: takes numbers only.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let length = rustix::fs::fstat(&file).map(|stat| stat.st_size);
        if seals < 0 || seals & SEALS != SEALS || length != Ok(Self::BYTES as _) {
            let source = io::ErrorKind::InvalidInput.into();
            return Err(Error::os("fcntl F_GET_SEALS", WHAT, source));
        }
        Self::map(file)
    }

    fn map(file: OwnedFd) -> Result<Self, Error> {
        // SAFETY: a new mapping where the kernel chooses. The file is at least
        // as long and, being sealed, stays so.
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
        // SAFETY: mapped as long as `self` lives, at the start of a page and so
        // aligned; the file is long enough; others change it as atomic numbers.
        unsafe { self.memory.as_ref() }
    }

    /// The numbers.
    #[inline]
    pub fn numbers(&self) -> &[AtomicU64; Self::COUNT] {
        &self.layout().numbers
    }

    /// The futex.
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
        // SAFETY: the mapping is ours, and nobody borrows from it any more.
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
        // It is another number already.
        one.futex().wait_while(seen).unwrap();
    }

    #[test]
    fn another_file_is_refused() {
        let (reader, _writer) = io::pipe().unwrap();
        let error = SharedNumbers::attach(reader.into()).unwrap_err();
        assert!(error.to_string().contains("processes share"), "{error}");
        // SAFETY: the name is a string that ends in a zero byte.
        let fd = unsafe { libc::memfd_create(c"short".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: new, and nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        assert!(SharedNumbers::attach(file).is_err());
    }

    #[test]
    fn a_futex_of_one_mapping_wakes_the_other() {
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
