//! `rt-tests-json`: the `--json` output of the tools of rt-tests.
//!
//! A file has a common head (`rt_write_json` in rt-tests' `src/lib/rt-utils.c`). The figures of
//! each tool are below `thread`: cyclictest, signaltest and cyclicdeadline write `cycles`, `min`,
//! `max`, `avg` and optionally a `histogram`; pmqtest, ptsematest, svsematest and sigwaittest write
//! a `sender` and a `receiver`; oslat writes a `histogram` whose last row also contains everything
//! longer.

use punctual_model::{
    CpuSet, Histogram, Nanos, Policy, Recording, Scheduling, ThreadRecord, Unknown,
};

use super::blank::{MICROSECOND, THREADS, finish, learn, thread};
use super::object::{Object, parse};
use super::rt_tests_head::{additions, head};
use super::{Head, Import, ImportError, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "rt-tests-json",
    summary: "--json output of rt-tests: cyclictest, signaltest, oslat, pmqtest and similar tools",
    documentation: "\
Reads file version 1, which rt-tests 2.4 to 2.10 write and punctual exports as cyclictest-json.

cyclictest does not report the number of overflows. Therefore, cycles that are in no row of the \
histogram are recorded as samples of unknown latency above the last row. If the file has no \
histogram, the latency of all samples is unknown. Minimum, maximum and mean are read from the \
file. oslat counts longer samples in its last row. If its maximum shows that there were longer \
samples, the latency of all samples in that row is unknown, too.

The file does not record missed periods, the load, or interference. cyclictest's file does not \
record the policy and priority either. signaltest before 2.10 writes the first thread's CPU for \
all of its threads. pmqtest and similar tools write the samples below the sender; punctual \
assigns them to the receiver.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

fn recognise(head: &Head<'_>) -> bool {
    head.is_json_with(&["file_version", "rt_test_version:"])
}

/// The kind of figures that a file contains for each thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Figures of cyclictest and similar tools.
    Cycles,
    /// Figures of oslat.
    Oslat,
    /// A sender and a receiver.
    Pair,
}

/// The tools: the name, the equivalent probe of punctual, and the content of the threads.
const TOOLS: &[(&str, &str, Kind)] = &[
    ("cyclictest", "timer", Kind::Cycles),
    ("signaltest", "signal", Kind::Cycles),
    ("cyclicdeadline", "deadline", Kind::Cycles),
    ("oslat", "hardware", Kind::Oslat),
    ("pmqtest", "wakeup", Kind::Pair),
    ("ptsematest", "wakeup", Kind::Pair),
    ("svsematest", "wakeup", Kind::Pair),
    ("sigwaittest", "signal", Kind::Pair),
];

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let map = parse(source)?;
    let file = Object::root(source, &map);
    match file.count("file_version")? {
        1 => {}
        other => {
            let reason = format!("is {other}, but only version 1 can be read");
            return Err(file.bad("file_version", &reason));
        }
    }
    let all = file.object("thread")?;
    let numbers = all.numbers()?;
    let said = file.maybe_count("num_threads")?;
    if said.is_some_and(|said| said != numbers.len() as u64) {
        let reason = format!("differs from the {} threads in the file", numbers.len());
        return Err(file.bad("num_threads", &reason));
    }
    if numbers.is_empty() || numbers.len() > THREADS {
        return Err(file.bad("thread", "has no threads or too many"));
    }
    let (tool, probe, kind) = tool(&file, &all.object(numbers[0].1)?)?;
    let mut recording = head(source, &file, IMPORT.name, tool, probe)?;
    // The value of this key is not a resolution, but the value of the tools' switch for
    // nanoseconds: 1 means that the figures are in ns.
    let unit = match file.maybe_count("resolution_in_ns")? {
        Some(1) => Nanos(1),
        _ => MICROSECOND,
    };
    let mut cpus_known = true;
    for (place, (_, key)) in numbers.iter().enumerate() {
        let object = all.object(key)?;
        let thread = match kind {
            Kind::Cycles => cycles(&object, place, unit)?,
            Kind::Oslat => oslat(&object, place)?,
            Kind::Pair => pair(&object, place, &mut recording)?,
        };
        cpus_known &= kind != Kind::Cycles || object.has("cpu");
        recording.threads.push(thread);
    }
    if kind == Kind::Cycles {
        // All threads have the same number of rows, which reach at least up to the highest row of
        // any thread.
        let from = |thread: &ThreadRecord| thread.histogram.unplaced_from();
        if let Some(from) = recording.threads.iter().filter_map(from).max() {
            let threads = recording.threads.iter_mut();
            threads.for_each(|thread| thread.histogram.unplaced_begin(from));
        }
    }
    if tool == "signaltest" && recording.threads.len() > 1 {
        cpus_known &= forget_copied_cpus(&mut recording.threads);
    }
    let mut recording = finish(recording);
    if cpus_known {
        learn(&mut recording, &[Unknown::Cpus]);
    }
    additions(&file, &mut recording)?;
    Ok(recording)
}

