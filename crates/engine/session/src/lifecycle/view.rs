//! State of a run, for a live view.

use punctual_model::{Accounting, Nanos, SignedNanos, TopSample};
use punctual_probes::WORST_KEPT;
use punctual_rt::Tid;

use super::time::Start;

/// State of one worker, for a live view.
#[derive(Clone, Debug)]
pub struct WorkerView {
    /// Name on the screen.
    pub title: String,
    /// Accounting so far.
    pub accounting: Accounting,
    /// Measuring thread, once known.
    pub tid: Option<Tid>,
    /// Thread of the other end, if that is in a separate process.
    pub partner: Option<Tid>,
    /// Number of timeouts for the latest exchange with timeouts.
    pub timeouts: u64,
    /// Number of samples that are only in the worker's own histogram.
    pub dropped: u64,
    /// Latest latency.
    pub last: Option<SignedNanos>,
    /// Minimum so far.
    pub min: Option<Nanos>,
    /// Mean so far.
    pub mean: Option<Nanos>,
    /// 99th percentile so far.
    pub p99: Option<Nanos>,
    /// Maximum so far.
    pub max: Option<Nanos>,
}

/// State of a run.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Time since the start, including warm-up.
    pub elapsed: Nanos,
    /// Planned duration; `None` if the run lasts until stopped.
    pub duration: Option<Nanos>,
    /// State of each worker.
    pub workers: Vec<WorkerView>,
    /// Largest sample so far.
    pub max_sample: Option<TopSample>,
}

/// Returns the largest samples of one worker, with their position and wall time.
pub(crate) fn top_samples_of(
    thread: u32,
    cpu: Option<u32>,
    largest: &[(Nanos, Nanos)],
    start: &Start,
) -> Vec<TopSample> {
    largest
        .iter()
        .map(|(latency, expected)| TopSample {
            time: start.wall_at(*expected),
            monotonic_ns: *expected,
            cpu,
            thread,
            latency_ns: *latency,
            blame: None,
        })
        .collect()
}

/// Returns the largest samples of all workers, in descending order.
pub(crate) fn largest_of_all(mut samples: Vec<TopSample>) -> Vec<TopSample> {
    samples.sort_by(|a, b| {
        (b.latency_ns.cmp(&a.latency_ns)).then(a.monotonic_ns.cmp(&b.monotonic_ns))
    });
    samples.truncate(WORST_KEPT);
    samples
}
