//! The input of a writer, and the description of a format.

use std::fmt;
use std::io::Write;

use punctual_model::{Recording, Unknown};

use crate::{FormatError, SampleSource};

/// A file format: an entry of [`FORMATS`](crate::FORMATS).
#[derive(Clone, Copy)]
pub struct Format {
    /// Name on the command line: `cyclictest-json`.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// Usual file extension, without the dot.
    pub extension: &'static str,
    /// Whether it needs individual samples, which are kept only with `--samples`.
    pub needs_samples: bool,
    /// Whether it consists of rows of 1 µs, whose number is an option
    /// ([`ExportOptions::histogram_us`]).
    pub micro_rows: bool,
    /// Writes a recording. It makes many small writes, so pass a buffered writer and flush it
    /// afterwards.
    ///
    /// # Errors
    /// Returns an error if the whole file cannot be written. In that case, discard the bytes
    /// written so far.
    pub write: fn(&Export<'_>, &mut dyn Write) -> Result<(), FormatError>,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The recording to write, with its samples and options.
#[derive(Clone, Copy)]
pub struct Export<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// Its samples; [`NoSamples`](crate::NoSamples) if there are none.
    pub samples: &'a dyn SampleSource,
    /// Options of the formats.
    pub options: ExportOptions,
}

impl<'a> Export<'a> {
    /// Returns the CPU of the recording's thread `thread`, if it was pinned.
    pub(crate) fn cpu_of(&self, thread: u32) -> Option<u32> {
        self.recording.threads.get(thread as usize)?.cpu
    }

    /// Returns the number of samples that were kept, for formats that need samples.
    ///
    /// # Errors
    /// Returns [`FormatError::NeedsSamples`] if none were kept.
    pub(crate) fn kept(&self, format: &'static str) -> Result<u64, FormatError> {
        match self.recording.samples {
            Some(samples) => Ok(samples.count),
            None => Err(FormatError::NeedsSamples {
                format,
                id: self.recording.id,
            }),
        }
    }

    /// Returns the name of the column of due times. If another tool did not record them, the column
    /// contains cycle numbers.
    pub(crate) fn time_column(&self) -> &'static str {
        if self.recording.knows(Unknown::Times) {
            "expected_ns"
        } else {
            "cycle"
        }
    }

    /// Compares the number of samples read with the number kept.
    ///
    /// # Errors
    /// Returns [`FormatError::SamplesMissing`] if any are missing.
    pub(crate) fn check_read(&self, kept: u64, read: u64) -> Result<(), FormatError> {
        let id = self.recording.id;
        if read < kept {
            Err(FormatError::SamplesMissing { id, kept, read })
        } else {
            Ok(())
        }
    }
}

/// Options for writing. Each one names the formats that use it; other formats ignore it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// `cyclictest-hist`: omit rows without a sample, as cyclictest 2.10 does.
    pub sparse_rows: bool,
    /// `cyclictest-json`, `rt-dataset`: add the key `punctual`. Strict readers reject this key.
    pub extra_key: bool,
    /// Formats with [`micro_rows`](Format::micro_rows): number of rows of 1 µs, from 1 to
    /// [`MAX_ROWS`](crate::MAX_ROWS), like cyclictest's `-h`. Latencies of at least this number of
    /// µs are overflows. `None` means enough rows for the largest latency.
    pub histogram_us: Option<usize>,
}
