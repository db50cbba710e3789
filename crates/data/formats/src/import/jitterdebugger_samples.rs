//! `jitterdebugger-samples`: `samples.raw`, the file written by jitterdebugger's `-o` and `-N`.
//!
//! Packed little-endian records of 28 bytes: u32 thread number, u64 seconds and u64 nanoseconds of
//! the wake-up on CLOCK_MONOTONIC, u64 latency in µs (`struct latency_sample` in its
//! `jitterdebugger.h`).

use punctual_model::{MAX_TRACKABLE_NS, Nanos, Recording, Sample, SignedNanos, Unknown};

use super::blank::{MICROSECOND, THREADS, blank, finish, learn, thread};
use super::tally::Tally;
use super::{Head, Import, ImportError, Location, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "jitterdebugger-samples",
    summary: "every sample, from jitterdebugger's binary file samples.raw",
    documentation: "\
Reads the records of 28 bytes that jitterdebugger writes on a little-endian machine. Every sample \
is kept. The due time of a sample is its time minus its latency, accurate to a microsecond.

jitterdebugger writes the number of the measuring thread into the CPU field of the record. This \
number equals the CPU only if all CPUs were measured, so the CPU is treated as unknown. The file \
does not record the wall-clock time, the policy and priority, missed periods, or the machine. An \
impossible record (a time that does not increase, a billion nanoseconds or more, a truncated \
record) is refused.",
    has_samples: true,
    unit_known: true,
    recognise,
    read,
};

/// Bytes per record.
const RECORD: usize = 28;

/// Maximum latency that is read: the range of a histogram.
const LATEST_US: u64 = MAX_TRACKABLE_NS / 1_000;

/// Latest time that is accepted, in seconds: three hundred years of uptime.
const LATEST_S: u64 = 10_000_000_000;

/// One record.
#[derive(Clone, Copy)]
struct SampleRecord {
    thread: u32,
    /// Time of the wake-up.
    woken: u64,
    latency_us: i64,
}

/// Reads a record; `None` if it is invalid.
#[inline(always)]
fn record(bytes: &[u8; RECORD]) -> Option<SampleRecord> {
    let number = |at: usize| {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(number)
    };
    let thread = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let (seconds, nanos) = (number(4), number(12));
    // Negative latencies are written in two's complement.
    let latency_us = number(20).cast_signed();
    if thread as usize >= THREADS
        || seconds >= LATEST_S
        || nanos >= 1_000_000_000
        || latency_us.unsigned_abs() >= LATEST_US
    {
        return None;
    }
    let woken = seconds * 1_000_000_000 + nanos;
    // The due time must be a valid time of the clock.
    woken.checked_add_signed(-1_000 * latency_us)?;
    Some(SampleRecord {
        thread,
        woken,
        latency_us,
    })
}

fn records(bytes: &[u8]) -> impl Iterator<Item = Option<SampleRecord>> + '_ {
    let (whole, _) = bytes.as_chunks::<RECORD>();
    whole.iter().map(record)
}

/// The file has no signature, so it is recognised if all of its first records are valid.
fn recognise(head: &Head<'_>) -> bool {
    let first = &head.bytes[..head.bytes.len().min(64 * RECORD)];
    first.len() >= RECORD && records(first).all(|record| record.is_some())
}

/// Samples per batch of one thread.
const BATCH: usize = 1_024;

/// State of one thread while the file is being read.
struct Channel {
    number: u32,
    tally: Tally,
    woken: u64,
    batch: Vec<Sample>,
}

/// The threads, in order of first appearance.
#[derive(Default)]
struct Channels {
    channels: Vec<Channel>,
    indexes: Vec<Option<usize>>,
    first: Option<u64>,
    last: u64,
}

