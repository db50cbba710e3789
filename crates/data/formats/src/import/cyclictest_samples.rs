//! `cyclictest-samples`: every sample, as printed by cyclictest and signaltest with `-v` ([`Row`]).
//! With `--smi`, each line also ends with the number of system management interrupts.

use std::collections::BTreeMap;

use punctual_model::{
    Completion, CpuSet, MAX_TRACKABLE_NS, Nanos, Recording, Sample, SignedNanos, Unknown,
};

use super::blank::{THREADS, blank, finish, forget, thread};
use super::sample_line::{Row, line, number, sample};
use super::stopping_sample::STOPPED;
use super::tally::Tally;
use super::text::{WordsBelow, count, field, is_other_line, is_prompt, plain};
use super::unit::FileUnit;
use super::{Head, Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "cyclictest-samples",
    summary: "every sample, as printed by cyclictest -v and signaltest -v",
    documentation: "Reads the lines that cyclictest and signaltest print with -v. The samples of \
        each thread are kept in their order. The file does not record the time of a sample, so \
        its cycle number is stored instead. Cycles without a line are counted and reported. They \
        are missing because the tool's buffer overran, or because the tool printed only the \
        largest of several samples (--oscope). rt-tests 2.4 prints no line for the sample that \
        stopped a run (-b). If this sample is larger than all others, it is added: to the thread \
        if there is only one, otherwise as a separate thread. The CPU of a thread is read if the \
        file states it (-a).

The file does not state its unit, and -N writes nanoseconds. The unit is therefore guessed from \
        the samples in the first 64 KiB. If the smallest latency is below 100, the unit is \
        microseconds. If it is 1000 or more, or above the interval, nanoseconds are assumed, with \
        a warning. Otherwise, microseconds are assumed, with a warning. --unit ns and --unit us \
        set the unit. The file does not record the time, the duration, the CPUs, the policy and \
        priority, missed periods, or the machine. If the cycle numbers of a thread do not \
        increase, the file contains two runs and is refused.",
    has_samples: true,
    unit_known: false,
    recognise,
    read,
};

fn recognise(head: &Head<'_>) -> bool {
    let mut lines = head.lines().filter(|line| {
        let line = plain(line.as_bytes());
        !is_other_line(line) && !line.starts_with(b"Thread ")
    });
    lines
        .next()
        .is_some_and(|line| sample(line.as_bytes()).is_some())
}

/// Samples per batch of one thread.
const BATCH: usize = 1_024;

/// State of one thread while the file is being read.
struct Channel {
    number: u64,
    tally: Tally,
    next: u64,
    /// Number of cycles for which there is no line.
    gaps: u64,
    batch: Vec<Sample>,
}

/// The threads, in order of first appearance.
struct Channels {
    unit: FileUnit,
    /// Maximum latency that is read: the range of a histogram.
    latest: u64,
    channels: Vec<Channel>,
    /// Index of each thread number below [`THREADS`].
    indexes: Vec<Option<usize>>,
    interval_us: Option<u64>,
    smis: u64,
    /// CPU of each thread, if the file names it.
    cpus: BTreeMap<u64, u32>,
    words: WordsBelow,
    /// Number of cycles of all threads at the point where the last words below the figures began.
    above_words: Option<u64>,
    break_value: Option<u64>,
}

fn read(source: &mut Source<'_>, sink: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let given = source.unit();
    let mut channels = Channels::new(FileUnit::new(given, None, None));
    if given.is_none() {
        let (least, interval_us) = smallest(&source.bare_head()?);
        channels = Channels::new(FileUnit::new(None, least, interval_us));
    }
    loop {
        // Reads as many regular lines as the buffer contains completely.
        let block = source.block(1)?;
        let end = memchr::memrchr(b'\n', block).map_or(0, |end| end + 1);
        let (mut at, mut lines) = (0, 0);
        let mut failure = None;
        while at < end {
            let rest = &block[at..end];
            let Some(row) = line(rest).or_else(|| sample(rest)) else {
                break;
            };
            if let Err(error) = channels.take(row, sink) {
                failure = Some(error);
                break;
            }
            at += row.length;
            lines += 1;
        }
        source.consume_lines(at, lines);
        if let Some(failure) = failure {
            // The location of the error is the line that failed.
            source.consume_lines(0, 1);
            return Err(failure.at(source));
        }
        if at == end && at > 0 {
            continue;
        }
        // Reads any other line, including a line that continues after the end of the buffer.
        match source.next_line()? {
            None => break,
            Some(line) => {
                let (bytes, complete) = (line.bytes, line.complete);
                channels
                    .other(bytes, complete, sink)
                    .map_err(|failure| failure.at(source))?;
            }
        }
    }
    channels.recording(source, sink)
}

