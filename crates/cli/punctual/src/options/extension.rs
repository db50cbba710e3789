//! Finds the format of an output file from its extension.

use std::path::Path;

use crate::exit::UsageError;

/// Returns the extension of a file in lower case; empty if there is none.
pub(crate) fn extension_of(path: &Path) -> String {
    let extension = path.extension().unwrap_or_default();
    extension.to_string_lossy().to_ascii_lowercase()
}

/// Refuses a file whose extension is not one of those that the verb can write. A file without an
/// extension, such as a device or `-` (stdout), is accepted.
///
/// # Errors
/// Returns an error for an extension that is not in `known`.
pub(crate) fn check(path: &Path, known: &[&str]) -> Result<(), UsageError> {
    let extension = extension_of(path);
    if extension.is_empty() || known.contains(&extension.as_str()) {
        return Ok(());
    }
    Err(unknown(path, known))
}

/// The error for a file whose extension is unknown.
pub(crate) fn unknown(path: &Path, known: &[&str]) -> UsageError {
    UsageError(format!(
        "{}: unknown file extension: use .{}",
        path.display(),
        known.join(" or .")
    ))
}
