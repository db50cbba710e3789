//! Mappings of each kind, to be touched page by page.
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

/// The size of huge pages that [`Backing`] speaks of: that of x86-64 and of
/// aarch64 with pages of 4 KiB.
const HUGE: usize = 2 << 20;

/// What stands behind the pages of a [`Mapping`].
#[derive(Clone, Copy, Debug)]
pub enum Backing<'a> {
    /// Zeroed pages of the usual size, private to the process.
    Anonymous,
    /// Pages of 2 MiB from the pool that the administrator has set aside
    /// (MAP_HUGETLB; `vm.nr_hugepages`).
    HugePool,
    /// Pages of 2 MiB that the kernel puts together where it can
    /// (MADV_HUGEPAGE). Where it cannot, pages of the usual size stand in
    /// without a word: [`Mapping::is_whole`] tells.
    HugeAdvised,
    /// A file's pages, shared with it.
    File(&'a MemoryFile),
}

/// What a [`Mapping`] shall be.
#[derive(Clone, Copy, Debug)]
pub struct MappingRequest<'a> {
    /// What stands behind its pages.
    pub backing: Backing<'a>,
    /// How many pages.
    pub pages: usize,
    /// MAP_POPULATE: all pages are there when the call returns.
    pub populate: bool,
    /// MAP_LOCKED: they are, and stay.
    pub locked: bool,
}

impl MappingRequest<'_> {
    /// Room for `bytes` bytes, in pages of the usual size that nobody has
    /// touched: the first touch of each faults.
    pub fn untouched(bytes: usize) -> Self {
        Self {
            backing: Backing::Anonymous,
            pages: bytes.div_ceil(rustix::param::page_size()),
            populate: false,
            locked: false,
        }
    }
}

/// A file in memory without a name (`memfd_create(2)`), all of whose pages are
/// in the page cache.
#[derive(Debug)]
pub struct MemoryFile {
    file: File,
    pages: usize,
}

