//! A plan: which series to measure, when, and how long to keep the recordings.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use jiff::civil::Time;
use punctual_model::{
    Arguments, CpuSet, Limit, LoopRequirement, Metric, MissLimit, Nanos, ProbeRun, Requirement,
    Role, Sampling, WakeupAxis,
};
use punctual_probes::ProbeEntry;
use punctual_session::{
    ApplicationRequest, ExplainRequest, JobDetail, LimitRequest, MachineRequest, PhaseError,
    PhaseRequest, RecordingRequest, Release, Request, RunLength, SeriesRequest, Subject,
    ThreadRequest,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Step to which a series rounds its samples down. Reading the clock takes about 20 ns, so the
/// digits below are mostly noise. Without them, samples need a third less space over the years.
const SAMPLE_RESOLUTION: Nanos = Nanos(10);

/// The plan of a machine.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The series to measure repeatedly.
    pub series: Vec<SeriesPlan>,
    /// Watch of all wake-ups; `None` to disable.
    pub watch: Option<WatchPlan>,
    /// Flight recorder between the runs; `None` to disable.
    pub flight: Option<FlightPlan>,
    /// How long parts of recordings are kept.
    pub keep: Retention,
    /// Destination for recordings; `None` to disable pushing.
    pub push: Option<Push>,
}

/// A watch of all wake-ups in windows of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchPlan {
    /// Length of a window.
    pub window: Nanos,
    /// Address at which Prometheus can scrape the counts since the start; `None` to disable.
    pub listen: Option<SocketAddr>,
    /// Grouping of these counts.
    pub by: Vec<WakeupAxis>,
}

/// A flight recorder of trace events, for snapshots after an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightPlan {
    /// Time span that a snapshot should cover. It is shorter if the memory does not suffice.
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

/// Collector that receives the recordings of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The URL of the collector.
    pub to: String,
    /// The file with the token of this machine.
    pub token_file: Option<PathBuf>,
    /// Certificates to trust instead of the system's, as a PEM file.
    pub ca: Option<PathBuf>,
    /// Interval between checks for recordings that have not been pushed yet.
    pub every: Nanos,
}

impl Push {
    /// Default interval between checks.
    pub const EVERY: Nanos = Nanos::from_secs(60);
}

/// How long parts of recordings are kept; `None` means forever. Histograms and facts are always
/// kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Samples.
    pub samples: Option<Nanos>,
    /// Trace events of explained outliers.
    pub traces: Option<Nanos>,
    /// Rows of the time series.
    pub rows: Option<Nanos>,
    /// Size limit of the store in bytes. If the store is larger, the oldest parts are removed
    /// first, in the order of the fields above.
    pub size: Option<u64>,
}

/// The object of the measurements of a series.
#[derive(Clone, Debug)]
pub enum Measured {
    /// A probe, with its parameters.
    Probe(&'static ProbeEntry, Arguments),
    /// The jobs of an application, and the requirement on them.
    Application(Subject, LoopRequirement),
}

impl Measured {
    /// Returns the name of the probe; that of the recordings for an application.
    fn probe(&self) -> &'static str {
        match self {
            Self::Probe(probe, _) => probe.name,
            Self::Application(..) => ProbeRun::JOBS,
        }
    }
}

/// Formats as `timer` or `unit motion.service`.
impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probe(probe, _) => f.write_str(probe.name),
            Self::Application(subject, _) => write!(f, "jobs of {subject}"),
        }
    }
}

/// A series of a plan.
#[derive(Clone, Debug)]
pub struct SeriesPlan {
    /// Name of the series.
    pub name: String,
    /// A probe or an application.
    pub measured: Measured,
    /// The conditions as written in the plan; `None` for a single condition without load.
    pub phases: Option<String>,
    /// Duration of a run without phases; `None` for the default of the probe, or 10 s if the probe
    /// has none.
    pub duration: Option<Nanos>,
    /// CPUs to measure; `None` for all CPUs that the service may use.
    pub cpus: Option<CpuSet>,
    /// Times of day at which the series runs.
    pub at: Vec<Time>,
    /// Interval between runs, counted from 1970.
    pub every: Option<Nanos>,
    /// Whether the series runs after each boot.
    pub after_boot: bool,
    /// Whether the series runs after a kernel change.
    pub after_kernel_change: bool,
    /// Threshold in ns. Latencies above it are explained.
    pub explain: Option<Nanos>,
    /// Maximum allowed latency.
    pub max_latency: Option<Nanos>,
    /// Maximum number of late periods in a window of consecutive periods, and the budget above which
    /// a period is late.
    pub windows: Option<(MissLimit, Nanos)>,
    /// Requirement that all runs are judged by together, with their random times; `None` if the
    /// series of a probe is not sampled.
    pub periodic: Option<LoopRequirement>,
    /// Whether individual samples are kept.
    pub samples: bool,
    /// Maximum time that a slot waits for another run of the plan.
    pub wait: Nanos,
}

impl SeriesPlan {
    /// Default maximum time that a slot waits for another run of the plan.
    pub const WAIT: Nanos = Nanos::from_secs(600);

