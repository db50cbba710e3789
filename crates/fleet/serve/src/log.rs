//! The log of the process.

use std::io::Write;

/// Writes a line to the log of the process: its stderr.
pub(crate) fn complain(text: &str) {
    let text = punctual_model::sanitize(text);
    // Nobody is left to hear of a closed stderr.
    let _ = writeln!(std::io::stderr(), "punctual: {text}");
}
