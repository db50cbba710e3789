//! `hlog`: a log of histograms, as HdrHistogram's `HistogramLogWriter` writes it.
//!
//! This is based on HdrHistogram's `HistogramLogReader` and `HistogramLogWriter` (formats 1.0 to
//! 1.3). A line is an optional tag, the start and the length of an interval in seconds, its
//! largest value, and the histogram (see `hdr`). Starts are relative to `BaseTime`; without one,
//! they are relative to `StartTime` if they are more than a year before it, and absolute
//! otherwise. The log does not state the unit of its values.

use std::collections::BTreeMap;

use jiff::Timestamp;
use punctual_model::{Histogram, IntervalRow, Nanos, Recording, Unknown};

use super::blank::{MILLISECOND, THREADS, blank, finish, learn, thread};
use super::decimal::Decimal;
use super::text::{WordsBelow, is_prompt, plain};
use super::unit::NANOSECOND;
use super::{Head, Import, ImportError, Location, Malformed, SampleSink, Source};
use crate::hdr::{self, Bucket};
use crate::hlog::VALUES_IN_NS;

pub(crate) const IMPORT: Import = Import {
    name: "hlog",
    summary: "a log of HdrHistogram (.hlog)",
    documentation: "Each tag becomes a thread of the recording, and each line an interval of \
        its time series. Lines without a tag form one thread. A value counts as the largest \
        value of its bucket, as in HdrHistogram's own tools. The mean is computed from the \
        middle of each bucket.

The log does not state the unit of its values: nanoseconds are assumed, with a warning; \
        --unit states another unit. Logs that punctual wrote state their unit. Histograms in the \
        encodings V0 and V1 are refused. The file does not record the kind of the measurement, \
        the CPU, the load, or the machine.",
    has_samples: false,
    unit_known: false,
    recognise,
    read,
};

const LEGEND: &str = "\"StartTimestamp\",";

fn recognise(head: &Head<'_>) -> bool {
    const BEGINNINGS: [&str; 6] = [
        "#[Histogram log format version",
        "#[Logged with ",
        "#[StartTime:",
        "#[BaseTime:",
        VALUES_IN_NS,
        LEGEND,
    ];
    // HistogramLogProcessor copies the comments of the log above its percentiles.
    !head.contains("1/(1-Percentile)")
        && head.lines().any(|line| {
            let begins = BEGINNINGS.iter().any(|begin| line.starts_with(begin));
            begins || is_data(&line)
        })
}

/// Returns whether a line ends with a histogram.
fn is_data(line: &str) -> bool {
    line.contains(",HISTF") || line.contains(",HISTI") || line.contains(",HISTi")
}

const SECOND: Nanos = Nanos(1_000_000_000);

/// Starts before `StartTime` minus this time are relative to it.
const YEAR: Nanos = Nanos(365 * 24 * 3_600 * SECOND.0);

/// Without `StartTime`, starts from this time on are times since 1970: this is in 2001.
const EPOCH: Nanos = Nanos(1_000_000_000 * SECOND.0);

/// Maximum number of intervals: more than eleven days of seconds.
const INTERVALS: usize = 1_000_000;

/// Maximum number of different values in all tags.
const VALUES: usize = 2 << 20;

/// Maximum number of filled buckets in all lines, for each byte of these lines and in addition to
/// [`VALUES`]. HdrHistogram compresses a bucket to about half a byte, and equal counts in
/// neighbouring buckets to a thousandth of a byte.
const BUCKETS_PER_BYTE: usize = 20;

/// The counts of a tag.
#[derive(Default)]
struct Tag {
    /// Number of samples by latency in ns.
    counts: BTreeMap<u64, u64>,
    sum: u64,
    max: u64,
}