/// Returns the smallest latency of these lines, and the first interval stated in them.
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

/// Reason why a line was rejected.
enum Failure {
    /// Boxed, because samples are read by the million and at most one is rejected.
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

impl Channels {
    fn new(unit: FileUnit) -> Self {
        Self {
            unit,
            latest: MAX_TRACKABLE_NS / unit.one.0,
            channels: Vec::new(),
            indexes: Vec::new(),
            interval_us: None,
            smis: 0,
            cpus: BTreeMap::new(),
            words: WordsBelow::default(),
            above_words: None,
            break_value: None,
        }
    }

    #[inline]
    fn take(&mut self, row: Row, sink: &mut dyn SampleSink) -> Result<(), Failure> {
        let place = match self.indexes.get(row.thread as usize) {
            Some(Some(place)) => *place,
            _ => self.new_channel(row.thread)?,
        };
        let channel = &mut self.channels[place];
        if row.cycle < channel.next || row.latency.unsigned_abs() >= self.latest {
            return Err(channel.refuse(row, self.unit.one).into());
        }
        channel.gaps += row.cycle - channel.next;
        channel.next = row.cycle + 1;
        channel.tally.record(row.latency);
        channel.batch.push(Sample {
            expected: Nanos(row.cycle),
            latency: SignedNanos(row.latency * self.unit.one.0.cast_signed()),
        });
        if channel.batch.len() < BATCH {
            Ok(())
        } else {
            channel.flush(place, sink)
        }
    }

    #[cold]
    fn new_channel(&mut self, number: u64) -> Result<usize, Failure> {
        let at = usize::try_from(number)
            .ok()
            .filter(|at| *at < THREADS)
            .ok_or(Malformed::NumberTooLarge {
                what: "thread",
                number,
            })?;
        if self.indexes.len() <= at {
            self.indexes.resize(at + 1, None);
        }
        let place = self.channels.len();
        self.indexes[at] = Some(place);
        self.channels.push(Channel {
            number,
            tally: Tally::new(self.unit.one),
            next: 0,
            gaps: 0,
            batch: Vec::with_capacity(BATCH),
        });
        Ok(place)
    }

    /// Handles an irregular line.
    #[cold]
    fn other(
        &mut self,
        bytes: &[u8],
        complete: bool,
        sink: &mut dyn SampleSink,
    ) -> Result<(), Failure> {
        let trimmed = plain(bytes);
        if !complete && !trimmed.is_empty() && !is_prompt(trimmed) {
            // The line may be truncated within the latency.
            return Err(Malformed::LineTruncated.into());
        }
        if let Some(row) = sample(trimmed) {
            return self.take(row, sink);
        }
        // A line with the number of SMIs after the latency.
        if let Some(blank) = memchr::memrchr(b' ', trimmed)
            && let Some(row) = sample(trimmed[..blank].trim_ascii_end())
            && let Some((smis, end)) = number(&trimmed[blank..], 0)
            && blank + end == trimmed.len()
        {
            self.smis = self.smis.saturating_add(smis);
            return self.take(row, sink);
        }
        match trimmed {
            b"# Histogram" => Err(Malformed::HistogramAfterSamples.into()),
            _ if trimmed.starts_with(b"Thread ") => Ok(self.of_thread(trimmed)?),
            _ if is_other_line(trimmed) => Ok(self.other_line(trimmed)?),
            _ if !self.channels.is_empty() && self.words.take(trimmed).is_ok() => {
                let cycles = self.cycles();
                self.above_words.get_or_insert(cycles);
                Ok(())
            }
            _ => Err(Malformed::NoSample(super::head::shown(trimmed)).into()),
        }
    }

    /// Returns the number of cycles of all threads so far. It grows with each sample.
    fn cycles(&self) -> u64 {
        let next = self.channels.iter().map(|channel| channel.next);
        next.fold(0, u64::saturating_add)
    }

    /// Parses `Thread 0 Interval: 1500` or `Thread 0 using cpu 1.`.
    fn of_thread(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let text = String::from_utf8_lossy(line);
        let mut rest = text.as_ref();
        let foreign = || Malformed::NoSample(super::head::shown(line));
        let thread = field(&mut rest, "Thread ", " ").ok_or_else(foreign)?;
        let thread = count(thread)?;
        if let Some(interval) = rest.strip_prefix(" Interval:") {
            self.interval_us.get_or_insert(count(interval.trim())?);
            return Ok(());
        }
        let cpu = rest.strip_prefix(" using cpu ").ok_or_else(foreign)?;
        let cpu = count(cpu.trim_end_matches('.'))?;
        if thread >= THREADS as u64 {
            let (what, number) = ("thread", thread);
            return Err(Malformed::NumberTooLarge { what, number });
        }
        if cpu <= CpuSet::MAX_CPU.into() {
            self.cpus.insert(thread, cpu as u32)
        } else {
            return Err(Malformed::NotACpu(cpu));
        };
        Ok(())
    }

