//! Stored outliers, prepared for a report.

use anyhow::Result;
use punctual_culprit::{Tally, lanes, segments};
use punctual_model::{Explanation, Nanos, Recording};
use punctual_report::OutlierTimeline;
use punctual_store::Store;

/// The causes of an interrupted run follow from the kept outliers.
pub(crate) fn complete(explanation: &mut Explanation, interval: Option<Nanos>) {
    if explanation.causes.is_empty() && !explanation.outliers.is_empty() {
        let tally = Tally::of(&explanation.outliers).looking_each(interval.unwrap_or_default());
        explanation.causes = tally.causes();
        explanation.periods = tally.periods();
    }
}

/// The same, in its recording.
pub(crate) fn complete_in(recording: &mut Recording) {
    let interval = recording.duration_parameter("interval_ns");
    if let Some(explanation) = &mut recording.explanation {
        complete(explanation, interval);
    }
}

/// One outlier with its events; `None`: they are not kept.
pub(crate) fn timeline(
    store: &Store,
    recording: &Recording,
    number: u64,
) -> Result<Option<OutlierTimeline>> {
    let found = store.window(recording.id, number)?;
    Ok(found.map(|(outlier, window)| OutlierTimeline {
        recording: recording.id,
        segments: segments(&window),
        lanes: lanes(&window),
        outlier,
        window,
    }))
}

/// The worst outlier of a recording, where one is kept.
pub(crate) fn worst(store: &Store, recording: &Recording) -> Result<Option<OutlierTimeline>> {
    let outliers = recording.explanation.iter().flat_map(|all| &all.outliers);
    match outliers.max_by_key(|outlier| (outlier.latency_ns, std::cmp::Reverse(outlier.number))) {
        Some(worst) => timeline(store, recording, worst.number),
        None => Ok(None),
    }
}
