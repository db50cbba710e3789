//! `cyclictest-lines`: the lines that cyclictest, signaltest and cyclicdeadline
//! print for each thread, live or at their end.
//!
//! `T: 0 ( 1229) P:95 I:200 C:   1293 Min:      6 Act:  112 Avg:    7 Max:     112`;
//! signaltest leaves out `I:`, cyclicdeadline `P:`. `Act` and `Avg` are 5 wide
//! for microseconds and 8 wide for nanoseconds (`print_stat` in each tool's
//! source), from which the unit is derived.

use std::collections::BTreeMap;

use punctual_model::{Completion, Histogram, Nanos, Policy, Recording, Scheduling};

use super::blank::{MICROSECOND, THREADS, blank, finish, thread};
use super::text::{count, field, in_order, is_beside, latency, plain};
use super::unit::NANOSECOND;
use super::{Head, Import, ImportError, Malformed, Place, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "cyclictest-lines",
    summary: "the T: lines of cyclictest, signaltest and cyclicdeadline, live or final",
    documentation: "\
Reads what these tools print on the terminal, with or without the cursor movements of live \
output. The last line of each thread counts: number of cycles, minimum, mean and maximum.

There is no histogram, so there are no percentiles: all samples are of unknown latency. \
Whether figures are microseconds or nanoseconds is detected from the width of the columns; where \
they fill their columns, --unit sets it. The \
lines do not record time, duration, CPUs, missed periods and the machine. \
A run whose figures contradict each other (cyclictest 2.4 with -x) is refused.",
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
            line => found |= line.starts_with(b"T:") && parse(line).is_ok(),
        }
    }
    found || is_nonsense(head)
}

/// Lines of a run with invalid figures are recognised, so that they are refused
/// with the reason.
fn is_nonsense(head: &Head<'_>) -> bool {
    head.lines().any(|line| {
        let line = plain(line.as_bytes());
        line.starts_with(b"T:")
            && [" C:", " Min:", " Act:", " Avg:", " Max:"]
                .iter()
                .all(|name| memchr::memmem::find(line, name.as_bytes()).is_some())
    })
}

/// A line of a thread.
#[derive(Clone, Debug)]
struct Line {
    thread: u64,
    priority: Option<u8>,
    interval_us: Option<u64>,
    cycles: u64,
    min: u64,
    avg: u64,
    max: u64,
    smis: Option<u64>,
    /// Whether it is in nanoseconds, if the columns show it.
    nanos: Option<bool>,
    /// Whether the last figure fills its column.
    whole: bool,
}

fn parse(bytes: &[u8]) -> Result<Line, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed::LineNotText)?;
    let missing = Malformed::MissingUsualField;
    let mut rest = text;
    let number = field(&mut rest, "T:", "(").ok_or_else(|| missing("T:"))?;
    field(&mut rest, "(", ")").ok_or_else(|| missing("thread ID"))?;
    let optional = |rest: &mut &str, name: &str| match rest.contains(name) {
        true => field(rest, name, " ").map(count).transpose(),
        false => Ok(None),
    };
    let priority = match rest.split_once(" P:") {
        // `P: 5`: two wide.
        Some((_, behind)) if behind.is_char_boundary(2) => {
            let (priority, behind) = behind.split_at(2);
            rest = behind;
            Some(count(priority.trim())?)
        }
        Some(_) => return Err(missing("priority")),
        None => None,
    };
    let interval_us = optional(&mut rest, "I:")?;
    let cycles = field(&mut rest, "C:", "Min:").ok_or_else(|| missing("C:"))?;
    let min = field(&mut rest, "Min:", "Act:").ok_or_else(|| missing("Min:"))?;
    let act = field(&mut rest, "Act:", "Avg:").ok_or_else(|| missing("Act:"))?;
    let avg = field(&mut rest, "Avg:", "Max:").ok_or_else(|| missing("Avg:"))?;
    let (max, smis) = match rest.contains(" SMI:") {
        true => (
            field(&mut rest, "Max:", " SMI:"),
            field(&mut rest, " SMI:", ""),
        ),
        false => (field(&mut rest, "Max:", ""), None),
    };
    let max = max.ok_or_else(|| missing("Max:"))?;
    latency("Act", act.trim())?;
    let line = Line {
        thread: count(number.trim())?,
        priority: match priority {
            None => None,
            Some(priority @ 0..100) => Some(priority as u8),
            Some(other) => return Err(Malformed::NotAPriority(other)),
        },
        interval_us,
        cycles: count(cycles.trim())?,
        min: latency("Min", min.trim())?,
        avg: latency("Avg", avg.trim())?,
        max: latency("Max", max.trim())?,
        smis: smis.map(|text| count(text.trim())).transpose()?,
        nanos: [act, avg].into_iter().find_map(is_nanos),
        whole: smis.unwrap_or(max).len() >= 8,
    };
    if line.cycles > 0 {
        in_order(line.min, line.avg, line.max)?;
    }
    Ok(line)
}

