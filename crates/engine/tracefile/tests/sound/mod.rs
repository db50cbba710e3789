//! Invariants of all text traces, however hostile: shared by the tests and by the fuzz target
//! (`fuzz/`).

#![allow(unreachable_pub)]

use std::io::Cursor;

use punctual_tracefile::{Item, TraceFileError, TraceHead, open_text};

/// Reads all items of a text trace, and the head.
///
/// # Errors
/// If it is not a trace.
///
/// # Panics
/// If times go back without a warning, or there are more items than lines allow.
pub fn text(bytes: &[u8]) -> Result<(Vec<Item>, TraceHead), TraceFileError> {
    let mut reader = open_text(Cursor::new(bytes.to_vec()))?;
    let (mut items, mut last, mut goes_back) = (Vec::new(), 0, false);
    while let Some(item) = reader.next_item()? {
        let time = match &item {
            Item::Event(event) => event.time.0,
            Item::Mark(mark) => mark.time.0,
            Item::Lost { until, .. } => until.0,
        };
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
    assert!(head.warnings.len() < 10, "{:?}", head.warnings);
    assert!(head.symbols.len() <= bytes.len());
    Ok((items, head))
}
