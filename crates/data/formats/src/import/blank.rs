//! A recording before a reader fills it in: every value is unknown.

use std::collections::BTreeMap;

use punctual_model::{
    Accounting, Chart, Completion, Fact, Histogram, HostFacts, Nanos, Origin, ProbeRun, Recording,
    Requirement, Scheduling, ThreadRecord, Unknown,
};

use super::Source;

/// The figures of most tools: whole microseconds.
pub(crate) const MICROSECOND: Nanos = Nanos(1_000);

/// The most threads that are read: more than any of these tools starts, and
/// with 73 KB for the histogram of each no danger to the memory.
pub(crate) const THREADS: usize = 2_048;

/// A recording with a known origin; every other value is unknown. `format` is
/// the import's name, `tool` the program that measured, `probe` what that is
/// called here (`timer` for cyclictest). Readers fill in what their source
/// contains, and remove it from [`Origin::unknown`] with [`learn`].
pub(crate) fn blank(source: &Source<'_>, format: &str, tool: &str, probe: &str) -> Recording {
    let probe = ProbeRun {
        name: probe.to_owned(),
        chart: Chart::Latency,
        alike: true,
        parameters: BTreeMap::new(),
        program: tool.to_owned(),
        command_line: Vec::new(),
    };
    let host = HostFacts::unknown(
        source.name(),
        &format!("the file ({format}) does not contain it"),
    );
    Recording {
        origin: Some(Origin {
            format: format.to_owned(),
            tool: tool.to_owned(),
            file: source.name().to_owned(),
            // Without samples no times of samples can be unknown.
            unknown: (Unknown::ALL.iter().map(|(unknown, _)| *unknown))
                .filter(|unknown| *unknown != Unknown::Times)
                .collect(),
        }),
        completion: Completion::Finished,
        ..Recording::new(probe, host, Requirement::default(), Vec::new())
    }
}

/// Adds values that the source does not contain.
pub(crate) fn forget(recording: &mut Recording, unknown: &[Unknown]) {
    if let Some(origin) = &mut recording.origin {
        origin.unknown.extend(unknown);
    }
}

/// Removes values that the source contains.
pub(crate) fn learn(recording: &mut Recording, known: &[Unknown]) {
    if let Some(origin) = &mut recording.origin {
        known.iter().for_each(|what| {
            origin.unknown.remove(what);
        });
    }
}

/// A fact from the file.
pub(crate) fn fact_of<T>(source: &Source<'_>, value: T) -> Fact<T> {
    Fact::known(value, source.name())
}

/// A thread with its histogram only; its sample accounting is the number
/// recorded. Without a CPU it is called `thread N`, since it is not known that
/// it could move.
pub(crate) fn thread(place: usize, cpu: Option<u32>, histogram: Histogram) -> ThreadRecord {
    let recorded = histogram.recorded();
    ThreadRecord {
        label: cpu.is_none().then(|| format!("thread {place}")),
        accounting: Accounting {
            expected: recorded,
            recorded,
            early: histogram.early(),
            overflow: histogram.overflow(),
            ..Accounting::default()
        },
        histogram,
        ..ThreadRecord::new(cpu, Scheduling::UNKNOWN)
    }
}

/// Completes a recording: the verdict fits the threads, and what is known of all of them
/// is taken from [`Origin::unknown`].
pub(crate) fn finish(mut recording: Recording) -> Recording {
    recording.verdict = recording.judge();
    let all = |known: fn(&ThreadRecord) -> bool| {
        !recording.threads.is_empty() && recording.threads.iter().all(known)
    };
    let mut known = Vec::new();
    if all(|thread| thread.scheduling != Scheduling::UNKNOWN) {
        known.push(Unknown::Scheduling);
    }
    if all(|thread| thread.cpu.is_some()) {
        known.push(Unknown::Cpus);
    }
    learn(&mut recording, &known);
    recording
}
