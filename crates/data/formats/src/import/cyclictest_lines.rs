//! `cyclictest-lines`: the lines that cyclictest, signaltest and cyclicdeadline print for each
//! thread, during the run or at its end ([`ThreadLine`]).
//!
//! In addition: `# Break thread: 16350` and `# Break value: 52` (with `-b`), and with `--spike` a
//! line for each spike, `T: 0 Spike:      54: TS:   1458203556`, with the time in microseconds of
//! the monotonic clock.

use std::collections::BTreeMap;

use punctual_model::{Nanos, Policy, Recording, Scheduling, Table};

use super::blank::{MICROSECOND, THREADS, blank, finish, thread};
use super::stopping_sample::stopped_by;
use super::text::{WordsBelow, count, field, is_other_line, plain};
use super::thread_line::ThreadLine;
use super::unit::{NANOSECOND, TOO_SHORT_NS};
use super::{Head, Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "cyclictest-lines",
    summary: "lines with 'T:' from cyclictest, signaltest and cyclicdeadline, live or final",
    documentation: "Reads what these tools print on the terminal, with or without the cursor \
        movements of live output. Output of the versions of 2006 to 2009 and of Xenomai 2.6 is \
        accepted, too. The number of cycles, minimum, mean and maximum of a thread are read from \
        its last line. Text above and below the lines is skipped, and a table shows the spikes \
        (--spike). If a thread's ID, priority or interval changes, a second run has begun, and \
        the file is refused.

The lines have no histogram, so the recording has no percentiles: the latencies of single samples \
        are unknown. The unit, microseconds or nanoseconds, is detected from the width of the \
        columns. If the numbers fill their columns, or a web page has removed spaces, and the \
        smallest latency is not below 100, specify the unit with --unit. The sample that stopped \
        a run (-b) is added to its thread if it exceeds the maximum on that thread's line \
        (cyclicdeadline). The lines do not record the time, the duration, the CPUs, missed \
        periods, or the machine. A run whose figures contradict each other (as cyclictest 2.4 \
        writes with -x) is refused.",
    has_samples: false,
    unit_known: false,
    recognise,
    read,
};

fn recognise(head: &Head<'_>) -> bool {
    let mut found = false;
    for line in head.lines() {
        match plain(line.as_bytes()) {
            b"# Histogram" => return false,
            line => {
                // jitterdebugger prints ` A:`.
                let has = |name: &[u8]| memchr::memmem::find(line, name).is_some();
                let is_begun = || has(b" C:") && !has(b" A:") && is_wrapped(line);
                found |= line.starts_with(b"T:") && (ThreadLine::parse(line).is_ok() || is_begun());
            }
        }
    }
    found || is_nonsense(head)
}

/// Returns whether a file contains thread lines with invalid figures. Such files are recognised so
/// that they can be rejected with a reason.
fn is_nonsense(head: &Head<'_>) -> bool {
    head.lines().any(|line| {
        let line = plain(line.as_bytes());
        line.starts_with(b"T:")
            && [" C:", " Min:", " Act:", " Avg:", " Max:"]
                .iter()
                .all(|name| memchr::memmem::find(line, name.as_bytes()).is_some())
    })
}

/// Returns whether the line of a thread ends before its last figure, as mail programs wrap lines.
fn is_wrapped(line: &[u8]) -> bool {
    let finds = |name: &[u8]| memchr::memmem::find(line, name);
    let has_maximum = finds(b"Max:").is_some_and(|at| at + 4 < line.len());
    line.starts_with(b"T:") && finds(b"(").is_some() && !has_maximum && finds(b"Spike").is_none()
}

/// Maximum number of spikes that are kept. This is more than cyclictest lists.
const SPIKES: usize = 65_536;

/// A sample above the limit of `--spike`.
struct Spike {
    thread: u64,
    latency: u64,
    at_us: u64,
}

