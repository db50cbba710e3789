//! A recording with all values unknown, for a reader to fill in.

use std::collections::BTreeMap;

use punctual_model::{
    Accounting, Chart, Completion, Fact, Histogram, HostFacts, Nanos, Origin, ProbeRun, Recording,
    Requirement, Scheduling, ThreadRecord, Unknown,
};

use super::Source;

/// The unit that most tools use: whole microseconds.
pub(crate) const MICROSECOND: Nanos = Nanos(1_000);
pub(crate) const MILLISECOND: Nanos = Nanos(1_000_000);

/// Maximum number of threads that are read. None of these tools starts more threads, and with 73 KB
/// per histogram, this many fit into memory.
pub(crate) const THREADS: usize = 2_048;

/// Returns a recording with a known origin and all other values unknown. `format` is the name of
/// the import, `tool` is the program that measured, and `probe` is our name for that measurement
/// (`timer` for cyclictest). Readers fill in the values that their source contains, and remove them
/// from [`Origin::unknown`] with [`learn`].
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
        &format!("the imported file ({format}) does not contain this value"),
    );
    Recording {
        origin: Some(Origin {
            format: format.to_owned(),
            tool: tool.to_owned(),
            file: source.name().to_owned(),
            // Without samples, no sample times can be unknown.
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

/// Creates a fact from the file.
pub(crate) fn fact_of<T>(source: &Source<'_>, value: T) -> Fact<T> {
    Fact::known(value, source.name())
}

/// Creates a thread with only a histogram. Its sample accounting contains the number of recorded
/// samples. Without a CPU, the thread is labelled `thread N`, because it may have been pinned.
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

/// Completes a recording: computes the verdict from the threads, and removes the values that are
/// known for all threads from [`Origin::unknown`].
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
