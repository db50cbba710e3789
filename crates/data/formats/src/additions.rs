//! Values that punctual adds to the JSON files of other tools under the key `punctual`, because
//! those formats have no key for them. They are only written on request, because strict readers
//! reject unknown keys. Our own importers read them.

use std::collections::BTreeMap;

use punctual_model::{Completion, Histogram, Nanos, Recording, ThreadRecord, Unknown};
use serde::Serialize;

use crate::micros::Micros;

/// Values that a format has no key for.
#[derive(Debug, Serialize)]
pub struct Additions<'a> {
    recording: String,
    program: &'a str,
    completion: Completion,
    histogram_us: Option<usize>,
    thread: BTreeMap<usize, ThreadAdditions<'a>>,
}

#[derive(Debug, Serialize)]
struct ThreadAdditions<'a> {
    cpu: Option<u32>,
    label: Option<&'a str>,
    /// Null if the recording is from another tool that did not record this count. The same applies
    /// to the other counts of the sample accounting.
    expected: Option<u64>,
    missed: Option<u64>,
    early: u64,
    warm_up: Option<u64>,
    /// Samples at or above `histogram_us`; null if there is no such limit.
    overflow: Option<u64>,
    min_ns: Option<Nanos>,
    mean_ns: Option<Nanos>,
    /// Sum of the latencies, for computing the mean; null if the mean is null.
    sum_ns: Option<Nanos>,
    max_ns: Option<Nanos>,
    p50_ns: Option<Nanos>,
    p90_ns: Option<Nanos>,
    p99_ns: Option<Nanos>,
    p999_ns: Option<Nanos>,
    p9999_ns: Option<Nanos>,
}

impl<'a> Additions<'a> {
    /// Returns the additions for a file; `limit` is its number of rows of 1 µs, if it has such
    /// rows.
    pub fn new(recording: &'a Recording, limit: Option<usize>) -> Self {
        Self {
            recording: recording.id.to_string(),
            program: &recording.probe.program,
            completion: recording.completion,
            histogram_us: limit,
            thread: (recording.threads.iter().enumerate())
                .map(|(place, thread)| (place, ThreadAdditions::new(recording, thread, limit)))
                .collect(),
        }
    }
}

impl<'a> ThreadAdditions<'a> {
    fn new(recording: &Recording, thread: &'a ThreadRecord, limit: Option<usize>) -> Self {
        let account = &thread.accounting;
        let (missed, warm_up) = (
            recording.knows(Unknown::Missed),
            recording.knows(Unknown::WarmUp),
        );
        let histogram: &Histogram = &thread.histogram;
        Self {
            cpu: thread.cpu,
            label: thread.label.as_deref(),
            expected: (missed && warm_up).then_some(account.expected),
            missed: missed.then_some(account.missed),
            early: histogram.early(),
            warm_up: warm_up.then_some(account.warm_up),
            overflow: limit.map(|limit| Micros::new(histogram, limit).beyond),
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            sum_ns: histogram.mean().map(|_| histogram.sum()),
            max_ns: histogram.max(),
            p50_ns: histogram.supported_quantile(0.5),
            p90_ns: histogram.supported_quantile(0.9),
            p99_ns: histogram.supported_quantile(0.99),
            p999_ns: histogram.supported_quantile(0.999),
            p9999_ns: histogram.supported_quantile(0.9999),
        }
    }
}
