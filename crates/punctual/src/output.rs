//! What is said on stdout and beside the result.

use std::io::{self, Write};

use anyhow::Result;

pub(crate) use punctual_files::Output;

/// Writes a text to stdout.
pub(crate) fn print(text: &str) -> Result<()> {
    Ok(Output::stdout().put(text.as_bytes())?)
}

/// Says something beside the result, on stderr.
pub(crate) fn note(text: &str) {
    // Nobody to tell if stderr is closed.
    let _ = writeln!(io::stderr(), "punctual: {text}");
}
