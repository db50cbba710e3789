//! The entry that describes a probe, and the trait that it implements.

use std::sync::Arc;

use punctual_model::{
    ArgumentError, Arguments, Chart, CpuSet, Delay, Nanos, Parameter, Policy, ProbeRun, Scheduling,
    Table,
};

use crate::{
    Control, PartnerError, Recorder, RecorderSlot, Resources, SettingsError, TracerError,
    WorkerOutcome, WorkerReader, WorkerSettings,
};

/// The complete description of a probe, without running it. The command line, its help and the
/// documentation are derived from it.
#[derive(Clone, Copy, Debug)]
pub struct ProbeEntry {
    /// Its name on the command line.
    pub name: &'static str,
    /// The measured quantity, as a phrase.
    pub summary: &'static str,
    /// The unit of its figures, which is `ns` for latencies.
    pub unit: &'static str,
    /// Paragraphs of Markdown: the steps of the loop, the time that the figure includes and
    /// excludes, and the source.
    pub documentation: &'static str,
    /// The privileges that the probe needs to run well.
    pub privileges: &'static str,
    /// The older tool that the probe replaces.
    pub replaces: &'static str,
    /// The chart that shows its figures best.
    pub chart: Chart,
    /// The start and end of the time span of a latency, used to explain outliers. The span belongs
    /// to the recording thread, on CLOCK_MONOTONIC, unless a worker declares another one
    /// ([`Recorder::late_is`]). `Err` contains a sentence that says why outliers cannot be
    /// explained.
    pub explained: Result<Delay, &'static str>,
    /// Its own parameters, in addition to those that all probes share.
    pub parameters: &'static [Parameter],
    /// Configures a probe with these arguments, checks the plan and returns the workers of the
    /// probe. Measures and changes nothing yet. The probe must use every resource that it requests
    /// from [`Resources`].
    pub prepare: fn(&Arguments, &Plan, &dyn Resources) -> Result<Ready, ProbeError>,
}

impl ProbeEntry {
    /// Returns the parameters that are options of `punctual measure`.
    pub fn options(&self) -> impl Iterator<Item = &'static Parameter> {
        (self.parameters.iter()).filter(|parameter| !parameter.of_older_tools)
    }

    /// Checks that several runs with these arguments measure the same thing.
    ///
    /// # Errors
    /// Returns an error if each run would calibrate its own work.
    pub fn check_repeatable(&self, arguments: &Arguments) -> Result<(), ProbeError> {
        let name = ProbeRun::ITERATIONS;
        let has = self.parameters.iter().any(|one| one.name == name);
        if has && arguments.count(name).is_none() {
            return Err(ProbeError::Calibrates { probe: self.name });
        }
        Ok(())
    }
}

/// The settings of a run that all probes share.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The CPUs to measure.
    pub cpus: CpuSet,
    /// Policy and priority of the measuring threads.
    pub scheduling: Scheduling,
    /// Length including the warm-up; `None` to run until stopped.
    pub duration: Option<Nanos>,
    /// Whether the user set the length.
    pub duration_asked: bool,
    /// Length of the part at the start to discard; `None` for the default ([`usual_warm_up`]).
    pub warm_up: Option<Nanos>,
    /// Whether a run may be too short for a single sample, as the older tools allow.
    pub may_be_empty: bool,
}

impl Plan {
    /// Rejects SCHED_DEADLINE for a probe that binds its threads to CPUs, because this policy does
    /// not allow that (sched_setattr(2), EPERM).
    pub(crate) fn refuse_deadline(&self, probe: &'static str) -> Result<(), ProbeError> {
        if self.scheduling.policy == Policy::Deadline {
            return Err(ProbeError::Deadline { probe });
        }
        Ok(())
    }

    /// Returns the first CPU of the plan.
    pub(crate) fn first_cpu(&self, probe: &'static str) -> Result<u32, ProbeError> {
        self.cpus.first().ok_or(ProbeError::NoCpu { probe })
    }

    /// Describes a worker on this CPU, with the policy of the plan.
    pub(crate) fn worker(&self, label: Option<String>, cpu: u32, rate_hz: u64) -> WorkerSpec {
        WorkerSpec {
            label,
            cpu: Some(cpu),
            from_cpu: None,
            scheduling: self.scheduling,
            rate_hz,
        }
    }

