//! Samples in compressed chunks.
//!
//! A chunk is two streams: when the thread should have woken, and how late it
//! did. The first is nearly free, because the differences of a periodic
//! schedule are all the same; the second takes what its noise takes.

use pco::data_types::Number;
use pco::errors::PcoError;
use pco::standalone::{simple_compress, simple_decompress_into};
use pco::{ChunkConfig, DeltaSpec, ModeSpec};
use punctual_model::{Nanos, Sample, SignedNanos};
use rusqlite::{Connection, Row, params};

use crate::bits::{Bits, Crc};

/// Samples in a full chunk: more bring nothing, and one is decompressed at a
/// time.
pub(crate) const FULL: usize = 65_536;

/// How a chunk is compressed; all are read alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// As small as it gets: what is measured comes slowly, and is kept for years.
    Small,
    /// In less than half the time, a tenth larger: whoever imports a file waits
    /// for it.
    Quick,
}

impl Packing {
    /// For the stream of expected times and that of latencies.
    fn configs(self) -> [ChunkConfig; 2] {
        let config = ChunkConfig::default();
        match self {
            Self::Small => {
                let config = config.with_compression_level(8);
                [config.clone(), config]
            }
            // Without trying what fits: times and numbers of cycles rise evenly,
            // latencies do not follow from the one before.
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

/// At most 2^3 bins for a stream: with twice as many it takes twice as long and
/// gets a twentieth smaller.
const QUICK_LEVEL: usize = 3;

/// A chunk with its streams compressed.
pub(crate) struct Packed {
    count: u64,
    expected: Vec<u8>,
    latency: Vec<u8>,
}

impl Packed {
    /// Compresses `samples`, at most [`FULL`].
    pub(crate) fn of(samples: &[Sample], packing: Packing) -> Result<Self, PcoError> {
        let [of_expected, of_latency] = packing.configs();
        let expected: Vec<u64> = samples.iter().map(|sample| sample.expected.0).collect();
        let latency: Vec<i64> = samples.iter().map(|sample| sample.latency.0).collect();
        Ok(Self {
            count: samples.len() as u64,
            expected: simple_compress(&expected, &of_expected)?,
            latency: simple_compress(&latency, &of_latency)?,
        })
    }

    /// The two streams.
    #[cfg(test)]
    pub(crate) fn streams(&self) -> [&[u8]; 2] {
        [&self.expected, &self.latency]
    }

    /// What the streams take.
    pub(crate) fn bytes(&self) -> u64 {
        (self.expected.len() + self.latency.len()) as u64
    }

    fn crc(&self, recording: i64, thread: u32, sequence: u64) -> u32 {
        Crc::of("chunk", recording)
            .number(thread.into())
            .number(sequence)
            .number(self.count)
            .blob(&self.expected)
            .blob(&self.latency)
            .end()
    }

    /// Puts it into the store.
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

    /// Selects the chunks of one thread (recording ?1, thread ?2) for
    /// [`read`](Self::read).
    pub(crate) const SELECT: &str = "SELECT thread, sequence, count, expected, latency, crc
        FROM chunk WHERE recording = ?1 AND thread = ?2 ORDER BY sequence";

    /// Reads a row of [`SELECT`](Self::SELECT) for `recording`; `None` where the
    /// checksum does not fit.
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

    /// The samples again; `None` where the streams do not hold what the count
    /// says.
    pub(crate) fn unpack(&self) -> Option<Vec<Sample>> {
        unpack(self.count, &self.expected, &self.latency)
    }
}

/// The samples of a chunk of `count`; `None` where the streams hold anything else.
///
/// A stream of a few bytes may claim to hold billions: no more than `count` values
/// are decompressed, and no chunk is longer than 65,536 samples.
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

/// The `count` numbers of a stream; `None` where it holds more or fewer.
fn numbers<T: Number>(stream: &[u8], count: usize) -> Option<Vec<T>> {
    let mut numbers = vec![T::default(); count];
    let progress = simple_decompress_into(stream, &mut numbers).ok()?;
    (progress.n_processed == count && progress.finished).then_some(numbers)
}

/// Samples of one thread on their way into the store.
///
/// Full chunks are final. What has not filled one yet is kept here and, with
/// each commit, also in the store as small chunks, so that a killed program
/// loses no more than the rows lose; the full chunk then replaces them.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// Samples that are in no full chunk.
    pending: Vec<Sample>,
    /// How many of these are in small chunks.
    written: usize,
    /// The sequence number of the first small chunk, or of the next full one.
    first: u64,
    /// The next sequence number.
    next: u64,
}

/// What a write changed, to be taken over once it is committed.
#[derive(Debug, Default)]
pub(crate) struct Written {
    done: usize,
    written: usize,
    first: u64,
    next: u64,
    /// Change of the number of chunks.
    pub(crate) chunks: i64,
    /// Change of the number of samples in the store.
    pub(crate) samples: u64,
    /// Change of the bytes of compressed streams.
    pub(crate) bytes: i64,
}

/// How much of a tail is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Full chunks only.
    Full,
    /// All of it; what fills no chunk as a small one.
    All,
    /// All of it as final chunks.
    Final,
}

/// Why chunks could not be written.
pub(crate) enum WriteError {
    /// SQLite.
    Sql(rusqlite::Error),
    /// The compressor.
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

    /// Samples that are held in memory.
    pub(crate) fn held(&self) -> usize {
        self.pending.len()
    }

    /// Whether a full chunk waits to be written.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= FULL
    }

    /// Writes what `extent` says within the caller's transaction.
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
            // One small chunk is as good as final.
            Extent::Final => self.next > self.first + 1 || self.written < self.pending.len(),
            Extent::Full | Extent::All => self.is_full(),
        };
        if seal {
            self.forget_small(connection, recording, thread, &mut result)?;
        }
        let mut rest = &self.pending[result.written..];
        while rest.len() >= FULL || (extent != Extent::Full && !rest.is_empty()) {
            let (chunk, after) = rest.split_at(rest.len().min(FULL));
            let packed = Packed::of(chunk, packing).map_err(WriteError::Pack)?;
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

    /// Takes the small chunks out of the store, for larger ones to replace
    /// them.
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

    /// Takes over what [`write`](Self::write) did, once it is committed.
    pub(crate) fn committed(&mut self, result: &Written) {
        self.pending.drain(..result.done);
        self.written = result.written - result.done;
        self.first = result.first;
        self.next = result.next;
    }
}