impl MemoryFile {
    /// A file of that many pages.
    ///
    /// # Errors
    /// [`Error::Os`] without memory or file descriptors for it.
    pub fn new(pages: usize) -> Result<Self, Error> {
        let failed = |call, source| Error::os(call, format!("a file of {pages} pages"), source);
        // SAFETY: the name is a string that ends in a zero byte.
        let fd = unsafe { libc::memfd_create(c"punctual".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(failed("memfd_create", io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new and owned by nobody else.
        let file = unsafe { File::from_raw_fd(fd) };
        let page = vec![0; rustix::param::page_size()];
        for place in 0..pages {
            file.write_all_at(&page, place as u64 * page.len() as u64)
                .map_err(|source| failed("write", source))?;
        }
        Ok(Self { file, pages })
    }

    /// How many pages it has.
    pub fn pages(&self) -> usize {
        self.pages
    }
}

/// Pages that are mapped, readable and writable, until dropped. A forked child
/// does not have them (`MADV_DONTFORK`): otherwise each would fault once more
/// after a `fork(2)`, to be copied.
#[derive(Debug)]
pub struct Mapping {
    /// The whole mapping.
    address: NonNull<u8>,
    bytes: usize,
    /// The first page within it, its size, and how many there are.
    first: NonNull<u8>,
    page: usize,
    pages: usize,
    /// Whether `lock` remembers it.
    remembered: bool,
}

// SAFETY: it owns its mapping; nothing of it is bound to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps pages as requested.
    ///
    /// # Errors
    /// [`Error::MemoryLockRefused`] where more would be locked than is allowed;
    /// [`Error::Os`] with the kernel's reason: no memory, no pages in the pool
    /// of huge pages, none at all, more than the file has.
    pub fn new(request: &MappingRequest) -> Result<Self, Error> {
        let huge = matches!(request.backing, Backing::HugePool | Backing::HugeAdvised);
        let page = if huge {
            HUGE
        } else {
            rustix::param::page_size()
        };
        let what = || format!("a mapping of {} pages of {page} bytes", request.pages);
        let unfit = || Error::os("mmap", what(), io::ErrorKind::InvalidInput.into());
        // Advised pages are aligned here, so one more is mapped.
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
            // Beyond its end a touch would be a SIGBUS.
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
            // SAFETY: one page more is mapped where the start is not aligned;
            // pool pages are.
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

    /// Advice to the kernel on it. On failure the drop unmaps it.
    fn advise(&self, backing: Backing) -> Result<(), Error> {
        let pages = match backing {
            Backing::Anonymous => Some(Advice::LinuxNoHugepage),
            Backing::HugeAdvised => Some(Advice::LinuxHugepage),
            Backing::HugePool | Backing::File(_) => None,
        };
        for advice in [Some(Advice::LinuxDontFork), pages].into_iter().flatten() {
            // SAFETY: this mapping only, and its content stays. A child that
            // lacks it has no handle on it in safe code, as forking is unsafe.
            match unsafe { madvise(self.address.as_ptr().cast(), self.bytes, advice) } {
                Ok(()) => {}
                // A kernel without huge pages has none to keep away.
                Err(_) if advice == Advice::LinuxNoHugepage => {}
                Err(errno) => {
                    let what = format!("{advice:?} on a mapping of {} bytes", self.bytes);
                    return Err(Error::os("madvise", what, errno.into()));
                }
            }
        }
        Ok(())
    }

    /// Makes all pages be there, as MAP_POPULATE does, but says if that is not
    /// possible (MADV_POPULATE_WRITE, Linux 5.14; on an older kernel it does
    /// nothing). A pool of huge pages with less than it has promised, in a
    /// control group with a limit, is a SIGBUS at the first touch: this is how
    /// to know beforehand.
    ///
    /// # Errors
    /// [`Error::Os`] with the kernel's reason.
    pub fn populate(&mut self) -> Result<(), Error> {
        // SAFETY: this mapping only; the content of its pages stays.
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

    /// Locks its pages in RAM (`mlock(2)`); all of them are there when this
    /// returns.
    ///
    /// # Errors
    /// [`Error::MemoryLockRefused`] with the limit and how to raise it.
    pub fn lock(&mut self) -> Result<(), Error> {
        let bytes = self.pages * self.page;
        // SAFETY: this mapping only.
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

    /// How many pages it has.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Writes one byte to the page of that number.
    ///
    /// # Panics
    /// If it has no such page, as an index does.
    #[inline]
    pub fn touch(&mut self, page: usize) {
        self.touch_with(page, 1);
    }

    /// The same, with that byte.
    #[inline]
    pub(crate) fn touch_with(&mut self, page: usize, byte: u8) {
        assert!(page < self.pages, "the mapping has no page {page}");
        // SAFETY: within the mapping, which is writable and has no references
        // to it. Volatile, so that it is not left out.
        unsafe { self.first.add(page * self.page).write_volatile(byte) };
    }

    /// Where its first page begins.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.first
    }

    /// Whether the page of that number, touched at its first byte only, is in
    /// memory up to its last byte (`mincore(2)`): of a huge page the kernel
    /// could not put together, only the touched part is.
    ///
    /// # Errors
    /// [`Error::Os`]: EINVAL if there is no such page.
    pub fn is_whole(&self, page: usize) -> Result<bool, Error> {
        let failed = |source| Error::os("mincore", format!("page {page} of a mapping"), source);
        if page >= self.pages {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        }
        let small = rustix::param::page_size();
        let mut state = 0_u8;
        // SAFETY: the last small page of one of ours, and a byte for its state.
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

/// The call itself.
fn map(request: &MappingRequest, bytes: usize) -> rustix::io::Result<*mut u8> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let mut flags = MapFlags::empty();
    flags.set(MapFlags::POPULATE, request.populate);
    flags.set(MapFlags::LOCKED, request.locked);
    let address = match request.backing {
        Backing::File(file) => {
            // SAFETY: a new mapping where the kernel chooses; no existing
            // memory is concerned. The file is ours alone and never shrinks.
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
        // SAFETY: the mapping is ours, and there are no references to it. It
        // can fail only for want of kernel memory to split a neighbouring
        // mapping; then the memory leaks, unlocked.
        unsafe {
            if munmap(self.address.as_ptr().cast(), self.bytes).is_err() {
                let _ = munlock(self.address.as_ptr().cast(), self.bytes);
            }
        }
    }
}
