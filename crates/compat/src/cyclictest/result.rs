//! What cyclictest prints and writes when the run is over.

use std::collections::BTreeMap;
use std::io;

use punctual_formats::{HistogramColumn, HistogramText, JsonThreads, mean_us};
use punctual_model::{Recording, ThreadRecord};
use punctual_session::Outcome;
use serde::Serialize;

use super::Files;
use super::settings::{Affinity, Settings};
use super::view::{Samples, Seen};
use crate::lines::{NO_MINIMUM, ThreadLine, Unit};
use crate::{CompatError, Stage, json};

/// All of it, in the original's order. Says the exit status.
pub(super) fn write(
    settings: &Settings,
    outcome: &Outcome,
    seen: Seen,
    files: Files,
    stage: &mut Stage<'_>,
) -> Result<u8, CompatError> {
    let recording = &outcome.recording;
    let status = stage.status(outcome.broke.is_some());
    if settings.json.is_some() {
        let body = body(settings, recording, stage);
        let bytes = json::file(stage, &recording.host, status, &body)?;
        match files.json {
            Some(file) => file.put(&bytes)?,
            None => stage.out.write_all(&bytes)?,
        }
    }
    let Seen {
        mut lines,
        samples,
        dropped,
    } = seen;
    lines.iter_mut().for_each(|line| line.settle(recording));
    if settings.quiet && settings.histogram == 0 {
        for line in &lines {
            writeln!(stage.out, "{line}")?;
        }
    }
    if settings.spike > 0 {
        write_spikes(&samples, stage)?;
    }
    if settings.histogram > 0 {
        let mut text = histogram(settings, recording, &samples, dropped, stage);
        text.smis = lines.iter().filter_map(|line| line.smis).collect();
        let mut bytes = Vec::new();
        text.write(&mut bytes)?;
        match files.histogram {
            Some(file) => file.put(&bytes)?,
            None => stage.out.write_all(&bytes)?,
        }
    }
    if settings.break_limit > 0 {
        write_break(settings, outcome, &lines, stage)?;
    }
    if dropped > 0 && (settings.spike > 0 || settings.verbose) {
        stage.note(&format!(
            "{dropped} values are counted but did not come by in time to be listed"
        ));
    }
    stage.tell_of(outcome);
    Ok(status)
}

fn write_spikes(samples: &Samples, stage: &mut Stage<'_>) -> io::Result<()> {
    if samples.spikes.is_empty() {
        return Ok(());
    }
    writeln!(stage.out)?;
    for (thread, value, time_us) in &samples.spikes {
        writeln!(stage.out, "T:{thread:2} Spike:{value:8}: TS: {time_us:12}")?;
    }
    writeln!(stage.out, "spikes = {}\n", samples.spike_count)
}

fn histogram(
    settings: &Settings,
    recording: &Recording,
    samples: &Samples,
    dropped: u64,
    stage: &Stage<'_>,
) -> HistogramText {
    let (unit, limit) = (settings.unit, settings.histogram);
    let columns = recording.threads.iter().zip(&samples.overflows);
    HistogramText {
        limit,
        columns: columns
            .map(|(thread, cycles)| {
                let mut column = HistogramColumn::of(thread, unit.one(), limit);
                if thread.histogram.count() == 0 {
                    column.min = NO_MINIMUM;
                }
                // One value that did not come by shifts the numbers after it.
                if dropped == 0 {
                    column.overflow_cycles = cycles.clone();
                }
                column
            })
            .collect(),
        sparse_rows: stage.behaviour.sparse_histogram,
        sum: settings.histogram_sum,
        smis: Vec::new(),
    }
}

fn write_break(
    settings: &Settings,
    outcome: &Outcome,
    lines: &[ThreadLine],
    stage: &mut Stage<'_>,
) -> io::Result<()> {
    write!(stage.out, "# Thread Ids:")?;
    for line in lines {
        write!(stage.out, " {:05}", line.tid)?;
    }
    writeln!(stage.out)?;
    let Some(broke) = outcome.broke else {
        return Ok(());
    };
    let (thread, value) = (broke.thread.as_raw(), settings.unit.of(broke.latency));
    writeln!(stage.out, "# Break thread: {thread}")?;
    writeln!(stage.out, "# Break value: {value}")?;
    let unit = match settings.unit {
        Unit::Micros => "us",
        Unit::Nanos => "ns",
    };
    let hint = match stage.behaviour.strict {
        true => "exit status 3",
        false => "with PUNCTUAL_STRICT=1 the exit status is 3",
    };
    let limit = settings.break_limit;
    stage.note(&format!(
        "stopped at a break: {value} {unit} is above {limit} {unit} ({hint})"
    ));
    Ok(())
}

#[derive(Serialize)]
struct Thread {
    /// Only with `-h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<BTreeMap<u64, u64>>,
    /// As in an export: the samples that the others are about, no early ones.
    cycles: u64,
    min: u64,
    max: u64,
    avg: f64,
    cpu: i64,
    node: i64,
}

/// The JSON file after its head.
pub(super) fn body<'a>(
    settings: &Settings,
    recording: &'a Recording,
    stage: &Stage<'_>,
) -> JsonThreads<'a, impl Serialize + use<>> {
    let micros = settings.unit == Unit::Micros && settings.histogram > 0;
    let threads = recording.threads.iter().enumerate();
    JsonThreads::new(
        threads.map(|(place, thread)| Thread::of(settings, thread, place, stage)),
        stage.additions(recording, micros.then_some(settings.histogram)),
    )
    .in_nanos(settings.unit == Unit::Nanos)
}

impl Thread {
    fn of(settings: &Settings, thread: &ThreadRecord, place: usize, stage: &Stage<'_>) -> Self {
        let unit = settings.unit;
        let histogram = &thread.histogram;
        let column = HistogramColumn::of(thread, unit.one(), settings.histogram);
        Self {
            histogram: (settings.histogram > 0).then_some(column.rows),
            cycles: histogram.count(),
            min: histogram.min().map_or(NO_MINIMUM, |min| unit.whole(min)),
            max: column.max,
            avg: match (unit, histogram.count()) {
                (_, 0) => 0.0,
                (Unit::Micros, _) => mean_us(histogram),
                (Unit::Nanos, count) => histogram.sum().0 as f64 / count as f64,
            },
            cpu: thread.cpu.map_or(-1, i64::from),
            node: node(settings, thread, place, stage),
        }
    }
}

/// The memory node: with `-S` none, else that of the thread's CPU, or of the CPU
/// that it would have with `-a`.
fn node(settings: &Settings, thread: &ThreadRecord, place: usize, stage: &Stage<'_>) -> i64 {
    if settings.affinity == Affinity::Smp {
        return -1;
    }
    let in_turn = || {
        let allowed = stage.host.allowed().ok()?;
        allowed.iter().nth(place.checked_rem(allowed.len())?)
    };
    let cpu = thread.cpu.or_else(in_turn);
    let node = cpu.and_then(|cpu| stage.host.node_of(cpu));
    node.map_or(-1, i64::from)
}
