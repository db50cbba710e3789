//! What is asked of a measurement.

use std::path::PathBuf;

use punctual_loads::LoadRequest;
use punctual_model::{Arguments, CpuSet, Nanos, Policy, Requirement};
use punctual_probes::ProbeEntry;

/// What is asked of a measurement.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is measured.
    pub probe: &'static ProbeEntry,
    /// The probe's own parameters.
    pub arguments: Arguments,
    /// The CPUs to measure; `None`: all that this process may use.
    pub cpus: Option<CpuSet>,
    /// The policy of the measuring threads; `None`: fifo where it may be had,
    /// else other, with a warning.
    pub policy: Option<Policy>,
    /// Their priority; `None`: 95, or the highest that may be had.
    pub priority: Option<u8>,
    /// How long.
    pub length: RunLength,
    /// How much of it at the start is discarded; `None`: the usual share.
    pub warm_up: Option<Nanos>,
    /// A latency above this ends the run.
    pub break_above: Option<Nanos>,
    /// What must be held.
    pub requirement: Requirement,
    /// What disturbs.
    pub loads: Vec<LoadRequest>,
    /// How long a row of the time series is; `None`: fitting the length.
    pub series_interval: Option<Nanos>,
    /// Whether each sample is kept.
    pub samples: bool,
    /// What the CPUs are asked for by /dev/cpu_dma_latency, in µs; `None`:
    /// leave them alone.
    pub dma_latency_us: Option<i32>,
    /// Where changes of the machine's settings are journalled; `None`: a probe
    /// may change none.
    pub journal: Option<PathBuf>,
    /// A name for the recording.
    pub label: Option<String>,
    /// The command line, as the program got it.
    pub command_line: Vec<String>,
}

/// How long a measurement lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLength {
    /// As long as the probe's own parameters say, else [`RunLength::USUAL`].
    Usual,
    /// This long, warm-up included.
    For(Nanos),
    /// Until it is stopped.
    UntilStopped,
}

impl RunLength {
    /// Where nothing is asked for.
    pub const USUAL: Nanos = Nanos::from_secs(10);

    pub(crate) fn duration(self) -> Option<Nanos> {
        match self {
            Self::Usual => Some(Self::USUAL),
            Self::For(duration) => Some(duration),
            Self::UntilStopped => None,
        }
    }
}

/// Rows of the time series where nothing is asked for: a second, for longer
/// runs more, so that a run has at most about 900 of them; five minutes for
/// runs of hours.
pub(crate) fn usual_series_interval(duration: Option<Nanos>) -> Nanos {
    const STEPS: [(u64, u64); 3] = [(15 * 60, 1), (30 * 60, 5), (60 * 60, 10)];
    let Some(duration) = duration else {
        return Nanos::from_secs(10);
    };
    STEPS
        .iter()
        .find(|(up_to, _)| duration <= Nanos::from_secs(*up_to))
        .map_or(Nanos::from_secs(300), |(_, interval)| {
            Nanos::from_secs(*interval)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_seconds_for_minutes_and_minutes_for_hours() {
        for (duration, interval) in [
            (Some(10), 1),
            (Some(900), 1),
            (Some(1_800), 5),
            (Some(3_600), 10),
            (Some(20_000), 300),
            (None, 10),
        ] {
            assert_eq!(
                usual_series_interval(duration.map(Nanos::from_secs)),
                Nanos::from_secs(interval)
            );
        }
    }
}
