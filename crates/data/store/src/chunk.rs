//! Samples in compressed chunks.
//!
//! A chunk consists of two streams: the times at which the thread should have woken up, and how
//! late it woke up each time. The first takes almost no space, because a periodic schedule has
//! constant differences. The size of the second depends on its noise.

use pco::data_types::Number;
use pco::errors::PcoError;
use pco::standalone::{simple_compress, simple_decompress_into};
use pco::{ChunkConfig, DeltaSpec, ModeSpec};
use punctual_model::{Nanos, Origin, Sample, SignedNanos};
use rusqlite::{Connection, Row, params};

use crate::bits::{Bits, Crc};

/// Number of samples in a full chunk. Larger chunks do not compress better, and chunks are
/// decompressed one at a time.
pub(crate) const FULL: usize = 65_536;

/// How a chunk is compressed. The format is the same either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// As small as possible, because measured samples arrive slowly and are kept for years.
    Small,
    /// Takes less than half the time, but the result is 10% larger. For imports, because the user
    /// waits for them.
    Quick,
}

impl Packing {
    /// Returns the packing of a recording with this origin.
    pub(crate) fn of(origin: Option<&Origin>) -> Self {
        match origin {
            None => Self::Small,
            Some(_) => Self::Quick,
        }
    }

    /// Returns the settings for the stream of expected times and the stream of latencies.
    fn configs(self) -> [ChunkConfig; 2] {
        let config = ChunkConfig::default();
        match self {
            Self::Small => {
                let config = config.with_compression_level(8);
                [config.clone(), config]
            }
            // Skips the search for the best settings, because times and cycle numbers rise evenly,
            // and a latency does not depend on the previous one.
            Self::Quick => {
                let config = config
                    .with_compression_level(QUICK_LEVEL)
                    .with_mode_spec(ModeSpec::Classic);
                [
                    (config.clone()).with_delta_spec(DeltaSpec::TryConsecutive(1)),
                    config.with_delta_spec(DeltaSpec::NoOp),
                ]
            }
        }
    }
}

/// At most 2^3 bins per stream. Twice as many would take twice the time and save 5%.
const QUICK_LEVEL: usize = 3;

/// A compressed chunk.
pub(crate) struct Packed {
    count: u64,
    expected: Vec<u8>,
    latency: Vec<u8>,
}

impl Packed {
    /// Compresses `samples`, at most [`FULL`] of them.
    pub(crate) fn new(samples: &[Sample], packing: Packing) -> Result<Self, PcoError> {
        let [of_expected, of_latency] = packing.configs();
        let expected: Vec<u64> = samples.iter().map(|sample| sample.expected.0).collect();
        let latency: Vec<i64> = samples.iter().map(|sample| sample.latency.0).collect();
        Ok(Self {
            count: samples.len() as u64,
            expected: simple_compress(&expected, &of_expected)?,
            latency: simple_compress(&latency, &of_latency)?,
        })
    }

    /// Returns the two streams.
    #[cfg(test)]
    pub(crate) fn streams(&self) -> [&[u8]; 2] {
        [&self.expected, &self.latency]
    }

    /// Returns the size of the streams in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.expected.len() + self.latency.len()) as u64
    }

    fn crc(&self, recording: i64, thread: u32, sequence: u64) -> u32 {
        Crc::new("chunk", recording)
            .number(thread.into())
            .number(sequence)
            .number(self.count)
            .blob(&self.expected)
            .blob(&self.latency)
            .end()
    }

    /// Writes the chunk into the store.
    pub(crate) fn write(
        &self,
        connection: &Connection,
        recording: i64,
        thread: u32,
        sequence: u64,
    ) -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "INSERT INTO chunk (recording, thread, sequence, count, expected, latency, crc)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                recording,
                thread,
                Bits(sequence),
                Bits(self.count),
                self.expected,
                self.latency,
                self.crc(recording, thread, sequence),
            ])?;
        Ok(())
    }

    /// Selects the chunks of one thread (recording ?1, thread ?2) for [`read`](Self::read).
    pub(crate) const SELECT: &str = "SELECT thread, sequence, count, expected, latency, crc
        FROM chunk WHERE recording = ?1 AND thread = ?2 ORDER BY sequence";

    /// Reads a row of [`SELECT`](Self::SELECT) for `recording`. Returns `None` if the checksum does
    /// not match.
    pub(crate) fn read(row: &Row<'_>, recording: i64) -> rusqlite::Result<Option<(u64, Self)>> {
        let thread: u32 = row.get(0)?;
        let Bits(sequence) = row.get(1)?;
        let Bits(count) = row.get(2)?;
        let packed = Self {
            count,
            expected: row.get(3)?,
            latency: row.get(4)?,
        };
        let crc: i64 = row.get(5)?;
        let fits = crc == i64::from(packed.crc(recording, thread, sequence));
        Ok(fits.then_some((sequence, packed)))
    }

    /// Decompresses the samples. Returns `None` if the streams do not match the count.
    pub(crate) fn unpack(&self) -> Option<Vec<Sample>> {
        unpack(self.count, &self.expected, &self.latency)
    }
}

