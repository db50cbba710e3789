//! `hwlatdetect-text`: the terminal output of hwlatdetect.
//!
//! This is based on rt-tests' `src/hwlatdetect/hwlatdetect.py` (2.4 and 2.10). The file contains
//! parameters, then `Max Latency:` (`Below threshold` if there is no sample), `Samples recorded:`,
//! and a line for each sample (`ts: 1581527483.343962693, inner:11, outer:12`), with `cpu:` since
//! 2.5, and later also with `count:`. With --watch, these lines precede the summary.

use punctual_model::{Nanos, Recording, Unknown};

use super::blank::{MICROSECOND, blank, finish, learn, thread};
use super::counted::Counted;
use super::text::count;
use super::{Head, Import, ImportError, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "hwlatdetect-text",
    summary: "what hwlatdetect prints",
    documentation: "\
All samples are stored in one thread of the recording, because the kernel's detector moves from \
CPU to CPU. The latency of a sample is the larger of its inner and outer values. Samples that the \
file counts but does not list have an unknown latency at or above the threshold.

The file does not record the time, the load, or the machine. Output of hwlatdetect --quiet is \
refused, because it lacks the number of samples.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

fn recognise(head: &Head<'_>) -> bool {
    head.lines()
        .any(|line| line.trim().starts_with("hwlatdetect:"))
}

/// State while reading; times in µs.
#[derive(Default)]
struct Text {
    duration_s: Option<u64>,
    threshold: Option<u64>,
    window: Option<u64>,
    width: Option<u64>,
    max: Option<u64>,
    recorded: Option<u64>,
    smis: Option<u64>,
    samples: Vec<u64>,
}

/// Maximum number of samples. Even a run of several weeks lists fewer.
const MOST: usize = 4_000_000;

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    source.whole_text(Text::line, Text::recording)
}

impl Text {
    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        if line.starts_with("ts:") {
            if self.samples.len() == MOST {
                return Err(Malformed::TooMany {
                    most: MOST,
                    what: "samples",
                });
            }
            self.samples.push(sample(line)?);
            return Ok(());
        }
        let Some((name, value)) = line.split_once(':') else {
            return Ok(());
        };
        let value = value.trim();
        let micros = || count(value.strip_suffix("us").unwrap_or(value));
        let (slot, value) = match name {
            "hwlatdetect" => {
                let seconds = value.strip_prefix("test duration");
                let seconds = seconds.and_then(|rest| rest.trim().strip_suffix("seconds"));
                let seconds = seconds.ok_or(Malformed::MissingField("test duration"))?;
                (&mut self.duration_s, count(seconds.trim())?)
            }
            "Latency threshold" => (&mut self.threshold, micros()?),
            "Sample window" => (&mut self.window, micros()?),
            "Sample width" => (&mut self.width, micros()?),
            "Max Latency" if value == "Below threshold" => (&mut self.max, 0),
            "Max Latency" => (&mut self.max, micros()?),
            "Samples recorded" => (&mut self.recorded, count(value)?),
            "SMIs during run" => (&mut self.smis, count(value)?),
            _ => return Ok(()),
        };
        match slot.replace(value) {
            Some(_) => Err(Malformed::SecondRun(name.to_owned())),
            None => Ok(()),
        }
    }

    fn recording(self, source: &Source<'_>) -> Result<Recording, Malformed> {
        let missing = Malformed::MissingSummary;
        let recorded = self.recorded.ok_or(missing("Samples recorded:"))?;
        let max = self.max.ok_or(missing("Max Latency:"))?;
        let listed = self.samples.len() as u64;
        let beyond = recorded.checked_sub(listed);
        let beyond = beyond.ok_or(Malformed::SamplesListed { listed, recorded })?;
        let time = |us: u64| us.checked_mul(1_000).map(Nanos);
        let mut counted = Counted {
            unit: MICROSECOND,
            row: MICROSECOND,
            beyond,
            from: self.threshold.and_then(time).unwrap_or_default(),
            max: time(max),
            ..Counted::default()
        };
        for us in &self.samples {
            counted.add(time(*us).ok_or(Malformed::SampleTooLong)?, 1);
        }
        let mut recording = blank(source, IMPORT.name, "hwlatdetect", "hardware");
        recording.threads = vec![thread(0, None, counted.histogram()?)];
        recording.threads[0].label = Some("hwlat".to_owned());
        let parameters = [
            ("threshold_ns", self.threshold),
            ("window_ns", self.window),
            ("width_ns", self.width),
        ];
        for (name, value) in parameters {
            if let Some(value) = value.and_then(time) {
                let parameters = &mut recording.probe.parameters;
                parameters.insert(name.to_owned(), value.0.into());
            }
        }
        if let Some(seconds) = self.duration_s {
            recording.duration_ns = Nanos(seconds.saturating_mul(1_000_000_000));
            learn(&mut recording, &[Unknown::Duration]);
        }
        if let Some(smis @ 1..) = self.smis {
            let warning = format!("{smis} system management interrupts were counted");
            recording.warnings.push(warning);
        }
        Ok(finish(recording))
    }
}

