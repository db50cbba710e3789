//! Limits of reading the files of a program, and of storing their contents.

use std::time::Duration;

/// Maximum number of symbols of one file.
pub(super) const MOST_SYMBOLS: usize = 1 << 20;

/// Maximum length of a name in characters. Names of C++ templates can be longer.
pub(super) const LONGEST_NAME: usize = 200;

/// Maximum number of segments of one file.
pub(super) const MOST_SEGMENTS: usize = 64;

/// Maximum length of a build ID in bytes.
pub(super) const LONGEST_BUILD_ID: usize = 64;

/// Maximum number of bytes to read from all files of a program.
pub(super) const MOST_READ: u64 = 64 << 20;

/// Time limit for the readers of all files of a program together.
const MOST_TIME: Duration = Duration::from_secs(10);

/// Maximum number of bytes to store for addresses and names of a program's functions.
pub(super) const MOST_KEPT: u64 = 64 << 20;

/// The number of bytes of a program's files that may still be read and kept, and the time that
/// readers may still use.
#[derive(Clone, Debug)]
pub(super) struct Allowance {
    pub(super) read: u64,
    pub(super) kept: u64,
    pub(super) time: Duration,
    /// Whether to read how to find callers.
    pub(super) rows: bool,
}

impl Allowance {
    /// Returns the allowance of a program before any of its files is read.
    pub(super) fn whole() -> Self {
        Self {
            read: MOST_READ,
            kept: MOST_KEPT,
            time: MOST_TIME,
            rows: false,
        }
    }

    /// Subtracts the number of bytes that an entry with this name requires.
    pub(super) fn keep(&mut self, name: &str) -> Result<(), NoFunctions> {
        self.keep_bytes(size_of::<(u64, u64, String)>() + name.len())
    }

    /// Subtracts a number of bytes.
    pub(super) fn keep_bytes(&mut self, bytes: usize) -> Result<(), NoFunctions> {
        let left = self.kept.checked_sub(bytes as u64);
        self.kept = left.ok_or(NoFunctions::TooMany)?;
        Ok(())
    }
}

/// The reason why none or only some of the functions of a file are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoFunctions {
    #[error("it is not an ELF program ({0})")]
    NotAProgram(object::Error),
    #[error("it is an ELF file, but neither a program nor a library")]
    OtherKind,
    #[error("reading its symbols would exceed the limit of {} MiB for one \
             program", MOST_READ >> 20)]
    TooLarge,
    #[error("storing its symbols would exceed the limit of {} MiB for one \
             program", MOST_KEPT >> 20)]
    TooMany,
    #[error("it has more than {MOST_SYMBOLS} symbols")]
    ManySymbols,
    #[error("{0}")]
    Reader(String),
}