/// State while reading the lines.
#[derive(Default)]
struct Lines {
    last: BTreeMap<u64, ThreadLine>,
    policy: Option<Policy>,
    nanos: Option<bool>,
    spikes: Vec<Spike>,
    spike_count: u64,
    words: WordsBelow,
    break_thread: Option<u64>,
    break_value: Option<u64>,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut lines = Lines::default();
    // The beginning of a line that a mail program has wrapped.
    let mut wrapped: Option<Vec<u8>> = None;
    while let Some(line) = source.next_line()? {
        let complete = line.complete;
        let mut bytes = plain(line.bytes).to_vec();
        if let Some(begin) = wrapped.take() {
            if bytes.is_empty() {
                wrapped = Some(begin);
                continue;
            }
            if bytes.starts_with(b"T:") || bytes.starts_with(b"#") {
                let incomplete = lines.take(&begin, true);
                incomplete.map_err(|reason| source.bad(reason))?;
            }
            bytes = [&begin, &b" "[..], &bytes].concat();
        }
        if complete && is_wrapped(&bytes) {
            wrapped = Some(bytes);
            continue;
        }
        let result = match bytes.as_slice() {
            b"# Histogram" => Err(Malformed::HistogramBegins),
            bytes if bytes.starts_with(b"T:") => lines.take(bytes, complete),
            bytes => lines.other_line(bytes),
        };
        result.map_err(|reason| source.bad(reason))?;
    }
    if wrapped.is_some() {
        return Err(source.bad_at(Location::Whole, Malformed::LineTruncated));
    }
    let unit = lines.unit(source.unit());
    let unit = unit.map_err(|reason| source.bad_at(Location::Whole, reason))?;
    lines.recording(source, unit)
}

impl Lines {
    fn take(&mut self, bytes: &[u8], complete: bool) -> Result<(), Malformed> {
        self.words.figures_follow()?;
        if memchr::memmem::find(bytes, b" Spike:").is_some() {
            return self.spike(bytes, complete);
        }
        let line = match ThreadLine::parse(bytes) {
            Ok(line) if complete || line.whole => line,
            Ok(_) => return Err(Malformed::LineTruncated),
            Err(_) if !complete => return Err(Malformed::LineTruncated),
            Err(reason) => return Err(reason),
        };
        if line.thread >= THREADS as u64 {
            return Err(Malformed::NumberTooLarge {
                what: "thread",
                number: line.thread,
            });
        }
        match (self.nanos, line.nanos) {
            (Some(before), Some(now)) if before != now => {
                return Err(Malformed::OtherWidth);
            }
            (_, now) => self.nanos = self.nanos.or(now),
        }
        if let Some(before) = self.last.get(&line.thread) {
            line.follows(before)?;
        }
        self.last.insert(line.thread, line);
        Ok(())
    }

