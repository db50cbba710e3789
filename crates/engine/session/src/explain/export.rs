//! Exports events of the flight recorder for other tools.

use std::collections::BTreeMap;

use punctual_model::{FromJson, RecordingId, listed};
use punctual_store::{Store, WINDOW};
use punctual_trace::{Description, LARGEST_TRACE, RawPage, trace_dat, unpack_pages};

use super::outlier_buffer::{DESCRIPTION, PAGES, REQUESTED};
use crate::SessionError;

/// A number of symbols that exceeds the number of functions in any kernel.
const MOST_SYMBOLS: usize = 1 << 20;

/// Exports the trace events around the outliers of a recording as a `trace.dat` file, which
/// trace-cmd and KernelShark read. `outlier` selects one outlier by number; otherwise, all stored
/// events are exported.
///
/// # Errors
/// Returns an error if the recording has no such events, or if they cannot be read.
pub fn export_trace(
    store: &Store,
    id: RecordingId,
    outlier: Option<u64>,
) -> Result<Vec<u8>, SessionError> {
    let attached = store.attachments(id)?;
    let kept: Vec<u64> = attached
        .iter()
        .filter(|attached| attached.kind == PAGES)
        .map(|attached| attached.number)
        .collect();
    let numbers = match outlier {
        None => kept,
        Some(number) if kept.contains(&number) => vec![number],
        Some(number) => {
            return Err(SessionError::NoSuchOutlier {
                number,
                kept: list(&kept),
            });
        }
    };
    let description = store.attachment(id, DESCRIPTION, 0)?;
    let (Some((_, description)), false) = (description, numbers.is_empty()) else {
        return Err(SessionError::NoTrace { id });
    };
    let unreadable = |what: String| SessionError::UnreadableTrace { id, what };
    for kind in [PAGES, REQUESTED, WINDOW] {
        let kept = attached.iter().filter(|attached| attached.kind == kind);
        let chosen = kept.filter(|attached| numbers.contains(&attached.number));
        let bytes = chosen.fold(0, |sum: u64, one| sum.saturating_add(one.bytes));
        if bytes > LARGEST_TRACE {
            return Err(unreadable(format!(
                "they have {bytes} bytes, but at most {LARGEST_TRACE} can be read: export one \
                 outlier at a time with --outlier N"
            )));
        }
    }
    let description =
        Description::from_json(&description).map_err(|error| unreadable(error.to_string()))?;
    let mut intervals: Vec<Vec<RawPage>> = Vec::new();
    let mut requested: Vec<Vec<RawPage>> = Vec::new();
    let mut symbols = BTreeMap::new();
    for number in numbers {
        let cut_off = || unreadable(format!("the pages of outlier {number} are truncated"));
        let pages = store.attachment(id, PAGES, number)?;
        let pages = pages.and_then(|(_, packed)| unpack_pages(&packed));
        intervals.push(pages.ok_or_else(cut_off)?);
        if let Some((_, packed)) = store.attachment(id, REQUESTED, number)? {
            requested.push(unpack_pages(&packed).ok_or_else(cut_off)?);
        }
        if let Some((_, window)) = store.window(id, number)? {
            symbols.extend(window.symbols);
            if symbols.len() > MOST_SYMBOLS {
                return Err(unreadable(format!(
                    "they contain more than {MOST_SYMBOLS} kernel addresses"
                )));
            }
        }
    }
    Ok(trace_dat(&description, &intervals, &requested, &symbols)?)
}

fn list(numbers: &[u64]) -> String {
    const SHOWN: usize = 12;
    match numbers {
        [] => "none".to_owned(),
        numbers => listed(numbers, SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(list(&[]), "none");
        assert_eq!(list(&[1, 5]), "1, 5");
        let many: Vec<u64> = (1..=20).collect();
        assert!(list(&many).ends_with("11, 12 and 8 more"));
    }
}
