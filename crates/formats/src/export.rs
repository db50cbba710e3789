//! What a writer is given, and how a format is described.

use std::fmt;
use std::io::Write;

use punctual_model::{Recording, Unknown};

use crate::{FormatError, SampleSource};

/// One file format: an entry of [`FORMATS`](crate::FORMATS).
#[derive(Clone, Copy)]
pub struct Format {
    /// The name that is typed: `cyclictest-json`.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// The usual ending of its files, without the dot.
    pub extension: &'static str,
    /// Whether it is made of the samples themselves, which are only there
    /// where they were asked for (`--samples`).
    pub needs_samples: bool,
    /// Whether it is made of rows of 1 µs, whose number can be chosen
    /// ([`ExportOptions::histogram_us`]).
    pub micro_rows: bool,
    /// Writes a recording. It writes in many small pieces: give it a buffered
    /// writer, and flush that.
    ///
    /// # Errors
    /// Whatever keeps the file from being written whole; the bytes written so
    /// far are then not to be kept.
    pub write: fn(&Export<'_>, &mut dyn Write) -> Result<(), FormatError>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What is to be written.
#[derive(Clone, Copy)]
pub struct Export<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// Its samples; [`NoSamples`](crate::NoSamples) where there are none.
    pub samples: &'a dyn SampleSource,
    /// How.
    pub options: ExportOptions,
}

impl<'a> Export<'a> {
    /// The CPU of thread `thread` of the recording, where it had one.
    pub(crate) fn cpu_of(&self, thread: u32) -> Option<u32> {
        self.recording.threads.get(thread as usize)?.cpu
    }

    /// How many samples were kept, for a format that is made of them.
    ///
    /// # Errors
    /// [`FormatError::NeedsSamples`] where none were.
    pub(crate) fn kept(&self, format: &'static str) -> Result<u64, FormatError> {
        match self.recording.samples {
            Some(samples) => Ok(samples.count),
            None => Err(FormatError::NeedsSamples {
                format,
                id: self.recording.id,
            }),
        }
    }

    /// What the column of times is called: where another tool did not say when
    /// samples were due, it holds the numbers of their cycles.
    pub(crate) fn time_column(&self) -> &'static str {
        match self.recording.knows(Unknown::Times) {
            true => "expected_ns",
            false => "cycle",
        }
    }

    /// Holds what could be read against what was kept.
    ///
    /// # Errors
    /// [`FormatError::SamplesMissing`] where some are missing.
    pub(crate) fn check_read(&self, kept: u64, read: u64) -> Result<(), FormatError> {
        let id = self.recording.id;
        match read < kept {
            true => Err(FormatError::SamplesMissing { id, kept, read }),
            false => Ok(()),
        }
    }
}

/// How a recording is to be written. Each option says which formats it is for;
/// the others have no use for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// `cyclictest-hist`: leave out rows without a sample, as cyclictest 2.10
    /// does.
    pub sparse_rows: bool,
    /// `cyclictest-json`, `rt-dataset`: add the key `punctual`. Strict readers refuse it.
    pub extra_key: bool,
    /// Formats with [`micro_rows`](Format::micro_rows): how many rows of 1 µs,
    /// as cyclictest's `-h`; latencies at or above are overflows. From 1 to
    /// [`MAX_ROWS`](crate::MAX_ROWS). `None`: enough for the largest latency.
    pub histogram_us: Option<usize>,
}
