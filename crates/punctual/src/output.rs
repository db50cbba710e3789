//! Output on stdout and messages on stderr. They contain foreign text: names of
//! threads and files, labels, messages. All is sanitized here, as a terminal executes
//! control sequences.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use punctual_model::{escape_json, sanitize_lines};
use serde::Serialize;

pub(crate) use punctual_files::Output;

/// Whether this run colours its text: colours then pass on their way to stdout.
static COLOURS: AtomicBool = AtomicBool::new(false);

/// Enables colours from here on.
pub(crate) fn allow_colours() {
    COLOURS.store(true, Ordering::Relaxed);
}

/// Sanitized text for the terminal.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    sanitize_lines(text, COLOURS.load(Ordering::Relaxed))
}

/// Writes a text to stdout, made [safe].
pub(crate) fn print(text: &str) -> Result<()> {
    print_as_it_is(&safe(text))
}

/// Writes to stdout what moves the cursor; all text in it is [safe] already.
pub(crate) fn print_as_it_is(text: &str) -> Result<()> {
    Ok(Output::stdout().put(text.as_bytes())?)
}

/// A value as JSON in lines. Terminal control characters are escaped.
pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string_pretty(value)?;
    Ok(format!("{}\n", escape_json(&json)))
}

/// Prints a message on stderr.
pub(crate) fn note(text: &str) {
    // Errors of a closed stderr are ignored.
    let _ = writeln!(io::stderr(), "punctual: {}", sanitize_lines(text, false));
}
