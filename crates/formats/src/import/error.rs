//! Why a file was not read.

use std::fmt;
use std::io;

use super::IMPORTS;

/// Why a file was not read. Each begins with the file's name and, where it is
/// known, the place.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A name of a format nobody knows.
    #[error("'{name}' is not a format that can be imported: one of {}", names())]
    UnknownFormat {
        /// What was asked for.
        name: String,
    },
    /// No format fits.
    #[error(
        "{file}: begins with \"{begins}\", which is none of the formats known: {}. If it is one of \
         them all the same, say which with --from",
        names()
    )]
    Unrecognised {
        /// The file.
        file: String,
        /// Its first characters.
        begins: String,
    },
    /// It is known, and nothing that is read.
    #[error("{file}: {what}")]
    Foreign {
        /// The file.
        file: String,
        /// What it is, and what to do.
        what: &'static str,
    },
    /// More than one format fits.
    #[error("{file}: could be {}: say which with --from", names.join(" or "))]
    Ambiguous {
        /// The file.
        file: String,
        /// The formats that fit.
        names: Vec<&'static str>,
    },
    /// The file could not be read on.
    #[error("{file}: cannot be read after {offset} bytes: {source}")]
    Read {
        /// The file.
        file: String,
        /// How much was read until then.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// The file is not as its format says.
    #[error("{file}{place}: {reason}")]
    Bad {
        /// The file.
        file: String,
        /// Where.
        place: Place,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The samples could not be kept.
    #[error("{file}: cannot keep its samples: {source}")]
    Sink {
        /// The file.
        file: String,
        /// Why.
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

fn names() -> String {
    let names: Vec<&str> = IMPORTS.iter().map(|import| import.name).collect();
    names.join(", ")
}
