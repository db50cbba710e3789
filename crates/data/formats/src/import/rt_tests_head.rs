//! The head of rt-tests' JSON files, and the values that punctual adds to files it writes.

use jiff::Timestamp;
use punctual_model::{Completion, Fact, Histogram, Nanos, Recording, Unknown};

use super::blank::{blank, fact_of, learn};
use super::object::Object;
use super::{ImportError, Source};
use crate::facts::UNKNOWN;

/// Fills the recording from the head of the file.
pub(crate) fn head(
    source: &Source<'_>,
    file: &Object<'_, '_>,
    format: &str,
    tool: &str,
    probe: &str,
) -> Result<Recording, ImportError> {
    let version = file.maybe_text("rt_test_version:")?.unwrap_or("?");
    let tool = format!("{tool} of rt-tests {version}");
    let mut recording = blank(source, format, &tool, probe);
    if let Some(line) = file.maybe_text("cmdline:")? {
        recording.probe.command_line = line.split(' ').map(str::to_owned).collect();
    }
    times(file, &mut recording)?;
    match file.maybe_integer("return_code")? {
        None | Some(0) => {}
        Some(code) => recording
            .warnings
            .push(format!("return code of the tool: {code}")),
    }
    if let Some(system) = file.maybe_object("sysinfo")? {
        let host = &mut recording.host;
        let facts: [(&str, &mut Fact<String>); 4] = [
            ("nodename", &mut host.hostname),
            ("release", &mut host.kernel.release),
            ("version", &mut host.kernel.version),
            ("machine", &mut host.kernel.architecture),
        ];
        for (key, fact) in facts {
            // The value that punctual writes for an unknown fact.
            if let Some(text) = system.maybe_text(key)?.filter(|text| *text != UNKNOWN) {
                *fact = fact_of(source, text.to_owned());
            }
        }
        match system.maybe_count("realtime")? {
            None => {}
            Some(flag) => host.kernel.preempt_rt = fact_of(source, flag == 1),
        }
    }
    Ok(recording)
}

/// Reads `start_time` and `end_time`, in the format of RFC 2822, accurate to the second.
fn times(file: &Object<'_, '_>, recording: &mut Recording) -> Result<(), ImportError> {
    let mut time = |key: &str| -> Result<Option<Timestamp>, ImportError> {
        let Some(text) = file.maybe_text(key)?.filter(|text| *text != UNKNOWN) else {
            return Ok(None);
        };
        let time = Timestamp::strptime("%a, %d %b %Y %H:%M:%S %z", text).ok();
        if time.is_none() {
            // strftime(3) writes the names of the days in the user's language.
            recording
                .warnings
                .push(format!("'{key}' is not an RFC 2822 date"));
        }
        Ok(time)
    };
    let (start, end) = (time("start_time")?, time("end_time")?);
    if let Some(start) = start {
        recording.started = start;
        learn(recording, &[Unknown::Started]);
    }
    if let (Some(start), Some(end)) = (start, end) {
        let Ok(length) = u64::try_from(end.duration_since(start).as_nanos()) else {
            return Err(file.bad("end_time", "is before 'start_time'"));
        };
        recording.duration_ns = Nanos(length);
        learn(recording, &[Unknown::Duration]);
    }
    Ok(())
}

/// Reads the key `punctual` of a file that punctual wrote: it contains figures in nanoseconds, and
/// the complete sample accounting.
pub(crate) fn additions(
    file: &Object<'_, '_>,
    recording: &mut Recording,
) -> Result<(), ImportError> {
    let Some(ours) = file.maybe_object("punctual")? else {
        return Ok(());
    };
    // Only the keys of an export of punctual are read. Another program may write a key with this
    // name.
    let Some(threads) = ours.maybe_object("thread")? else {
        return Ok(());
    };
    let known = [
        (Completion::Finished, "finished"),
        (Completion::Break, "break"),
        (Completion::Stopped, "stopped"),
        (Completion::Interrupted, "interrupted"),
    ];
    let completion = ours.maybe_text("completion")?;
    if let Some((completion, _)) = known.iter().find(|(_, name)| Some(*name) == completion) {
        recording.completion = *completion;
    }
    if let Some(program) = ours.maybe_text("program")? {
        recording.probe.program = program.to_owned();
    }
    let limit = ours.maybe_count("histogram_us")?;
    let limit = limit.map(|rows| Nanos(rows.saturating_mul(1_000)));
    let mut whole_account = true;
    for (place, thread) in recording.threads.iter_mut().enumerate() {
        let object = threads.object(&place.to_string())?;
        if let Some(label) = object.maybe_text("label")? {
            thread.label = Some(label.to_owned());
        }
        precise(&object, &mut thread.histogram, limit)?;
        let early = object.maybe_count("early")?.unwrap_or(0);
        thread.histogram.add_early(early);
        let account = &mut thread.accounting;
        account.recorded = thread.histogram.recorded();
        account.early = early;
        account.missed = object.maybe_count("missed")?.unwrap_or(0);
        account.warm_up = object.maybe_count("warm_up")?.unwrap_or(0);
        let Some(expected) = object.maybe_count("expected")? else {
            whole_account = false;
            continue;
        };
        account.expected = expected;
        if !account.balances() {
            return Err(object.bad(
                "expected",
                "is not the sum of the samples recorded, missed and \
                in the warm-up",
            ));
        }
    }
    if whole_account {
        learn(recording, &[Unknown::Missed, Unknown::WarmUp]);
    }
    recording.verdict = recording.judge();
    Ok(())
}

/// Reads the figures in nanoseconds, provided that they agree with those of the file.
fn precise(
    object: &Object<'_, '_>,
    histogram: &mut Histogram,
    limit: Option<Nanos>,
) -> Result<(), ImportError> {
    let maybe = |key: &str| object.maybe_count(key).map(|count| count.map(Nanos));
    let fits = |fine: Option<Nanos>, coarse: Option<Nanos>| {
        fine.filter(|fine| coarse.is_none_or(|c| c.whole_micros() == fine.whole_micros()))
    };
    // If the file has no minimum, the first row is used. From 1 ms on, rows that punctual wrote are
    // one percent wide.
    let in_first_row = |fine: &Nanos, row: Nanos| {
        row >= Nanos::from_millis(1) && *fine >= row && fine.0 - row.0 <= row.0 / 100
    };
    let given = maybe("min_ns")?;
    let within = given.filter(|fine| histogram.min().is_some_and(|row| in_first_row(fine, row)));
    let min = fits(given, histogram.min()).or(within);
    let max = fits(maybe("max_ns")?, histogram.max());
    // The mean of the file has few digits, and is missing if samples are in no row. The sum stored
    // by punctual is more exact. It is used if it agrees to within the rounding of the rows (1 µs,
    // or one percent from 1 ms on).
    let near = |sum: &Nanos| {
        let fine = sum.0.checked_div(histogram.count());
        let coarse = histogram.mean();
        fine.is_some_and(|fine| coarse.is_none_or(|c| fine.abs_diff(c.0) <= 1_000 + fine / 100))
    };
    let sum = maybe("sum_ns")?.filter(near);
    histogram.set_figures(min, max, sum);
    if let (Some(limit), Some(from)) = (limit, histogram.unplaced_from()) {
        histogram.unplaced_begin(limit.max(from));
    }
    Ok(())
}
