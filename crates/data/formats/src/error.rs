//! Errors that can occur when a recording is written.

use std::io;

use punctual_model::RecordingId;

/// Reason why a recording was not written.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// An unknown format.
    #[error("unknown format '{name}': choose one of {}", known.join(", "))]
    Unknown {
        /// The requested value.
        name: String,
        /// The valid names.
        known: Vec<&'static str>,
    },
    /// The format needs samples, but none were kept.
    #[error(
        "the format '{format}' needs every sample, but recording {} contains no samples: measure \
         again with --samples",
        id.short()
    )]
    NeedsSamples {
        /// The format.
        format: &'static str,
        /// The recording.
        id: RecordingId,
    },
    /// The recording counts more samples than could be read.
    #[error(
        "the samples of recording {} are damaged: {kept} were stored, but {read} could be read",
        id.short()
    )]
    SamplesMissing {
        /// The recording.
        id: RecordingId,
        /// Number of samples that the recording counts.
        kept: u64,
        /// Number of samples that could be read.
        read: u64,
    },
    /// An invalid number of histogram rows.
    #[error("invalid number of 1 µs histogram rows: {asked} (choose 1 to {most})")]
    Rows {
        /// The requested value.
        asked: usize,
        /// The maximum.
        most: usize,
    },
    /// More rows were requested than the file of the other tool has.
    #[error(
        "the histogram of imported recording {} ends at {known} µs: cannot write {asked} rows of \
         1 µs",
        id.short()
    )]
    RowsUnknown {
        /// The recording.
        id: RecordingId,
        /// The requested value.
        asked: usize,
        /// Number of known rows.
        known: u64,
    },
    /// The imported file has no histogram.
    #[error(
        "recording {} was imported from a file without a histogram: cannot write histogram rows",
        id.short()
    )]
    NoRows {
        /// The recording.
        id: RecordingId,
    },
    /// The rows of the imported file are wider than 1 µs.
    #[error(
        "the histogram of imported recording {} has rows of {row}: cannot write rows of 1 µs",
        id.short()
    )]
    WideRows {
        /// The recording.
        id: RecordingId,
        /// Width of its rows.
        row: punctual_model::Nanos,
    },
    /// The samples could not be read.
    #[error("cannot read the samples: {0}")]
    Samples(#[source] io::Error),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

/// An error of the output.
impl From<io::Error> for FormatError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Writing our own types as JSON fails only if the output fails.
impl From<serde_json::Error> for FormatError {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}

/// Writing CSV fails only if the output fails.
impl From<csv::Error> for FormatError {
    fn from(error: csv::Error) -> Self {
        match error.into_kind() {
            csv::ErrorKind::Io(error) => Self::Output(error),
            other => Self::Output(io::Error::other(format!("{other:?}"))),
        }
    }
}
