//! A plan: what is measured when, and how long it is kept.

use std::path::PathBuf;

use jiff::civil::Time;
use punctual_model::{Arguments, CpuSet, Limit, Metric, Nanos, Requirement, Role};
use punctual_probes::ProbeEntry;
use punctual_session::{ExplainRequest, Level, PhaseError, PhaseRequest, Request, RunLength};
use serde_json::json;

/// A plan of a machine.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What is measured again and again.
    pub series: Vec<SeriesPlan>,
    /// How long a window of watching all wake-ups is; `None`: they are not watched.
    pub window: Option<Nanos>,
    /// A flight recorder between the runs; `None`: none.
    pub flight: Option<FlightPlan>,
    /// What ages out.
    pub keep: Keep,
    /// Where recordings are delivered; `None`: nowhere.
    pub deliver: Option<Deliver>,
}

/// A flight recorder of trace events, for snapshots after an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightPlan {
    /// How far back a snapshot goes, where the memory is enough.
    pub last: Nanos,
    /// Memory for the events of all CPUs, in bytes.
    pub memory: u64,
}

impl Default for FlightPlan {
    fn default() -> Self {
        Self {
            last: Nanos::from_secs(60),
            memory: 32 << 20,
        }
    }
}

/// Where the recordings of a plan are delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deliver {
    /// The URL of the collector.
    pub to: String,
    /// The file with the token of this machine.
    pub token_file: Option<PathBuf>,
    /// Certificates to trust instead of the system's, as a PEM file.
    pub ca: Option<PathBuf>,
    /// How often what is due is looked for.
    pub every: Nanos,
}

impl Deliver {
    /// How often, where the plan does not say.
    pub const EVERY: Nanos = Nanos::from_secs(60);
}

/// How long parts of recordings are kept; `None`: for ever. Histograms and facts always
/// are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Samples.
    pub samples: Option<Nanos>,
    /// Trace events of explained outliers.
    pub traces: Option<Nanos>,
    /// Rows of the time series.
    pub rows: Option<Nanos>,
    /// The size of the store in bytes: above it, the oldest go first, in the order of the
    /// fields above.
    pub size: Option<u64>,
}

/// A series of a plan.
#[derive(Clone, Debug)]
pub struct SeriesPlan {
    /// Its name.
    pub name: String,
    /// What is measured.
    pub probe: &'static ProbeEntry,
    /// The probe's parameters.
    pub arguments: Arguments,
    /// The conditions as they stand in the plan; `None`: one without load.
    pub phases: Option<String>,
    /// How long, without phases; `None`: as the probe says, else 10 s.
    pub duration: Option<Nanos>,
    /// The CPUs to measure; `None`: all that the service may use.
    pub cpus: Option<CpuSet>,
    /// Times of day.
    pub at: Vec<Time>,
    /// The interval, counted from 1970 on.
    pub every: Option<Nanos>,
    /// Whether it runs after each boot.
    pub after_boot: bool,
    /// Whether it runs after a change of the kernel.
    pub after_kernel_change: bool,
    /// Latencies above this are explained.
    pub explain: Option<Nanos>,
    /// The largest latency allowed.
    pub max_latency: Option<Nanos>,
    /// Whether each sample is kept.
    pub samples: bool,
    /// How long a slot waits for another run of the plan.
    pub wait: Nanos,
}

impl SeriesPlan {
    /// How long a slot waits for another run of the plan, where the plan does not say.
    pub const WAIT: Nanos = Nanos::from_secs(600);

    /// What is measured, without when, as JSON: a series whose definition changes begins
    /// a new epoch.
    pub fn definition(&self) -> String {
        json!({
            "probe": self.probe.name,
            "parameters": self.arguments.to_json(self.probe.parameters),
            "phases": self.phases,
            "duration_ns": self.duration,
            "cpus": self.cpus,
            "explain_ns": self.explain,
            "max_latency_ns": self.max_latency,
            "samples": self.samples,
        })
        .to_string()
    }

    /// Its conditions.
    ///
    /// # Errors
    /// Phases that do not read.
    pub fn phase_requests(&self) -> Result<Vec<PhaseRequest>, PhaseError> {
        match &self.phases {
            Some(phases) => PhaseRequest::read_all(phases),
            None => {
                let length = self.duration.map_or(RunLength::Usual, RunLength::For);
                Ok(vec![PhaseRequest::only(length, Vec::new())])
            }
        }
    }

    /// How long a run takes, about.
    pub fn length(&self) -> Nanos {
        let phases = self.phase_requests().unwrap_or_default();
        phases.iter().fold(Nanos::ZERO, |sum, phase| {
            sum + match phase.length {
                RunLength::For(length) => length,
                _ => RunLength::USUAL,
            }
        })
    }

    /// What is asked of a measurement.
    ///
    /// # Errors
    /// Phases that do not read.
    pub fn request(&self) -> Result<Request, PhaseError> {
        let max = self.max_latency.map(|latency| Limit {
            metric: Metric::Max,
            at_most: latency.0,
        });
        Ok(Request {
            cpus: self.cpus.clone(),
            explain: self.explain.map(|threshold| ExplainRequest {
                threshold,
                level: Level::Default,
            }),
            requirement: Requirement {
                limits: max.into_iter().collect(),
                ..Requirement::default()
            },
            samples: self.samples,
            dma_latency_us: Some(0),
            audit: Some(Role::default()),
            label: Some(self.name.clone()),
            ..Request::new(self.probe, self.arguments.clone(), self.phase_requests()?)
        })
    }

    /// When it is due, in words.
    pub fn times(&self) -> String {
        let mut parts = Vec::new();
        if !self.at.is_empty() {
            let times = self
                .at
                .iter()
                .map(|time| time.strftime("%H:%M").to_string());
            parts.push(format!("at {}", times.collect::<Vec<_>>().join(", ")));
        }
        parts.extend(self.every.map(|every| format!("every {every}")));
        if self.after_boot {
            parts.push("after boot".to_owned());
        }
        if self.after_kernel_change {
            parts.push("after a change of the kernel".to_owned());
        }
        parts.join("; ")
    }
}
