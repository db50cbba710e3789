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
