//! Ranges and lines of a text.

use std::ops::Range;

/// A range of a text that contains parameters.
pub(super) struct Span {
    pub(super) range: Range<usize>,
    /// Whether the value has no quotation marks. Quotation marks must be added if the new value has
    /// more than one word.
    pub(super) bare: bool,
}

impl Span {
    /// A range whose text is used as it is.
    pub(super) fn plain(range: Range<usize>) -> Self {
        Self { range, bare: false }
    }
}

/// Returns the lines without their newlines, each with its offset.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut place = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = place;
        place += line.len();
        (start, line.trim_end_matches(['\n', '\r']))
    })
}