    /// Returns the definition of the measurement as JSON, without the schedule. If this definition
    /// changes, the series starts a new epoch.
    pub fn definition(&self) -> String {
        let parameters = match &self.measured {
            Measured::Probe(probe, arguments) => json!(arguments.to_json(probe.parameters)),
            Measured::Application(subject, _) => {
                let selected = subject.option().into_iter();
                json!(selected.collect::<BTreeMap<_, _>>())
            }
        };
        let mut definition = json!({
            "probe": self.measured.probe(),
            "parameters": parameters,
            "phases": self.phases,
            "duration_ns": self.duration,
            "cpus": self.cpus,
            "explain_ns": self.explain,
            "max_latency_ns": self.max_latency,
            "samples": self.samples,
        });
        // Series of older plans keep their epoch.
        if let (Some((misses, budget)), Some(keys)) = (self.windows, definition.as_object_mut()) {
            keys.insert("misses".to_owned(), json!(misses));
            keys.insert("budget_ns".to_owned(), json!(budget));
        }
        if let (Some(periodic), Some(keys)) = (self.asked(), definition.as_object_mut()) {
            keys.insert("periodic".to_owned(), json!(periodic));
        }
        definition.to_string()
    }

    /// Returns the conditions.
    ///
    /// # Errors
    /// Returns an error if the phases cannot be parsed.
    pub fn phase_requests(&self) -> Result<Vec<PhaseRequest>, PhaseError> {
        match &self.phases {
            Some(phases) => PhaseRequest::read_all(phases),
            None => {
                let length = self.duration.map_or(RunLength::Usual, RunLength::For);
                Ok(vec![PhaseRequest::only(length, Vec::new())])
            }
        }
    }

    /// Returns the approximate duration of a run.
    pub fn length(&self) -> Nanos {
        let phases = self.phase_requests().unwrap_or_default();
        phases.iter().fold(Nanos::ZERO, |sum, phase| {
            sum + match phase.length {
                RunLength::For(length) => length,
                _ => RunLength::USUAL,
            }
        })
    }

    /// Returns the request for a measurement.
    ///
    /// # Errors
    /// Returns an error if the phases cannot be parsed.
    pub fn request(&self) -> Result<SlotRequest, PhaseError> {
        Ok(match &self.measured {
            Measured::Probe(probe, arguments) => {
                SlotRequest::Probe(Box::new(self.of_probe(probe, arguments.clone())?))
            }
            Measured::Application(subject, asked) => {
                SlotRequest::Application(Box::new(ApplicationRequest {
                    requirement: asked.clone(),
                    subject: subject.clone(),
                    release: Release::default(),
                    detail: JobDetail::Windows(None),
                    duration: self.length(),
                    reader: None,
                    label: Some(self.name.clone()),
                    command_line: Vec::new(),
                }))
            }
        })
    }

    fn of_probe(
        &self,
        probe: &'static ProbeEntry,
        arguments: Arguments,
    ) -> Result<Request, PhaseError> {
        let max = self.max_latency.map(|latency| Limit {
            metric: Metric::Max,
            at_most: latency.0,
        });
        let windows = (self.windows).map(|(misses, budget)| Limit::of_misses(misses, budget));
        Ok(Request {
            threads: ThreadRequest {
                cpus: self.cpus.clone(),
                ..ThreadRequest::default()
            },
            limits: LimitRequest {
                requirement: Requirement {
                    limits: max.into_iter().chain(windows).collect(),
                    periodic: self.periodic.clone(),
                    ..Requirement::default()
                },
                ..LimitRequest::default()
            },
            explain: self.explain.map(ExplainRequest::above),
            series: SeriesRequest {
                samples: self.samples.then_some(SAMPLE_RESOLUTION),
                ..SeriesRequest::default()
            },
            machine: MachineRequest {
                dma_latency_us: Some(0),
                audit: Some(Role::default()),
                ..MachineRequest::default()
            },
            recording: RecordingRequest {
                label: Some(self.name.clone()),
                ..RecordingRequest::default()
            },
            ..Request::new(probe, arguments, self.phase_requests()?)
        })
    }

    /// Returns the random times of the runs; `None` if the series is not sampled.
    pub fn sample(&self) -> Option<Sampling> {
        self.asked()?.sample
    }

    /// Returns the requirement on a periodic loop or on an application.
    pub fn asked(&self) -> Option<&LoopRequirement> {
        match &self.measured {
            Measured::Probe(..) => self.periodic.as_ref(),
            Measured::Application(_, asked) => Some(asked),
        }
    }

    /// Describes the schedule for a user.
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
        parts.extend(self.sample().map(|sample| sample.to_string()));
        if self.after_boot {
            parts.push("after boot".to_owned());
        }
        if self.after_kernel_change {
            parts.push("after a change of the kernel".to_owned());
        }
        parts.join("; ")
    }
}

/// The measurement of a slot.
#[derive(Debug)]
pub enum SlotRequest {
    /// Of a probe.
    Probe(Box<Request>),
    /// Of an application.
    Application(Box<ApplicationRequest>),
}

/// A plan as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanText {
    /// Path of its file, for messages.
    pub name: String,
    /// Content of the file.
    pub text: String,
}
