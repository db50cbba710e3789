//! `jitterdebugger-lines`: the output of jitterdebugger with `-v`.
//!
//! `T: 0 ( 1611) A: 0 C:    593411 Min:         2 Avg:    3.04 Max:        57` is printed for each
//! thread, ten times a second, overwriting the previous lines (`__display_stats` in
//! `jitterdebugger.c`). A thread runs on the CPU stated after `A:`. The figures are whole
//! microseconds.

use std::collections::BTreeMap;

use punctual_model::{CpuSet, Histogram, Nanos, Recording};

use super::blank::{MICROSECOND, THREADS, blank, finish, thread};
use super::text::{WordsBelow, count, field, is_other_line, is_prompt, latency, number, plain};
use super::{Head, Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "jitterdebugger-lines",
    summary: "the output of jitterdebugger -v, live or final",
    documentation: "The CPU, number of samples, minimum, mean and maximum of a thread are read \
        from its last line. If the ID of a thread changes, a second run has begun, and the file \
        is refused.

The lines have no histogram, so the recording has no percentiles: the latencies of single samples \
        are unknown. The lines do not record the time, the duration, the interval, the policy and \
        priority, missed periods, or the machine. Import results.json instead to get the \
        histogram.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

fn recognise(head: &Head<'_>) -> bool {
    head.lines().any(|line| {
        let line = plain(line.as_bytes());
        line.starts_with(b"T:")
            && [" A:", " C:", " Min:", " Avg:", " Max:"]
                .iter()
                .all(|name| memchr::memmem::find(line, name.as_bytes()).is_some())
    })
}

/// A line of a thread.
struct Line {
    thread: u64,
    id: u64,
    cpu: u32,
    samples: u64,
    min: u64,
    /// Mean in hundredths of a microsecond.
    mean: u64,
    max: u64,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut last: BTreeMap<u64, Line> = BTreeMap::new();
    let mut words = WordsBelow::default();
    while let Some(line) = source.next_line()? {
        let complete = line.complete;
        let bytes = plain(line.bytes);
        let result = match bytes {
            _ if is_other_line(bytes) || bytes.starts_with(b"affinity: ") => Ok(()),
            _ if bytes.starts_with(b"T:") => words
                .figures_follow()
                .and_then(|()| Line::parse(bytes))
                .and_then(|line| take(&mut last, line)),
            _ if last.is_empty() => Err(Malformed::foreign(bytes)),
            _ => words.take(bytes),
        };
        let result = if complete || bytes.is_empty() || is_prompt(bytes) {
            result
        } else {
            Err(Malformed::LineTruncated)
        };
        result.map_err(|reason| source.bad(reason))?;
    }
    if last.is_empty() {
        return Err(source.bad_at(Location::Whole, "no line of a thread found"));
    }
    let mut recording = blank(source, IMPORT.name, "jitterdebugger", "timer");
    for (place, line) in last.values().enumerate() {
        let histogram = line.histogram().map_err(|why| {
            source.bad_at(
                Location::Whole,
                why.within(format!("thread {}", line.thread)),
            )
        })?;
        recording
            .threads
            .push(thread(place, Some(line.cpu), histogram));
    }
    Ok(finish(recording))
}

fn take(last: &mut BTreeMap<u64, Line>, line: Line) -> Result<(), Malformed> {
    let number = line.thread;
    if number >= THREADS as u64 {
        let what = "thread";
        return Err(Malformed::NumberTooLarge { what, number });
    }
    if let Some(before) = last.get(&number) {
        if before.id != line.id && before.id != 0 && line.id != 0 {
            return Err(Malformed::OtherThreadId {
                what: "thread",
                number,
                id: line.id,
                before: before.id,
            });
        }
        if before.samples > line.samples || before.max > line.max {
            return Err(Malformed::ThreadWentBack(number));
        }
    }
    last.insert(number, line);
    Ok(())
}

impl Line {
    fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed::LineNotText)?;
        let missing = Malformed::MissingField;
        let mut rest = text;
        let thread = field(&mut rest, "T:", "(").ok_or(missing("T:"))?;
        let id = field(&mut rest, "(", ")").ok_or(missing("thread ID"))?;
        let cpu = number(&mut rest, " A:")?.ok_or(missing("A:"))?;
        let samples = number(&mut rest, " C:")?.ok_or(missing("C:"))?;
        let min = field(&mut rest, " Min:", " Avg:").ok_or(missing("Min:"))?;
        let mean = field(&mut rest, " Avg:", " Max:").ok_or(missing("Avg:"))?;
        let max = field(&mut rest, " Max:", "").ok_or(missing("Max:"))?;
        let line = Self {
            thread: count(thread.trim())?,
            id: count(id.trim())?,
            cpu: if cpu <= CpuSet::MAX_CPU.into() {
                cpu as u32
            } else {
                return Err(Malformed::NotACpu(cpu));
            },
            samples,
            min: latency("Min", min.trim())?,
            mean: match samples {
                // Without samples, jitterdebugger prints the result of a division of zero by zero.
                0 => 0,
                _ => hundredths(mean.trim())?,
            },
            max: latency("Max", max.trim())?,
        };
        // The mean is rounded to hundredths.
        let (least, most) = (
            line.min.saturating_mul(100),
            line.max.saturating_mul(100).saturating_add(1),
        );
        if samples == 0 || (least <= line.mean.saturating_add(1) && line.mean <= most) {
            Ok(line)
        } else {
            Err(Malformed::Inconsistent {
                min: line.min,
                avg: line.mean / 100,
                max: line.max,
            })
        }
    }

    fn histogram(&self) -> Result<Histogram, Malformed> {
        let mut histogram = Histogram::imported(MICROSECOND, MICROSECOND);
        histogram.add_unplaced(self.samples, Nanos::ZERO);
        if self.samples > 0 {
            let time = |us: u64| us.checked_mul(1_000).map(Nanos);
            let sum = u128::from(self.mean) * u128::from(self.samples) * 10;
            let sum = u64::try_from(sum).ok().map(Nanos);
            match (time(self.min), time(self.max), sum) {
                (min, Some(max), Some(sum)) => histogram.set_figures(min, Some(max), Some(sum)),
                _ => return Err(Malformed::FiguresTooLarge),
            }
        }
        Ok(histogram)
    }
}

