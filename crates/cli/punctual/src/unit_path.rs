//! Paths in systemd units.

use std::path::Path;

use anyhow::Result;

use crate::exit::UsageError;

/// Returns the text of a path in a unit file.
///
/// # Errors
/// Returns an error for a path that a unit file cannot contain.
pub(crate) fn utf8(path: &Path) -> Result<&str> {
    let text = path.to_str().filter(|text| !text.contains('\n'));
    text.ok_or_else(|| {
        let path = path.display();
        UsageError(format!(
            "{path}: a path in a unit file must be UTF-8 without line breaks"
        ))
        .into()
    })
}
