//! `cyclictest-samples`: every sample, as cyclictest and signaltest print them
//! with `-v`.
//!
//! `       0:      17:       8`: thread, cycle, latency (`print_stat` in
//! rt-tests' `src/cyclictest/cyclictest.c`); with `--smi` the number of system
//! management interrupts follows. These files are large, so the usual line has a
//! reader of its own, which looks at each byte once.

use punctual_model::{Histogram, MAX_TRACKABLE_NS, Nanos, Recording, Sample, SignedNanos, Unknown};

use super::draft::{MICROSECOND, THREADS, draft, finish, forget, thread};
use super::text::{count, field, is_beside, plain};
use super::{Head, Import, ImportError, Place, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "cyclictest-samples",
    summary: "every sample as cyclictest -v and signaltest -v print it (thread:cycle:latency)",
    documentation: "\
Reads the lines that cyclictest and signaltest print with -v. Every sample is kept in the \
order of its thread, with the number of its cycle in the place of its time, which the file \
does not tell. Cycles without a line are counted and told: the tool's buffer overran, or only \
the largest of several was printed (--oscope).

The file does not tell its unit (with -N it is nanoseconds; microseconds are taken for \
granted), when it was measured and how long, CPUs, policy and priority, missed periods, nor \
the machine. Cycles that do not rise are refused: they are of two runs.",
    has_samples: true,
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

/// Samples of one thread that are handed on at once.
const BATCH: usize = 1_024;

/// The largest latency that is read: as far as a histogram reaches.
const LATEST_US: u64 = MAX_TRACKABLE_NS / 1_000;

/// One thread on its way.
struct Lane {
    number: u64,
    histogram: Histogram,
    next: u64,
    /// Cycles that have no line.
    gaps: u64,
    batch: Vec<Sample>,
}

/// The threads, in the order in which they came.
#[derive(Default)]
struct Lanes {
    lanes: Vec<Lane>,
    /// The place of each thread's number, for those below [`THREADS`].
    places: Vec<Option<usize>>,
    interval_us: Option<u64>,
    smis: u64,
}

fn read(source: &mut Source<'_>, sink: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut lanes = Lanes::default();
    loop {
        // As many usual lines as the buffer holds whole.
        let block = source.block(1)?;
        let end = memchr::memrchr(b'\n', block).map_or(0, |end| end + 1);
        let (mut at, mut lines) = (0, 0);
        let mut failure = None;
        while at < end {
            let Some(row) = sample(&block[at..end]) else {
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

/// Why a line was not taken.
enum Failure {
    Bad(String),
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

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Bad(reason)
    }
}

impl Lanes {
    #[inline]
    fn take(&mut self, row: Row, sink: &mut dyn SampleSink) -> Result<(), Failure> {
        let place = match self.places.get(row.thread as usize) {
            Some(Some(place)) => *place,
            _ => self.new_lane(row.thread)?,
        };
        let lane = &mut self.lanes[place];
        if row.cycle < lane.next || row.latency.unsigned_abs() >= LATEST_US {
            return Err(lane.refuse(row).into());
        }
        lane.gaps += row.cycle - lane.next;
        lane.next = row.cycle + 1;
        let latency = SignedNanos(row.latency * 1_000);
        lane.histogram.record(latency);
        lane.batch.push(Sample {
            expected: Nanos(row.cycle),
            latency,
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
            .ok_or_else(|| format!("thread {number} is more than there can be"))?;
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
        }
        let place = self.lanes.len();
        self.places[at] = Some(place);
        self.lanes.push(Lane {
            number,
            histogram: Histogram::counted_elsewhere(MICROSECOND, MICROSECOND),
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
            return Err("the file ends inside this line: it was cut off"
                .to_owned()
                .into());
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
            b"# Histogram" => Err("a histogram begins here, among samples: split the file"
                .to_owned()
                .into()),
            _ if is_beside(trimmed) => Ok(()),
            _ => {
                let shown = super::entry::shown(trimmed);
                Err(format!("\"{shown}\" is no sample (thread:cycle:latency)").into())
            }
        }
    }

    fn recording(
        mut self,
        source: &Source<'_>,
        sink: &mut dyn SampleSink,
    ) -> Result<Recording, ImportError> {
        if self.lanes.is_empty() {
            return Err(source.bad_at(Place::Whole, "there is no sample in it"));
        }
        let mut recording = draft(source, IMPORT.name, "cyclictest or signaltest -v", "timer");
        forget(&mut recording, &[Unknown::Times]);
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
            .map(|lane| thread(lane.number as usize, None, lane.histogram))
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
    fn refuse(&self, row: Row) -> String {
        match row.cycle < self.next {
            true => format!(
                "cycle {} of thread {} comes after cycle {}: two runs in one file, split it",
                row.cycle,
                self.number,
                self.next - 1
            ),
            false => format!("{} µs is no latency", row.latency),
        }
    }
}
