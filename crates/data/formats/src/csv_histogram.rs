//! `csv-histogram`: the non-empty buckets of each thread, one per line, at full resolution.
//!
//! | column | content |
//! |---|---|
//! | `thread` | index of the thread in the recording |
//! | `cpu` | CPU of the thread; empty if not pinned |
//! | `lower_ns` | lower edge of the bucket |
//! | `width_ns` | width of the bucket: latencies below `lower_ns + width_ns` |
//! | `count` | samples in the bucket |
//!
//! Samples without a bucket get separate lines, so that the counts of a thread add up to its
//! recorded samples. For early samples, `lower_ns` and `width_ns` are empty. If only a lower limit of
//! samples is known, `lower_ns` is this limit and `width_ns` is empty: samples beyond the range of
//! the histogram, and samples that an imported file counted without a bucket.

use std::io::Write;

use punctual_model::MAX_TRACKABLE_NS;

use crate::{Export, Format, FormatError};

pub(crate) const FORMAT: Format = Format {
    name: "csv-histogram",
    summary: "the histograms as CSV: thread, CPU, bucket, count",
    extension: "csv",
    needs_samples: false,
    micro_rows: false,
    write,
};

fn write(export: &Export<'_>, out: &mut dyn Write) -> Result<(), FormatError> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(["thread", "cpu", "lower_ns", "width_ns", "count"])?;
    for (place, thread) in export.recording.threads.iter().enumerate() {
        let histogram = &thread.histogram;
        let mut line = |lower: Option<u64>, width: Option<u64>, count: u64| {
            csv.serialize((place, thread.cpu, lower, width, count))
        };
        if histogram.early() > 0 {
            line(None, None, histogram.early())?;
        }
        for (lower, width, count) in histogram.buckets().iter() {
            line(Some(lower), Some(width), count)?;
        }
        if let Some(from) = histogram.unplaced_from() {
            line(Some(from.0), None, histogram.unplaced())?;
        }
        if histogram.overflow() > 0 {
            line(Some(MAX_TRACKABLE_NS), None, histogram.overflow())?;
        }
    }
    csv.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use punctual_model::{Nanos, SignedNanos, testing};

    use crate::testing::written;

    #[test]
    fn each_filled_bucket_is_a_line() {
        insta::assert_snapshot!(written("csv-histogram", &testing::recording(2, 3)));
    }

    #[test]
    fn exported_counts_sum_to_recorded_samples() {
        let mut recording = testing::recording(2, 3);
        recording.threads[1].cpu = None;
        for ns in [-5, -6, 2_000_000_000_000] {
            recording.threads[1].histogram.record(SignedNanos(ns));
        }
        let first = &mut recording.threads[0].histogram;
        first.add_unplaced(4, Nanos::from_millis(1));
        let text = written("csv-histogram", &recording);
        let mut sums = [0, 0];
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            sums[fields[0].parse::<usize>().unwrap()] += fields[4].parse::<u64>().unwrap();
        }
        assert_eq!(sums, [3_004, 3_003]);
        assert!(text.contains("\n1,,,,2\n"), "{text}");
        assert!(text.contains(",1000000,,4\n"), "{text}");
        assert!(text.contains("\n1,,1000000000000,,1\n"), "{text}");
    }
}
