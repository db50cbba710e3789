//! `osnoise-trace`: the text of the kernel's osnoise tracer, as in `trace` and `trace_pipe`.
//!
//! This is based on `print_osnoise_headers` and `trace_osnoise_print` (5.14 to 6.18). A line is
//! ` <...>-859  [000] ....  81.637220: 1000000   190  99.98100   9   18   0   1007   18   1`: the run
//! time, the noise, the available share in %, the longest noise, and the numbers of interferences.

use std::collections::BTreeMap;

use punctual_model::{Cell, CpuSet, Histogram, Nanos, Recording, Table, Unknown};

use super::blank::{MICROSECOND, THREADS, blank, finish, learn, thread};
use super::text::count;
use super::{Head, Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "osnoise-trace",
    summary: "the trace of the kernel's osnoise tracer, as text",
    documentation: "Each CPU becomes a thread of the recording; a sample is the noise of one \
        period, that is, the time for which the spinning thread did not run. A table shows the \
        longest single noise and the number of interferences of each kind.

Events of single noises in the trace are skipped: punctual explain --trace explains them. The file \
        does not record the time of the measurement, the load, or the machine.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

fn recognise(head: &Head<'_>) -> bool {
    head.lines().any(|line| Summary::parse(&line).is_some())
}

/// The counts at the end of a line, and their titles.
const COUNTS: [(&str, &str); 5] = [
    ("hardware", "hardware"),
    ("nmis", "NMIs"),
    ("irqs", "IRQs"),
    ("softirqs", "softirqs"),
    ("threads", "threads"),
];

/// The summary of one period; times in µs.
struct Summary {
    cpu: u32,
    runtime: u64,
    noise: u64,
    longest: u64,
    counts: [u64; COUNTS.len()],
}

impl Summary {
    /// Parses a line; `None` if it is no summary.
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.split_once('[')?;
        let (cpu, rest) = rest.split_once(']')?;
        let cpu = cpu
            .trim()
            .parse()
            .ok()
            .filter(|cpu| *cpu <= CpuSet::MAX_CPU)?;
        let (_, rest) = rest.split_once(": ")?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [runtime, noise, share, longest, counts @ ..] = words.as_slice() else {
            return None;
        };
        let (whole, part) = share.split_once('.')?;
        count(whole).ok().zip(count(part).ok())?;
        let mut numbers = [0; COUNTS.len()];
        // Kernels without NMI counts do not exist, but later kernels may add columns.
        if counts.len() < numbers.len() {
            return None;
        }
        for (number, word) in numbers.iter_mut().zip(counts) {
            *number = count(word).ok()?;
        }
        Some(Self {
            cpu,
            runtime: count(runtime).ok()?,
            noise: count(noise).ok()?,
            longest: count(longest).ok()?,
            counts: numbers,
        })
    }
}

/// The periods of one CPU.
#[derive(Default)]
struct Cpu {
    noises: BTreeMap<u64, u64>,
    periods: u64,
    runtime: u64,
    noise: u64,
    longest: u64,
    counts: [u64; COUNTS.len()],
}

/// Maximum number of different noises of all CPUs.
const MOST: usize = 1_000_000;

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut cpus: BTreeMap<u32, Cpu> = BTreeMap::new();
    let mut noises = 0;
    source.whole_lines(|line| {
        let Some(of) = Summary::parse(line) else {
            return Ok(());
        };
        let in_order = of.longest <= of.noise && of.noise <= of.runtime;
        if !in_order {
            return Err(Malformed::NoiseNotIncreasing);
        }
        let cpu = cpus.entry(of.cpu).or_default();
        let is_new = !cpu.noises.contains_key(&of.noise);
        noises += usize::from(is_new);
        if noises > MOST || of.runtime > u64::MAX / 1_000 {
            return Err(Malformed::TimeTooLong(of.runtime.to_string()));
        }
        *cpu.noises.entry(of.noise).or_default() += 1;
        cpu.periods += 1;
        cpu.runtime = cpu.runtime.saturating_add(of.runtime);
        cpu.noise = cpu.noise.saturating_add(of.noise);
        cpu.longest = cpu.longest.max(of.longest);
        for (sum, count) in cpu.counts.iter_mut().zip(of.counts) {
            *sum = sum.saturating_add(count);
        }
        Ok(())
    })?;
    if cpus.is_empty() || cpus.len() > THREADS {
        let reason = "there are no summaries of CPUs, or too many";
        return Err(source.bad_at(Location::Whole, reason));
    }
    let mut recording = blank(source, IMPORT.name, "osnoise tracer", "hardware");
    let longest = cpus.values().map(|cpu| cpu.runtime).max().unwrap_or(0);
    recording.duration_ns = Nanos(longest.saturating_mul(1_000));
    learn(&mut recording, &[Unknown::Duration]);
    recording.tables.push(table(&cpus));
    for (place, (number, cpu)) in cpus.iter().enumerate() {
        let mut histogram = Histogram::imported(MICROSECOND, MICROSECOND);
        for (noise, periods) in &cpu.noises {
            histogram.add_row(Nanos(noise * 1_000), *periods);
        }
        recording
            .threads
            .push(thread(place, Some(*number), histogram));
    }
    Ok(finish(recording))
}

fn table(cpus: &BTreeMap<u32, Cpu>) -> Table {
    let mut columns = vec![
        ("cpu", "CPU"),
        ("periods", "periods"),
        ("runtime_ns", "run time"),
        ("noise_ns", "noise"),
        ("longest_ns", "longest single noise"),
    ];
    columns.extend(COUNTS);
    let mut table = Table::new("osnoise", "Noise of each CPU", &columns);
    for (number, cpu) in cpus {
        let time = |us: u64| Cell::from(Nanos(us.saturating_mul(1_000)));
        let mut cells: Vec<Cell> = vec![
            u64::from(*number).into(),
            cpu.periods.into(),
            time(cpu.runtime),
            time(cpu.noise),
            time(cpu.longest),
        ];
        cells.extend(cpu.counts.map(Cell::from));
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read_recognised, refused};
    use super::*;

    const TEXT: &str = include_str!("../../tests/fixtures/osnoise-trace.txt");

    #[test]
    fn noise_of_each_period_is_a_sample() {
        let recording = read_recognised(TEXT.as_bytes()).unwrap();
        let noises: Vec<_> = (recording.threads.iter())
            .map(|thread| (thread.cpu, thread.histogram.max()))
            .collect();
        let us = |us| Some(Nanos::from_micros(us));
        assert_eq!(
            noises,
            [
                (Some(0), us(190)),
                (Some(1), us(656)),
                (Some(2), us(5_675)),
                (Some(3), us(125))
            ]
        );
        assert_eq!(recording.duration_ns, Nanos::from_secs(1));
    }

    #[test]
    fn contradictions_are_named() {
        let text = TEXT.replacen(" 656 ", " 56 ", 1);
        assert!(
            refused(&IMPORT, text.as_bytes()).contains("noise"),
            "{text}"
        );
    }
}