/// State while the log is being read.
struct Log {
    unit: Nanos,
    given: Option<Nanos>,
    stated: bool,
    start: Option<Nanos>,
    base: Option<Nanos>,
    tags: Vec<(Option<String>, Tag)>,
    /// Number of different values in all tags.
    values: usize,
    /// Number of filled buckets that the next lines may have.
    buckets_left: usize,
    /// Rows with their start in the log.
    rows: Vec<IntervalRow>,
    lengths: Vec<Nanos>,
    /// End of the last interval.
    end: Nanos,
    words: WordsBelow,
    /// The histogram of one interval. It is large, so it is reused.
    scratch: Histogram,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let given = source.unit();
    let mut log = Log {
        unit: given.unwrap_or(NANOSECOND),
        given,
        stated: false,
        start: None,
        base: None,
        tags: Vec::new(),
        values: 0,
        buckets_left: VALUES,
        rows: Vec::new(),
        lengths: Vec::new(),
        end: Nanos::ZERO,
        words: WordsBelow::default(),
        scratch: Histogram::new(),
    };
    while let Some(line) = source.next_line()? {
        let bytes = plain(line.bytes);
        let complete = line.complete || is_prompt(bytes);
        let result = std::str::from_utf8(bytes)
            .map_err(|_| Malformed::LineNotText)
            .and_then(|text| log.line(text));
        let result = match result {
            Err(_) if !complete => Err(Malformed::LineTruncated),
            result => result,
        };
        result.map_err(|reason| source.bad(reason))?;
    }
    let recording = log.recording(source);
    recording.map_err(|reason| source.bad_at(Location::Whole, reason))
}

