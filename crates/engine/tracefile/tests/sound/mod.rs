//! Invariants of all traces, even damaged ones. They are shared by the tests and the fuzz target
//! (`fuzz/`).

#![allow(unreachable_pub, dead_code)]

use std::io::Cursor;
use std::path::Path;

use punctual_tracefile::{Input, Item, TraceFileError, TraceHead, TraceReader, open, open_text};

/// Reads all items and the head of a text trace.
///
/// # Errors
/// Returns an error if the input is not a trace.
///
/// # Panics
/// Panics if times go backwards without a warning, or if there are more items than the number of
/// lines allows.
pub fn text(bytes: &[u8]) -> Result<(Vec<Item>, TraceHead), TraceFileError> {
    let (items, head) = items(open_text(Cursor::new(bytes.to_vec()))?)?;
    assert!(head.warnings.len() < 10, "{:?}", head.warnings);
    assert!(head.symbols.len() <= bytes.len());
    Ok((items, head))
}

/// Reads all items and the head of a trace in any format.
///
/// # Errors
/// Returns an error if the input is not a trace.
///
/// # Panics
/// Panics if times go backwards without a warning.
pub fn any(bytes: &[u8]) -> Result<(Vec<Item>, TraceHead), TraceFileError> {
    let (items, head) = items(open(Input::stream(Cursor::new(bytes.to_vec())))?)?;
    assert!(head.warnings.len() < 250, "{}", head.warnings.len());
    Ok((items, head))
}

/// Reads all items and the head of the trace in a folder.
///
/// # Errors
/// Returns an error if the folder contains no trace.
///
/// # Panics
/// Panics if times go backwards.
pub fn folder(path: &Path) -> Result<(Vec<Item>, TraceHead), TraceFileError> {
    let (items, head) = items(open(Input::path(path)?)?)?;
    assert!(head.warnings.len() < 250, "{}", head.warnings.len());
    Ok((items, head))
}

/// Between the files of a CTF trace that is one blob. The first file is the metadata.
pub const NEXT_FILE: &[u8] = b"\0FILE\0";

/// Reads all items and the head of a CTF trace whose files are one blob.
///
/// # Errors
/// Returns an error if the files are not a trace.
///
/// # Panics
/// Panics if times go backwards.
pub fn ctf(bytes: &[u8]) -> Result<(Vec<Item>, TraceHead), TraceFileError> {
    let to = tempfile::tempdir().expect("a temporary folder");
    let (mut rest, mut name) = (bytes, "metadata".to_owned());
    for number in 0.. {
        let end = (rest.windows(NEXT_FILE.len())).position(|part| part == NEXT_FILE);
        let file = &rest[..end.unwrap_or(rest.len())];
        std::fs::write(to.path().join(&name), file).expect("a file");
        let Some(end) = end else { break };
        rest = &rest[end + NEXT_FILE.len()..];
        name = format!("channel0_{number}");
    }
    folder(to.path())
}

fn items(mut reader: Box<dyn TraceReader>) -> Result<(Vec<Item>, TraceHead), TraceFileError> {
    let (mut items, mut last, mut goes_back) = (Vec::new(), 0, false);
    while let Some(item) = reader.next_item()? {
        let time = item.time().0;
        goes_back |= time < last;
        last = time;
        items.push(item);
    }
    let head = reader.head().clone();
    let restarts = |warning: &String| warning.contains("another trace begins");
    assert!(
        !goes_back || head.warnings.iter().any(restarts),
        "{:?}",
        head.warnings
    );
    Ok((items, head))
}
