//! Parameters of a measurement.

mod phase;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use punctual_model::{Arguments, CpuSet, GroupFacts, Nanos, Policy, Requirement, Role};
use punctual_probes::{Iterations, ProbeEntry};
use punctual_trace::{EventChoice, Level};

use crate::kernel_trace::KernelTrace;
pub use phase::{PhaseError, PhaseRequest, RunLength};

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Request {
    /// Probe to measure with.
    pub probe: &'static ProbeEntry,
    /// Parameters of the probe.
    pub arguments: Arguments,
    /// Calibrated size of the probe's work, which all phases share.
    pub iterations: Iterations,
    /// Command that starts this program as the other end of a probe, in a separate process. The
    /// probe's task is added as the last argument. `None` if that is not possible.
    pub partner: Option<Vec<OsString>>,
    /// The measuring threads.
    pub threads: ThreadRequest,
    /// Phases, measured in sequence; usually one.
    pub phases: Vec<PhaseRequest>,
    /// Length of the part at the start that is discarded; `None` for the default.
    pub warm_up: Option<Nanos>,
    /// Whether a run that is too short for any sample is accepted.
    pub may_be_empty: bool,
    /// What happens at latencies above a limit.
    pub limits: LimitRequest,
    /// Which latencies to explain; `None` for none.
    pub explain: Option<ExplainRequest>,
    /// Further tasks of the kernel's tracers timerlat and osnoise; `None` for none.
    pub kernel_trace: Option<Arc<KernelTrace>>,
    /// The time series and the samples.
    pub series: SeriesRequest,
    /// What the run changes on the machine, and what it checks before.
    pub machine: MachineRequest,
    /// The head of the recording.
    pub recording: RecordingRequest,
}

/// The measuring threads of a run.
#[derive(Clone, Debug, Default)]
pub struct ThreadRequest {
    /// CPUs to measure; `None` for all that this process may use.
    pub cpus: Option<CpuSet>,
    /// Policy of the measuring threads; `None` for fifo if permitted, else other, with a warning.
    pub policy: Option<Policy>,
    /// Their priority; `None` for 95, or the highest permitted.
    pub priority: Option<u8>,
    /// Control group that this process has joined for the measurement.
    pub group: Option<GroupFacts>,
}

/// What happens at latencies above a limit.
#[derive(Clone, Debug, Default)]
pub struct LimitRequest {
    /// A latency above this ends the run.
    pub break_above: Option<Nanos>,
    /// Whether a sample above the limit is marked in the kernel's trace buffer, which is then
    /// stopped.
    pub tracemark: Option<Tracemark>,
    /// Command to run at an outlier.
    pub on_outlier: Option<OnOutlier>,
    /// Requirement that the run must meet.
    pub requirement: Requirement,
}

/// The time series of a run, and its samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeriesRequest {
    /// Length of a row of the time series; `None` to derive it from the run length.
    pub interval: Option<Nanos>,
    /// Stores each sample, rounded down to a multiple of this.
    pub samples: Option<Nanos>,
}

/// What a run changes on the machine, and what it checks before.
#[derive(Clone, Debug, Default)]
pub struct MachineRequest {
    /// Latency limit in µs that is requested with /dev/cpu_dma_latency; `None` for no request.
    pub dma_latency_us: Option<i32>,
    /// Deepest idle state that the measured CPUs may enter during the run, -1 for none; `None` for
    /// no limit.
    pub deepest_idle_state: Option<i64>,
    /// Path of the journal for changes of machine settings; `None` if probes may not change any.
    pub journal: Option<PathBuf>,
    /// Role for the audit of the machine before the run; `None` for no audit.
    pub audit: Option<Role>,
}

/// The head of a recording.
#[derive(Clone, Debug, Default)]
pub struct RecordingRequest {
    /// Name of the recording.
    pub label: Option<String>,
    /// Command line as passed to the program.
    pub command_line: Vec<String>,
}

/// Which latencies to explain, and which events to record.
#[derive(Clone, Debug)]
pub struct ExplainRequest {
    /// Explains latencies above this.
    pub threshold: Nanos,
    /// Events to record.
    pub level: Level,
    /// Events that are recorded in addition, and shown with the outliers.
    pub events: Vec<EventChoice>,
}

