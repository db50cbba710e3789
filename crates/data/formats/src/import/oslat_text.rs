//! `oslat-text`: the terminal output of oslat.
//!
//! This is based on rt-tests' `src/oslat/oslat.c` (2.4 and 2.10) and on its output:
//!
//! - There is one line per figure: ` NAME:` with leading spaces, then a tab and a value for each
//!   CPU, then the unit. The names are `Core`, `Counter Freq` (older: `CPU Freq`), one for each
//!   bucket (`    012 (us):`), `Minimum`, `Average`, `Maximum`, `Max-Min` and `Duration`. `...`
//!   replaces the buckets that `-z` omits.
//! - A bucket is named after its upper end, in µs. The last one also contains all longer
//!   iterations.
//! - Up to 2.4, oslat rounds up: an iteration of 0.3 µs counts as 1 µs, in bucket 1, and `Minimum`
//!   is 1. 2.5 and 2.6 also round up, but the bucket is 2. From 2.7 on, it rounds down: the
//!   iteration counts as 0 µs, in bucket 1, and `Minimum` is 0.
//! - With a `-W` that is not a multiple of 1000, the names and figures have three decimals.

use punctual_model::{CpuSet, Nanos, Policy, Recording, Scheduling, Unknown};

use super::blank::{THREADS, blank, finish, learn, thread};
use super::counted::Counted;
use super::head::shown;
use super::text::count;
use super::{Head, Import, ImportError, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "oslat-text",
    summary: "what oslat prints",
    documentation: "\
Each CPU becomes a thread of the recording. A sample is one iteration of the loop, and its \
latency is the duration of the iteration in whole units of the file. oslat up to 2.6 rounds the \
duration up; oslat 2.7 and later round it down. A shell prompt below the figures is skipped.

The last bucket also counts longer iterations: if the maximum shows that there were longer \
iterations, the latency of all samples in this bucket is unknown. The mean is calculated from the \
buckets, because oslat prints the mean of their upper limits.

The file does not record the time of the measurement, the load, or the machine. If \
--trace-threshold stopped the run, the file has no figures and is refused.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

fn recognise(head: &Head<'_>) -> bool {
    head.lines().any(|line| line.trim().starts_with("oslat V "))
}

/// State while the file is being read. Values are in the order of the CPUs.
#[derive(Default)]
struct Text {
    scheduling: Option<Scheduling>,
    duration: Option<Nanos>,
    cpus: Vec<u32>,
    /// Upper end of each bucket in ns, and the number of its iterations.
    buckets: Vec<(u64, Vec<u64>)>,
    /// Whether figures have decimals.
    fine: bool,
    min: Vec<u64>,
    max: Vec<u64>,
    spun: bool,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    source.whole_text(Text::line, Text::recording)
}

/// Parses a time in µs, which is a whole number or has three decimals, and returns it in ns.
fn time(text: &str) -> Result<u64, Malformed> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "000"));
    let ns = |text: &str| count(text).map_err(|_| Malformed::NotATime(shown(text.as_bytes())));
    let whole = ns(whole)?.checked_mul(1_000);
    match (whole, part.len()) {
        (Some(whole), 3) => Ok(whole.saturating_add(ns(part)?)),
        (None, _) => Err(Malformed::TimeTooLong(shown(text.as_bytes()))),
        _ => Err(Malformed::NoDecimals(shown(text.as_bytes()))),
    }
}

