//! `csv`: every sample, one per line.
//!
//! | column | content |
//! |---|---|
//! | `thread` | index of the thread in the recording |
//! | `cpu` | CPU of the thread; empty if not pinned |
//! | `expected_ns` | due time, on CLOCK_MONOTONIC |
//! | `latency_ns` | latency; negative if early |
//!
//! If the recording was imported from a source without the times of samples, the third column is
//! `cycle`, the cycle number.
//!
//! The threads follow one after another, each with its samples in the order of measurement.

use std::io::{self, Write};

use crate::{Export, Format, FormatError};

pub(crate) const FORMAT: Format = Format {
    name: "csv",
    summary: "every sample as CSV: thread, CPU, expected time, latency",
    extension: "csv",
    needs_samples: true,
    micro_rows: false,
    write,
};

fn write(export: &Export<'_>, out: &mut dyn Write) -> Result<(), FormatError> {
    let kept = export.kept(FORMAT.name)?;
    writeln!(out, "thread,cpu,{},latency_ns", export.time_column())?;
    let mut read = 0;
    for thread in 0..export.recording.threads.len() as u32 {
        read += write_thread(export, thread, out)?;
    }
    export.check_read(kept, read)
}

/// Writes the lines of one thread. Returns their number.
fn write_thread(export: &Export<'_>, thread: u32, out: &mut dyn Write) -> Result<u64, FormatError> {
    let cpu = export
        .cpu_of(thread)
        .map_or(String::new(), |cpu| cpu.to_string());
    let mut read = 0;
    // The source returns errors of the callback unchanged, so output errors must be distinguished
    // from read errors.
    let mut output_error = None;
    let result = export.samples.for_each(thread, &mut |chunk| {
        read += chunk.len() as u64;
        for sample in chunk {
            // Lines are written without the CSV writer, because numbers need no quoting and a long
            // run has many lines.
            let (expected, latency) = (sample.expected.0, sample.latency.0);
            if let Err(error) = writeln!(out, "{thread},{cpu},{expected},{latency}") {
                output_error = Some(error);
                return Err(io::Error::other("the output failed"));
            }
        }
        Ok(())
    });
    match (output_error, result) {
        (Some(error), _) => Err(FormatError::Output(error)),
        (None, Err(error)) => Err(FormatError::Samples(error)),
        (None, Ok(())) => Ok(read),
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Nanos, Sample, SamplesKept, SignedNanos, testing};

    use super::*;
    use crate::testing::{CollectedSamples, try_written};
    use crate::{ExportOptions, NoSamples};

    fn samples(latencies: &[i64]) -> Vec<Sample> {
        (latencies.iter().zip(0..))
            .map(|(latency, place)| Sample {
                expected: Nanos(86_400_000_000_000 + place * 1_000_000),
                latency: SignedNanos(*latency),
            })
            .collect()
    }

    #[test]
    fn each_sample_is_a_line() {
        let mut recording = testing::recording(2, 0);
        recording.samples = Some(SamplesKept {
            count: 5,
            ..SamplesKept::default()
        });
        recording.threads[1].cpu = None;
        let kept = CollectedSamples(vec![
            samples(&[3_210, -12, 4_000]),
            samples(&[9, 2_000_000]),
        ]);
        let text = try_written("csv", &recording, &kept, ExportOptions::default()).unwrap();
        insta::assert_snapshot!(text, @"
        thread,cpu,expected_ns,latency_ns
        0,0,86400000000000,3210
        0,0,86400001000000,-12
        0,0,86400002000000,4000
        1,,86400000000000,9
        1,,86400001000000,2000000
        ");
    }

    #[test]
    fn without_samples_it_says_what_to_do() {
        let recording = testing::recording(1, 1);
        let error = try_written("csv", &recording, &NoSamples, ExportOptions::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("--samples"), "{error}");
    }

    #[test]
    fn missing_samples_are_an_error() {
        let mut recording = testing::recording(1, 1);
        recording.samples = Some(SamplesKept {
            count: 3,
            ..SamplesKept::default()
        });
        let kept = CollectedSamples(vec![samples(&[1, 2])]);
        let error = try_written("csv", &recording, &kept, ExportOptions::default()).unwrap_err();
        assert!(
            matches!(
                error,
                FormatError::SamplesMissing {
                    kept: 3,
                    read: 2,
                    ..
                }
            ),
            "{error}"
        );
    }

    /// A writer that always fails.
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn full_disk_differs_from_unreadable_samples() {
        let mut recording = testing::recording(1, 0);
        recording.samples = Some(SamplesKept::default());
        let kept = CollectedSamples(vec![samples(&[1])]);
        let export = Export {
            recording: &recording,
            samples: &kept,
            options: ExportOptions::default(),
        };
        let error = write_thread(&export, 0, &mut Full).unwrap_err();
        assert!(
            matches!(&error, FormatError::Output(e) if e.kind() == io::ErrorKind::StorageFull),
            "{error}"
        );
    }
}