impl ExplainRequest {
    /// Explains latencies above this, with the usual events.
    pub fn above(threshold: Nanos) -> Self {
        Self {
            threshold,
            level: Level::Default,
            events: Vec::new(),
        }
    }
}

/// The command, and its threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnOutlier {
    /// Command for `sh -c`.
    pub command: OsString,
    /// Runs at latencies above this.
    pub threshold: Nanos,
}

/// Unit of the latency in a trace mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracemark {
    /// Whole microseconds, rounded down.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl Request {
    /// Creates a request with these parameters and phases, and defaults for everything else:
    /// automatic scheduling and warm-up, no limits, no explanations, and no changes of the machine.
    pub fn new(
        probe: &'static ProbeEntry,
        arguments: Arguments,
        phases: Vec<PhaseRequest>,
    ) -> Self {
        Self {
            probe,
            arguments,
            iterations: Iterations::default(),
            partner: None,
            threads: ThreadRequest::default(),
            phases,
            warm_up: None,
            may_be_empty: false,
            limits: LimitRequest::default(),
            explain: None,
            kernel_trace: None,
            series: SeriesRequest::default(),
            machine: MachineRequest::default(),
            recording: RecordingRequest::default(),
        }
    }

    /// Default resolution of stored samples: they are exact.
    pub const SAMPLE_RESOLUTION: Nanos = Nanos(1);

    /// Returns the approximate length of a run that ends after a number of wake-ups.
    pub(crate) fn length_by_count(&self) -> Option<Nanos> {
        let (periods, interval) = (self.arguments.periods()?, self.arguments.interval()?);
        Some(Nanos(interval.0.saturating_mul(periods)))
    }
}

/// Minimum number of rows of a run, about 40 without warm-up: `compare` resamples them.
const ROWS: u64 = 50;

/// Possible lengths of a row, in ascending order, in ms.
const ROW_LENGTHS: [u64; 12] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000, 120_000, 300_000,
];

/// Returns the default length of a row: the longest that gives a run of this length [`ROWS`] rows,
/// but at least 50 ms. A run of minutes has rows of at most one second, and so at most about 900.
/// Only runs of more than 15 min have longer rows, of up to five minutes.
pub(crate) fn usual_series_interval(duration: Option<Nanos>) -> Nanos {
    const LONGEST: [(u64, u64); 3] = [(15 * 60, 1), (30 * 60, 5), (60 * 60, 10)];
    let Some(duration) = duration else {
        return Nanos::from_secs(10);
    };
    let longest = LONGEST
        .iter()
        .find(|(up_to, _)| duration <= Nanos::from_secs(*up_to))
        .map_or(Nanos::from_secs(300), |(_, interval)| {
            Nanos::from_secs(*interval)
        });
    let lengths = ROW_LENGTHS.iter().map(|ms| Nanos::from_millis(*ms));
    lengths
        .take_while(|length| *length <= longest && length.0 * ROWS <= duration.0)
        .last()
        .unwrap_or(Nanos::from_millis(ROW_LENGTHS[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_the_length_of_the_run() {
        for (seconds, interval_ms) in [
            (1, 50),
            (3, 50),
            (6, 100),
            (10, 200),
            (30, 500),
            (60, 1_000),
            (900, 1_000),
            (1_800, 5_000),
            (3_600, 10_000),
            (3_700, 60_000),
            (20_000, 300_000),
        ] {
            let interval = usual_series_interval(Some(Nanos::from_secs(seconds)));
            assert_eq!(interval, Nanos::from_millis(interval_ms), "{seconds} s");
        }
        assert_eq!(usual_series_interval(None), Nanos::from_secs(10));
        // The number of rows is enough for a comparison even without the warm-up, and never too
        // large.
        for seconds in 3..100_000 {
            let duration = Nanos::from_secs(seconds);
            let rows = duration.0 / usual_series_interval(Some(duration)).0;
            assert!((ROWS..=900).contains(&rows), "{seconds} s: {rows}");
        }
    }
}
