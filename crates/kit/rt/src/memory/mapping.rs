//! Mappings of each kind whose pages can be touched one by one.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};

use rustix::mm::{
    Advice, MapFlags, ProtFlags, madvise, mlock, mmap, mmap_anonymous, munlock, munmap,
};

use super::{explain, lock};
use crate::Error;

/// Size of huge pages for [`Backing`], as on x86-64 and on aarch64 with 4 KiB pages.
const HUGE: usize = 2 << 20;

/// Backing of the pages of a [`Mapping`].
#[derive(Clone, Copy, Debug)]
pub enum Backing<'a> {
    /// Zeroed pages of the regular size, private to the process.
    Anonymous,
    /// Pages of 2 MiB from the pool reserved by the administrator (MAP_HUGETLB; `vm.nr_hugepages`).
    HugePool,
    /// Transparent huge pages of 2 MiB (MADV_HUGEPAGE). If the kernel cannot allocate one, it
    /// silently uses regular pages; check with [`Mapping::is_whole`].
    HugeAdvised,
    /// Shared pages of a file.
    File(&'a MemoryFile),
}

/// Properties of a new [`Mapping`].
#[derive(Clone, Copy, Debug)]
pub struct MappingRequest<'a> {
    /// Backing of its pages.
    pub backing: Backing<'a>,
    /// Number of pages.
    pub pages: usize,
    /// MAP_POPULATE: all pages are present when the call returns.
    pub populate: bool,
    /// MAP_LOCKED: all pages are present and locked.
    pub locked: bool,
}

impl MappingRequest<'_> {
    /// Requests room for `bytes` bytes in untouched pages of the regular size. The first touch of
    /// each page causes a fault.
    pub fn untouched(bytes: usize) -> Self {
        Self {
            backing: Backing::Anonymous,
            pages: bytes.div_ceil(rustix::param::page_size()),
            populate: false,
            locked: false,
        }
    }
}

/// An unnamed file in memory (`memfd_create(2)`) whose pages are all in the page cache.
#[derive(Debug)]
pub struct MemoryFile {
    file: File,
    pages: usize,
}

