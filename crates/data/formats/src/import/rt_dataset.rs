//! `rt-dataset`: OSADL's RT Dataset 1.0. The writer,
//! `crate::rt_dataset`, describes the format.

use jiff::Timestamp;
use punctual_model::{CpuSet, Fact, LoadRecord, Nanos, Recording, Unknown};
use serde_json::Value;

use super::blank::{MICROSECOND, blank, fact_of, finish, learn, thread};
use super::counted::Counted;
use super::object::{Object, parse};
use super::rt_tests_head::additions;
use super::{Head, Import, ImportError, Location, SampleSink, Source};
use crate::facts::UNKNOWN;

pub(crate) const IMPORT: Import = Import {
    name: "rt-dataset",
    summary: "OSADL's RT Dataset 1.0 (JSON)",
    documentation: "Each column of latency.cores except the first becomes a thread. The CPU of a \
        thread is read from the list in cyclictest's -a; without that list it is the number of \
        the column, as in plot-rtdataset.py. The maxima are read from the file if it has them.

The file does not record how many samples were beyond the last class, because condition.cycles is \
        the number that was requested, not measured. If a maximum shows that there were such \
        samples, one sample of unknown latency is counted, with a warning. If the file has no \
        maxima, the largest filled class is used as the maximum, also with a warning. \
        timestamps.origin is used as the start, although OSADL's script writes the end of the \
        measurement there.

The file does not record the duration, missed periods, the policy, the priority, or other events. \
        Fields that punctual adds to the files it writes are also read.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

fn recognise(head: &Head<'_>) -> bool {
    head.is_json_with(&["format", "RT Dataset"])
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let map = parse(source)?;
    let file = Object::root(source, &map);
    let format = file.object("format")?;
    for (key, expected) in [("name", "RT Dataset"), ("version", "1.0")] {
        if format.maybe_text(key)? != Some(expected) {
            return Err(format.bad(key, &format!("is not \"{expected}\"")));
        }
    }
    let mut recording = blank(source, IMPORT.name, "cyclictest", "timer");
    if let Some(times) = file.maybe_object("timestamps")?
        && let Some(origin) = times.maybe_text("origin")?.filter(|text| *text != UNKNOWN)
    {
        let time: Result<Timestamp, _> = origin.parse();
        recording.started = time.map_err(|_| times.bad("origin", "is not an ISO 8601 date"))?;
        learn(&mut recording, &[Unknown::Started]);
    }
    read_host(&file, source, &mut recording)?;
    let cpus = read_condition(&file, &mut recording)?;
    let ours = match file.maybe_object("punctual")? {
        Some(ours) => ours.maybe_object("thread")?,
        None => None,
    };
    read_latency(&file.object("latency")?, source, cpus, ours, &mut recording)?;
    additions(&file, &mut recording)?;
    Ok(finish(recording))
}

fn read_host(
    file: &Object<'_, '_>,
    source: &Source<'_>,
    recording: &mut Recording,
) -> Result<(), ImportError> {
    let host = &mut recording.host;
    let facts: [(&str, &str, &mut Fact<String>); 6] = [
        ("system", "hostname", &mut host.hostname),
        ("processor", "family", &mut host.kernel.architecture),
        ("processor", "vendor", &mut host.processor.vendor),
        ("processor", "type", &mut host.processor.model),
        ("kernel", "version", &mut host.kernel.release),
        ("kernel", "cmdline", &mut host.kernel.command_line),
    ];
    for (object, key, fact) in facts {
        if let Some(object) = file.maybe_object(object)?
            // The value that punctual writes for an unknown fact.
            && let Some(text) = object.maybe_text(key)?.filter(|text| *text != UNKNOWN)
        {
            *fact = fact_of(source, text.to_owned());
        }
    }
    let Some(kernel) = file.maybe_object("kernel")? else {
        return Ok(());
    };
    let config = kernel.get("config").and_then(Value::as_array);
    let lines: Vec<&str> = (config.into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    if !lines.is_empty() {
        let real_time = lines.iter().any(|line| {
            // `CONFIG_PREEMPT_RT_FULL` is the name in older patches.
            ["CONFIG_PREEMPT_RT=y", "CONFIG_PREEMPT_RT_FULL=y"].contains(line)
        });
        host.kernel.preempt_rt = fact_of(source, real_time);
    }
    let mut hz = lines
        .iter()
        .filter_map(|line| line.strip_prefix("CONFIG_HZ="));
    if let Some(hz) = hz.next().and_then(|hz| hz.parse().ok()) {
        host.kernel.hz = fact_of(source, hz);
    }
    Ok(())
}

/// Reads the load, the interval and the command line, and the CPUs named in the command line.
fn read_condition(
    file: &Object<'_, '_>,
    recording: &mut Recording,
) -> Result<Option<CpuSet>, ImportError> {
    let Some(condition) = file.maybe_object("condition")? else {
        return Ok(None);
    };
    if let Some(load) = condition
        .maybe_text("load")?
        .filter(|load| *load != UNKNOWN)
    {
        if load != "idle" {
            recording.load.push(LoadRecord {
                name: load.to_owned(),
                parameters: Default::default(),
                ..LoadRecord::default()
            });
        }
        learn(recording, &[Unknown::Load]);
    }
    let parameters = &mut recording.probe.parameters;
    if condition.has("interval") {
        let interval = condition.time("interval", MICROSECOND)?;
        parameters.insert("interval_ns".to_owned(), interval.0.into());
    }
    if let Some(cycles) = condition.maybe_count("cycles")? {
        parameters.insert("loops".to_owned(), cycles.into());
    }
    let Some(line) = condition.maybe_text("cyclictest")? else {
        return Ok(None);
    };
    recording.probe.command_line = line.split_ascii_whitespace().map(str::to_owned).collect();
    let lists = recording.probe.command_line.iter();
    Ok(lists
        .filter_map(|word| word.strip_prefix("-a"))
        .find_map(|list| list.parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty())))
}

fn read_latency(
    latency: &Object<'_, '_>,
    source: &Source<'_>,
    cpus: Option<CpuSet>,
    ours: Option<Object<'_, '_>>,
    recording: &mut Recording,
) -> Result<(), ImportError> {
    match latency.maybe_text("granularity")? {
        None | Some("microseconds") => {}
        Some(_) => return Err(latency.bad("granularity", "is not \"microseconds\"")),
    }
    let columns = latency.get("cores").and_then(Value::as_array);
    let columns = columns.ok_or_else(|| latency.bad("cores", "is missing or not a list"))?;
    if !(2..=CpuSet::MAX_CPU as usize).contains(&columns.len()) {
        return Err(latency.bad("cores", "has no columns or too many"));
    }
    let edges = counts(latency, "cores", &columns[0])?;
    let row = width(&edges).ok_or_else(|| {
        latency.bad(
            "cores",
            "does not begin with an increasing list of classes of equal width",
        )
    })?;
    let maxima = match latency.get("maxima") {
        None => Vec::new(),
        Some(list) => counts(latency, "maxima", list)?,
    };
    if !maxima.is_empty() && maxima.len() != columns.len() - 1 {
        return Err(latency.bad("maxima", "does not have one entry per core"));
    }
    let mut beyond = 0;
    for (place, column) in columns[1..].iter().enumerate() {
        let samples = counts(latency, "cores", column)?;
        if samples.len() != edges.len() {
            let reason = format!("has {} classes in column {place}", samples.len());
            return Err(latency.bad("cores", &format!("{reason}, but {} edges", edges.len())));
        }
        let mut counted = Counted {
            unit: MICROSECOND,
            row,
            ..Counted::default()
        };
        for (edge, count) in edges.iter().zip(samples) {
            counted.add(Nanos(*edge * 1_000), count);
        }
        counted.max = maxima.get(place).map(|us| Nanos(us.saturating_mul(1_000)));
        counted.from = Nanos(edges.last().map_or(0, |last| last * 1_000) + row.0);
        let added = match &ours {
            Some(threads) => Some(threads.object(&place.to_string())?),
            None => None,
        };
        if let Some(added) = &added {
            counted.beyond = added.count("overflow")?;
        } else if counted.max.is_some_and(|max| max >= counted.from) {
            counted.beyond = 1;
            beyond += 1;
        }
        // cyclictest writes 0 for a thread without samples.
        if counted.total().is_ok_and(|total| total == 0) {
            counted.max = None;
        }
        let histogram = counted.histogram().map_err(|why| {
            let column = format!("column {place} of 'latency.cores'");
            source.bad_at(Location::Whole, why.within(column))
        })?;
        let cpu = match (&added, &cpus) {
            (Some(added), _) => added
                .maybe_count("cpu")?
                .and_then(|cpu| cpu.try_into().ok()),
            (None, Some(cpus)) => cpus.iter().nth(place),
            (None, None) => Some(place as u32),
        };
        recording.threads.push(thread(place, cpu, histogram));
    }
    warn(recording, maxima.is_empty(), beyond);
    Ok(())
}

fn warn(recording: &mut Recording, no_maxima: bool, beyond: u64) {
    if no_maxima {
        recording.warnings.push(
            "the file has no maxima: samples beyond its last class, and thus the largest latency, \
             may be missing"
                .to_owned(),
        );
    }
    if beyond > 0 {
        recording.warnings.push(format!(
            "the file does not count the samples beyond its last class: its maxima show that \
             {beyond} threads had such samples, and one sample is counted for each of these \
             threads"
        ));
    }
}

/// Parses a list of counts.
fn counts(object: &Object<'_, '_>, key: &str, list: &Value) -> Result<Vec<u64>, ImportError> {
    let numbers = list.as_array().map(|list| list.iter().map(Value::as_u64));
    let numbers: Option<Vec<u64>> = numbers.and_then(Iterator::collect);
    numbers.ok_or_else(|| object.bad(key, "contains a value that is not a count"))
}

/// Returns the width of adjacent classes. They are given by their lower edges in whole
/// microseconds.
fn width(edges: &[u64]) -> Option<Nanos> {
    let (first, last) = (edges.first()?, edges.last()?);
    let width = match edges {
        [a, b, ..] => b.checked_sub(*a).filter(|width| *width > 0)?,
        _ => 1,
    };
    let even = edges
        .windows(2)
        .all(|w| w[0].checked_add(width) == Some(w[1]));
    let in_range = last.checked_add(width)?.checked_mul(1_000).is_some();
    (even && in_range && first % width == 0).then(|| Nanos(width * 1_000))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read_text, refused};
    use super::*;

    const TWO_CORES: &str = include_str!("../../tests/fixtures/rt-dataset-two-cores.json");

    #[test]
    fn columns_are_threads() {
        let recording = read_text(&IMPORT, TWO_CORES).unwrap();
        let [first, second] = [0, 1].map(|place| &recording.threads[place].histogram);
        assert_eq!((first.count(), first.unplaced()), (9_999_990, 0));
        assert_eq!(first.max(), Some(Nanos::from_micros(8)));
        assert_eq!((second.count(), second.unplaced()), (9_999_989, 1));
        assert_eq!(second.unplaced_from(), Some(Nanos::from_micros(10)));
        assert_eq!(second.max(), Some(Nanos::from_micros(41)));
        assert_eq!(second.mean(), None);
        assert_eq!(recording.warnings.len(), 1);
        let cpus: Vec<_> = recording.threads.iter().map(|t| t.cpu).collect();
        assert_eq!(cpus, [Some(2), Some(3)]);
        assert_eq!(recording.host.kernel.preempt_rt.get(), Some(&true));
        assert_eq!(recording.host.kernel.hz.get(), Some(&1_000));
        assert_eq!(
            recording.duration_parameter("interval_ns"),
            Some(Nanos(200_000))
        );
        assert_eq!(recording.started.to_string(), "2023-06-23T10:43:23Z");
        assert!(recording.load.is_empty() && recording.knows(Unknown::Load));
    }

    #[test]
    fn without_maxima_it_warns() {
        let without = TWO_CORES.replace("\"maxima\": [8, 41],", "");
        let recording = read_text(&IMPORT, &without).unwrap();
        assert_eq!(
            recording.threads[1].histogram.max(),
            Some(Nanos::from_micros(9))
        );
        assert!(recording.warnings[0].contains("no maxima"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = |from: &str, to: &str| {
            assert!(TWO_CORES.contains(from), "{from}");
            refused(&IMPORT, TWO_CORES.replacen(from, to, 1).as_bytes())
        };
        for (from, to, reason) in [
            ("\"1.0\"", "\"2.0\"", "format.version"),
            ("microseconds", "fortnights", "granularity"),
            ("[0, 1, 2,", "[0, 1, 3,", "equal width"),
            ("[0, 1, 2,", "[0, 1, 2, 2,", "equal width"),
            ("[0, 1, 2,", "[0, 2,", "equal width"),
            ("[8, 41]", "[8]", "latency.maxima"),
            ("[8, 41]", "[7, 41]", "maximum"),
            ("[8, 41]", "[8, -1]", "not a count"),
            ("[0, 0, 9", "[0, 9", "edges"),
            ("+02:00", "+99:00", "timestamps.origin"),
        ] {
            let error = with(from, to);
            assert!(error.contains(reason), "{from}: {error}");
        }
    }
}