/// Decompresses a chunk of `count` samples. Returns `None` if the streams contain anything else.
///
/// A stream of a few bytes may claim to contain billions of values. So at most `count` values are
/// decompressed, and a chunk never has more than 65,536 samples.
pub fn unpack(count: u64, expected: &[u8], latency: &[u8]) -> Option<Vec<Sample>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= FULL)?;
    let expected: Vec<u64> = numbers(expected, count)?;
    let latency: Vec<i64> = numbers(latency, count)?;
    let samples = expected.into_iter().zip(latency);
    Some(
        samples
            .map(|(expected, latency)| Sample {
                expected: Nanos(expected),
                latency: SignedNanos(latency),
            })
            .collect(),
    )
}

/// Decompresses `count` numbers. Returns `None` if the stream contains more or fewer.
fn numbers<T: Number>(stream: &[u8], count: usize) -> Option<Vec<T>> {
    let mut numbers = vec![T::default(); count];
    let progress = simple_decompress_into(stream, &mut numbers).ok()?;
    (progress.n_processed == count && progress.finished).then_some(numbers)
}

/// Buffered samples of one thread.
///
/// Full chunks are final. The remaining samples are buffered here. Each commit also writes them to
/// the store as small chunks, so that a killed program loses no more samples than rows. A full
/// chunk later replaces the small ones.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// Samples that are not yet in a full chunk.
    pending: Vec<Sample>,
    /// Number of these samples that are already in small chunks.
    written: usize,
    /// Sequence number of the first small chunk, or of the next full one.
    first: u64,
    /// Next sequence number.
    next: u64,
}

/// Changes made by a write, which take effect after the commit.
#[derive(Debug, Default)]
pub(crate) struct Written {
    done: usize,
    written: usize,
    first: u64,
    next: u64,
    /// Change in the number of chunks.
    pub(crate) chunks: i64,
    /// Change in the number of stored samples.
    pub(crate) samples: u64,
    /// Change in the size of the compressed streams, in bytes.
    pub(crate) bytes: i64,
}

/// Which part of the buffer to write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Only full chunks.
    Full,
    /// Everything, with the remainder as a small chunk.
    All,
    /// Everything, as final chunks.
    Final,
}

/// Reason why chunks could not be written.
pub(crate) enum WriteError {
    /// SQLite.
    Sql(rusqlite::Error),
    /// Error of the compressor.
    Pack(PcoError),
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Tail {
    pub(crate) fn push(&mut self, samples: &[Sample]) {
        self.pending.extend_from_slice(samples);
    }

    /// Returns the number of samples in memory.
    pub(crate) fn held(&self) -> usize {
        self.pending.len()
    }

    /// Returns whether a full chunk is ready to be written.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= FULL
    }

    /// Writes the part given by `extent`, within the caller's transaction.
    pub(crate) fn write(
        &self,
        connection: &Connection,
        recording: i64,
        thread: u32,
        extent: Extent,
        packing: Packing,
    ) -> Result<Written, WriteError> {
        let mut result = Written {
            done: 0,
            written: self.written,
            first: self.first,
            next: self.next,
            ..Written::default()
        };
        let seal = match extent {
            // A single small chunk can serve as the final one.
            Extent::Final => self.next > self.first + 1 || self.written < self.pending.len(),
            Extent::Full | Extent::All => self.is_full(),
        };
        if seal {
            self.forget_small(connection, recording, thread, &mut result)?;
        }
        let mut rest = &self.pending[result.written..];
        while rest.len() >= FULL || (extent != Extent::Full && !rest.is_empty()) {
            let (chunk, after) = rest.split_at(rest.len().min(FULL));
            let packed = Packed::new(chunk, packing).map_err(WriteError::Pack)?;
            packed.write(connection, recording, thread, result.next)?;
            result.next += 1;
            result.chunks += 1;
            result.bytes += packed.bytes() as i64;
            result.written += chunk.len();
            if chunk.len() == FULL || extent == Extent::Final {
                result.done = result.written;
                result.first = result.next;
            }
            rest = after;
        }
        result.samples = (result.written as u64).saturating_sub(self.written as u64);
        Ok(result)
    }

    /// Deletes the small chunks, which larger ones will replace.
    fn forget_small(
        &self,
        connection: &Connection,
        recording: i64,
        thread: u32,
        result: &mut Written,
    ) -> rusqlite::Result<()> {
        let place = params![recording, thread, Bits(self.first)];
        let (chunks, bytes): (i64, i64) = connection
            .prepare_cached(
                "SELECT count(*), ifnull(sum(length(expected) + length(latency)), 0) FROM chunk
                WHERE recording = ?1 AND thread = ?2 AND sequence >= ?3",
            )?
            .query_row(place, |row| Ok((row.get(0)?, row.get(1)?)))?;
        connection
            .prepare_cached(
                "DELETE FROM chunk WHERE recording = ?1 AND thread = ?2 AND sequence >= ?3",
            )?
            .execute(place)?;
        (result.chunks, result.bytes) = (-chunks, -bytes);
        (result.written, result.next) = (0, self.first);
        Ok(())
    }

    /// Applies the result of [`write`](Self::write) after the commit.
    pub(crate) fn committed(&mut self, result: &Written) {
        self.pending.drain(..result.done);
        self.written = result.written - result.done;
        self.first = result.first;
        self.next = result.next;
    }
}