/// Determines the tool that wrote the file, from its command line if the threads match that tool,
/// and otherwise from the threads alone.
fn tool(
    file: &Object<'_, '_>,
    thread: &Object<'_, '_>,
) -> Result<(&'static str, &'static str, Kind), ImportError> {
    let kind = if thread.has("receiver") {
        Kind::Pair
    } else if thread.has("freq") {
        Kind::Oslat
    } else if thread.has("cycles") {
        Kind::Cycles
    } else {
        return Err(thread.bad(
            "cycles",
            "is missing, and no key of another rt-tests tool is \
            present",
        ));
    };
    let line = file.maybe_text("cmdline:")?.unwrap_or_default();
    let mut words = line.split_whitespace().map(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        TOOLS.iter().find(|(known, ..)| *known == name)
    });
    // The tool may be the third word, as in `punctual compat cyclictest`.
    let named = words.by_ref().take(3).flatten().next();
    let usual = TOOLS.iter().find(|(_, _, of)| *of == kind);
    match (named.filter(|(.., of)| *of == kind), usual, kind) {
        (Some(tool), ..) => Ok(*tool),
        (None, _, Kind::Pair) => Ok(("a test of pairs", "wakeup", kind)),
        (None, Some(tool), _) => Ok(*tool),
        (None, None, _) => Err(file.bad("cmdline:", "does not name a known tool")),
    }
}

/// If all threads have the same CPU, forgets the CPUs of all threads but the first, because
/// signaltest up to 2.4 writes the CPU of the first thread for every thread. Returns whether all
/// CPUs are known.
fn forget_copied_cpus(threads: &mut [ThreadRecord]) -> bool {
    let first = threads[0].cpu;
    if threads.iter().any(|thread| thread.cpu != first) {
        return true;
    }
    for (place, thread) in threads.iter_mut().enumerate().skip(1) {
        thread.cpu = None;
        thread.label = Some(format!("thread {place}"));
    }
    false
}

/// Parses a CPU; -1 means none.
fn cpu(object: &Object<'_, '_>) -> Result<Option<u32>, ImportError> {
    match object.maybe_integer("cpu")? {
        None | Some(-1) => Ok(None),
        Some(cpu) => match u32::try_from(cpu) {
            Ok(cpu) if cpu <= CpuSet::MAX_CPU => Ok(Some(cpu)),
            _ => Err(object.bad("cpu", &format!("is {cpu}, not a CPU"))),
        },
    }
}

/// Reads the rows under `histogram` into `histogram`. Returns the highest row with samples.
fn rows(
    object: &Object<'_, '_>,
    unit: Nanos,
    histogram: &mut Histogram,
) -> Result<Option<(Nanos, u64)>, ImportError> {
    let Some(rows) = object.maybe_object("histogram")? else {
        return Ok(None);
    };
    let mut last = None;
    let mut total = 0u64;
    for (row, key) in rows.numbers()? {
        let count = rows.count(key)?;
        let lower = row.checked_mul(unit.0).map(Nanos);
        let lower = lower.ok_or_else(|| rows.bad(key, "is out of range"))?;
        total = total
            .checked_add(count)
            .ok_or_else(|| rows.bad(key, "makes the number of samples exceed 64 bits"))?;
        histogram.add_row(lower, count);
        if count > 0 {
            last = Some((lower, count));
        }
    }
    Ok(last)
}