impl Text {
    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        if line.contains("Trace threshold") && line.contains("triggered") {
            return Err(Malformed::StoppedAtThreshold);
        }
        let Some((name, values)) = line.split_once(':') else {
            // This is `...`, the version, or a progress message of oslat.
            return Ok(());
        };
        let (name, values) = (name.trim(), values.trim());
        let bare = |unit: &str| values.split(unit).next().unwrap_or_default().trim();
        match name {
            "Core" if self.cpus.is_empty() => self.cpus = cpus(values)?,
            "Core" => return Err(Malformed::SecondSummary),
            "Thread priority" => self.scheduling = scheduling(values),
            "Total runtime" => {
                let seconds = count(bare("seconds"))?;
                self.duration = seconds.checked_mul(1_000_000_000).map(Nanos);
            }
            "Minimum" => self.min = self.times(bare("(us)"))?,
            "Maximum" => self.max = self.times(bare("(us)"))?,
            "Duration" => self.spun = true,
            _ => {
                let Some(upper) = name.strip_suffix("(us)").map(str::trim) else {
                    return Ok(());
                };
                let turns = bare("(").split_whitespace().map(count).collect();
                self.bucket(upper, turns)?;
            }
        }
        Ok(())
    }

    /// Parses a time for each CPU.
    fn times(&self, values: &str) -> Result<Vec<u64>, Malformed> {
        let times: Vec<u64> = values
            .split_whitespace()
            .map(time)
            .collect::<Result<_, _>>()?;
        self.fits(times)
    }

    /// Checks that there is a value for each CPU.
    fn fits(&self, values: Vec<u64>) -> Result<Vec<u64>, Malformed> {
        if values.len() == self.cpus.len() {
            Ok(values)
        } else {
            Err(Malformed::Values {
                values: values.len(),
                cpus: self.cpus.len(),
            })
        }
    }

    fn bucket(&mut self, upper: &str, turns: Result<Vec<u64>, Malformed>) -> Result<(), Malformed> {
        self.fine |= upper.contains('.');
        let upper = time(upper)?;
        if self
            .buckets
            .last()
            .is_some_and(|(before, _)| *before >= upper)
        {
            return Err(Malformed::BucketNotAbove);
        }
        if self.buckets.len() == MOST_BUCKETS {
            return Err(Malformed::TooMany {
                most: MOST_BUCKETS,
                what: "buckets",
            });
        }
        let turns = self.fits(turns?)?;
        self.buckets.push((upper, turns));
        Ok(())
    }

    fn recording(mut self, source: &Source<'_>) -> Result<Recording, Malformed> {
        if !self.spun || self.max.is_empty() || self.min.is_empty() {
            return Err(Malformed::MissingDuration);
        }
        let mut recording = blank(source, IMPORT.name, "oslat", "hardware");
        if let Some(duration) = self.duration {
            recording.duration_ns = duration;
            learn(&mut recording, &[Unknown::Duration]);
        }
        let cpus = std::mem::take(&mut self.cpus);
        for (place, cpu) in cpus.iter().enumerate() {
            let counted = self.counted(place);
            let histogram = counted
                .histogram()
                .map_err(|why| why.within(format!("CPU {cpu}")))?;
            let mut thread = thread(place, Some(*cpu), histogram);
            thread.scheduling = self.scheduling.unwrap_or(thread.scheduling);
            recording.threads.push(thread);
        }
        Ok(finish(recording))
    }

    /// Returns the figures of one CPU.
    fn counted(&self, place: usize) -> Counted {
        let (min, max) = (self.min[place], self.max[place]);
        let unit = if self.fine { 1 } else { 1_000 };
        let filled: Vec<(u64, u64)> = (self.buckets.iter())
            .map(|(upper, turns)| (*upper, turns[place]))
            .filter(|(_, turns)| *turns > 0)
            .collect();
        // If the figures are rounded down, they are below the upper ends after which their buckets
        // are named.
        let uppers = self.buckets.iter().map(|(upper, _)| *upper);
        let width = uppers.clone().zip(uppers.skip(1)).map(|(a, b)| b - a).min();
        let width = width.unwrap_or(unit);
        let down = filled.first().is_some_and(|(upper, _)| *upper > min);
        let value = |upper: u64| {
            if down {
                upper.saturating_sub(width)
            } else {
                upper
            }
        };
        let last = self.buckets.last().map_or(0, |(upper, _)| value(*upper));
        let mut counted = Counted {
            unit: Nanos(unit),
            row: Nanos(width),
            min: Some(Nanos(min)),
            max: Some(Nanos(max)),
            ..Counted::default()
        };
        for (upper, turns) in filled {
            let lower = value(upper);
            if lower == last && max >= last.saturating_add(width) {
                (counted.beyond, counted.from) = (turns, Nanos(lower))
            } else {
                counted.add(Nanos(lower), turns)
            }
        }
        counted
    }
}

/// Maximum number of buckets that are read. It is above oslat's own limit of 1024.
const MOST_BUCKETS: usize = 65_536;

/// Parses ` 0 1 5`.
fn cpus(values: &str) -> Result<Vec<u32>, Malformed> {
    let cpu = |text: &str| match count(text)? {
        cpu if cpu <= CpuSet::MAX_CPU.into() => Ok(cpu as u32),
        cpu => Err(Malformed::NotACpu(cpu)),
    };
    let cpus: Vec<u32> = values
        .split_whitespace()
        .map(cpu)
        .collect::<Result<_, _>>()?;
    let mut once = cpus.clone();
    once.sort_unstable();
    once.dedup();
    if !cpus.is_empty() && cpus.len() <= THREADS && once.len() == cpus.len() {
        Ok(cpus)
    } else {
        Err(Malformed::CoreLine)
    }
}

