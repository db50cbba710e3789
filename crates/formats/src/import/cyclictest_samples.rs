//! `cyclictest-samples`: every sample, as cyclictest and signaltest print them
//! with `-v`.
//!
//! `       0:      17:       8`: thread, cycle, latency (`print_stat` in
//! rt-tests' `src/cyclictest/cyclictest.c`); with `--smi` the number of system
//! management interrupts follows. These files are large, so the usual line has a
//! reader of its own, which looks at eight columns at once.

use punctual_model::{MAX_TRACKABLE_NS, Nanos, Recording, Sample, SignedNanos, Unknown};

use super::blank::{THREADS, blank, finish, forget, thread};
use super::tally::Tally;
use super::text::{count, field, is_beside, plain};
use super::unit::FileUnit;
use super::{Head, Import, ImportError, Malformed, Place, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "cyclictest-samples",
    summary: "every sample as cyclictest -v and signaltest -v print it (thread:cycle:latency)",
    documentation: "\
Reads the lines that cyclictest and signaltest print with -v. Every sample is kept in the \
order of its thread, with its cycle number instead of its time, which the file \
does not record. Cycles without a line are counted and shown: the tool's buffer overran, or only \
the largest of several was printed (--oscope).

The file does not give its unit: with -N it is nanoseconds. The samples of the first 64 KiB \
decide: a smallest latency below 100 is taken as microseconds, one of 1000 or more, or above the \
interval, as nanoseconds, which a warning says; else microseconds are assumed, with a warning. \
--unit ns and --unit us set it. The file does not record time, duration, CPUs, policy and priority, missed periods and \
the machine. Cycles that do not rise are refused: they are of two runs.",
    has_samples: true,
    unit_known: false,
    recognise,
    read,
};

fn recognise(head: &Head<'_>) -> bool {
    let mut lines = head.lines().filter(|line| {
        let line = plain(line.as_bytes());
        !is_beside(line) && !line.starts_with(b"Thread ")
    });
    lines
        .next()
        .is_some_and(|line| sample(line.as_bytes()).is_some())
}

/// One line.
#[derive(Clone, Copy)]
struct Row {
    thread: u64,
    cycle: u64,
    latency: i64,
    /// Bytes up to the line's end, with it.
    length: usize,
}

/// Bytes of a line as `%8d:%8lu:%8ld` makes it, while no number has more than
/// eight digits.
const LINE: usize = 8 + 1 + 8 + 1 + 8 + 1;

/// Such a line at the beginning of `bytes`; nothing where it is another one.
#[inline(always)]
fn line(bytes: &[u8]) -> Option<Row> {
    let line: &[u8; LINE] = bytes.first_chunk()?;
    let (thread, is_thread) = columns(line, 0);
    let (cycle, is_cycle) = columns(line, 9);
    let (latency, is_latency) = columns(line, 18);
    // Without shortcuts: one branch a line, which is always taken.
    let good = is_thread
        & is_cycle
        & is_latency
        & (line[8] == b':')
        & (line[17] == b':')
        & (line[26] == b'\n');
    good.then_some(Row {
        thread,
        cycle,
        latency: latency.cast_signed(),
        length: LINE,
    })
}