    fn other_line(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let text = String::from_utf8_lossy(line);
        if let Some(value) = text.strip_prefix("# Break value:") {
            self.break_value = Some(count(value.trim())?);
        }
        Ok(())
    }

    /// Keeps the sample that stopped the run. Unlike thread lines, sample lines do not contain the
    /// thread ID stated in the line `# Break thread:`. Returns the number of the thread created for
    /// it, if any, and a warning.
    fn stopping_sample(
        &mut self,
        value: u64,
        sink: &mut dyn SampleSink,
    ) -> Result<(Option<u64>, String), Failure> {
        let latency = Nanos(value.saturating_mul(self.unit.one.0));
        if self
            .channels
            .iter()
            .any(|channel| channel.tally.reaches(value))
        {
            let warning = format!("latency of the sample that stopped the run: {latency}");
            return Ok((None, warning));
        }
        let (own, thread, cycle) = match &self.channels[..] {
            [only] => (None, only.number, only.next),
            channels => {
                let last = channels
                    .iter()
                    .map(|channel| channel.number)
                    .max()
                    .unwrap_or(0);
                (Some(last + 1), last + 1, 0)
            }
        };
        self.take(
            Row {
                thread,
                cycle,
                latency: i64::try_from(value).unwrap_or(i64::MAX),
                length: 0,
            },
            sink,
        )?;
        let to = match own {
            None => format!("as the last sample of thread {thread}"),
            Some(_) => "as a separate thread".to_owned(),
        };
        let warning = format!(
            "the sample that stopped the run, {latency}, is not in any line of the file: it was \
             added {to}"
        );
        Ok((own, warning))
    }

    fn recording(
        mut self,
        source: &Source<'_>,
        sink: &mut dyn SampleSink,
    ) -> Result<Recording, ImportError> {
        if self.channels.is_empty() {
            return Err(source.bad_at(Location::Whole, "the file has no sample"));
        }
        if self.above_words.is_some_and(|above| above != self.cycles()) {
            let followed = self.words.figures_follow();
            followed.map_err(|reason| source.bad_at(Location::Whole, reason))?;
        }
        let mut recording = blank(source, IMPORT.name, "cyclictest or signaltest -v", "timer");
        forget(&mut recording, &[Unknown::Times]);
        self.unit.note(&mut recording);
        if let Some(interval) = self.interval_us {
            let interval = interval.saturating_mul(1_000);
            let parameters = &mut recording.probe.parameters;
            parameters.insert("interval_ns".to_owned(), interval.into());
        }
        let gaps = self.channels.iter().map(|channel| channel.gaps);
        let gaps = gaps.fold(0, u64::saturating_add);
        if gaps > 0 {
            recording.warnings.push(format!(
                "{gaps} cycles have no line in the file: the tool's buffer overran, or it printed \
                 only the largest of several samples (--oscope)"
            ));
        }
        if self.smis > 0 {
            let smis = self.smis;
            recording
                .warnings
                .push(format!("{smis} system management interrupts were counted"));
        }
        let mut own = None;
        if let Some(value) = self.break_value {
            let added = self.stopping_sample(value, sink);
            let (thread, warning) = added.map_err(|failure| failure.at(source))?;
            own = thread;
            recording.completion = Completion::Break;
            recording.warnings.push(warning);
        }
        for (place, channel) in self.channels.iter_mut().enumerate() {
            channel
                .flush(place, sink)
                .map_err(|failure| failure.at(source))?;
        }
        let cpus = self.cpus;
        recording.threads = (self.channels.into_iter())
            .map(|channel| {
                let cpu = cpus.get(&channel.number).copied();
                let mut thread =
                    thread(channel.number as usize, cpu, channel.tally.into_histogram());
                if own == Some(channel.number) {
                    thread.label = Some(STOPPED.to_owned());
                }
                thread
            })
            .collect();
        Ok(finish(recording))
    }
}

impl Channel {
    fn flush(&mut self, place: usize, sink: &mut dyn SampleSink) -> Result<(), Failure> {
        sink.take(place as u32, &self.batch)
            .map_err(Failure::Sink)?;
        self.batch.clear();
        Ok(())
    }

    #[cold]
    fn refuse(&self, row: Row, unit: Nanos) -> Malformed {
        if row.cycle < self.next {
            Malformed::CycleWentBack {
                cycle: row.cycle,
                thread: self.number,
                before: self.next - 1,
            }
        } else {
            Malformed::LatencyTooLarge {
                latency: row.latency,
                unit: if unit.0 == 1 { "ns" } else { "µs" },
            }
        }
    }
}