/// Parses `3.04` as hundredths.
fn hundredths(text: &str) -> Result<u64, Malformed> {
    let not_a_time = || Malformed::NotATime(super::head::shown(text.as_bytes()));
    let (whole, part) = text.split_once('.').ok_or_else(not_a_time)?;
    let part = (part.len() == 2).then(|| count(part).ok()).flatten();
    let whole = count(whole)?.checked_mul(100);
    whole
        .zip(part)
        .and_then(|(whole, part)| whole.checked_add(part))
        .ok_or_else(not_a_time)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refuses, read_text, refused};
    use super::*;

    const TEXT: &str = include_str!("../../tests/fixtures/jitterdebugger-lines.txt");

    #[test]
    fn the_last_line_of_each_thread_counts() {
        let early = TEXT
            .replace("593411", "     9")
            .replace("        57", "         5");
        let live = format!("{early}\u{1b}[2A{}", TEXT.replace('\n', "\u{1b}[K\n"));
        for text in [TEXT, &live] {
            let recording = read_text(&IMPORT, text).unwrap();
            let [first, second] = &recording.threads[..] else {
                panic!("{} threads", recording.threads.len());
            };
            assert_eq!((first.cpu, second.cpu), (Some(0), Some(1)));
            assert_eq!(first.histogram.count(), 593_411);
            assert_eq!(second.histogram.count(), 593_403);
            assert_eq!(first.histogram.mean(), Some(Nanos(3_040)));
            assert_eq!(first.histogram.max(), Some(Nanos::from_micros(57)));
            assert_eq!(second.histogram.max(), Some(Nanos::from_micros(33)));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let other = TEXT.replace("1611", "1711").replace("593411", "793411");
        let said = refused(&IMPORT, format!("{TEXT}{other}").as_bytes());
        assert!(said.contains("the file contains two runs"), "{said}");
        let changes = [
            ("3.04", "3,04", "not a time"),
            ("3.04", "93.04", "inconsistent"),
            ("A: 0", "A: 99999", "not a CPU"),
            ("Max:        57", "Max:       -57", "never negative"),
            ("Max:        57", "", "no Avg:"),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
    }
}