/// The number in eight columns from `at` on, and whether they hold one: blanks,
/// then at least one digit, to the last column. All eight bytes at once, in a word
/// whose lowest byte is the first column.
#[inline(always)]
fn columns(line: &[u8; LINE], at: usize) -> (u64, bool) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&line[at..at + 8]);
    let word = u64::from_le_bytes(bytes);
    // Digits are 0x30 to 0x39, a blank is 0x20: bit 4 separates them, and the
    // low half of the byte is the value of either.
    let digits = (word >> 4) & EACH;
    let values = word & (0x0f * EACH);
    let good = (word & (0xe0 * EACH) == 0x20 * EACH)
        & ((values + 0x06 * EACH) & (0x10 * EACH) == 0)
        & (values & !(digits * 0x0f) == 0)
        // No digit precedes a blank, and the last column is a digit.
        & ((digits << 8) & !digits == 0)
        & (digits >> 56 == 1);
    // Neighbours joined: eight digits to four pairs, to two fours, to one number.
    let pairs = (values * 10 + (values >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let number = (fours * 10_000 + (fours >> 32)) & 0xffff_ffff;
    (number, good)
}

/// Reads digits from `at` on, after blanks; the number and where it ended. More
/// than 18 digits are no number.
#[inline(always)]
fn number(bytes: &[u8], mut at: usize) -> Option<(u64, usize)> {
    while bytes.get(at) == Some(&b' ') {
        at += 1;
    }
    let start = at;
    let mut number = 0u64;
    while let Some(digit) = bytes.get(at).map(|byte| byte.wrapping_sub(b'0'))
        && digit < 10
    {
        number = number.wrapping_mul(10).wrapping_add(digit.into());
        at += 1;
    }
    (at > start && at - start <= 18).then_some((number, at))
}

/// A usual line at the beginning of `bytes`, without what `--smi` adds; nothing
/// where it is another one, or does not end here.
#[inline(always)]
fn sample(bytes: &[u8]) -> Option<Row> {
    let (thread, at) = number(bytes, 0)?;
    let (cycle, at) = number(bytes, (bytes.get(at) == Some(&b':')).then_some(at + 1)?)?;
    let mut at = (bytes.get(at) == Some(&b':')).then_some(at + 1)?;
    while bytes.get(at) == Some(&b' ') {
        at += 1;
    }
    let negative = bytes.get(at) == Some(&b'-');
    let (latency, at) = number(bytes, at + usize::from(negative))?;
    let latency = latency as i64;
    Some(Row {
        thread,
        cycle,
        latency: if negative { -latency } else { latency },
        length: match bytes.get(at) {
            Some(b'\n') => at + 1,
            None => at,
            Some(_) => return None,
        },
    })
}

/// Samples of one thread in one batch.
const BATCH: usize = 1_024;

/// One thread while it is read.
struct Lane {
    number: u64,
    tally: Tally,
    next: u64,
    /// Cycles that have no line.
    gaps: u64,
    batch: Vec<Sample>,
}

/// The threads, in the order in which they came.
struct Lanes {
    unit: FileUnit,
    /// Limit of the latencies that are read: the range of a histogram.
    latest: u64,
    lanes: Vec<Lane>,
    /// The place of each thread's number, for those below [`THREADS`].
    places: Vec<Option<usize>>,
    interval_us: Option<u64>,
    smis: u64,
}

fn read(source: &mut Source<'_>, sink: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let given = source.unit();
    let mut lanes = Lanes::new(FileUnit::of(given, None, None));
    if given.is_none() {
        let (least, interval_us) = smallest(&source.bare_head()?);
        lanes = Lanes::new(FileUnit::of(None, least, interval_us));
    }
    loop {
        // As many usual lines as the buffer holds whole.
        let block = source.block(1)?;
        let end = memchr::memrchr(b'\n', block).map_or(0, |end| end + 1);
        let (mut at, mut lines) = (0, 0);
        let mut failure = None;
        while at < end {
            let rest = &block[at..end];
            let Some(row) = line(rest).or_else(|| sample(rest)) else {
                break;
            };
            if let Err(error) = lanes.take(row, sink) {
                failure = Some(error);
                break;
            }
            at += row.length;
            lines += 1;
        }
        source.consume_lines(at, lines);
        if let Some(failure) = failure {
            // The place is the line that failed.
            source.consume_lines(0, 1);
            return Err(failure.at(source));
        }
        if at == end && at > 0 {
            continue;
        }
        // Any other line, the one that goes over the buffer's end, the last.
        match source.next_line()? {
            None => break,
            Some(line) => {
                let (bytes, complete) = (line.bytes, line.complete);
                lanes
                    .other(bytes, complete, sink)
                    .map_err(|failure| failure.at(source))?;
            }
        }
    }
    lanes.recording(source, sink)
}

/// The smallest latency among these lines, and the first interval given.
fn smallest(head: &[u8]) -> (Option<u64>, Option<u64>) {
    let (mut least, mut interval_us) = (None::<u64>, None);
    for line in head.split(|byte| *byte == b'\n') {
        if let Some(row) = sample(plain(line)) {
            let latency = u64::try_from(row.latency).ok();
            least = [least, latency].into_iter().flatten().min();
        } else if let Some((_, behind)) = String::from_utf8_lossy(line).split_once(" Interval:") {
            interval_us = interval_us.or_else(|| count(behind.trim()).ok());
        }
    }
    (least, interval_us)
}

/// Why a line was refused.
enum Failure {
    /// In a box: samples are taken by the million, and refused once.
    Bad(Box<Malformed>),
    Sink(std::io::Error),
}

impl Failure {
    #[cold]
    fn at(self, source: &Source<'_>) -> ImportError {
        match self {
            Self::Bad(reason) => source.bad(reason),
            Self::Sink(error) => source.not_kept(error),
        }
    }
}

impl From<Malformed> for Failure {
    #[cold]
    fn from(reason: Malformed) -> Self {
        Self::Bad(Box::new(reason))
    }
}

impl Lanes {
    fn new(unit: FileUnit) -> Self {
        Self {
            unit,
            latest: MAX_TRACKABLE_NS / unit.one.0,
            lanes: Vec::new(),
            places: Vec::new(),
            interval_us: None,
            smis: 0,
        }
    }

    #[inline]
    fn take(&mut self, row: Row, sink: &mut dyn SampleSink) -> Result<(), Failure> {
        let place = match self.places.get(row.thread as usize) {
            Some(Some(place)) => *place,
            _ => self.new_lane(row.thread)?,
        };
        let lane = &mut self.lanes[place];
        if row.cycle < lane.next || row.latency.unsigned_abs() >= self.latest {
            return Err(lane.refuse(row, self.unit.one).into());
        }
        lane.gaps += row.cycle - lane.next;
        lane.next = row.cycle + 1;
        lane.tally.record(row.latency);
        lane.batch.push(Sample {
            expected: Nanos(row.cycle),
            latency: SignedNanos(row.latency * self.unit.one.0.cast_signed()),
        });
        match lane.batch.len() < BATCH {
            true => Ok(()),
            false => lane.flush(place, sink),
        }
    }

    #[cold]
    fn new_lane(&mut self, number: u64) -> Result<usize, Failure> {
        let at = usize::try_from(number)
            .ok()
            .filter(|at| *at < THREADS)
            .ok_or(Malformed::NumberTooLarge {
                what: "thread",
                number,
            })?;
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
        }
        let place = self.lanes.len();
        self.places[at] = Some(place);
        self.lanes.push(Lane {
            number,
            tally: Tally::new(self.unit.one),
            next: 0,
            gaps: 0,
            batch: Vec::with_capacity(BATCH),
        });
        Ok(place)
    }

    /// A line that is not the usual one.
    #[cold]
    fn other(
        &mut self,
        bytes: &[u8],
        complete: bool,
        sink: &mut dyn SampleSink,
    ) -> Result<(), Failure> {
        let trimmed = plain(bytes);
        if !complete && !trimmed.is_empty() {
            // The latency may have had more digits.
            return Err(Malformed::LineTruncated.into());
        }
        if let Some(row) = sample(trimmed) {
            return self.take(row, sink);
        }
        // With the number of SMIs behind the latency.
        if let Some(blank) = memchr::memrchr(b' ', trimmed)
            && let Some(row) = sample(trimmed[..blank].trim_ascii_end())
            && let Some((smis, end)) = number(&trimmed[blank..], 0)
            && blank + end == trimmed.len()
        {
            self.smis = self.smis.saturating_add(smis);
            return self.take(row, sink);
        }
        let text = String::from_utf8_lossy(trimmed);
        if trimmed.starts_with(b"Thread ") {
            let mut rest = text.as_ref();
            let interval = field(&mut rest, " Interval:", "").map(str::trim);
            let interval = count(interval.unwrap_or_default())?;
            self.interval_us.get_or_insert(interval);
            return Ok(());
        }
        match trimmed {
            b"# Histogram" => Err(Malformed::HistogramAfterSamples.into()),
            _ if is_beside(trimmed) => Ok(()),
            _ => Err(Malformed::NoSample(super::head::shown(trimmed)).into()),
        }
    }

    fn recording(
        mut self,
        source: &Source<'_>,
        sink: &mut dyn SampleSink,
    ) -> Result<Recording, ImportError> {
        if self.lanes.is_empty() {
            return Err(source.bad_at(Place::Whole, "the file has no sample"));
        }
        let mut recording = blank(source, IMPORT.name, "cyclictest or signaltest -v", "timer");
        forget(&mut recording, &[Unknown::Times]);
        self.unit.note(&mut recording);
        if let Some(interval) = self.interval_us {
            let interval = interval.saturating_mul(1_000);
            let parameters = &mut recording.probe.parameters;
            parameters.insert("interval_ns".to_owned(), interval.into());
        }
        let gaps: u64 = self.lanes.iter().map(|lane| lane.gaps).sum();
        if gaps > 0 {
            recording.warnings.push(format!(
                "{gaps} cycles have no line in the file: the tool's buffer overran, or it printed \
                 the largest of several (--oscope)"
            ));
        }
        if self.smis > 0 {
            let smis = self.smis;
            recording
                .warnings
                .push(format!("{smis} system management interrupts were counted"));
        }
        for (place, lane) in self.lanes.iter_mut().enumerate() {
            lane.flush(place, sink)
                .map_err(|failure| failure.at(source))?;
        }
        recording.threads = (self.lanes.into_iter())
            .map(|lane| thread(lane.number as usize, None, lane.tally.into_histogram()))
            .collect();
        Ok(finish(recording))
    }
}

