//! What is asked of a measurement.

use std::ffi::OsString;
use std::path::PathBuf;

use punctual_loads::{LoadError, LoadRequest};
use punctual_model::{
    Arguments, CpuSet, DurationError, GroupFacts, Nanos, Policy, Requirement, Role,
};
use punctual_probes::ProbeEntry;
use punctual_trace::{EventChoice, Level};

use crate::OnOutlier;

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
    /// The conditions, measured one after the other; usually one.
    pub phases: Vec<PhaseRequest>,
    /// How much of it at the start is discarded; `None`: the usual share.
    pub warm_up: Option<Nanos>,
    /// Whether a run too short for a sample is accepted.
    pub may_be_empty: bool,
    /// A latency above this ends the run.
    pub break_above: Option<Nanos>,
    /// Which latencies are explained; `None`: none is.
    pub explain: Option<ExplainRequest>,
    /// Events that are recorded beside those that explain, and shown with the outliers.
    pub events: Vec<EventChoice>,
    /// A command that is run at an outlier.
    pub on_outlier: Option<OnOutlier>,
    /// Whether a sample that crosses it is marked in the kernel's trace buffer,
    /// which is then stopped.
    pub tracemark: Option<Tracemark>,
    /// What must be held.
    pub requirement: Requirement,
    /// How long a row of the time series is; `None`: fitting the length.
    pub series_interval: Option<Nanos>,
    /// Whether each sample is kept.
    pub samples: bool,
    /// To what a kept sample is rounded down.
    pub sample_resolution: Nanos,
    /// What the CPUs are asked for by /dev/cpu_dma_latency, in µs; `None`:
    /// leave them alone.
    pub dma_latency_us: Option<i32>,
    /// The number of the deepest idle state that the measured CPUs may enter during
    /// the run, -1 for none; `None`: leave them alone.
    pub deepest_idle_state: Option<i64>,
    /// Where changes of the machine's settings are journalled; `None`: a probe
    /// may change none.
    pub journal: Option<PathBuf>,
    /// The role that the machine is audited for before the run; `None`: no audit.
    pub audit: Option<Role>,
    /// How this program is started for one half of a probe that is to be in a
    /// process of its own: with what the probe says as its last argument.
    /// `None`: it cannot be.
    pub partner: Option<Vec<OsString>>,
    /// The control group that this process has joined for the measurement.
    pub group: Option<GroupFacts>,
    /// A name for the recording.
    pub label: Option<String>,
    /// The command line, as the program got it.
    pub command_line: Vec<String>,
}

/// What is explained, and how much is recorded for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainRequest {
    /// Latencies above this.
    pub threshold: Nanos,
    /// Which events.
    pub level: Level,
}

/// In which unit a trace mark names the latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracemark {
    /// Whole microseconds, rounded down.
    Micros,
    /// Nanoseconds.
    Nanos,
}

/// One condition of a measurement.
#[derive(Clone, Debug)]
pub struct PhaseRequest {
    /// What its threads are named by; `None` where there is only one phase.
    pub name: Option<String>,
    /// How long.
    pub length: RunLength,
    /// What disturbs meanwhile.
    pub loads: Vec<LoadRequest>,
}

