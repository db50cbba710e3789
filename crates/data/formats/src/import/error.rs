//! Errors that can occur when a file is read.

use std::fmt;
use std::io;

/// Reason why a file was not read. Each message begins with the file name and the location, if
/// known.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// An unknown format name.
    #[error("unknown import format '{name}': choose one of {}", known.join(", "))]
    UnknownFormat {
        /// The requested value.
        name: String,
        /// The valid names.
        known: Vec<&'static str>,
    },
    /// No format matches.
    #[error(
        "{file}: begins with \"{begins}\": unknown format (known: {}). If you know the format, \
         select it with --format",
        known.join(", ")
    )]
    Unrecognised {
        /// The file.
        file: String,
        /// Its first characters.
        begins: String,
        /// The known formats.
        known: Vec<&'static str>,
    },
    /// A known kind of file that cannot be imported.
    #[error("{file}: {what}")]
    Foreign {
        /// The file.
        file: String,
        /// Name of this kind of file, and a remedy.
        what: &'static str,
    },
    /// More than one format matches.
    #[error("{file}: the format could be {}: choose it with --format", names.join(" or "))]
    Ambiguous {
        /// The file.
        file: String,
        /// The formats that match.
        names: Vec<&'static str>,
    },
    /// The file could not be read any further.
    #[error("{file}: reading failed after {offset} bytes: {source}")]
    Read {
        /// The file.
        file: String,
        /// Bytes read before the failure.
        offset: u64,
        /// The cause.
        source: io::Error,
    },
    /// The file violates its format.
    #[error("{file}{location}: {reason}")]
    Bad {
        /// The file.
        file: String,
        /// The location.
        location: Location,
        /// Description of the problem, and a remedy.
        reason: String,
    },
    /// The samples could not be stored.
    #[error("{file}: cannot store its samples: {source}")]
    Sink {
        /// The file.
        file: String,
        /// The cause.
        source: io::Error,
    },
}

/// A location in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// The file as a whole.
    Whole,
    /// A line number, from 1.
    Line(u64),
    /// A byte offset, from 0.
    Byte(u64),
}

/// Formats as `:12` like compilers, as ` at byte 280`, or as an empty text.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Line(line) => write!(f, ":{line}"),
            Self::Byte(byte) => write!(f, " at byte {byte}"),
        }
    }
}