/// Reads `min`, `max` and `avg`, which must not contradict the rows or each other.
fn figures(
    object: &Object<'_, '_>,
    unit: Nanos,
    histogram: &mut Histogram,
) -> Result<(), ImportError> {
    let (min, max) = (object.time("min", unit)?, object.time("max", unit)?);
    if histogram.count() == 0 {
        return Ok(());
    }
    if min > max {
        return Err(object.bad("min", "is larger than 'max'"));
    }
    if histogram.max().is_some_and(|row| row > max) {
        return Err(object.bad("max", "is smaller than a filled row of the histogram"));
    }
    let sum = match object.maybe_number("avg")? {
        None => None,
        Some(mean) => {
            let ns = (mean * unit.0 as f64).round();
            // This is computed in 128 bits. A value that does not fit is not a valid mean.
            let sum = (ns as u128).checked_mul(u128::from(histogram.count()));
            let sum = sum.and_then(|sum| u64::try_from(sum).ok());
            let bad = || object.bad("avg", &format!("is {mean}, out of range"));
            Some(Nanos(sum.ok_or_else(bad)?))
        }
    };
    histogram.set_figures(Some(min), Some(max), sum);
    Ok(())
}

/// Reads a thread of cyclictest, signaltest or cyclicdeadline.
fn cycles(object: &Object<'_, '_>, place: usize, unit: Nanos) -> Result<ThreadRecord, ImportError> {
    let mut histogram = Histogram::imported(unit, unit);
    let last = rows(object, unit, &mut histogram)?;
    let cycles = object.count("cycles")?;
    let beyond = cycles.checked_sub(histogram.count()).ok_or_else(|| {
        let reason = format!(
            "is {cycles}, which is less than the {} samples in the histogram",
            histogram.count()
        );
        object.bad("cycles", &reason)
    })?;
    histogram.add_unplaced(beyond, last.map_or(Nanos::ZERO, |(row, _)| row + unit));
    figures(object, unit, &mut histogram)?;
    Ok(thread(place, cpu(object)?, histogram))
}

/// Reads a thread of oslat. Its row N contains iterations of N - 1 to N µs, and its last row also
/// longer ones.
fn oslat(object: &Object<'_, '_>, place: usize) -> Result<ThreadRecord, ImportError> {
    let mut histogram = Histogram::imported(MICROSECOND, MICROSECOND);
    let last = rows(object, MICROSECOND, &mut histogram)?;
    if let Some((row, count)) = last
        && object.time("max", MICROSECOND)? > row
    {
        histogram.unplace_row(row, count);
    }
    figures(object, MICROSECOND, &mut histogram)?;
    Ok(thread(place, cpu(object)?, histogram))
}

/// Reads a sender with its receiver. The receiver is the one that measures.
fn pair(
    object: &Object<'_, '_>,
    place: usize,
    recording: &mut Recording,
) -> Result<ThreadRecord, ImportError> {
    let (sender, receiver) = (object.object("sender")?, object.object("receiver")?);
    let mut histogram = Histogram::imported(MICROSECOND, MICROSECOND);
    histogram.add_unplaced(sender.count("samples")?, Nanos::ZERO);
    figures(&receiver, MICROSECOND, &mut histogram)?;
    if place == 0 && sender.has("interval") {
        let interval = sender.time("interval", MICROSECOND)?;
        let parameters = &mut recording.probe.parameters;
        parameters.insert("interval_ns".to_owned(), interval.0.into());
    }
    match receiver.maybe_count("timeoutcount")? {
        None | Some(0) => {}
        Some(timeouts) => recording.warnings.push(format!(
            "receiver {place} timed out {timeouts} times (timeoutcount)"
        )),
    }
    let priority = receiver.maybe_count("priority")?.unwrap_or(0);
    let priority = u8::try_from(priority)
        .ok()
        .filter(|priority| *priority < 100)
        .ok_or_else(|| receiver.bad("priority", "is not a priority (0 to 99)"))?;
    Ok(ThreadRecord {
        from_cpu: cpu(&sender)?,
        // All of these tools run their threads as SCHED_FIFO, or as normal threads at priority 0.
        scheduling: Scheduling {
            policy: match priority {
                0 => Policy::Other,
                _ => Policy::Fifo,
            },
            priority,
        },
        ..thread(place, cpu(&receiver)?, histogram)
    })
}
