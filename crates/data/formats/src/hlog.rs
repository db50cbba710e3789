//! `hlog`: a log of histograms for HdrHistogram's tools, such as `HistogramLogProcessor`.
//!
//! This is based on HdrHistogram's `HistogramLogWriter` (format 1.3). Each interval of each thread
//! is a line: start and length in seconds, the largest latency in ms, and the histogram in HdrHistogram's V2
//! encoding, in ns. If there are several threads, each line begins with a tag (`Tag=CPU_0,`). A
//! recording without intervals has one line for each thread. Times are relative to `StartTime`.
//!
//! Early samples count as 0. A line states how many samples are in no interval, because their
//! latency is unknown or they were dropped.

use std::io::Write;

use punctual_model::{Nanos, Unknown, counted};

use crate::{Export, Format, FormatError, hdr};

pub(crate) const FORMAT: Format = Format {
    name: "hlog",
    summary: "a histogram of each interval, for HdrHistogram's HistogramLogProcessor",
    extension: "hlog",
    needs_samples: false,
    micro_rows: false,
    write,
};

/// The comment with which this format states the unit, which HdrHistogram's own logs do not.
pub(crate) const VALUES_IN_NS: &str = "#[Values are in ns]";

fn write(export: &Export<'_>, out: &mut dyn Write) -> Result<(), FormatError> {
    let recording = export.recording;
    writeln!(
        out,
        "#[Logged with punctual {}]\n{VALUES_IN_NS}\n#[Histogram log format version 1.3]",
        env!("CARGO_PKG_VERSION")
    )?;
    if recording.knows(Unknown::Started) {
        let started = recording.started;
        let ns = u64::try_from(started.as_nanosecond()).unwrap_or(0);
        writeln!(
            out,
            "#[StartTime: {} (seconds since epoch), {started}]",
            seconds(Nanos(ns))
        )?;
    }
    let tags = tags(export);
    let mut lines = Vec::new();
    let series = &recording.series;
    for row in &series.rows {
        let rest = Nanos(recording.duration_ns.0.saturating_sub(row.start_ns.0));
        lines.push(Line {
            tag: tags.get(row.thread as usize),
            start: row.start_ns,
            length: match rest {
                Nanos(0) => series.interval_ns,
                rest => rest.min(series.interval_ns),
            },
            early: row.early,
            buckets: row.histogram.iter().collect(),
            max: row.max_ns,
        });
    }
    if lines.is_empty() {
        lines.extend(recording.threads.iter().zip(&tags).map(|(thread, tag)| {
            let histogram = &thread.histogram;
            Line {
                tag: Some(tag),
                start: Nanos::ZERO,
                length: recording.duration_ns,
                early: histogram.early(),
                buckets: histogram.buckets().iter().collect(),
                max: histogram.max(),
            }
        }));
    }
    let written = lines.iter().map(Line::count).fold(0, u64::saturating_add);
    let missing = recording.accounting().recorded.saturating_sub(written);
    if missing > 0 {
        let samples = counted(missing, "sample", "samples");
        writeln!(out, "#[In no interval of this log: {samples}]")?;
    }
    writeln!(
        out,
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
    )?;
    lines.iter().try_for_each(|line| line.write(out))
}

/// One histogram.
struct Line<'a> {
    tag: Option<&'a Option<String>>,
    start: Nanos,
    length: Nanos,
    early: u64,
    /// Lower edge and width in ns, and number of samples.
    buckets: Vec<(u64, u64, u64)>,
    max: Option<Nanos>,
}

impl Line<'_> {
    fn count(&self) -> u64 {
        let counts = self.buckets.iter().map(|bucket| bucket.2);
        counts.fold(self.early, u64::saturating_add)
    }

    fn write(&self, out: &mut dyn Write) -> Result<(), FormatError> {
        let early = (self.early > 0).then_some((0, 1, self.early));
        let (lower, width) = (self.buckets.last()).map_or((0, 1), |bucket| (bucket.0, bucket.1));
        // If samples are beyond the range, the maximum is above all buckets.
        let max = self.max.unwrap_or(Nanos(u64::MAX)).0;
        let max = max.clamp(lower, lower.saturating_add(width - 1));
        let buckets = early.into_iter().chain(self.buckets.iter().copied());
        let histogram = hdr::encode(buckets, max)?;
        if let Some(Some(tag)) = self.tag {
            write!(out, "Tag={tag},")?;
        }
        let (start, length) = (seconds(self.start), seconds(self.length));
        let (ms, ns) = (max / 1_000_000, max % 1_000_000);
        writeln!(out, "{start},{length},{ms}.{ns:06},{histogram}")?;
        Ok(())
    }
}

/// Returns the tag of each thread: its title without the characters that end a tag. A single
/// thread has none, because HdrHistogram's tools only read the lines of one tag.
fn tags(export: &Export<'_>) -> Vec<Option<String>> {
    let threads = &export.recording.threads;
    if threads.len() == 1 {
        return vec![None];
    }
    let mut tags: Vec<Option<String>> = Vec::with_capacity(threads.len());
    for (place, thread) in threads.iter().enumerate() {
        let title = thread.title();
        let words = title.split(|c: char| c == ',' || c.is_whitespace() || c.is_control());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let tag = match words.join("_") {
            tag if tag.is_empty() || tags.contains(&Some(tag.clone())) => format!("{tag}_{place}"),
            tag => tag,
        };
        tags.push(Some(tag));
    }
    tags
}

/// Formats a time in seconds.
fn seconds(time: Nanos) -> String {
    format!("{}.{:09}", time.0 / 1_000_000_000, time.0 % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use punctual_model::{Series, SignedNanos, testing};

    use crate::testing::written;

    #[test]
    fn each_interval_is_a_line() {
        // The compressed bytes depend on the library of the whole program.
        let text = written("hlog", &testing::recording(2, 3));
        let line = |line: &str| match line.split_once(",HISTF") {
            Some((start, _)) => format!("{start},HISTF...\n"),
            None => format!("{line}\n"),
        };
        insta::assert_snapshot!(text.lines().map(line).collect::<String>());
    }

    #[test]
    fn one_thread_has_no_tag() {
        let mut recording = testing::recording(1, 2);
        let text = written("hlog", &recording);
        assert!(!text.contains("Tag="), "{text}");
        assert_eq!(text.matches(",HISTF").count(), 2, "{text}");
        recording.series = Series::default();
        let histogram = &mut recording.threads[0].histogram;
        histogram.record(SignedNanos(2_000_000_000_000));
        recording.threads[0].accounting.recorded += 1;
        let text = written("hlog", &recording);
        assert_eq!(text.matches(",HISTF").count(), 1, "{text}");
        assert!(
            text.contains("In no interval of this log: 1 sample]"),
            "{text}"
        );
    }

    #[test]
    fn equal_titles_have_different_tags() {
        let mut recording = testing::recording(3, 1);
        for thread in &mut recording.threads {
            thread.label = Some("a, b\n".to_owned());
        }
        let text = written("hlog", &recording);
        for tag in ["Tag=a_b,", "Tag=a_b_1,", "Tag=a_b_2,"] {
            assert!(text.contains(tag), "{text}");
        }
    }
}
