//! `hwlat-trace`: the text of the kernel's hwlat tracer, as in `trace` and `trace_pipe`.
//!
//! This is based on `trace_hwlat_print` in `kernel/trace/trace_output.c` (4.9 to 6.18). A line is
//! ` <...>-1729  [001] d...   678.473449: #1     inner/outer(us):   11/12    ts:1581527483.343962693`.
//! It is followed by `count:` since 5.6, and by the NMIs (`nmi-total:`, `nmi-count:`). The kernel
//! writes a line only for a gap above its threshold.

use std::collections::BTreeMap;

use jiff::Timestamp;
use punctual_model::{CpuSet, Nanos, Recording, Unknown};

use super::blank::{MICROSECOND, THREADS, blank, finish, learn, thread};
use super::counted::Counted;
use super::decimal::Decimal;
use super::text::count;
use super::{Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "hwlat-trace",
    summary: "the trace of the kernel's hwlat tracer, as text",
    documentation: "Each CPU with a line becomes a thread of the recording. The latency of a \
        sample is the larger of its inner and outer values. The time stamp of the first line is \
        the start of the recording.

The trace contains only gaps above the threshold of the tracer, and does not state the \
        threshold, the window, or the duration. CPUs without a gap do not appear. Several gaps \
        in one window (count:) are one sample, because only the largest is known. Lost events \
        become a warning. The file does not record the load or the machine.",
    has_samples: false,
    unit_known: true,
    recognise: |head| head.lines().any(|line| line.contains(MARK)),
    read,
};

const MARK: &str = "inner/outer(us):";

/// Maximum number of different latencies of all CPUs.
const MOST: usize = 1_000_000;

/// State while the trace is being read.
#[derive(Default)]
struct Trace {
    cpus: BTreeMap<u32, Counted>,
    /// Number of the last sample; the kernel numbers samples from 1.
    last: u64,
    samples: u64,
    first_at: Option<Nanos>,
    last_at: Nanos,
    /// Number of gaps in all windows, if the kernel counts them.
    gaps: u64,
    nmis: u64,
    lost: u64,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut trace = Trace::default();
    source.whole_lines(|line| trace.line(line))?;
    let recording = trace.recording(source);
    recording.map_err(|reason| source.bad_at(Location::Whole, reason))
}

