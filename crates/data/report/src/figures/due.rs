//! Percentiles of samples and of due periods, side by side, if periods were missed.

use punctual_model::{Due, Histogram, Nanos, Recording, ThreadRecord, Unknown};

use super::PERCENTILES;

/// What the percentiles of the second row of a thread are of.
pub(crate) const DUE_PERIODS: &str = "of due periods";

/// Maximum number of threads. If more threads missed periods, only those with the most missed
/// periods are shown.
const THREADS: usize = 16;

/// One row with the percentiles of either samples or due periods.
#[derive(Debug)]
pub(crate) struct DueRow {
    pub(crate) title: String,
    pub(crate) of: &'static str,
    /// In the order of [`PERCENTILES`]; `None` if unknown or not supported by the number of
    /// samples.
    pub(crate) percentiles: [Option<Nanos>; 4],
}

/// Returns two rows for each thread that missed periods, and two for all threads together. The
/// first row has the percentiles of the samples, the second those used for the verdict.
pub(crate) fn due_rows(recording: &Recording) -> Vec<DueRow> {
    let mut threads: Vec<&ThreadRecord> = if recording.knows(Unknown::Missed) {
        recording.threads.iter().collect()
    } else {
        Vec::new()
    };
    threads.retain(|thread| thread.accounting.missed > 0);
    if threads.len() > THREADS {
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.accounting.missed));
        threads.truncate(THREADS);
    }
    let mut rows: Vec<DueRow> = threads
        .iter()
        .flat_map(|thread| pair(&thread.title(), &thread.histogram, &thread.due()))
        .collect();
    if !rows.is_empty() && recording.threads.len() > 1 && recording.threads_are_alike() {
        let (samples, due) = (recording.all_latencies(), recording.all_due());
        rows.extend(pair("all", &samples, &due));
    }
    rows
}

fn pair(title: &str, samples: &Histogram, due: &Due) -> [DueRow; 2] {
    let row = |of: &'static str, percentiles| DueRow {
        title: title.to_owned(),
        of,
        percentiles,
    };
    [
        row(
            "of samples",
            PERCENTILES.map(|(_, q)| samples.supported_quantile(q)),
        ),
        row(DUE_PERIODS, PERCENTILES.map(|(_, q)| quantile(due, q))),
    ]
}

/// Returns the quantile if it does not depend on how late the unknown periods were.
fn quantile(due: &Due, quantile: f64) -> Option<Nanos> {
    let above = due.periods() as f64 * (1.0 - quantile);
    due.quantile(quantile)
        .filter(|_| above > 1.0 - 1e-6)?
        .exact()
}
