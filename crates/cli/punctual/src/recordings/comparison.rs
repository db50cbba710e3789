//! A comparison of two recordings as a part of a report.

use anyhow::Result;
use punctual_model::Recording;
use punctual_stats::{CompareError, Comparison, Options, compare_runs};
use punctual_store::Store;

use super::pieces;

/// Compares exactly two recordings for a report. The first is the baseline. Returns `None` for any
/// other number of recordings.
///
/// # Errors
/// Returns an error if the stored samples cannot be read.
pub(crate) fn of_two(
    recordings: &[Recording],
    store: &Store,
) -> Result<Option<std::result::Result<Comparison, CompareError>>> {
    let [baseline, candidate] = recordings else {
        return Ok(None);
    };
    let mut both = [baseline.clone(), candidate.clone()];
    for recording in &mut both {
        pieces::instead_of_intervals(store, recording)?;
    }
    let [baseline, candidate] = &both;
    Ok(Some(compare_runs(
        &[baseline],
        &[candidate],
        &Options::default(),
    )))
}
