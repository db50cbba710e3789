//! Invariants that hold for the result of any reader and any file, even a hostile one. Shared by
//! the tests and the fuzz targets (`fuzz/`).

#![allow(unreachable_pub)]

use std::io;

use punctual_formats::{
    Export, ExportOptions, FORMATS, Import, ImportError, NoSamples, SampleSink, Source,
};
use punctual_model::{Histogram, Recording, Sample};

/// Counts samples by thread.
#[derive(Default)]
struct ByThread(Vec<u64>);

impl SampleSink for ByThread {
    fn take(&mut self, thread: u32, samples: &[Sample]) -> io::Result<()> {
        let thread = thread as usize;
        assert!(thread < 1 << 20, "thread {thread} has samples");
        if self.0.len() <= thread {
            self.0.resize(thread + 1, 0);
        }
        self.0[thread] += samples.len() as u64;
        Ok(())
    }
}

/// Reads `bytes` with `import`, and checks the invariants of the result. If `thoroughly` is set,
/// also checks the files written from the result.
///
/// # Panics
/// Panics if an invariant does not hold.
pub fn read_and_check(
    import: &Import,
    bytes: &[u8],
    thoroughly: bool,
) -> Result<Recording, ImportError> {
    let mut sink = ByThread::default();
    let mut source = Source::new("file", bytes);
    let recording = (import.read)(&mut source, &mut sink)?;
    check(&recording);
    if thoroughly {
        check_written(&recording);
    }
    if import.has_samples {
        let recorded: Vec<u64> = (recording.threads.iter())
            .map(|thread| thread.accounting.recorded)
            .collect();
        sink.0.resize(recorded.len().max(sink.0.len()), 0);
        assert_eq!(sink.0, recorded, "samples by thread");
    } else {
        assert!(sink.0.is_empty(), "samples of a format that has none");
    }
    Ok(recording)
}

/// Checks the invariants of a recording.
fn check(recording: &Recording) {
    // Our own recordings are imported unchanged, whatever their content is.
    let Some(origin) = recording
        .origin
        .as_ref()
        .filter(|origin| origin.file == "file")
    else {
        return;
    };
    assert!(!origin.format.is_empty());
    assert!(!recording.threads.is_empty(), "a recording without threads");
    for thread in &recording.threads {
        let account = &thread.accounting;
        assert!(account.balances(), "{account:?}");
        assert_eq!(account.recorded, thread.histogram.recorded());
        check_histogram(&thread.histogram);
    }
}

/// Checks the files written from a recording.
fn check_written(recording: &Recording) {
    for thread in &recording.threads {
        let histogram = &thread.histogram;
        let back = Histogram::decode(&histogram.encode());
        assert!(back.as_ref() == Ok(histogram), "the stored form differs");
    }
    let json = serde_json::to_string(recording).expect("JSON");
    let back = Recording::from_json(&json).expect("a recording");
    assert!(back == *recording, "the JSON form is another recording");
    for format in FORMATS.iter().filter(|format| !format.needs_samples) {
        let export = Export {
            recording,
            samples: &NoSamples,
            // Only a few rows are used, because a file with two samples could have a million of
            // them.
            options: ExportOptions {
                sparse_rows: false,
                extra_key: true,
                histogram_us: format.micro_rows.then_some(16),
            },
        };
        let written = (format.write)(&export, &mut io::sink());
        // A recording that the other tool did not count in such rows cannot be written in this
        // format.
        if let Err(error) = written {
            assert!(format.micro_rows, "{}: {error}", format.name);
        }
    }
}

fn check_histogram(histogram: &Histogram) {
    let in_rows = histogram
        .rows()
        .map(|row| row.2)
        .fold(0, u64::saturating_add);
    let all = in_rows
        .saturating_add(histogram.unplaced())
        .saturating_add(histogram.overflow());
    assert_eq!(all, histogram.count(), "rows, unplaced and overflow");
    for quantile in [0.0, 0.5, 0.999, 1.0] {
        let found = histogram.quantile(quantile);
        if let (Some(found), Some(min), Some(max)) = (found, histogram.min(), histogram.max()) {
            assert!(
                (min..=max).contains(&found),
                "{quantile}: {found} not in {min} to {max}"
            );
        }
    }
}
