//! Stored outliers in the form that a report needs.

use anyhow::Result;
use punctual_model::{Outlier, Recording};
use punctual_report::OutlierTimeline;
use punctual_store::Store;

/// Returns an outlier with its events; `None` if they are not stored.
pub(crate) fn timeline(
    store: &Store,
    recording: &Recording,
    number: u64,
) -> Result<Option<OutlierTimeline>> {
    let found = store.window(recording.id, number)?;
    Ok(found.map(|(outlier, window)| OutlierTimeline::new(recording, outlier, window)))
}

/// Returns all outliers of a recording whose events are stored.
pub(crate) fn all(store: &Store, recording: &Recording) -> Result<Vec<OutlierTimeline>> {
    let outliers = recording.explanation.iter().flat_map(|all| &all.outliers);
    outliers
        .filter_map(|outlier| timeline(store, recording, outlier.number).transpose())
        .collect()
}

/// Returns the longest outlier of a recording. Returns `None` if there are no outliers or its
/// events are not stored.
pub(crate) fn largest(store: &Store, recording: &Recording) -> Result<Option<OutlierTimeline>> {
    match longest(recording) {
        Some(longest) => timeline(store, recording, longest.number),
        None => Ok(None),
    }
}

/// Returns the longest outlier of a recording. If several are equally long, returns the first.
pub(crate) fn longest(recording: &Recording) -> Option<&Outlier> {
    let outliers = recording.explanation.iter().flat_map(|all| &all.outliers);
    outliers.max_by_key(|outlier| (outlier.latency_ns, std::cmp::Reverse(outlier.number)))
}
