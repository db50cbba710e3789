//! The figures of an application, written by it alone.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::layout::{self, header, lane};
use crate::memory::Memory;
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
