//! Reads figures that another process wrote, and treats them as hostile input. Every number is
//! checked against the size of the file before use. Nothing is mapped: a read past the end returns
//! an error, whereas an access past the end of a mapping would kill this program (SIGBUS).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::buckets::BUCKETS;

use crate::layout::{self, channel, header};
use crate::{Identity, Kind, Unfit};

/// Bytes that can be read at an offset.
pub trait Source {
    /// Returns the total number of bytes.
    ///
    /// # Errors
    /// Returns an error if accessing the file fails.
    fn bytes(&self) -> io::Result<u64>;

    /// Fills `buffer` with the bytes that begin at `offset`.
    ///
    /// # Errors
    /// Returns an error if accessing the file fails or the file ends unexpectedly.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Source for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

impl Source for &[u8] {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(buffer.len());
        let found = self.get(start..end);
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// The checked figures of a process.
#[derive(Debug)]
pub struct Reader<S> {
    source: S,
    channels: usize,
    name: String,
}

/// Configuration of a channel, as declared by its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelHead {
    /// Name, without control characters.
    pub name: String,
    /// Meaning of the channel's samples.
    pub kind: Kind,
    /// Thread ID of the recording thread, as seen in the PID namespace of its process.
    pub tid: u32,
    /// Period in ns; `None` if there is none.
    pub period_ns: Option<u64>,
    /// Samples above this value in ns are outliers.
    pub budget_ns: Option<u64>,
}

/// Counters of a channel since its process created it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Number of samples.
    pub run: u64,
    /// Sum of the samples that were not early, in ns; it wraps around.
    pub sum_ns: u64,
    /// The largest sample.
    pub max_ns: u64,
    /// The smallest sample that was not early; `None` if there are no samples.
    pub min_ns: Option<u64>,
    /// Number of negative samples.
    pub early: u64,
    /// Number of samples above the highest bucket.
    pub overflow: u64,
    /// Number of periods that came due; 0 if the channel has no periods.
    pub due: u64,
    /// Number of periods in which no job ran.
    pub missed: u64,
    /// Number of jobs that began when the next period was already due.
    pub late: u64,
    /// Number of samples above the budget.
    pub over_budget: u64,
}

/// One of the top samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopEntry {
    /// Release time of the job, in ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The sample in ns.
    pub ns: u64,
}

/// Top samples since the previous read of the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    /// Entries, oldest first.
    pub entries: Vec<TopEntry>,
    /// Number of entries that were overwritten before they were read.
    pub dropped: u64,
    /// Ring position from which to continue.
    pub next: u64,
}

/// State of a channel at one point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Counters.
    pub counts: Counts,
    /// Histogram buckets, as many as the bucket layout has.
    pub buckets: Vec<u64>,
    /// Whether all numbers are from the same instant. This is not the case if the channel changes
    /// faster than it can be read. The numbers then differ by the samples that were counted during
    /// the read.
    pub whole: bool,
}

/// Maximum number of reads of a channel that changes during each read.
const TRIES: usize = if cfg!(all(test, loom)) { 1 } else { 16 };

impl<S: Source> Reader<S> {
    /// Checks the header: magic number, version, sizes, and that `writer` wrote it.
    ///
    /// # Errors
    /// Returns the first problem that is found.
    pub fn new(source: S, writer: &Identity) -> Result<Self, Unfit> {
        let mut words = [0; header::NAME + layout::NAME_BYTES / layout::WORD];
        let bytes = source.bytes()?;
        read_words(&source, 0, &mut words)?;
        if words[header::MAGIC] != layout::MAGIC {
            return Err(Unfit::Magic);
        }
        if words[header::ABI] != layout::ABI_VERSION.into() {
            return Err(Unfit::Abi {
                found: words[header::ABI],
            });
        }
        let channels = words[header::CHANNELS];
        let wrong = |what, found| Err(Unfit::Layout { what, found });
        if channels == 0 || channels > layout::MAX_CHANNELS as u64 {
            return wrong("the number of channels", channels);
        }
        let expected = [
            (header::BUCKETS, BUCKETS, "the number of buckets"),
            (header::RING_ENTRIES, layout::RING_ENTRIES, "the ring"),
            (
                header::CHANNEL_BYTES,
                layout::CHANNEL_BYTES,
                "the size of a channel",
            ),
            (
                header::TOTAL_BYTES,
                layout::total_bytes(channels as usize),
                "the size",
            ),
            (header::CLOCK, 1, "the clock"),
        ];
        for (place, value, what) in expected {
            if words[place] != value as u64 {
                return wrong(what, words[place]);
            }
        }
        if bytes != layout::total_bytes(channels as usize) as u64 {
            return wrong("the size of the file", bytes);
        }
        let found = Identity {
            boot_id: [words[header::BOOT_ID], words[header::BOOT_ID + 1]],
            start_ticks: words[header::START_TICKS],
        };
        if found != *writer {
            return Err(Unfit::OtherProcess);
        }
        Ok(Self {
            source,
            channels: channels as usize,
            name: layout::name_of(&words[header::NAME..]),
        })
    }

