//! Why a file was not read.

use std::fmt;
use std::io;

/// Why a file was not read. Each begins with the file's name and, where it is
/// known, the place.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// An unknown format name.
    #[error("unknown import format '{name}': choose one of {}", known.join(", "))]
    UnknownFormat {
        /// The requested value.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// No format matches.
    #[error(
        "{file}: begins with \"{begins}\": unknown format (known: {}). If it is one of \
         them all the same, say which with --from",
        known.join(", ")
    )]
    Unrecognised {
        /// The file.
        file: String,
        /// Its first characters.
        begins: String,
        /// The formats there are.
        known: Vec<&'static str>,
    },
    /// A known kind of file that cannot be imported.
    #[error("{file}: {what}")]
    Foreign {
        /// The file.
        file: String,
        /// What it is, and what to do.
        what: &'static str,
    },
    /// More than one format matches.
    #[error("{file}: the format could be {}: choose it with --from", names.join(" or "))]
    Ambiguous {
        /// The file.
        file: String,
        /// The formats that match.
        names: Vec<&'static str>,
    },
    /// The file could not be read on.
    #[error("{file}: reading failed after {offset} bytes: {source}")]
    Read {
        /// The file.
        file: String,
        /// Bytes read before the failure.
        offset: u64,
        /// The cause.
        source: io::Error,
    },
    /// The file is not as its format says.
    #[error("{file}{place}: {reason}")]
    Bad {
        /// The file.
        file: String,
        /// The place.
        place: Place,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The samples could not be kept.
    #[error("{file}: cannot keep its samples: {source}")]
    Sink {
        /// The file.
        file: String,
        /// The cause.
        source: io::Error,
    },
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    Whole,
    /// A line, from 1 on.
    Line(u64),
    /// A byte, from 0 on.
    Byte(u64),
}

/// `:12` as compilers write it, ` at byte 280`, nothing.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Line(line) => write!(f, ":{line}"),
            Self::Byte(byte) => write!(f, " at byte {byte}"),
        }
    }
}