/// Parses `default` or `SCHED_FIFO:10`.
fn scheduling(text: &str) -> Option<Scheduling> {
    let (policy, priority) = match text.split_once(':') {
        None if text == "default" => (Policy::Other, 0),
        Some(("SCHED_FIFO", priority)) => (Policy::Fifo, priority.trim().parse().ok()?),
        _ => return None,
    };
    (priority < 100).then_some(Scheduling { policy, priority })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read_text, refused};
    use super::*;

    const NEW: &str = include_str!("../../tests/fixtures/oslat-2.10.txt");
    const OLD: &str = include_str!("../../tests/fixtures/oslat-2.4.txt");

    #[test]
    fn each_cpu_is_a_thread() {
        let recording = read_text(&IMPORT, NEW).unwrap();
        let [thread] = &recording.threads[..] else {
            panic!()
        };
        let histogram = &thread.histogram;
        assert_eq!((thread.cpu, histogram.count()), (Some(0), 31_068_408));
        assert_eq!(thread.scheduling.policy, Policy::Other);
        assert_eq!(histogram.min(), Some(Nanos::ZERO));
        assert_eq!(histogram.max(), Some(Nanos::from_micros(176)));
        // One iteration of 30 µs, and 15 of 31 µs or more.
        assert_eq!(histogram.unplaced(), 15);
        assert_eq!(histogram.unplaced_from(), Some(Nanos::from_micros(31)));
        assert_eq!(histogram.quantile(0.5), Some(Nanos::ZERO));
        assert_eq!(recording.duration_ns, Nanos::from_secs(1));
        assert!(recording.knows(Unknown::Duration) && recording.knows(Unknown::Cpus));
    }

    #[test]
    fn the_older_version_rounds_up() {
        let recording = read_text(&IMPORT, OLD).unwrap();
        let cpus: Vec<_> = recording.threads.iter().map(|thread| thread.cpu).collect();
        assert_eq!(cpus, [Some(0), Some(1)]);
        assert_eq!(recording.threads[0].scheduling.to_string(), "fifo 10");
        let histogram = &recording.threads[0].histogram;
        assert_eq!(histogram.min(), Some(Nanos::from_micros(1)));
        assert_eq!(histogram.quantile(0.5), Some(Nanos::from_micros(1)));
    }

    /// Output of oslat 2.6, captured from a console together with the prompt that followed.
    #[test]
    fn buckets_one_above_their_turns_are_read() {
        const NEXT: &str = include_str!("../../tests/fixtures/oslat-2.6.txt");
        let recording = read_text(&IMPORT, NEXT).unwrap();
        let [first, second] = &recording.threads[..] else {
            panic!("{} threads", recording.threads.len());
        };
        assert_eq!((first.cpu, second.cpu), (Some(1), Some(2)));
        let histogram = &first.histogram;
        assert_eq!(histogram.min(), Some(Nanos::from_micros(1)));
        assert_eq!(histogram.max(), Some(Nanos::from_micros(7)));
        assert_eq!(histogram.quantile(0.5), Some(Nanos::from_micros(1)));
        assert_eq!(
            second.histogram.unplaced_from(),
            Some(Nanos::from_micros(7))
        );
        assert_eq!(second.histogram.max(), Some(Nanos::from_micros(56)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = |from: &str, to: &str| {
            assert!(NEW.contains(from), "{from}");
            refused(&IMPORT, NEW.replacen(from, to, 1).as_bytes())
        };
        for (from, to, reason) in [
            ("    003 (us)", "    001 (us)", "is not greater"),
            ("(us):\t 9\n", "(us):\t 9 9\n", "2 values for 1 CPUs"),
            ("(us):\t 9\n", "(us):\t x\n", "'x' is not a count"),
            ("Core:\t 0", "Core:\t 0 0", "a CPU twice"),
            ("Core:\t 0", "Core:\t 99999", "not a CPU"),
            ("Maximum:\t 176", "Maximum:\t 3", "maximum"),
            ("Minimum:\t 0", "Minimum:\t 500", "minimum"),
            ("    Duration:", "    Dura:", "truncated"),
        ] {
            let said = with(from, to);
            assert!(said.contains(reason), "{from}: {said}");
        }
        let broke = "oslat V 2.40\noslat: Trace threshold (5 us) triggered on cpu 0 with 9 us!\n";
        assert!(refused(&IMPORT, broke.as_bytes()).contains("trace threshold"));
    }
}