/// Phases that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PhaseError {
    /// Not a name and a time.
    #[error("'{0}' is not a phase: write for example idle:60s,cpu+disk:60s")]
    NotAPhase(String),
    /// The time.
    #[error("phase '{name}': {source}")]
    Length {
        /// The phase.
        name: String,
        /// What is wrong with it.
        source: DurationError,
    },
    /// It is empty.
    #[error("phase '{0}' has no length")]
    Empty(String),
    /// One of its loads.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl PhaseRequest {
    /// The one condition of a measurement without phases.
    pub fn only(length: RunLength, loads: Vec<LoadRequest>) -> Self {
        Self {
            name: None,
            length,
            loads,
        }
    }

    /// Reads `idle:60s,cpu+disk:60s`: loads by their names, joined by `+`, or
    /// `idle`, and a length for each.
    ///
    /// # Errors
    /// A part that does not read so, a load that is not there.
    pub fn read_all(text: &str) -> Result<Vec<Self>, PhaseError> {
        text.split(',').map(Self::read).collect()
    }

    fn read(text: &str) -> Result<Self, PhaseError> {
        let (name, length) = text
            .trim()
            .rsplit_once(':')
            .ok_or_else(|| PhaseError::NotAPhase(text.to_owned()))?;
        let length: Nanos = length.parse().map_err(|source| PhaseError::Length {
            name: name.to_owned(),
            source,
        })?;
        if length == Nanos::ZERO {
            return Err(PhaseError::Empty(name.to_owned()));
        }
        let loads = match name {
            "idle" => Vec::new(),
            _ => name.split('+').map(str::parse).collect::<Result<_, _>>()?,
        };
        Ok(Self {
            name: Some(name.to_owned()),
            length: RunLength::For(length),
            loads,
        })
    }
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

impl Request {
    /// A request with these parameters and conditions, and defaults for all else:
    /// scheduling and warm-up by the session, no limits, no explanations, and no
    /// change of the machine.
    pub fn new(
        probe: &'static ProbeEntry,
        arguments: Arguments,
        phases: Vec<PhaseRequest>,
    ) -> Self {
        Self {
            probe,
            arguments,
            cpus: None,
            policy: None,
            priority: None,
            phases,
            warm_up: None,
            may_be_empty: false,
            break_above: None,
            explain: None,
            events: Vec::new(),
            on_outlier: None,
            tracemark: None,
            requirement: Requirement::default(),
            series_interval: None,
            samples: false,
            sample_resolution: Self::SAMPLE_RESOLUTION,
            dma_latency_us: None,
            deepest_idle_state: None,
            journal: None,
            audit: None,
            partner: None,
            group: None,
            label: None,
            command_line: Vec::new(),
        }
    }

    /// To what a kept sample is rounded down by default. Reading the clock alone
    /// takes some 20 ns, so the digits below 10 ns are mostly noise, and noise is
    /// what does not compress.
    pub const SAMPLE_RESOLUTION: Nanos = Nanos(10);

    /// How long, about, a run lasts that ends after a number of wake-ups.
    pub(crate) fn length_by_count(&self) -> Option<Nanos> {
        let (periods, interval) = (self.arguments.periods()?, self.arguments.interval()?);
        Some(Nanos(interval.0.saturating_mul(periods)))
    }
}

/// Rows that a run should have at least, without its warm-up about 40: what
/// `compare` resamples is made of them.
const ROWS: u64 = 50;

/// Lengths of a row, rising, ms.
const ROW_LENGTHS: [u64; 12] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000, 120_000, 300_000,
];

/// Rows of the time series where nothing is asked for: as long as a run of this
/// length can have [`ROWS`] of, 50 ms at least. A run of minutes has rows of one
/// second at most, so that it has at most about 900; only runs above 15 min have
/// longer ones, up to five minutes.
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
    fn phases_are_read() {
        let phases = PhaseRequest::read_all("idle:60s, idle:2m").unwrap();
        assert_eq!(phases[0].name.as_deref(), Some("idle"));
        assert_eq!(phases[1].length, RunLength::For(Nanos::from_secs(120)));
        let error = |text: &str| PhaseRequest::read_all(text).unwrap_err().to_string();
        assert!(error("idle").contains("'idle' is not a phase"));
        assert!(error("idle:60").contains("60s"));
        assert!(error("idle:0s").contains("no length"));
        assert!(error("storm:1s").contains("unknown load 'storm'"));
        assert!(error("").contains("is not a phase"));
    }

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
        // Enough for a comparison also without the warm-up, and never too many.
        for seconds in 3..100_000 {
            let duration = Nanos::from_secs(seconds);
            let rows = duration.0 / usual_series_interval(Some(duration)).0;
            assert!((ROWS..=900).contains(&rows), "{seconds} s: {rows}");
        }
    }
}