impl Lane {
    fn flush(&mut self, place: usize, sink: &mut dyn SampleSink) -> Result<(), Failure> {
        sink.take(place as u32, &self.batch)
            .map_err(Failure::Sink)?;
        self.batch.clear();
        Ok(())
    }

    #[cold]
    fn refuse(&self, row: Row, unit: Nanos) -> Malformed {
        match row.cycle < self.next {
            true => Malformed::CycleWentBack {
                cycle: row.cycle,
                thread: self.number,
                before: self.next - 1,
            },
            false => Malformed::LatencyTooLarge {
                latency: row.latency,
                unit: if unit.0 == 1 { "ns" } else { "µs" },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(row: Option<Row>) -> Option<(u64, u64, i64, usize)> {
        row.map(|row| (row.thread, row.cycle, row.latency, row.length))
    }

    #[test]
    fn the_usual_line_is_read_at_once() {
        let bytes = b"       0:   12345:      17\n       1:";
        assert_eq!(numbers(line(bytes)), Some((0, 12_345, 17, LINE)));
        let full = b"12345678:87654321:99999999\n";
        let numbers = numbers(line(full));
        assert_eq!(numbers, Some((12_345_678, 87_654_321, 99_999_999, LINE)));
    }

    #[test]
    fn what_is_not_the_usual_line_is_left() {
        for bytes in [
            "       0:   12345:     -17\n",
            "       0:   12345:        \n",
            "       0:   123 5:      17\n",
            "       0:   12345:      1 \n",
            "       0:   12345:      17\r",
            "       0:   12345:      17 ",
            "       0;   12345:      17\n",
            "       0:   1234/:      17\n",
            "       0:   1234::      17\n",
            "       0:\t  12345:      17\n",
            "       0:   12345:      \x107\n",
            "       0:   12345:      17",
        ] {
            assert!(line(bytes.as_bytes()).is_none(), "{bytes:?}");
        }
    }

    proptest! {
        /// One reader says what the other says, wherever it says anything.
        #[test]
        fn both_readers_agree(
            numbers_of in (0u64..200_000_000, 0u64..200_000_000, -20_000i64..200_000_000),
            at in 0usize..LINE,
            byte in prop_oneof![any::<u8>(), b'0'..=b'9', Just(b' '), Just(b':')],
        ) {
            let (thread, cycle, latency) = numbers_of;
            let mut bytes = format!("{thread:8}:{cycle:8}:{latency:8}\n").into_bytes();
            let fits = bytes.len() == LINE && latency >= 0;
            let read = numbers(line(&bytes));
            prop_assert_eq!(read, fits.then_some((thread, cycle, latency, LINE)));
            bytes[at] = byte;
            if let Some(read) = numbers(line(&bytes)) {
                prop_assert_eq!(numbers(sample(&bytes)), Some(read));
            }
        }
    }
}
