//! The figures of an application. Only the application writes to them.

use std::sync::{Arc, PoisonError};

use crate::atomic::Ordering;
use crate::layout::{self, channel, header};
use crate::memory::Memory;
use crate::{Channel, ChannelSpec, Error, Identity};

/// The figures of this application. `punctual app list` shows them from [`create`](Self::create)
/// until this value and all its channels are dropped.
///
/// One instance is enough for a process. A forked child must not record, because it would count its
/// samples in the memory of its parent.
#[derive(Debug)]
pub struct Figures {
    memory: Arc<Memory>,
}

impl Figures {
    /// Creates the memory for `channels` channels (77 824 bytes each) and touches all of it, so
    /// that recording causes no page faults. The name is truncated to 32 bytes.
    ///
    /// # Errors
    /// Returns [`Error::Channels`] for an invalid number of channels, [`Error::NoSeal`] before Linux 5.1,
    /// and [`Error::Os`] if file descriptors, memory or /proc are unavailable.
    pub fn create(name: &str, channels: usize) -> Result<Self, Error> {
        if channels == 0 || channels > layout::MAX_CHANNELS {
            return Err(Error::Channels { channels });
        }
        let identity = Identity::own().map_err(|source| Error::Os {
            call: "reading /proc/self/stat",
            source,
        })?;
        let memory = Memory::new(channels)?;
        let words = [
            (header::ABI, layout::ABI_VERSION.into()),
            (header::TOTAL_BYTES, layout::total_bytes(channels) as u64),
            (header::CHANNEL_BYTES, layout::CHANNEL_BYTES as u64),
            (header::CHANNELS, channels as u64),
            (header::BUCKETS, crate::buckets::BUCKETS as u64),
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
        // The magic number is written last, so that a reader that sees it also sees the rest.
        memory
            .word(header::MAGIC)
            .store(layout::MAGIC, Ordering::Release);
        Ok(Self {
            memory: Arc::new(memory),
        })
    }

    /// Creates the channel of one thread. Call this in the thread that records, because the channel
    /// stores the ID of the calling thread.
    ///
    /// # Errors
    /// Returns [`Error::NoChannelLeft`] if all channels are in use.
    pub fn channel(&self, spec: &ChannelSpec<'_>) -> Result<Channel, Error> {
        let memory = &self.memory;
        // No code panics while it holds this lock, so the lock is never poisoned.
        let mut used = memory.used.lock().unwrap_or_else(PoisonError::into_inner);
        if *used == memory.channels {
            return Err(Error::NoChannelLeft {
                channels: memory.channels,
            });
        }
        let first = layout::HEADER_WORDS + *used * (layout::CHANNEL_BYTES / layout::WORD);
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let words = [
            (channel::KIND, spec.kind as u64),
            (channel::TID, u64::from(tid.unsigned_abs())),
            (channel::PERIOD_NS, spec.period_ns),
            (channel::BUDGET_NS, spec.budget_ns),
            (channel::MIN_NS, u64::MAX),
        ];
        let names = (channel::NAME..).zip(layout::name_words(spec.name));
        for (place, value) in words.into_iter().chain(names) {
            memory.word(first + place).store(value, Ordering::Relaxed);
        }
        *used += 1;
        memory
            .word(header::CHANNELS_USED)
            .store(*used as u64, Ordering::Release);
        Ok(Channel::new(Arc::clone(memory), first, spec.budget_ns))
    }
}

#[cfg(all(test, loom))]
#[path = "loom/tests.rs"]
mod loom_tests;