impl MemoryFile {
    /// Creates a file of `pages` pages.
    ///
    /// # Errors
    /// Returns [`Error::Os`] if memory or file descriptors are not available.
    pub fn new(pages: usize) -> Result<Self, Error> {
        let failed = |call, source| Error::os(call, format!("a file of {pages} pages"), source);
        // SAFETY: the name is a string that ends in a zero byte.
        let fd = unsafe { libc::memfd_create(c"punctual".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(failed("memfd_create", io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new and has no other owner.
        let file = unsafe { File::from_raw_fd(fd) };
        let page = vec![0; rustix::param::page_size()];
        for place in 0..pages {
            file.write_all_at(&page, place as u64 * page.len() as u64)
                .map_err(|source| failed("write", source))?;
        }
        Ok(Self { file, pages })
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> usize {
        self.pages
    }
}

/// Mapped pages, readable and writable until dropped. A forked child does not get them
/// (`MADV_DONTFORK`). If it did, each page would fault once more after a `fork(2)` in order to be
/// copied.
#[derive(Debug)]
pub struct Mapping {
    /// The whole mapping.
    address: NonNull<u8>,
    bytes: usize,
    /// The first page within it, the page size, and the number of pages.
    first: NonNull<u8>,
    page: usize,
    pages: usize,
    /// Whether the mapping is registered as locked.
    remembered: bool,
}

// SAFETY: this value owns its mapping, and no part of it is bound to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps pages as requested.
    ///
    /// # Errors
    /// Returns [`Error::MemoryLockRefused`] if this would exceed the lock limit, and [`Error::Os`]
    /// with the kernel's reason: no memory, no free pages in the pool of huge pages, no pages
    /// requested, or more pages than the file has.
    pub fn new(request: &MappingRequest) -> Result<Self, Error> {
        let huge = matches!(request.backing, Backing::HugePool | Backing::HugeAdvised);
        let page = if huge {
            HUGE
        } else {
            rustix::param::page_size()
        };
        let what = || format!("a mapping of {} pages of {page} bytes", request.pages);
        let unfit = || Error::os("mmap", what(), io::ErrorKind::InvalidInput.into());
        // This function aligns transparent huge pages itself, so it maps one extra page.
        let spare = usize::from(matches!(request.backing, Backing::HugeAdvised));
        let bytes = request
            .pages
            .checked_add(spare)
            .and_then(|pages| pages.checked_mul(page))
            .filter(|&bytes| request.pages > 0 && bytes <= isize::MAX.cast_unsigned())
            .ok_or_else(unfit)?;
        if let Backing::File(file) = request.backing
            && file.pages < request.pages
        {
            // Touching a page beyond the end of the file would raise SIGBUS.
            return Err(unfit());
        }
        let address = map(request, bytes).map_err(|errno| {
            if request.locked || errno == rustix::io::Errno::AGAIN {
                explain("mmap", what(), errno)
            } else {
                Error::os("mmap", what(), errno.into())
            }
        })?;
        let address = NonNull::new(address).ok_or_else(unfit)?;
        let first = if huge {
            let offset = address.as_ptr().align_offset(HUGE);
            // SAFETY: where the start may be unaligned, one extra page is mapped; pages of the pool
            // are always aligned.
            unsafe { address.add(offset) }
        } else {
            address
        };
        let mut mapping = Self {
            address,
            bytes,
            first,
            page,
            pages: request.pages,
            remembered: false,
        };
        mapping.advise(request.backing)?;
        if request.locked {
            mapping.remember();
        }
        Ok(mapping)
    }

    /// Advises the kernel about the kind of pages. On failure, the drop unmaps the memory.
    fn advise(&self, backing: Backing) -> Result<(), Error> {
        let pages = match backing {
            Backing::Anonymous => Some(Advice::LinuxNoHugepage),
            Backing::HugeAdvised => Some(Advice::LinuxHugepage),
            Backing::HugePool | Backing::File(_) => None,
        };
        for advice in [Some(Advice::LinuxDontFork), pages].into_iter().flatten() {
            // SAFETY: this affects only this mapping, and keeps its content. Safe code cannot
            // access it in a child that lacks it, because forking is unsafe.
            match unsafe { madvise(self.address.as_ptr().cast(), self.bytes, advice) } {
                Ok(()) => {}
                // A kernel that does not support huge pages cannot use them anyway.
                Err(_) if advice == Advice::LinuxNoHugepage => {}
                Err(errno) => {
                    let what = format!("{advice:?} on a mapping of {} bytes", self.bytes);
                    return Err(Error::os("madvise", what, errno.into()));
                }
            }
        }
        Ok(())
    }

    /// Makes all pages present, like MAP_POPULATE, but reports a failure (MADV_POPULATE_WRITE,
    /// Linux 5.14; does nothing on an older kernel). In a control group with a limit, a pool of
    /// huge pages may have fewer pages than promised. The first touch then raises SIGBUS. This call
    /// detects that beforehand.
    ///
    /// # Errors
    /// Returns [`Error::Os`] with the kernel's reason.
    pub fn populate(&mut self) -> Result<(), Error> {
        // SAFETY: this affects only this mapping, and keeps the content of its pages.
        let done = unsafe {
            madvise(
                self.first.as_ptr().cast(),
                self.pages * self.page,
                Advice::LinuxPopulateWrite,
            )
        };
        match done {
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(errno) => Err(Error::os(
                "madvise",
                format!("MADV_POPULATE_WRITE of {} pages", self.pages),
                errno.into(),
            )),
        }
    }

    /// Locks its pages in RAM (`mlock(2)`). All of them are present when this returns.
    ///
    /// # Errors
    /// Returns [`Error::MemoryLockRefused`] with the limit and how to raise it.
    pub fn lock(&mut self) -> Result<(), Error> {
        let bytes = self.pages * self.page;
        // SAFETY: this affects only this mapping.
        unsafe { mlock(self.first.as_ptr().cast(), bytes) }
            .map_err(|errno| explain("mlock", format!("a mapping of {bytes} bytes"), errno))?;
        self.remember();
        Ok(())
    }

    fn remember(&mut self) {
        if !self.remembered {
            self.remembered = true;
            lock::enter(self.first.as_ptr() as usize, self.pages * self.page);
        }
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Writes one byte to the page with this index.
    ///
    /// # Panics
    /// If there is no such page.
    #[inline]
    pub fn touch(&mut self, page: usize) {
        self.touch_with(page, 1);
    }

    /// Writes `byte` to the page with this index.
    #[inline]
    pub(crate) fn touch_with(&mut self, page: usize, byte: u8) {
        assert!(
            page < self.pages,
            "the mapping does not contain page {page}"
        );
        // SAFETY: the address is within the mapping, which is writable and to which no references
        // exist. The write is volatile, so that the compiler keeps it.
        unsafe { self.first.add(page * self.page).write_volatile(byte) };
    }

    /// Returns the address of its first page.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.first
    }

    /// Returns whether the page with this index is present up to its last byte (`mincore(2)`) after
    /// its first byte was touched. If the kernel could not allocate a huge page, only the touched
    /// part is present.
    ///
    /// # Errors
    /// Returns [`Error::Os`]: EINVAL if there is no such page.
    pub fn is_whole(&self, page: usize) -> Result<bool, Error> {
        let failed = |source| Error::os("mincore", format!("page {page} of a mapping"), source);
        if page >= self.pages {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        }
        let small = rustix::param::page_size();
        let mut state = 0_u8;
        // SAFETY: the arguments are the last small page of a page of this mapping, and a byte for
        // its state.
        let result = unsafe {
            let last = self.first.add((page + 1) * self.page - small);
            libc::mincore(last.as_ptr().cast(), small, &raw mut state)
        };
        if result != 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        Ok(state & 1 == 1)
    }
}

/// Makes the mmap call.
fn map(request: &MappingRequest, bytes: usize) -> rustix::io::Result<*mut u8> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let mut flags = MapFlags::empty();
    flags.set(MapFlags::POPULATE, request.populate);
    flags.set(MapFlags::LOCKED, request.locked);
    let address = match request.backing {
        Backing::File(file) => {
            // SAFETY: this creates a new mapping at an address that the kernel chooses, so existing
            // memory is not affected. Only this process has the file, and the file never shrinks.
            unsafe {
                mmap(
                    ptr::null_mut(),
                    bytes,
                    access,
                    flags | MapFlags::SHARED,
                    &file.file,
                    0,
                )
            }
        }
        Backing::HugePool => {
            let flags = flags | MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB;
            // SAFETY: as above.
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, flags) }
        }
        Backing::Anonymous | Backing::HugeAdvised => {
            // SAFETY: as above.
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, flags | MapFlags::PRIVATE) }
        }
    };
    address.map(<*mut _>::cast)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.remembered {
            lock::leave(self.first.as_ptr() as usize);
        }
        // SAFETY: this value owns the mapping, and there are no references to it. The call can fail
        // only if the kernel lacks memory to split a neighbouring mapping. In that case the memory
        // is leaked, but not locked.
        unsafe {
            if munmap(self.address.as_ptr().cast(), self.bytes).is_err() {
                let _ = munlock(self.address.as_ptr().cast(), self.bytes);
            }
        }
    }
}