impl Log {
    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        if line == VALUES_IN_NS {
            self.stated = true;
            return match self.given {
                Some(_) => Err(Malformed::UnitStated),
                None => Ok(()),
            };
        }
        if let Some(rest) = line.strip_prefix("#[StartTime:") {
            return once(&mut self.start, rest, "StartTime");
        }
        if let Some(rest) = line.strip_prefix("#[BaseTime:") {
            return once(&mut self.base, rest, "BaseTime");
        }
        if line.is_empty() || line.starts_with('#') || line.starts_with(LEGEND) {
            return Ok(());
        }
        if !self.rows.is_empty() && !is_data(line) && !line.starts_with("Tag=") {
            return self.words.take(line.as_bytes());
        }
        self.words.figures_follow()?;
        let (tag, rest) = match line.strip_prefix("Tag=") {
            Some(rest) => {
                let tag = rest.split_once(',');
                let (tag, rest) = tag.ok_or(Malformed::MissingField("histogram"))?;
                (Some(tag), rest)
            }
            None => (None, line),
        };
        let fields: Vec<&str> = rest.split(',').map(str::trim).collect();
        let [start, length, max, histogram] = fields[..] else {
            return Err(Malformed::foreign(line.as_bytes()));
        };
        let start = Decimal::parse(start)?.of(SECOND)?;
        let length = Decimal::parse(length)?.of(SECOND)?;
        let max = Decimal::parse(max)?;
        let buckets = hdr::decode(histogram.as_bytes()).map_err(Malformed::Hdr)?;
        let may_have = self.buckets_left + BUCKETS_PER_BYTE * line.len();
        self.buckets_left = may_have.checked_sub(buckets.len()).ok_or(Malformed::Bomb)?;
        self.interval(tag, start, length, max, &buckets)
    }

    fn interval(
        &mut self,
        tag: Option<&str>,
        start: Nanos,
        length: Nanos,
        max: Decimal,
        buckets: &[Bucket],
    ) -> Result<(), Malformed> {
        let place = self.place(tag)?;
        if self.rows.len() == INTERVALS {
            return Err(Malformed::TooMany {
                most: INTERVALS,
                what: "intervals",
            });
        }
        let end = start.0.checked_add(length.0);
        self.end = self
            .end
            .max(end.map(Nanos).ok_or(Malformed::DurationTooLong)?);
        let tag = &mut self.tags[place].1;
        self.values -= tag.counts.len();
        self.scratch.clear();
        let unit = self.unit.0;
        let time = |value: u64| value.checked_mul(unit).ok_or(Malformed::FiguresTooLarge);
        let mut sum = 0_u64;
        for (nth, bucket) in buckets.iter().enumerate() {
            let (lowest, mut highest) = (time(bucket.lowest)?, time(bucket.highest)?);
            if nth + 1 == buckets.len() {
                highest = largest(max, unit, lowest, highest);
                tag.max = tag.max.max(highest);
            }
            let slot = tag.counts.entry(highest).or_insert(0);
            *slot = (slot.checked_add(bucket.count)).ok_or(Malformed::SamplesTooMany)?;
            let middle = lowest.midpoint(highest);
            sum = (middle.checked_mul(bucket.count))
                .and_then(|part| sum.checked_add(part))
                .ok_or(Malformed::FiguresTooLarge)?;
            self.scratch.add_row(Nanos(highest), bucket.count);
        }
        let sums = tag.sum.checked_add(sum);
        tag.sum = sums.ok_or(Malformed::FiguresTooLarge)?;
        self.values += tag.counts.len();
        if self.values > VALUES {
            return Err(Malformed::TooMany {
                most: VALUES,
                what: "different values",
            });
        }
        let mut row = IntervalRow::new(place as u32, start, 0, &self.scratch);
        row.sum_ns = Nanos(sum);
        self.rows.push(row);
        self.lengths.push(length);
        Ok(())
    }

    /// Returns the place of a tag.
    fn place(&mut self, tag: Option<&str>) -> Result<usize, Malformed> {
        let found = (self.tags.iter()).position(|(name, _)| name.as_deref() == tag);
        match found {
            Some(place) => Ok(place),
            None if self.tags.len() == THREADS => Err(Malformed::TooMany {
                most: THREADS,
                what: "tags",
            }),
            None => {
                self.tags.push((tag.map(str::to_owned), Tag::default()));
                Ok(self.tags.len() - 1)
            }
        }
    }

    fn recording(mut self, source: &Source<'_>) -> Result<Recording, Malformed> {
        let first = self.rows.iter().map(|row| row.start_ns).min();
        let first = first.ok_or(Malformed::NoInterval)?;
        let mut recording = blank(source, IMPORT.name, "HdrHistogram", "latency");
        let (zero, started) = self.times(first);
        if let Some(started) = started.and_then(|ns| Timestamp::from_nanosecond(ns.0.into()).ok()) {
            recording.started = started;
            learn(&mut recording, &[Unknown::Started]);
        }
        for row in &mut self.rows {
            row.start_ns = Nanos(row.start_ns.0 - zero.0);
        }
        recording.duration_ns = Nanos(self.end.0 - zero.0);
        learn(&mut recording, &[Unknown::Duration]);
        self.rows.sort_by_key(|row| (row.start_ns, row.thread));
        let twice = |pair: &[IntervalRow]| {
            (pair[0].start_ns, pair[0].thread) == (pair[1].start_ns, pair[1].thread)
        };
        if self.rows.windows(2).any(twice) {
            return Err(Malformed::IntervalTwice);
        }
        self.lengths.sort_unstable();
        recording.series.interval_ns = self.lengths[self.lengths.len() / 2];
        recording.series.rows = self.rows;
        for (place, (name, tag)) in self.tags.into_iter().enumerate() {
            let histogram = tag.histogram(self.unit)?;
            let mut thread = thread(place, None, histogram);
            if let Some(name) = name {
                thread.label = Some(name);
            }
            recording.threads.push(thread);
        }
        if !self.stated && self.given.is_none() {
            recording.warnings.push(
                "the log does not state the unit of its values; nanoseconds are assumed (if this is wrong, \
                 use --unit us or --unit ms)"
                    .to_owned(),
            );
        }
        Ok(finish(recording))
    }

    /// Returns the start of the measurement on the clock of the lines, and as the time since 1970.
    fn times(&self, first: Nanos) -> (Nanos, Option<Nanos>) {
        let since_1970 = |base: Nanos, at: Nanos| base.0.checked_add(at.0).map(Nanos);
        match (self.base, self.start) {
            (Some(base), Some(start)) if base <= start && start.0 - base.0 <= first.0 => {
                (Nanos(start.0 - base.0), Some(start))
            }
            (Some(base), _) => (first, since_1970(base, first)),
            (None, Some(start)) if first.0 < start.0.saturating_sub(YEAR.0) => {
                (Nanos::ZERO, Some(start))
            }
            (None, Some(start)) if start <= first => (start, Some(start)),
            (None, _) => (first, (first >= EPOCH).then_some(first)),
        }
    }
}

