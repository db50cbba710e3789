//! Output on stdout and messages on stderr. They contain text from other sources, such as names of
//! threads and files, labels and messages. All text is sanitized here, because a terminal
//! interprets control sequences.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use punctual_model::{ToJson, escape_json, sanitize_lines};

pub use punctual_files::Output;

/// Whether this run colours its text. If so, colour sequences are not removed from the output.
static COLOURS: AtomicBool = AtomicBool::new(false);

/// Name of the program at the start of each message.
static PROGRAM: OnceLock<&str> = OnceLock::new();

/// Sets the name at the start of each message; `punctual` unless set.
pub fn set_program(name: &'static str) {
    PROGRAM.get_or_init(|| name);
}

/// Enables colours for all later output.
pub fn allow_colours() {
    COLOURS.store(true, Ordering::Relaxed);
}

/// Returns whether TERM says that the terminal does not support control sequences.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

/// Whether text on this stream is coloured unless an option says otherwise.
pub fn wants_colours(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR");
    stream.is_terminal() && wants(refused.as_deref(), is_dumb())
}

/// Returns whether `NO_COLOR` (<https://no-color.org>) and the kind of terminal allow colours.
fn wants(no_color: Option<&OsStr>, is_dumb: bool) -> bool {
    no_color.is_none_or(OsStr::is_empty) && !is_dumb
}

/// Returns sanitized text for the terminal.
pub fn safe(text: &str) -> Cow<'_, str> {
    sanitize_lines(text, COLOURS.load(Ordering::Relaxed))
}

/// Sanitizes a text with [safe], and writes it to stdout.
///
/// # Errors
/// Returns an error if stdout cannot be written.
pub fn print(text: &str) -> Result<()> {
    print_as_it_is(&safe(text))
}

/// Writes text that contains cursor movements to stdout. The caller must already have sanitized all
/// other text in it with [safe].
///
/// # Errors
/// Returns an error if stdout cannot be written.
pub fn print_as_it_is(text: &str) -> Result<()> {
    Ok(Output::stdout().put(text.as_bytes())?)
}

/// Returns a value as JSON on several lines. Terminal control characters are escaped.
pub fn json(value: &dyn ToJson) -> String {
    format!("{}\n", escape_json(&value.to_pretty_json()))
}

/// Prints a value in the format of [`json`] without keeping the whole text in memory.
///
/// # Errors
/// Returns an error if stdout cannot be written.
pub fn print_json(value: &dyn ToJson) -> Result<()> {
    let mut printed = Ok(());
    value.pretty_json_in_pieces(&mut |piece| {
        if printed.is_ok() {
            printed = print(&escape_json(piece));
        }
    });
    printed?;
    print("\n")
}

/// A long list is written in pieces of about this number of bytes.
const PIECE: usize = 64 << 10;

/// Prints a list in the JSON format of [`json`] without keeping the whole list in memory.
///
/// # Errors
/// Returns an error if stdout cannot be written.
pub fn print_json_list<T: ToJson>(values: impl Iterator<Item = T>) -> Result<()> {
    json_list(values, &mut print)
}

fn json_list<T: ToJson>(
    values: impl Iterator<Item = T>,
    write: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<()> {
    let mut piece = String::from("[");
    let mut is_empty = true;
    for value in values {
        let json = value.to_pretty_json();
        piece.push_str(if is_empty { "\n  " } else { ",\n  " });
        // The strings in this JSON contain no line breaks, because JSON escapes them.
        piece.push_str(&escape_json(&json).replace('\n', "\n  "));
        is_empty = false;
        if piece.len() > PIECE {
            write(&piece)?;
            piece.clear();
        }
    }
    piece.push_str(if is_empty { "]\n" } else { "\n]\n" });
    write(&piece)
}

/// Prints a message on stderr.
pub fn note(text: &str) {
    let program = PROGRAM.get().unwrap_or(&"punctual");
    // If stderr is closed, the error is ignored.
    let _ = writeln!(io::stderr(), "{program}: {}", sanitize_lines(text, false));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic in a test is the report")]
mod tests {
    use super::*;
    use serde_json::json as value;

    #[test]
    fn a_terminal_that_cannot_is_not_coloured() {
        let text = |text: &'static str| Some(OsStr::new(text));
        assert!(wants(None, false) && wants(text(""), false));
        assert!(!wants(text("1"), false) && !wants(None, true));
    }

    #[test]
    fn list_in_pieces_equals_whole_json() {
        let long = "x\n\u{1b}".repeat(PIECE);
        let all = [
            value!({"a": [1, 2], "b": {}}),
            value!({"text": long}),
            value!(null),
        ];
        for count in 0..=all.len() {
            let mut pieces = Vec::new();
            let mut write = |piece: &str| {
                pieces.push(piece.to_owned());
                Ok(())
            };
            json_list(all[..count].iter(), &mut write).unwrap();
            assert_eq!(pieces.concat(), json(&&all[..count]));
            assert_eq!(pieces.len() > 1, count > 1);
        }
    }
}
