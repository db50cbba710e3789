//! Reads whole files, up to a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::FileError;

/// Reads a whole file.
///
/// # Errors
/// Returns the errors of open(2) and read(2), and an error if the file has more than `limit` bytes.
pub fn bytes(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let file = File::open(path).map_err(|source| FileError::Read {
        path: path.to_owned(),
        source,
    })?;
    bytes_of(file, path, limit)
}

/// Reads a whole text file.
///
/// # Errors
/// Returns the errors of [`bytes`], and an error if the file is not UTF-8.
pub fn text(path: &Path, limit: u64) -> Result<String, FileError> {
    text_of(bytes(path, limit)?, path)
}

/// Reads an open file to its end. `path` is the name used in errors.
///
/// # Errors
/// Returns the errors of read(2), and an error for more than `limit` bytes.
pub fn bytes_of(reader: impl Read, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    // Reads one more byte to distinguish a longer file from a file of exactly this length.
    let read = reader
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|source| FileError::Read {
            path: path.to_owned(),
            source,
        })?;
    if read as u64 > limit {
        Err(FileError::TooLarge {
            path: path.to_owned(),
            limit,
        })
    } else {
        Ok(bytes)
    }
}

/// Converts bytes that were read to text. `path` is the name used in errors.
///
/// # Errors
/// Returns an error if the bytes are not UTF-8.
pub fn text_of(bytes: Vec<u8>, path: &Path) -> Result<String, FileError> {
    String::from_utf8(bytes).map_err(|error| FileError::NotText {
        path: path.to_owned(),
        at: error.utf8_error().valid_up_to(),
    })
}

/// Reads stdin to its end, as bytes.
///
/// # Errors
/// See [`bytes_of`].
pub fn stdin(limit: u64) -> Result<Vec<u8>, FileError> {
    bytes_of(io::stdin().lock(), Path::new("stdin"), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_file_is_refused_with_limit() {
        let error = bytes(Path::new("/dev/zero"), 1_000)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/dev/zero is too large to be read: it has more than 1000 bytes"),
            "{error}"
        );
    }

    #[test]
    fn file_at_limit_is_read_larger_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(text(&path, 5).unwrap(), "12345");
        assert!(matches!(
            text(&path, 4),
            Err(FileError::TooLarge { limit: 4, .. })
        ));
        std::fs::write(&path, b"ab\xff").unwrap();
        assert!(matches!(
            text(&path, 5),
            Err(FileError::NotText { at: 2, .. })
        ));
        let missing = text(&folder.path().join("none"), 5).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