impl Trace {
    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        if let Some((_, rest)) = line.split_once("[LOST ") {
            let lost = rest.split_once(" EVENTS]").map_or("", |(lost, _)| lost);
            self.lost = self.lost.saturating_add(count(lost)?);
            return Ok(());
        }
        let Some((head, figures)) = line.split_once(MARK) else {
            return Ok(());
        };
        let (before, number) = head
            .rsplit_once('#')
            .ok_or(Malformed::MissingField("'#'"))?;
        let number = count(number.trim())?;
        if number <= self.last {
            return Err(Malformed::SecondRunBegins);
        }
        self.last = number;
        let cpu = cpu(before)?;
        let mut words = figures.split_whitespace();
        let durations = words.next().unwrap_or_default();
        // `11/12`; wide values are separated by a space.
        let (inner, outer) = durations
            .split_once('/')
            .ok_or(Malformed::MissingField("'/'"))?;
        let outer = match outer {
            "" => words.next().unwrap_or_default(),
            outer => outer,
        };
        let largest = count(inner)?.max(count(outer)?);
        let time = |us: u64| us.checked_mul(1_000).map(Nanos);
        let largest = time(largest).ok_or(Malformed::SampleTooLong)?;
        let stamp = words.next().and_then(|word| word.strip_prefix("ts:"));
        let at = Decimal::parse(stamp.ok_or(Malformed::MissingInSample("ts"))?)?;
        let at = at.of(Nanos(1_000_000_000))?;
        self.first_at.get_or_insert(at);
        self.last_at = self.last_at.max(at);
        let mut gaps = 1;
        for word in words {
            match word.split_once(':') {
                Some(("count", gaps_of_window)) => gaps = count(gaps_of_window)?.max(1),
                Some(("nmi-count", nmis)) => self.nmis = self.nmis.saturating_add(count(nmis)?),
                Some(("nmi-total", _)) => {}
                _ => return Err(Malformed::foreign(line.as_bytes())),
            }
        }
        self.gaps = self.gaps.saturating_add(gaps);
        self.samples += 1;
        if self.cpus.len() == THREADS && !self.cpus.contains_key(&cpu) {
            return Err(Malformed::TooManyCores(THREADS));
        }
        let rows: usize = self.cpus.values().map(|cpu| cpu.rows.len()).sum();
        if rows >= MOST {
            return Err(Malformed::TooMany {
                most: MOST,
                what: "different latencies",
            });
        }
        let counted = self.cpus.entry(cpu).or_insert_with(|| Counted {
            unit: MICROSECOND,
            row: MICROSECOND,
            ..Counted::default()
        });
        counted.add(largest, 1);
        Ok(())
    }

    fn recording(self, source: &Source<'_>) -> Result<Recording, Malformed> {
        if self.cpus.is_empty() {
            return Err(Malformed::MissingFigures);
        }
        let mut recording = blank(source, IMPORT.name, "hwlat tracer", "hardware");
        for (place, (cpu, counted)) in self.cpus.iter().enumerate() {
            let thread = thread(place, Some(*cpu), counted.histogram()?);
            recording.threads.push(thread);
        }
        // The time is close to 1970 on a machine whose clock has no battery.
        let started = self.first_at.filter(|at| at.0 >= 1_000_000_000_000_000_000);
        let started = started.and_then(|at| Timestamp::from_nanosecond(at.0.into()).ok());
        if let Some(started) = started {
            recording.started = started;
            learn(&mut recording, &[Unknown::Started]);
        }
        let warnings = &mut recording.warnings;
        warnings.push(
            "the trace contains only gaps above the tracer's threshold, which it does not state"
                .to_owned(),
        );
        if self.gaps > self.samples {
            warnings.push(format!(
                "{} gaps in {} windows: of each window, only the largest gap is known",
                self.gaps, self.samples
            ));
        }
        if self.nmis > 0 {
            warnings.push(format!("{} NMIs during the gaps", self.nmis));
        }
        if self.lost > 0 {
            warnings.push(format!("{} events are missing in the trace", self.lost));
        } else if self.last > self.samples {
            warnings.push(format!(
                "the last sample has the number {}, but the trace contains {}",
                self.last, self.samples
            ));
        }
        Ok(finish(recording))
    }
}

/// Parses the CPU of `           <...>-1729  [001] d...   678.473449: `.
fn cpu(text: &str) -> Result<u32, Malformed> {
    let (_, rest) = text.rsplit_once('[').ok_or(Malformed::FirstColumnNotACpu)?;
    let (cpu, _) = rest.split_once(']').ok_or(Malformed::FirstColumnNotACpu)?;
    let cpu = count(cpu)?;
    let cpu = u32::try_from(cpu)
        .ok()
        .filter(|cpu| *cpu <= CpuSet::MAX_CPU);
    cpu.ok_or(Malformed::FirstColumnNotACpu)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refuses, read_recognised};
    use super::*;

    const TEXT: &str = include_str!("../../tests/fixtures/hwlat-trace.txt");

    #[test]
    fn larger_value_of_each_line_counts() {
        let recording = read_recognised(TEXT.as_bytes()).unwrap();
        let cpus: Vec<_> = recording.threads.iter().map(|thread| thread.cpu).collect();
        assert_eq!(cpus, [Some(1), Some(2)]);
        let histogram = &recording.threads[0].histogram;
        assert_eq!(histogram.count(), 2);
        assert_eq!(histogram.max(), Some(Nanos::from_micros(13)));
        assert_eq!(
            recording.threads[1].histogram.max(),
            Some(Nanos::from_micros(214_748))
        );
        assert!(recording.knows(Unknown::Started) && !recording.knows(Unknown::Duration));
        let said = recording.warnings.join("\n");
        for part in ["threshold", "8 gaps in 3 windows", "2 NMIs"] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let changes = [
            ("#2 ", "#1 ", "second run"),
            ("11/12", "11", "'/'"),
            ("[001]", "001", "CPU"),
            ("ts:1581527483", "1581527483", "'ts:'"),
            ("count:6", "gaps=6", "not a line"),
            ("11/12", "99999999999999999/1", "out of range"),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
        let lost = TEXT.replacen(
            "           <...>-1729    [002]",
            "CPU:1 [LOST 7 EVENTS]\n           <...>-1729    [002]",
            1,
        );
        let recording = read_recognised(lost.as_bytes()).unwrap();
        assert!(
            recording
                .warnings
                .join("\n")
                .contains("7 events are missing")
        );
    }
}
