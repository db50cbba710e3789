//! Why a recording was not written.

use std::io;

use punctual_model::RecordingId;

use crate::{FORMATS, MAX_ROWS};

/// Why a recording was not written.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// A format nobody knows.
    #[error("'{name}' is not a format: one of {}", names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The format is made of samples, and none were kept.
    #[error(
        "the format '{format}' needs every sample, and recording {} has none: measure again with --samples",
        id.short()
    )]
    NeedsSamples {
        /// The format.
        format: &'static str,
        /// The recording.
        id: RecordingId,
    },
    /// The format is not in this build.
    #[error(
        "the format '{format}' is not in this build of punctual: build it with cargo build --release --features {feature}"
    )]
    NotBuilt {
        /// The format.
        format: &'static str,
        /// The cargo feature that has it.
        feature: &'static str,
    },
    /// The recording says that it has more samples than could be read.
    #[error(
        "recording {} says that {kept} samples were kept, only {read} could be read: its samples are damaged",
        id.short()
    )]
    SamplesMissing {
        /// The recording.
        id: RecordingId,
        /// What the recording says.
        kept: u64,
        /// What could be read.
        read: u64,
    },
    /// A number of histogram rows that cannot be.
    #[error("a histogram of {0} rows of 1 µs cannot be written: give 1 to {MAX_ROWS}")]
    Rows(usize),
    /// More rows than the tool had whose file the recording was read from.
    #[error(
        "recording {} was counted by another tool, in rows up to {known} µs: {asked} rows of 1 µs cannot be made of them",
        id.short()
    )]
    RowsUnknown {
        /// The recording.
        id: RecordingId,
        /// What was asked for.
        asked: usize,
        /// How many there are.
        known: u64,
    },
    /// The tool whose file it was kept no histogram.
    #[error(
        "recording {} was read from a file without a histogram: no rows can be made of it",
        id.short()
    )]
    NoRows {
        /// The recording.
        id: RecordingId,
    },
    /// The tool whose file it was has wider rows.
    #[error(
        "recording {} was counted by another tool, in rows of {row}: no rows of 1 µs can be made of them",
        id.short()
    )]
    WideRows {
        /// The recording.
        id: RecordingId,
        /// How wide they are.
        row: punctual_model::Nanos,
    },
    /// The samples could not be read.
    #[error("cannot read the samples: {0}")]
    Samples(#[source] io::Error),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

fn names() -> String {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    names.join(", ")
}

/// An error of plain writing.
impl From<io::Error> for FormatError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Writing our own types as JSON fails only where the output does.
impl From<serde_json::Error> for FormatError {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}

/// Writing CSV fails only where the output does.
impl From<csv::Error> for FormatError {
    fn from(error: csv::Error) -> Self {
        match error.into_kind() {
            csv::ErrorKind::Io(error) => Self::Output(error),
            other => Self::Output(io::Error::other(format!("{other:?}"))),
        }
    }
}
