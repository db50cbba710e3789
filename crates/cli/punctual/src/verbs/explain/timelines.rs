//! Stored outliers, prepared for a report.

use anyhow::Result;
use punctual_model::{Outlier, Recording};
use punctual_report::OutlierTimeline;
use punctual_store::Store;

/// One outlier with its events; `None`: they are not kept.
pub(crate) fn timeline(
    store: &Store,
    recording: &Recording,
    number: u64,
) -> Result<Option<OutlierTimeline>> {
    let found = store.window(recording.id, number)?;
    Ok(found.map(|(outlier, window)| OutlierTimeline::new(recording, outlier, window)))
}

/// All outliers of a recording whose events are kept.
pub(crate) fn all(store: &Store, recording: &Recording) -> Result<Vec<OutlierTimeline>> {
    let outliers = recording.explanation.iter().flat_map(|all| &all.outliers);
    outliers
        .filter_map(|outlier| timeline(store, recording, outlier.number).transpose())
        .collect()
}

/// The largest outlier of a recording, where one is kept.
pub(crate) fn largest(store: &Store, recording: &Recording) -> Result<Option<OutlierTimeline>> {
    match longest(recording) {
        Some(longest) => timeline(store, recording, longest.number),
        None => Ok(None),
    }
}

/// The longest outlier of a recording; the first of equal ones.
pub(super) fn longest(recording: &Recording) -> Option<&Outlier> {
    let outliers = recording.explanation.iter().flat_map(|all| &all.outliers);
    outliers.max_by_key(|outlier| (outlier.latency_ns, std::cmp::Reverse(outlier.number)))
}
