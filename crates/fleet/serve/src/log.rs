//! The log of the process.

use std::io::Write;

/// Writes a line to the log of the process, which is stderr.
pub(crate) fn complain(text: &str) {
    let text = punctual_model::sanitize(text);
    // A closed stderr cannot be reported anywhere.
    let _ = writeln!(std::io::stderr(), "punctual: {text}");
}
