//! `jitterdebugger-json`: jitterdebugger's `results.json`.
//!
//! This is based on jitterdebugger's `jitterdebugger.c` (`dump_stats`, `worker`, `start_measuring`)
//! and on its output. Its histogram has a row for each unit up to 1 ms, and silently drops samples
//! beyond that; `count`, `min`, `max` and `avg` (two decimals) cover all samples. The keys below
//! `cpu` are thread numbers. They are CPU numbers only if there is a thread for each CPU.

use punctual_model::{CpuSet, Nanos, Recording};

use super::blank::{MICROSECOND, blank, fact_of, finish, thread};
use super::counted::Counted;
use super::object::{Object, parse};
use super::{Head, Import, ImportError, Location, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "jitterdebugger-json",
    summary: "jitterdebugger's results.json, versions 1 to 3",
    documentation: "\
Samples that the file counts but lists in no row were later than 1 ms. They are counted, but \
their latency is unknown. Minimum, mean and maximum are read from the file and include these \
samples. jitterdebugger numbers its threads, not their CPUs. Therefore, the number of a thread is \
taken as its CPU only if the machine had as many CPUs online as there are threads (version 3 \
states the number of CPUs).

The file does not record the time, the duration, the interval, the policy and priority, the load, \
or other events.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

/// End of jitterdebugger's rows.
const ROWS_END: Nanos = Nanos(1_000_000);

fn recognise(head: &Head<'_>) -> bool {
    // A recording of punctual also contains these keys, so keys that only punctual writes must be
    // absent.
    head.is_json_with(&["version", "cpu", "histogram", "count"])
        && !["\"thread\"", "\"schema\""]
            .iter()
            .any(|key| head.contains(key))
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let map = parse(source)?;
    let file = Object::root(source, &map);
    let version = file.count("version")?;
    if !(1..=3).contains(&version) {
        let reason = format!("is {version}, but only versions 1 to 3 can be read");
        return Err(file.bad("version", &reason));
    }
    let mut recording = blank(source, IMPORT.name, "jitterdebugger", "timer");
    let (mut unit, mut online) = (MICROSECOND, None);
    if let Some(system) = file.maybe_object("sysinfo")? {
        read_system(&system, source, &mut recording)?;
        unit = match system.maybe_count("resolution_in_ns")? {
            Some(0) => return Err(system.bad("resolution_in_ns", "is 0")),
            Some(ns) => Nanos(ns),
            None => MICROSECOND,
        };
        online = system.maybe_count("cpus_online")?;
    }
    let threads = file.object("cpu")?;
    let numbers = threads.numbers()?;
    if numbers.is_empty() || numbers.len() > CpuSet::MAX_CPU as usize {
        return Err(threads.bad("", "has no threads or too many"));
    }
    let each = online == Some(numbers.len() as u64);
    for (place, (number, key)) in numbers.iter().enumerate() {
        let counted = read_thread(&threads.object(key)?, unit)?;
        let histogram = counted
            .histogram()
            .map_err(|why| source.bad_at(Location::Whole, why.within(format!("thread {key}"))))?;
        let cpu = u32::try_from(*number).ok().filter(|_| each);
        recording.threads.push(thread(place, cpu, histogram));
    }
    Ok(finish(recording))
}

fn read_system(
    system: &Object<'_, '_>,
    source: &Source<'_>,
    recording: &mut Recording,
) -> Result<(), ImportError> {
    let kernel = &mut recording.host.kernel;
    for (key, fact) in [
        ("nodename", &mut recording.host.hostname),
        ("release", &mut kernel.release),
        ("version", &mut kernel.version),
        ("machine", &mut kernel.architecture),
    ] {
        if let Some(text) = system.maybe_text(key)? {
            *fact = fact_of(source, text.to_owned());
        }
    }
    // The output of `uname -v` contains the preemption model (`scripts/mkcompile_h` of the kernel).
    let version = kernel.version.get().map_or("", String::as_str);
    if version.contains("PREEMPT_RT") || version.contains("PREEMPT RT") {
        kernel.preempt_rt = fact_of(source, true);
    }
    Ok(())
}

fn read_thread(object: &Object<'_, '_>, unit: Nanos) -> Result<Counted, ImportError> {
    let mut counted = Counted {
        unit,
        row: unit,
        ..Counted::default()
    };
    let rows = object.object("histogram")?;
    for (number, key) in rows.numbers()? {
        let lower = number.checked_mul(unit.0).map(Nanos);
        let lower = lower.ok_or_else(|| rows.bad(key, "is out of range"))?;
        counted.add(lower, rows.count(key)?);
    }
    let count = object.count("count")?;
    let in_rows = counted
        .total()
        .map_err(|why| object.bad("histogram", &why.to_string()))?;
    counted.beyond = count.checked_sub(in_rows).ok_or_else(|| {
        let reason = format!("is {count}, but the rows contain {in_rows} samples");
        object.bad("count", &reason)
    })?;
    counted.from = counted.end().max(ROWS_END);
    if count > 0 {
        counted.min = Some(object.time("min", unit)?);
        counted.max = Some(object.time("max", unit)?);
        let mean = object.maybe_number("avg")?;
        counted.mean = mean.map(|mean| mean * unit.0 as f64);
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read_text, refused};
    use super::*;

    const V3: &str = include_str!("../../tests/fixtures/jitterdebugger-results-v3.json");

    #[test]
    fn what_was_dropped_keeps_its_count() {
        let recording = read_text(&IMPORT, V3).unwrap();
        let [first, second] = [0, 1].map(|place| &recording.threads[place].histogram);
        assert_eq!((first.count(), first.unplaced()), (2_962, 0));
        assert_eq!(first.max(), Some(Nanos::from_micros(988)));
        assert_eq!((second.count(), second.unplaced()), (2_931, 3));
        assert_eq!(second.unplaced_from(), Some(Nanos::from_millis(1)));
        assert_eq!(second.max(), Some(Nanos::from_micros(1_198)));
        assert_eq!(second.quantile(0.9999), second.max());
        assert_eq!(second.quantile(0.9995), None);
        assert_eq!(second.mean(), Some(Nanos(15_360)));
        // The sum is computed from the rows if they contain all samples, otherwise from the mean,
        // which has two decimals.
        assert_eq!(first.sum(), Nanos::from_micros(43_449));
        assert_eq!(recording.threads[1].cpu, Some(1));
        let release = recording.host.kernel.release.get().unwrap();
        assert_eq!(release, "6.18.44-fc-v595");
    }

    #[test]
    fn partial_measurement_leaves_thread_cpu_unknown() {
        let four = V3.replace("\"cpus_online\": 2", "\"cpus_online\": 4");
        let recording = read_text(&IMPORT, &four).unwrap();
        assert_eq!(recording.threads[1].cpu, None);
        assert_eq!(recording.threads[1].title(), "thread 1");
    }

    #[test]
    fn nanoseconds_are_read_as_such() {
        let text = r#"{"version": 3, "sysinfo": {"resolution_in_ns": 1}, "cpu": {"0":
            {"histogram": {"900": 1}, "count": 2, "min": 900, "max": 1000500, "avg": 500700.00}}}"#;
        let histogram = read_text(&IMPORT, text)
            .unwrap()
            .threads
            .remove(0)
            .histogram;
        assert_eq!(histogram.min(), Some(Nanos(900)));
        assert_eq!(histogram.unplaced_from(), Some(Nanos(1_000_000)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = |from: &str, to: &str| {
            assert!(V3.contains(from), "{from}");
            refused(&IMPORT, V3.replacen(from, to, 1).as_bytes())
        };
        for (from, to, reason) in [
            ("\"version\": 3", "\"version\": 4", "1 to 3"),
            ("\"988\": 1", "\"988\": 2", "the rows contain 2963"),
            ("\"988\": 1", "\"988\": -1", "cpu.0.histogram.988"),
            ("\"988\": 1", "\"99999999999999999\": 1", "out of range"),
            ("\"max\": 988", "\"max\": 98", "maximum"),
            ("\"avg\": 14.67", "\"avg\": 14670", "mean"),
            ("\"avg\": 14.67", "\"avg\": -nan", ":"),
            ("\"min\": 6", "\"min\": null", "cpu.0.min"),
        ] {
            let error = with(from, to);
            assert!(error.contains(reason), "{from}: {error}");
        }
    }
}
