//! Percentiles of samples beside those of due periods, where periods were missed.

use punctual_model::{Due, Histogram, Nanos, Recording, ThreadRecord, Unknown};

use super::PERCENTILES;

/// Of more threads than this, those that missed the most are shown.
const THREADS: usize = 16;

/// One row: the percentiles of samples, or of due periods.
#[derive(Debug)]
pub(crate) struct DueRow {
    pub(crate) title: String,
    pub(crate) of: &'static str,
    /// In the order of [`PERCENTILES`]; `None` where not supported or not known.
    pub(crate) percentiles: [Option<Nanos>; 4],
}

/// Two rows for each thread that missed periods, and for all together: what the
/// samples alone show, and what is judged.
pub(crate) fn due_rows(recording: &Recording) -> Vec<DueRow> {
    let mut threads: Vec<&ThreadRecord> = match recording.knows(Unknown::Missed) {
        true => recording.threads.iter().collect(),
        false => Vec::new(),
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
    if !rows.is_empty() && recording.threads.len() > 1 && recording.lanes_are_alike() {
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
        row("of due periods", PERCENTILES.map(|(_, q)| quantile(due, q))),
    ]
}

/// One that is the same however late the unknown ones were.
fn quantile(due: &Due, quantile: f64) -> Option<Nanos> {
    let above = due.periods() as f64 * (1.0 - quantile);
    due.quantile(quantile)
        .filter(|_| above > 1.0 - 1e-6)?
        .exact()
}