    /// Creates a measurement of these similar workers, with the requested or default length and
    /// warm-up.
    pub(crate) fn ready(
        &self,
        workers: impl IntoIterator<Item = WorkerSpec>,
        run: impl Measure,
    ) -> Ready {
        Ready {
            workers: workers.into_iter().collect(),
            duration: self.duration,
            warm_up: self.warm_up_of(self.duration),
            alike: true,
            run: Box::new(move |recorders, control| run.measure(recorders, control)),
        }
    }

    /// Returns the requested warm-up, or the default for `duration`.
    pub(crate) fn warm_up_of(&self, duration: Option<Nanos>) -> Nanos {
        self.warm_up.unwrap_or_else(|| usual_warm_up(duration))
    }
}

/// Returns the default warm-up: one second, but at most a tenth of the run. Caches, branch
/// predictors and lazily mapped pages settle in far less time.
pub fn usual_warm_up(duration: Option<Nanos>) -> Nanos {
    let second = Nanos::from_secs(1);
    duration.map_or(second, |duration| second.min(Nanos(duration.0 / 10)))
}

/// Describes one worker that a probe needs: a measuring thread, a pair of threads, or a mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSpec {
    /// A label, if the CPU does not identify it.
    pub label: Option<String>,
    /// The CPU that the worker is bound to.
    pub cpu: Option<u32>,
    /// The CPU of the other end, if the worker involves two CPUs.
    pub from_cpu: Option<u32>,
    /// Policy and priority of the worker.
    pub scheduling: Scheduling,
    /// The highest expected sample rate per second, for the size of the ring.
    pub rate_hz: u64,
}

impl WorkerSpec {
    /// Returns the name of the worker for display, such as `CPU 3` or its label.
    pub fn title(&self) -> String {
        punctual_model::thread_title(self.label.as_deref(), self.from_cpu, self.cpu)
    }
}

/// A checked measurement of a probe. Closures are measurements as well.
pub(crate) trait Measure: Send + 'static {
    /// Measures until the end of the plan or until the [`Control`] stops the run. The recorders are
    /// in the order of the workers.
    fn measure(
        self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError>;
}

impl<F> Measure for F
where
    F: FnOnce(Vec<Recorder>, &Arc<Control>) -> Result<Measured, ProbeError> + Send + 'static,
{
    fn measure(
        self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        self(recorders, control)
    }
}

/// Measures until the end of the plan or until the [`Control`] stops the run, whichever comes
/// first. The recorders are in the order of the workers.
pub type Run = Box<dyn FnOnce(Vec<Recorder>, &Arc<Control>) -> Result<Measured, ProbeError> + Send>;

/// A checked measurement that can start.
pub struct Ready {
    /// Its workers.
    pub workers: Vec<WorkerSpec>,
    /// Length including the warm-up; `None` to run until stopped.
    pub duration: Option<Nanos>,
    /// Length of the part at the start to discard.
    pub warm_up: Nanos,
    /// Whether its workers measure the same quantity, so that their figures can be combined.
    pub alike: bool,
    /// Measures.
    pub run: Run,
}