/// Returns the larger of the two gaps of a sample, in µs.
fn sample(line: &str) -> Result<u64, Malformed> {
    let field = |name: &'static str| {
        let mut fields = line.split(',').map(str::trim);
        let value = fields.find_map(|field| field.strip_prefix(name)?.strip_prefix(':'));
        count(value.unwrap_or_default().trim()).map_err(|_| Malformed::MissingInSample(name))
    };
    Ok(field("inner")?.max(field("outer")?))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refuses, read_text};
    use super::*;

    const TEXT: &str = include_str!("../../tests/fixtures/hwlatdetect-2.4.txt");
    const NONE: &str = include_str!("../../tests/fixtures/hwlatdetect-2.4-none.txt");

    #[test]
    fn samples_and_parameters_come_in() {
        let recording = read_text(&IMPORT, TEXT).unwrap();
        let histogram = &recording.threads[0].histogram;
        assert_eq!((histogram.count(), histogram.unplaced()), (3, 0));
        assert_eq!(histogram.min(), Some(Nanos::from_micros(12)));
        assert_eq!(histogram.max(), Some(Nanos::from_micros(31)));
        let parameter = |name| recording.duration_parameter(name);
        assert_eq!(parameter("threshold_ns"), Some(Nanos::from_micros(10)));
        assert_eq!(parameter("window_ns"), Some(Nanos::from_secs(1)));
        assert_eq!(parameter("width_ns"), Some(Nanos::from_millis(950)));
        assert_eq!(recording.duration_ns, Nanos::from_secs(15));
        // Some samples are counted but not listed.
        let more = TEXT.replace("recorded: 3", "recorded: 9");
        let recording = read_text(&IMPORT, &more).unwrap();
        let histogram = &recording.threads[0].histogram;
        assert_eq!((histogram.count(), histogram.unplaced()), (9, 6));
        assert_eq!(histogram.unplaced_from(), Some(Nanos::from_micros(10)));
    }

    #[test]
    fn no_sample_is_a_recording_as_well() {
        let recording = read_text(&IMPORT, NONE).unwrap();
        assert_eq!(recording.threads[0].histogram.count(), 0);
        assert_eq!(recording.accounting().recorded, 0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let changes = [
            ("recorded: 3", "recorded: 2", "'Samples recorded' is 2"),
            ("recorded: 3", "recorded: x", "'x' is not a count"),
            ("Latency: 31us", "Latency: 30us", "maximum"),
            ("inner:11", "in:11", "no 'inner:'"),
            ("Samples recorded: 3\n", "", "truncated"),
            ("test finished", "Max Latency: 4us", "second line"),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
    }
}