fn read(source: &mut Source<'_>, sink: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut channels = Channels::default();
    loop {
        let block = source.block(RECORD)?;
        let (whole, rest) = block.as_chunks::<RECORD>();
        if whole.is_empty() {
            let place = Location::Byte(source.offset());
            return match source.block(1)?.len() {
                0 => channels.recording(source, sink),
                left => Err(source.bad_at(
                    place,
                    format!("the file is truncated: its last record has {left} of {RECORD} bytes"),
                )),
            };
        }
        let used = block.len() - rest.len();
        for (nth, bytes) in whole.iter().enumerate() {
            let taken = match record(bytes) {
                Some(record) => channels.take(record, sink),
                None => Err(Failure::NoRecord),
            };
            if let Err(failure) = taken {
                let place = Location::Byte(source.offset() + (nth * RECORD) as u64);
                return Err(failure.at(source, place));
            }
        }
        source.consume(used);
    }
}

/// Reason why a record was rejected.
enum Failure {
    NoRecord,
    Back(u32),
    Sink(std::io::Error),
}

impl Failure {
    #[cold]
    fn at(self, source: &Source<'_>, place: Location) -> ImportError {
        match self {
            Self::NoRecord => source.bad_at(
                place,
                "not a valid record: its thread, time or latency is impossible",
            ),
            Self::Back(thread) => source.bad_at(
                place,
                format!(
                    "the time of thread {thread} does not increase: the file contains two runs or \
                     is damaged"
                ),
            ),
            Self::Sink(error) => source.not_kept(error),
        }
    }
}

impl Channels {
    #[inline]
    fn take(&mut self, record: SampleRecord, sink: &mut dyn SampleSink) -> Result<(), Failure> {
        let place = match self.indexes.get(record.thread as usize) {
            Some(Some(place)) => *place,
            _ => self.new_channel(record),
        };
        let channel = &mut self.channels[place];
        if record.woken <= channel.woken {
            return Err(Failure::Back(record.thread));
        }
        channel.woken = record.woken;
        channel.tally.record(record.latency_us);
        let latency = SignedNanos(1_000 * record.latency_us);
        channel.batch.push(Sample {
            expected: Nanos(record.woken.wrapping_sub(latency.0.cast_unsigned())),
            latency,
        });
        self.last = self.last.max(record.woken);
        if channel.batch.len() < BATCH {
            Ok(())
        } else {
            channel.flush(place, sink).map_err(Failure::Sink)
        }
    }

    #[cold]
    fn new_channel(&mut self, record: SampleRecord) -> usize {
        let at = record.thread as usize;
        if self.indexes.len() <= at {
            self.indexes.resize(at + 1, None);
        }
        let place = self.channels.len();
        self.indexes[at] = Some(place);
        let first = record
            .woken
            .saturating_sub(1_000 * record.latency_us.max(0).cast_unsigned());
        self.first = Some(self.first.map_or(first, |before| before.min(first)));
        self.channels.push(Channel {
            number: record.thread,
            tally: Tally::new(MICROSECOND),
            woken: 0,
            batch: Vec::with_capacity(BATCH),
        });
        place
    }

    fn recording(
        mut self,
        source: &Source<'_>,
        sink: &mut dyn SampleSink,
    ) -> Result<Recording, ImportError> {
        let Some(first) = self.first else {
            return Err(source.bad_at(Location::Whole, "the file has no sample"));
        };
        for (place, channel) in self.channels.iter_mut().enumerate() {
            channel
                .flush(place, sink)
                .map_err(|error| source.not_kept(error))?;
        }
        let mut recording = blank(source, IMPORT.name, "jitterdebugger", "timer");
        recording.duration_ns = Nanos(self.last.saturating_sub(first));
        recording.threads = (self.channels.into_iter())
            .map(|channel| {
                thread(
                    channel.number as usize,
                    None,
                    channel.tally.into_histogram(),
                )
            })
            .collect();
        let mut recording = finish(recording);
        learn(&mut recording, &[Unknown::Duration]);
        Ok(recording)
    }
}

impl Channel {
    fn flush(&mut self, place: usize, sink: &mut dyn SampleSink) -> std::io::Result<()> {
        sink.take(place as u32, &self.batch)?;
        self.batch.clear();
        Ok(())
    }
}
