//! The sealed memory of an application, written by it alone.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::layout::{self, header, lane};
use crate::{Error, Identity, Lane, LaneSpec};

/// The figures of this application. They are visible to `punctual app list` from
/// [`create`](Self::create) until this and all its lanes are dropped.
///
/// One is enough for a process. A process that it forks must not record: it would
/// count in the same memory.
#[derive(Debug)]
pub struct Figures {
    memory: Arc<Memory>,
}

impl Figures {
    /// Makes the memory of an application with so many lanes (77 824 bytes each), all
    /// of it touched, so that recording does not fault. The name is cut at 32 bytes.
    ///
    /// # Errors
    /// [`Error::Lanes`]; [`Error::NoSeal`] before Linux 5.1; [`Error::Os`] without file
    /// descriptors, memory, or /proc.
    pub fn create(name: &str, lanes: usize) -> Result<Self, Error> {
        if lanes == 0 || lanes > layout::MAX_LANES {
            return Err(Error::Lanes { lanes });
        }
        let identity = Identity::own().map_err(|source| Error::Os {
            call: "reading /proc/self/stat",
            source,
        })?;
        let memory = Memory::new(lanes)?;
        let words = [
            (header::ABI, layout::ABI_VERSION.into()),
            (header::TOTAL_BYTES, layout::total_bytes(lanes) as u64),
            (header::LANE_BYTES, layout::LANE_BYTES as u64),
            (header::LANES, lanes as u64),
            (header::BUCKETS, punctual_grid::BUCKETS as u64),
            (header::RING_ENTRIES, layout::RING_ENTRIES as u64),
            (header::BOOT_ID, identity.boot_id[0]),
            (header::BOOT_ID + 1, identity.boot_id[1]),
            (header::START_TICKS, identity.start_ticks),
            (header::PID, std::process::id().into()),
            // CLOCK_MONOTONIC.
            (header::CLOCK, 1),
        ];
        let names = (header::NAME..).zip(layout::name_words(name));
        for (place, value) in words.into_iter().chain(names) {
            memory.word(place).store(value, Ordering::Relaxed);
        }
        // Last: who sees it sees the rest.
        memory
            .word(header::MAGIC)
            .store(layout::MAGIC, Ordering::Release);
        Ok(Self {
            memory: Arc::new(memory),
        })
    }

    /// A lane of its own for what one thread measures. To be called in that thread:
    /// its number is kept.
    ///
    /// # Errors
    /// [`Error::NoLaneLeft`].
    pub fn lane(&self, spec: &LaneSpec<'_>) -> Result<Lane, Error> {
        let memory = &self.memory;
        // Nothing panics with it held.
        let mut used = memory.used.lock().unwrap_or_else(PoisonError::into_inner);
        if *used == memory.lanes {
            return Err(Error::NoLaneLeft {
                lanes: memory.lanes,
            });
        }
        let first = layout::HEADER_WORDS + *used * (layout::LANE_BYTES / layout::WORD);
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let words = [
            (lane::KIND, spec.kind as u64),
            (lane::TID, u64::from(tid.unsigned_abs())),
            (lane::PERIOD_NS, spec.period_ns),
            (lane::BUDGET_NS, spec.budget_ns),
            (lane::MIN_NS, u64::MAX),
        ];
        let names = (lane::NAME..).zip(layout::name_words(spec.name));
        for (place, value) in words.into_iter().chain(names) {
            memory.word(first + place).store(value, Ordering::Relaxed);
        }
        *used += 1;
        memory
            .word(header::LANES_USED)
            .store(*used as u64, Ordering::Release);
        Ok(Lane::new(Arc::clone(memory), first, spec.budget_ns))
    }
}

/// The mapping, and the descriptor by which it is found.
#[derive(Debug)]
pub(crate) struct Memory {
    first: NonNull<AtomicU64>,
    bytes: usize,
    lanes: usize,
    used: Mutex<usize>,
    _fd: OwnedFd,
}

// SAFETY: the mapping lives as long as this, and all its words are atomics.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(lanes: usize) -> Result<Self, Error> {
        let bytes = layout::total_bytes(lanes);
        let failed = |call| {
            move |errno: Errno| Error::Os {
                call,
                source: io::Error::from(errno),
            }
        };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create(layout::MEMFD_NAME, flags).map_err(failed("memfd_create"))?;
        ftruncate(&fd, bytes as u64).map_err(failed("ftruncate"))?;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let address = unsafe {
            mmap(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                &fd,
                0,
            )
        }
        .map_err(failed("mmap"))?;
        let first = NonNull::new(address.cast::<AtomicU64>()).ok_or_else(|| Error::Os {
            call: "mmap",
            source: io::ErrorKind::OutOfMemory.into(),
        })?;
        let memory = Self {
            first,
            bytes,
            lanes,
            used: Mutex::new(0),
            _fd: fd,
        };
        // A writable mapping that is there already stays so.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        fcntl_add_seals(&memory._fd, seals).map_err(|errno| match errno {
            Errno::INVAL => Error::NoSeal,
            errno => failed("fcntl(F_ADD_SEALS)")(errno),
        })?;
        // MAP_POPULATE may stop early in silence: each page is written once.
        for word in (0..bytes / layout::WORD).step_by(4096 / layout::WORD) {
            memory.word(word).store(0, Ordering::Relaxed);
        }
        Ok(memory)
    }

    /// The word at this place.
    #[inline(always)]
    pub(crate) fn word(&self, place: usize) -> &AtomicU64 {
        debug_assert!(place < self.bytes / layout::WORD);
        // SAFETY: callers pass places of the layout for lanes that exist: within the
        // mapping, which is aligned to pages and lives as long as `self`.
        unsafe { self.first.add(place).as_ref() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is whole, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}