/// The unit by the width of the column of `Act` or `Avg`: 5 or 8, and wider
/// only where the figure is.
fn is_nanos(column: &str) -> Option<bool> {
    let column = column.strip_suffix(' ').unwrap_or(column);
    match (column.len(), column.starts_with(' ')) {
        (..8, _) => Some(false),
        (_, true) => Some(true),
        (_, false) => None,
    }
}

/// What has been read so far.
#[derive(Default)]
struct Lines {
    last: BTreeMap<u64, Line>,
    policy: Option<Policy>,
    nanos: Option<bool>,
    break_value: Option<u64>,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut lines = Lines::default();
    while let Some(line) = source.next_line()? {
        let complete = line.complete;
        let bytes = plain(line.bytes);
        let result = match bytes {
            b"# Histogram" => Err(Malformed::HistogramBegins),
            _ if bytes.starts_with(b"T:") => lines.take(bytes, complete),
            _ => lines.beside(bytes),
        };
        result.map_err(|reason| source.bad(reason))?;
    }
    lines.recording(source)
}

impl Lines {
    fn take(&mut self, bytes: &[u8], complete: bool) -> Result<(), Malformed> {
        let line = match parse(bytes) {
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
        match self.last.get(&line.thread) {
            Some(before) if before.cycles > line.cycles || before.max > line.max => {
                Err(Malformed::ThreadWentBack(line.thread))
            }
            _ => {
                self.last.insert(line.thread, line);
                Ok(())
            }
        }
    }

    fn beside(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let text = String::from_utf8_lossy(bytes);
        if !is_beside(bytes) {
            return Err(Malformed::foreign(bytes));
        }
        if let Some(policy) = text.strip_prefix("policy: ") {
            let name = policy.split([':', '/']).next().unwrap_or_default();
            self.policy = name.parse().ok();
        }
        if let Some(value) = text.strip_prefix("# Break value:") {
            self.break_value = Some(count(value.trim())?);
        }
        Ok(())
    }

    fn recording(self, source: &Source<'_>) -> Result<Recording, ImportError> {
        let Some(first) = self.last.values().next() else {
            return Err(source.bad_at(Place::Whole, "there is no line of a thread"));
        };
        let (tool, probe) = match (first.priority, first.interval_us) {
            (Some(_), None) => ("signaltest", "signal"),
            (None, _) => ("cyclicdeadline", "deadline"),
            (Some(_), Some(_)) => ("cyclictest", "timer"),
        };
        let by_width = self.nanos.map(|nanos| match nanos {
            true => NANOSECOND,
            false => MICROSECOND,
        });
        let reason = match (by_width, source.unit()) {
            (Some(by_width), Some(given)) if by_width != given => {
                "the columns have the width of the other unit: omit --unit"
            }
            (None, None) => {
                "the file does not give its unit, microseconds or nanoseconds: the figures \
                 fill their columns; use --unit us or --unit ns"
            }
            _ => "",
        };
        let Some(unit) = by_width.or(source.unit()).filter(|_| reason.is_empty()) else {
            return Err(source.bad_at(Place::Whole, reason));
        };
        let mut recording = blank(source, IMPORT.name, tool, probe);
        if let Some(interval) = first.interval_us {
            let interval = interval.saturating_mul(1_000);
            let parameters = &mut recording.probe.parameters;
            parameters.insert("interval_ns".to_owned(), interval.into());
        }
        for (number, line) in &self.last {
            let histogram = line.histogram(unit).map_err(|why| {
                source.bad_at(Place::Whole, why.within(format!("thread {number}")))
            })?;
            let mut thread = thread(*number as usize, None, histogram);
            thread.scheduling = self.scheduling(tool, line.priority);
            recording.threads.push(thread);
        }
        let smis: u64 = self.last.values().filter_map(|line| line.smis).sum();
        if smis > 0 {
            recording
                .warnings
                .push(format!("{smis} system management interrupts were counted"));
        }
        if let Some(value) = self.break_value {
            recording.completion = Completion::Break;
            recording.warnings.push(format!(
                "latency of the sample that stopped the run: {}",
                Nanos(value.saturating_mul(unit.0))
            ));
        }
        Ok(finish(recording))
    }

    /// Only live output names the policy; signaltest has no other than fifo.
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

impl Line {
    fn histogram(&self, unit: Nanos) -> Result<Histogram, Malformed> {
        let mut histogram = Histogram::imported(unit, unit);
        histogram.add_unplaced(self.cycles, Nanos::ZERO);
        if self.cycles > 0 {
            let time = |count: u64| count.checked_mul(unit.0).map(Nanos);
            let sum = (self.avg.checked_mul(self.cycles)).and_then(time);
            match (time(self.min), time(self.max), sum) {
                (min, Some(max), Some(sum)) => histogram.set_figures(min, Some(max), Some(sum)),
                _ => return Err(Malformed::FiguresTooLarge),
            }
        }
        Ok(histogram)
    }
}