    /// Returns the name that the application declares, without control characters.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the channels in use.
    ///
    /// # Errors
    /// Returns [`Unfit::Layout`] if there are more channels than allocated, and [`Unfit::Io`] if
    /// reading fails.
    pub fn channels(&self) -> Result<Vec<ChannelHead>, Unfit> {
        let mut used = [0];
        read_words(&self.source, header::CHANNELS_USED, &mut used)?;
        if used[0] > self.channels as u64 {
            return Err(Unfit::Layout {
                what: "the number of channels in use",
                found: used[0],
            });
        }
        (0..used[0] as usize)
            .map(|number| {
                let mut words = [0; channel::NAME + layout::NAME_BYTES / layout::WORD];
                read_words(&self.source, first_of(number), &mut words)?;
                let some = |number| (number != 0).then_some(number);
                Ok(ChannelHead {
                    name: layout::name_of(&words[channel::NAME..]),
                    kind: Kind::from_number(words[channel::KIND]),
                    tid: u32::try_from(words[channel::TID]).unwrap_or(0),
                    period_ns: some(words[channel::PERIOD_NS]),
                    budget_ns: some(words[channel::BUDGET_NS]),
                })
            })
            .collect()
    }

    /// Returns the counters of a channel.
    ///
    /// # Errors
    /// Returns [`Unfit::Layout`] if the channel does not exist, and [`Unfit::Io`] if reading fails.
    pub fn counts(&self, number: usize) -> Result<Counts, Unfit> {
        self.check(number)?;
        let mut words = [0; channel::RING];
        read_words(&self.source, first_of(number), &mut words)?;
        Ok(counts_of(&words))
    }

    /// Returns the counters and buckets of a channel, and rereads them if they change during the read.
    ///
    /// # Errors
    /// See [`counts`](Self::counts).
    pub fn snapshot(&self, number: usize) -> Result<Snapshot, Unfit> {
        self.check(number)?;
        let mut words = vec![0; channel::WORDS];
        let mut run = [0];
        for turn in 1.. {
            read_words(&self.source, first_of(number), &mut words)?;
            read_words(&self.source, first_of(number) + channel::RUN, &mut run)?;
            let counts = counts_of(&words);
            let buckets = &words[channel::BUCKETS..];
            let parts = buckets.iter().chain([&counts.early, &counts.overflow]);
            let sum = parts.fold(0_u64, |sum, part| sum.wrapping_add(*part));
            let whole = counts.run == run[0] && counts.run == sum;
            if whole || turn == TRIES {
                return Ok(Snapshot {
                    buckets: buckets.to_vec(),
                    counts,
                    whole,
                });
            }
        }
        Err(Unfit::Io(io::ErrorKind::Interrupted.into()))
    }

    /// Returns the top samples of a channel from the ring position `from` on.
    ///
    /// # Errors
    /// See [`counts`](Self::counts).
    pub fn ring(&self, number: usize, from: u64) -> Result<Ring, Unfit> {
        self.check(number)?;
        let mut words = vec![0; channel::BUCKETS];
        read_words(&self.source, first_of(number), &mut words)?;
        // The writer may have replaced an entry between the reads of its sequence number and of its
        // values, so the sequence number is read again.
        let mut again = vec![0; channel::BUCKETS - channel::RING];
        read_words(&self.source, first_of(number) + channel::RING, &mut again)?;
        let head = words[channel::RING_HEAD];
        // If the head is before `from`, the ring is damaged, and no entry counts as new.
        let new = head.saturating_sub(from);
        let oldest = head - new.min(layout::RING_ENTRIES as u64).min(head);
        let mut ring = Ring {
            dropped: oldest.saturating_sub(from),
            next: head.max(from),
            ..Ring::default()
        };
        for place in oldest..head {
            let offset = place as usize % layout::RING_ENTRIES * layout::RING_ENTRY_WORDS;
            let entry = channel::RING + offset;
            let written = place.wrapping_mul(2).wrapping_add(2);
            if words[entry] == written && again[offset] == written {
                ring.entries.push(TopEntry {
                    at_ns: words[entry + 1],
                    ns: words[entry + 2],
                });
            } else {
                ring.dropped = ring.dropped.saturating_add(1);
            }
        }
        Ok(ring)
    }

    fn check(&self, number: usize) -> Result<(), Unfit> {
        if number < self.channels {
            Ok(())
        } else {
            Err(Unfit::Layout {
                what: "the number of a channel",
                found: number as u64,
            })
        }
    }
}

fn first_of(number: usize) -> usize {
    layout::HEADER_WORDS + number * (layout::CHANNEL_BYTES / layout::WORD)
}

fn counts_of(words: &[u64]) -> Counts {
    let min = words[channel::MIN_NS];
    Counts {
        run: words[channel::RUN],
        sum_ns: words[channel::SUM_NS],
        max_ns: words[channel::MAX_NS],
        min_ns: (min != u64::MAX).then_some(min),
        early: words[channel::EARLY],
        overflow: words[channel::OVERFLOW],
        due: words[channel::DUE],
        missed: words[channel::MISSED],
        late: words[channel::LATE],
        over_budget: words[channel::OVER_BUDGET],
    }
}

fn read_words(source: &impl Source, first: usize, words: &mut [u64]) -> io::Result<()> {
    let mut bytes = vec![0; words.len() * layout::WORD];
    source.read_at(&mut bytes, (first * layout::WORD) as u64)?;
    for (word, chunk) in words
        .iter_mut()
        .zip(bytes.as_chunks::<{ layout::WORD }>().0)
    {
        *word = u64::from_ne_bytes(*chunk);
    }
    Ok(())
}
