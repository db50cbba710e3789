//! Words of systemd units.

use std::path::Path;

use anyhow::Result;

use crate::exit::UsageError;

/// Returns the text of a path in a unit file.
///
/// # Errors
/// Returns an error for a path that a unit file cannot contain.
pub fn path_text(path: &Path) -> Result<&str> {
    let text = path.to_str().filter(|text| !text.contains('\n'));
    text.ok_or_else(|| {
        let path = path.display();
        UsageError(format!(
            "{path}: a path in a unit file must be UTF-8 without line breaks"
        ))
        .into()
    })
}

/// Quotes a word of a command line for systemd, which expands `%` and splits at spaces.
///
/// # Errors
/// Returns an error for control characters, because systemd also ends a line at `\r`.
pub fn quoted(text: &str) -> Result<String> {
    if text.chars().any(char::is_control) {
        let text = text.escape_debug();
        return Err(UsageError(format!(
            "the path {text} has control characters, which a systemd unit cannot contain: use \
             another path"
        ))
        .into());
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    let escaped = escaped.replace('%', "%%").replace('$', "$$");
    Ok(format!("\"{escaped}\""))
}