impl Ready {
    /// Opens the workers in order. A latency above `break_above` ends the run. Each worker is
    /// opened on demand, because opening thousands takes seconds.
    pub fn open_workers(
        &self,
        break_above: Option<Nanos>,
        control: &Arc<Control>,
    ) -> impl Iterator<Item = (Recorder, WorkerReader)> {
        self.workers.iter().map(move |worker| {
            let settings = WorkerSettings {
                warm_up: self.warm_up,
                break_above,
                rate_hz: worker.rate_hz,
            };
            RecorderSlot::open(settings, control)
        })
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The result of each worker, in the order of the workers.
    pub workers: Vec<WorkerOutcome>,
    /// Results other than latencies.
    pub tables: Vec<Table>,
    /// Warnings for the reader.
    pub warnings: Vec<String>,
}

/// A probe with its arguments. [`prepare`](Self::prepare) creates the parts that only a run needs,
/// and stores them in [`Ready::run`].
pub(crate) trait Probe: Sized {
    /// See [`ProbeEntry::prepare`].
    ///
    /// # Errors
    /// Returns an error for anything that is known to be impossible even before the start.
    fn prepare(self, plan: &Plan, resources: &dyn Resources) -> Result<Ready, ProbeError>;
}

/// Why a probe cannot measure.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// There is no such probe.
    #[error("unknown probe '{name}': use one of {known}")]
    NoSuchProbe {
        /// The requested name.
        name: String,
        /// The existing probes.
        known: String,
    },
    /// The value of a parameter is invalid.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// The plan has no CPU.
    #[error("the {probe} probe needs a CPU to measure on")]
    NoCpu {
        /// The probe.
        probe: &'static str,
    },
    /// The policy does not allow threads that are bound to CPUs.
    #[error(
        "the {probe} probe binds each thread to a CPU, which SCHED_DEADLINE does not allow: use \
         --policy fifo, rr or other"
    )]
    Deadline {
        /// The probe.
        probe: &'static str,
    },
    /// Each of several runs would calibrate its own work.
    #[error(
        "the {probe} probe needs the parameter {} in several runs, because each run would \
         calibrate its own work: `punctual measure {probe}` shows a number",
        ProbeRun::ITERATIONS
    )]
    Calibrates {
        /// The probe.
        probe: &'static str,
    },
    /// The interval is longer than the run.
    #[error(
        "the interval of {interval} is longer than the run of {duration}: nothing would be measured"
    )]
    IntervalTooLong {
        /// The interval.
        interval: Nanos,
        /// The run.
        duration: Nanos,
    },
    /// The address in `--connect` is invalid.
    #[error("--connect {name}: {why} (use HOST:PORT)")]
    Connect {
        /// The requested address.
        name: String,
        /// The reason.
        #[source]
        why: AddressError,
    },
    /// Parameters of the probe contradict each other.
    #[error("{0}")]
    Unfit(String),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] punctual_rt::Error),
    /// The process at the other end failed.
    #[error("the process at the other end: {0}")]
    Partner(#[from] PartnerError),
    /// A kernel tracer cannot be the source of the figures.
    #[error("--source {name}: {why}")]
    Source {
        /// The requested source.
        name: &'static str,
        /// The reason.
        #[source]
        why: TracerError,
    },
    /// The clock source cannot be changed.
    #[error("--sources: {0}")]
    ClockSources(#[source] SettingsError),
    /// The kernel's hardware latency detector failed.
    #[error("the kernel's detector of hardware latency: {0}")]
    Tracer(#[source] TracerError),
    /// The kernel's tracer timerlat or osnoise failed.
    #[error("the kernel's tracer {tracer}: {why}")]
    Noise {
        /// The tracer.
        tracer: &'static str,
        /// The reason.
        #[source]
        why: TracerError,
    },
}

/// Why a name is not a valid address of another machine.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The name cannot be resolved.
    #[error(transparent)]
    Unresolved(#[from] std::io::Error),
    /// The port is 0.
    #[error("nothing listens on port 0")]
    PortZero,
    /// The name resolves to no address.
    #[error("the name has no address")]
    NoAddress,
}

impl ProbeError {
    /// Returns whether the command line caused the error, rather than the machine.
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            Self::System(_) | Self::Tracer(_) | Self::Partner(_) | Self::Noise { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracer_and_setting_refusals_are_sentences() {
        let why = || TracerError::NotStarted;
        for (error, is_usage, text) in [
            (
                ProbeError::Source {
                    name: "hwlat",
                    why: TracerError::NotOffered,
                },
                true,
                "--source hwlat: this run cannot use kernel tracers",
            ),
            (
                ProbeError::ClockSources(SettingsError::RunOver),
                true,
                "--sources: the run has ended",
            ),
            (
                ProbeError::Tracer(why()),
                false,
                "the kernel's detector of hardware latency: it was not started",
            ),
            (
                ProbeError::Noise {
                    tracer: "timerlat",
                    why: why(),
                },
                false,
                "the kernel's tracer timerlat: it was not started",
            ),
            (
                ProbeError::Connect {
                    name: "board:0".to_owned(),
                    why: AddressError::PortZero,
                },
                true,
                "--connect board:0: nothing listens on port 0 (use HOST:PORT)",
            ),
            (
                ProbeError::Calibrates { probe: "work" },
                true,
                "the work probe needs the parameter iterations in several runs, because each run \
                 would calibrate its own work: `punctual measure work` shows a number",
            ),
            (
                ProbeError::Partner(PartnerError::Status(3)),
                false,
                "the process at the other end: it ended with status 3",
            ),
        ] {
            assert_eq!(error.to_string(), text);
            assert_eq!(error.is_usage(), is_usage, "{text}");
        }
    }
}
