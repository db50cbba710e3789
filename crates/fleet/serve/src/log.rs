//! The log of the process.

use std::io::Write;

/// Writes a line to the log of the process, which is stderr.
pub(crate) fn complain(text: &str) {
    let text = punctual_model::sanitize(text);
    // If stderr is closed, there is no place to report it.
    let _ = writeln!(std::io::stderr(), "punctual-server: {text}");
}