    /// Parses `T: 0 Spike:      54: TS:   1458203556`.
    fn spike(&mut self, bytes: &[u8], complete: bool) -> Result<(), Malformed> {
        if !complete {
            return Err(Malformed::LineTruncated);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed::LineNotText)?;
        let mut rest = text;
        let mut take = |name: &'static str, after: &str| {
            let found = field(&mut rest, name, after).map(str::trim);
            count(found.ok_or(Malformed::MissingField(name))?)
        };
        let spike = Spike {
            thread: take("T:", " Spike")?,
            latency: take("Spike:", ":")?,
            at_us: take("TS:", "")?,
        };
        if self.spikes.len() == SPIKES {
            return Err(Malformed::TooMany {
                most: SPIKES,
                what: "spikes",
            });
        }
        self.spikes.push(spike);
        Ok(())
    }

    fn other_line(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let text = String::from_utf8_lossy(bytes);
        if !is_other_line(bytes) {
            return if self.last.is_empty() {
                Err(Malformed::foreign(bytes))
            } else {
                self.words.take(bytes)
            };
        }
        // cyclictest prints this line before its threads start.
        if text.starts_with("# /dev/cpu_dma_latency set to") && !self.last.is_empty() {
            return Err(Malformed::SecondRunBegins);
        }
        if let Some(policy) = text.strip_prefix("policy: ") {
            let name = policy.split([':', '/']).next().unwrap_or_default();
            self.policy = name.parse().ok();
        }
        if let Some(number) = text.strip_prefix("spikes = ") {
            self.spike_count = count(number.trim())?;
        }
        if let Some(id) = text.strip_prefix("# Break thread:") {
            self.break_thread = Some(count(id.trim())?);
        }
        if let Some(value) = text.strip_prefix("# Break value:") {
            self.break_value = Some(count(value.trim())?);
        }
        Ok(())
    }

    /// Returns the unit of the figures. It is derived from the column widths if possible.
    /// Otherwise, it is the unit given by the user, or microseconds if the figures are too small
    /// for a wake-up in nanoseconds.
    fn unit(&self, given: Option<Nanos>) -> Result<Nanos, Malformed> {
        let by_width = self
            .nanos
            .map(|nanos| if nanos { NANOSECOND } else { MICROSECOND });
        match (by_width, given) {
            (Some(by_width), Some(given)) if by_width != given => {
                return Err(Malformed::OtherUnitGiven);
            }
            (Some(unit), _) | (None, Some(unit)) => return Ok(unit),
            (None, None) => {}
        }
        let least = self.last.values().filter_map(ThreadLine::least).min();
        if least.is_none_or(|least| least < TOO_SHORT_NS) {
            return Ok(MICROSECOND);
        }
        let late = self.last.values().find_map(|line| {
            let interval_us = line.always_late()?;
            Some((line.thread, line.least()?, interval_us))
        });
        Err(match late {
            Some((thread, min, interval_us)) => Malformed::UnitProbablyNanos {
                thread,
                min,
                interval_us,
            },
            None => Malformed::UnitUnknown,
        })
    }

    fn recording(self, source: &Source<'_>, unit: Nanos) -> Result<Recording, ImportError> {
        let bad = |reason: Malformed| source.bad_at(Location::Whole, reason);
        let Some(first) = self.last.values().next() else {
            return Err(source.bad_at(Location::Whole, "no line of a thread found"));
        };
        let (tool, probe) = match (first.priority, first.interval_us) {
            (Some(_), None) => ("signaltest", "signal"),
            (None, _) => ("cyclicdeadline", "deadline"),
            (Some(_), Some(_)) => ("cyclictest", "timer"),
        };
        let mut recording = blank(source, IMPORT.name, tool, probe);
        if let Some(interval) = first.interval_us {
            let interval = interval.saturating_mul(1_000);
            let parameters = &mut recording.probe.parameters;
            parameters.insert("interval_ns".to_owned(), interval.into());
        }
        for (number, line) in &self.last {
            let histogram = line
                .histogram(unit)
                .map_err(|why| bad(why.within(format!("thread {number}"))))?;
            let mut thread = thread(*number as usize, None, histogram);
            thread.scheduling = self.scheduling(tool, line.priority);
            recording.threads.push(thread);
        }
        let smis: u64 = (self.last.values())
            .filter_map(|line| line.smis)
            .fold(0, u64::saturating_add);
        if smis > 0 {
            recording
                .warnings
                .push(format!("{smis} system management interrupts were counted"));
        }
        self.spikes(&mut recording, unit).map_err(bad)?;
        if let Some(value) = self.break_value {
            let id = self.break_thread.filter(|id| *id != 0);
            let named = id.and_then(|id| self.last.values().position(|line| line.id == id));
            let latency = value.checked_mul(unit.0).map(Nanos);
            let latency = latency.ok_or_else(|| bad(Malformed::SampleTooLong))?;
            stopped_by(&mut recording, latency, named);
        }
        Ok(finish(recording))
    }

    /// Stores the spikes as a table.
    fn spikes(&self, recording: &mut Recording, unit: Nanos) -> Result<(), Malformed> {
        let columns = [
            ("thread", "thread"),
            ("latency_ns", "latency"),
            ("clock_us", "time, µs of the clock"),
        ];
        let mut table = Table::new("spikes", "Samples above the limit of --spike", &columns);
        for spike in &self.spikes {
            if let Some(line) = self.last.get(&spike.thread) {
                line.holds(spike.latency)
                    .map_err(|why| why.within(format!("thread {}", spike.thread)))?;
            }
            let latency = Nanos(spike.latency.saturating_mul(unit.0));
            table.push([spike.thread.into(), latency.into(), spike.at_us.into()]);
        }
        let (listed, counted) = (self.spikes.len() as u64, self.spike_count);
        if counted > listed {
            recording.warnings.push(format!(
                "there were {counted} spikes, but the file lists only {listed} (the limit is \
                 --spike-nodes)"
            ));
        }
        recording.tables.extend((listed > 0).then_some(table));
        Ok(())
    }

    /// Only live output contains the policy; signaltest always uses fifo.
    fn scheduling(&self, tool: &str, priority: Option<u8>) -> Scheduling {
        let policy = match (self.policy, tool, priority) {
            (_, "cyclicdeadline", _) => Policy::Deadline,
            (Some(policy), ..) => policy,
            (None, _, Some(0)) => Policy::Other,
            (None, "signaltest", _) => Policy::Fifo,
            _ => Policy::Unknown,
        };
        Scheduling {
            policy,
            priority: priority.unwrap_or(0),
        }
    }
}