/// Returns the largest latency of an interval, whose bucket is `lowest` to `highest`. The line has
/// it in ms, and it is exact if it has enough digits.
fn largest(max: Decimal, unit: u64, lowest: u64, highest: u64) -> u64 {
    let exact = max
        .of(MILLISECOND)
        .ok()
        .filter(|_| max.places >= 6 && unit == 1);
    exact.map_or(highest, |ns| {
        if (lowest..=highest).contains(&ns.0) {
            ns.0
        } else {
            highest
        }
    })
}

/// Sets the time of a comment such as ` 1441812279.474 (seconds since epoch), Wed Sep 09`.
fn once(slot: &mut Option<Nanos>, text: &str, name: &'static str) -> Result<(), Malformed> {
    let end = text
        .trim_start()
        .split([' ', ']'])
        .next()
        .unwrap_or_default();
    let time = Decimal::parse(end)?.of(SECOND)?;
    match slot.replace(time) {
        Some(_) => Err(Malformed::SecondRun(name.to_owned())),
        None => Ok(()),
    }
}

impl Tag {
    fn histogram(&self, unit: Nanos) -> Result<Histogram, Malformed> {
        let mut histogram = Histogram::imported(unit, unit);
        let total = (self.counts.values()).try_fold(0_u64, |sum, count| sum.checked_add(*count));
        if total.ok_or(Malformed::SamplesTooMany)? == 0 {
            return Ok(histogram);
        }
        for (value, count) in &self.counts {
            histogram.add_row(Nanos(*value), *count);
        }
        histogram.set_figures(None, Some(Nanos(self.max)), Some(Nanos(self.sum)));
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::testing;

    use super::super::testing::{assert_refuses, read_recognised, read_text, refused};
    use super::*;
    use crate::testing::written;

    const TEXT: &str = include_str!("../../tests/fixtures/hdrhistogram.hlog");

    /// The figures are those of HdrHistogram for Python, which wrote the file.
    #[test]
    fn tags_become_threads_with_intervals() {
        let recording = read_recognised(TEXT.as_bytes()).unwrap();
        let titles: Vec<String> = recording.threads.iter().map(|one| one.title()).collect();
        assert_eq!(titles, ["thread 0", "net", "disk"]);
        let histogram = &recording.threads[0].histogram;
        assert_eq!(histogram.count(), 120);
        assert_eq!(histogram.max(), Some(Nanos(105_087)));
        assert_eq!(recording.series.rows.len(), 6);
        assert_eq!(recording.series.interval_ns, Nanos::from_secs(1));
        assert_eq!(recording.duration_ns, Nanos::from_secs(2));
        assert_eq!(recording.started.to_string(), "2025-11-27T08:00:00.25Z");
        assert!(recording.warnings[0].contains("nanoseconds are assumed"));
    }

    #[test]
    fn own_log_comes_back() {
        for threads in [1, 3] {
            let recording = testing::recording(threads, 3);
            let text = written("hlog", &recording);
            let back = read_recognised(text.as_bytes()).unwrap();
            assert_eq!(back.started, recording.started);
            assert_eq!(back.warnings, Vec::<String>::new());
            for (old, new) in recording.series.rows.iter().zip(&back.series.rows) {
                assert_eq!((old.thread, old.start_ns), (new.thread, new.start_ns));
                assert_eq!(old.histogram, new.histogram);
                assert_eq!((old.count, old.max_ns), (new.count, new.max_ns));
            }
            assert_eq!(written("hlog", &back), text);
        }
    }

    #[test]
    fn percentiles_of_a_log_are_no_log() {
        let percentiles = include_str!("../../tests/fixtures/hdrhistogram.hgrm");
        let text =
            format!("#[StartTime: 1441812279.474 (seconds since epoch), Wed]\n{percentiles}");
        let recording = read_recognised(text.as_bytes()).unwrap();
        assert_eq!(recording.origin.unwrap().format, "hgrm");
    }

    #[test]
    fn starts_are_relative_or_absolute() {
        let line = TEXT.lines().find(|line| line.contains("HISTF")).unwrap();
        let histogram = line.rsplit(',').next().unwrap();
        let of = |head: &str, start: &str| {
            let text = format!("{head}\n{start},1.0,1.0,{histogram}\n");
            let recording = read_text(&IMPORT, &text).unwrap();
            let started = recording.knows(Unknown::Started);
            let started = started.then(|| recording.started.as_second());
            (started, recording.series.rows[0].start_ns)
        };
        let day = "#[StartTime: 1441812279.5 (seconds since epoch), Wed]";
        assert_eq!(of(day, "0.25"), (Some(1_441_812_279), Nanos(250_000_000)));
        assert_eq!(
            of(day, "1441812280.5"),
            (Some(1_441_812_279), Nanos::from_secs(1))
        );
        let base = format!("{day}\n#[BaseTime: 1441812270.5 (seconds since epoch)]");
        assert_eq!(
            of(&base, "10.0"),
            (Some(1_441_812_279), Nanos::from_secs(1))
        );
        assert_eq!(of("", "1441812280.5"), (Some(1_441_812_280), Nanos::ZERO));
        assert_eq!(of("", "7.5"), (None, Nanos::ZERO));
    }

    /// Each line has a few hundred bytes, and decompresses to many buckets.
    #[test]
    fn small_log_cannot_take_long() {
        let buckets = (1..16_000).map(|value| (value, 1, 1));
        let histogram = hdr::encode(buckets, 16_000).unwrap();
        assert!(histogram.len() < 500, "{}", histogram.len());
        let lines = (0..2_000).map(|start| format!("{start}.0,1.0,1.0,{histogram}\n"));
        let log = format!("#[Logged with x]\n{}", lines.collect::<String>());
        let said = refused(&IMPORT, log.as_bytes());
        assert!(said.contains("more filled buckets"), "{said}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let line = TEXT.lines().find(|line| line.contains("HISTF")).unwrap();
        let again = format!("{TEXT}{line}\n");
        assert!(refused(&IMPORT, again.as_bytes()).contains("same time"));
        let changes = [
            (",HISTFAAA", ",HISTIgAA", "encoding"),
            (",HISTFAAA", ",%ISTFAAA", "not base64"),
            ("\nTag=net,", "\nTag=net", "not a line"),
            ("1764230400.250000,", "soon,", "not a time"),
            (
                "#[StartTime:",
                "#[StartTime: 1 ]\n#[StartTime:",
                "a second line",
            ),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
        assert!(refused(&IMPORT, b"#[Logged with x]\n").contains("no interval"));
        // The last line is cut before its histogram, with and without a line end.
        let tagged = TEXT.rfind("\nTag=").unwrap() + 1;
        let histogram = tagged + TEXT[tagged..].find(",HISTF").unwrap();
        let cut = &TEXT[..histogram];
        for end in ["", "\n"] {
            refused(&IMPORT, format!("{cut}{end}").as_bytes());
        }
    }
}
