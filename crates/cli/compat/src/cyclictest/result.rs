//! Output and files of cyclictest at the end of the run.

use std::collections::BTreeMap;
use std::io;

use punctual_formats::{HistogramColumn, HistogramText, JsonThreads, mean_us};
use punctual_model::{Recording, ThreadRecord};
use punctual_session::Outcome;
use serde::Serialize;

use super::Files;
use super::settings::{Affinity, CyclictestSettings};
use super::view::{HeldLine, LiveData, Samples};
use crate::lines::{NO_MINIMUM, ThreadLine, Unit};
use crate::{CompatError, ToolContext, json};

/// Prints and writes all results in the order of the original. Returns the exit status.
pub(super) fn write(
    settings: &CyclictestSettings,
    outcome: &Outcome,
    seen: LiveData,
    files: Files,
    context: &mut ToolContext<'_>,
) -> Result<u8, CompatError> {
    let recording = &outcome.recording;
    let status = context.status(outcome.broke.is_some());
    write_held(settings, outcome, &seen, context)?;
    if settings.common.json.is_some() {
        let body = body(settings, recording, context);
        let bytes = json::file(context, &recording.host, status, &body)?;
        match files.json {
            Some(file) => file.put(&bytes)?,
            None => context.out.write_all(&bytes)?,
        }
    }
    let LiveData {
        mut lines,
        samples,
        dropped,
    } = seen;
    lines.iter_mut().for_each(|line| line.settle(recording));
    if settings.common.quiet && settings.histogram == 0 {
        for line in &lines {
            writeln!(context.out, "{line}")?;
        }
    }
    if settings.spike > 0 {
        write_spikes(&samples, context)?;
    }
    if settings.histogram > 0 {
        let mut text = histogram(settings, recording, &samples, dropped, context);
        text.smis = lines.iter().filter_map(|line| line.smis).collect();
        let mut bytes = Vec::new();
        text.write(&mut bytes)?;
        match files.histogram {
            Some(file) => file.put(&bytes)?,
            None => context.out.write_all(&bytes)?,
        }
    }
    if settings.common.break_value > 0 {
        write_break(settings, outcome, &lines, context)?;
    }
    if dropped > 0 && (settings.spike > 0 || settings.verbose) {
        context.note(&format!(
            "{dropped} values are counted but were dropped from the list"
        ));
    }
    context.report_outcome(outcome);
    Ok(status)
}

/// Prints those values of `-v` that are above the limit, except the value that ended the run.
fn write_held(
    settings: &CyclictestSettings,
    outcome: &Outcome,
    seen: &LiveData,
    context: &mut ToolContext<'_>,
) -> io::Result<()> {
    let is_break = |held: &&HeldLine| {
        outcome.broke.is_some_and(|broke| {
            let tid = seen.lines.get(held.thread).map(|line| line.tid);
            tid == Some(broke.thread.as_raw()) && held.value == settings.unit.convert(broke.latency)
        })
    };
    for held in seen.samples.held.iter().filter(|held| !is_break(held)) {
        writeln!(context.out, "{}", held.text)?;
    }
    Ok(())
}

fn write_spikes(samples: &Samples, context: &mut ToolContext<'_>) -> io::Result<()> {
    if samples.spikes.is_empty() {
        return Ok(());
    }
    writeln!(context.out)?;
    for (thread, value, time_us) in &samples.spikes {
        writeln!(
            context.out,
            "T:{thread:2} Spike:{value:8}: TS: {time_us:12}"
        )?;
    }
    writeln!(context.out, "spikes = {}\n", samples.spike_count)
}

fn histogram(
    settings: &CyclictestSettings,
    recording: &Recording,
    samples: &Samples,
    dropped: u64,
    context: &ToolContext<'_>,
) -> HistogramText {
    let (unit, limit) = (settings.unit, settings.histogram);
    let columns = recording.threads.iter().zip(&samples.overflows);
    HistogramText {
        limit,
        columns: columns
            .map(|(thread, cycles)| {
                let mut column = HistogramColumn::new(thread, unit.one(), limit);
                if thread.histogram.count() == 0 {
                    column.min = NO_MINIMUM;
                }
                // If a value was dropped, the cycle numbers after it are wrong.
                if dropped == 0 {
                    column.overflow_cycles = cycles.clone();
                }
                column
            })
            .collect(),
        sparse_rows: context.behaviour.sparse_histogram,
        sum: settings.histogram_sum,
        smis: Vec::new(),
    }
}

fn write_break(
    settings: &CyclictestSettings,
    outcome: &Outcome,
    lines: &[ThreadLine],
    context: &mut ToolContext<'_>,
) -> io::Result<()> {
    write!(context.out, "# Thread Ids:")?;
    for line in lines {
        write!(context.out, " {:05}", line.tid)?;
    }
    writeln!(context.out)?;
    let Some(broke) = outcome.broke else {
        return Ok(());
    };
    let (thread, value) = (broke.thread.as_raw(), settings.unit.convert(broke.latency));
    writeln!(context.out, "# Break thread: {thread}")?;
    writeln!(context.out, "# Break value: {value}")?;
    let unit = match settings.unit {
        Unit::Micros => "us",
        Unit::Nanos => "ns",
    };
    let hint = if context.behaviour.strict {
        "exit status 3"
    } else {
        "with PUNCTUAL_STRICT=1 the exit status is 3"
    };
    let limit = settings.common.break_value;
    context.note(&format!(
        "stopped at a break: {value} {unit} is above {limit} {unit} ({hint})"
    ));
    Ok(())
}

#[derive(Serialize)]
struct Thread {
    /// Only with `-h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<BTreeMap<u64, u64>>,
    /// As in an export, the number of samples on which the other figures are based. It does not
    /// include early samples.
    cycles: u64,
    min: u64,
    max: u64,
    avg: f64,
    cpu: i64,
    node: i64,
}

/// Returns the part of the JSON file after the head.
pub(super) fn body<'a>(
    settings: &CyclictestSettings,
    recording: &'a Recording,
    context: &ToolContext<'_>,
) -> JsonThreads<'a, impl Serialize + use<>> {
    let micros = settings.unit == Unit::Micros && settings.histogram > 0;
    let threads = recording.threads.iter().enumerate();
    JsonThreads::new(
        threads.map(|(place, thread)| Thread::new(settings, thread, place, context)),
        context.additions(recording, micros.then_some(settings.histogram)),
    )
    .in_nanos(settings.unit == Unit::Nanos)
}

impl Thread {
    fn new(
        settings: &CyclictestSettings,
        thread: &ThreadRecord,
        place: usize,
        context: &ToolContext<'_>,
    ) -> Self {
        let unit = settings.unit;
        let histogram = &thread.histogram;
        let column = HistogramColumn::new(thread, unit.one(), settings.histogram);
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
            node: node(settings, thread, place, context),
        }
    }
}

/// Returns the memory node of a thread: none with `-S`, otherwise the node of the thread's CPU. For
/// a thread without a CPU, this is the CPU that it would have with `-a`.
fn node(
    settings: &CyclictestSettings,
    thread: &ThreadRecord,
    place: usize,
    context: &ToolContext<'_>,
) -> i64 {
    if settings.affinity == Affinity::Smp {
        return -1;
    }
    let in_turn = || {
        let allowed = context.host.allowed().ok()?;
        allowed.iter().nth(place.checked_rem(allowed.len())?)
    };
    let cpu = thread.cpu.or_else(in_turn);
    let node = cpu.and_then(|cpu| context.host.node_of(cpu));
    node.map_or(-1, i64::from)
}
