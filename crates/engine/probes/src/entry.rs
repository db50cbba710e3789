//! What a probe is: an entry that says all about it, and the trait it follows.

use std::sync::Arc;

use punctual_model::{
    ArgumentError, Arguments, Chart, CpuSet, Delay, Nanos, Parameter, Policy, Scheduling, Table,
};

use crate::{
    Control, Lane, LaneOutcome, LaneReader, LaneSettings, PartnerError, Recorder, Resources,
    SettingsError, TracerError,
};

/// All there is to know of a probe without running it. The command line, its
/// help and the documentation derive from it.
#[derive(Clone, Copy, Debug)]
pub struct ProbeEntry {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures, in half a sentence.
    pub summary: &'static str,
    /// The unit of its figures: `ns` for latencies.
    pub unit: &'static str,
    /// What happens in the loop, what the figure includes and excludes, and
    /// the source; paragraphs of Markdown.
    pub documentation: &'static str,
    /// What it needs to run well.
    pub privileges: &'static str,
    /// The older tool it takes the place of.
    pub replaces: &'static str,
    /// The picture that shows its figures best.
    pub chart: Chart,
    /// From what to what its latencies go, for explaining an outlier: of the
    /// thread that records, by CLOCK_MONOTONIC, unless a lane says otherwise
    /// ([`Recorder::late_is`]). `Err`: why none can be explained, as a
    /// sentence.
    pub explained: Result<Delay, &'static str>,
    /// Its own parameters, beside those that all probes share.
    pub parameters: &'static [Parameter],
    /// Sets one to these arguments, checks the plan and says which lanes there will
    /// be. Nothing is measured or changed yet. What it asks the [`Resources`] for,
    /// it uses.
    pub prepare: fn(&Arguments, &Plan, &dyn Resources) -> Result<Ready, ProbeError>,
}

/// What all probes know of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The CPUs to measure.
    pub cpus: CpuSet,
    /// Policy and priority of the measuring threads.
    pub scheduling: Scheduling,
    /// How long, warm-up included; `None`: until stopped.
    pub duration: Option<Nanos>,
    /// Whether that was asked for, rather than being the usual length.
    pub duration_asked: bool,
    /// How much of it at the start is discarded; `None`: the usual share
    /// ([`usual_warm_up`]).
    pub warm_up: Option<Nanos>,
    /// Whether a run too short for a sample is accepted, as the older tools accept it.
    pub may_be_empty: bool,
}

impl Plan {
    /// Refuses SCHED_DEADLINE for a probe that binds its threads to CPUs, which
    /// that policy does not allow (sched_setattr(2), EPERM).
    pub(crate) fn refuse_deadline(&self, probe: &'static str) -> Result<(), ProbeError> {
        if self.scheduling.policy == Policy::Deadline {
            return Err(ProbeError::Deadline { probe });
        }
        Ok(())
    }

    /// A measurement of these lanes, which are alike, for the length and with the
    /// warm-up asked for, or the usual ones.
    pub(crate) fn ready(
        &self,
        lanes: impl IntoIterator<Item = LaneSpec>,
        run: impl FnOnce(Vec<Recorder>, &Arc<Control>) -> Result<Measured, ProbeError> + Send + 'static,
    ) -> Ready {
        Ready {
            lanes: lanes.into_iter().collect(),
            duration: self.duration,
            warm_up: self.warm_up_of(self.duration),
            alike: true,
            run: Box::new(run),
        }
    }

    /// The warm-up asked for, or the usual share of `duration`.
    pub(crate) fn warm_up_of(&self, duration: Option<Nanos>) -> Nanos {
        self.warm_up.unwrap_or_else(|| usual_warm_up(duration))
    }
}

/// The warm-up where none is asked for: one second, but at most a tenth of the
/// run (caches, branch predictors and lazily mapped pages settle in far less).
pub fn usual_warm_up(duration: Option<Nanos>) -> Nanos {
    let second = Nanos::from_secs(1);
    duration.map_or(second, |duration| second.min(Nanos(duration.0 / 10)))
}

/// One lane that a probe wants: a measuring thread, or a pair, or a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSpec {
    /// What distinguishes it where the CPU does not.
    pub label: Option<String>,
    /// The CPU it is bound to.
    pub cpu: Option<u32>,
    /// The CPU of the other end, where something goes from one to the other.
    pub from_cpu: Option<u32>,
    /// Policy and priority it runs at.
    pub scheduling: Scheduling,
    /// Samples a second to be expected at most: the ring is made for them.
    pub rate_hz: u64,
}

impl LaneSpec {
    /// How it is named on screen: `CPU 3`, or its label.
    pub fn title(&self) -> String {
        punctual_model::thread_title(self.label.as_deref(), self.from_cpu, self.cpu)
    }
}

/// Measures until the end of the plan or until the [`Control`] says stop,
/// whichever comes first. The recorders are in the order of the lanes.
pub type Run = Box<dyn FnOnce(Vec<Recorder>, &Arc<Control>) -> Result<Measured, ProbeError> + Send>;

/// A measurement that was looked at and can begin.
pub struct Ready {
    /// Its lanes.
    pub lanes: Vec<LaneSpec>,
    /// How long it will run, warm-up included; `None`: until stopped.
    pub duration: Option<Nanos>,
    /// How much of it at the start is discarded.
    pub warm_up: Nanos,
    /// Whether its lanes measure the same, so that their figures may be taken
    /// together.
    pub alike: bool,
    /// Measures.
    pub run: Run,
}

impl Ready {
    /// Opens its lanes, in their order. A latency above `break_above` ends the
    /// run. Each is opened when it is asked for: thousands take seconds.
    pub fn open_lanes(
        &self,
        break_above: Option<Nanos>,
        control: &Arc<Control>,
    ) -> impl Iterator<Item = (Recorder, LaneReader)> {
        self.lanes.iter().map(move |lane| {
            let settings = LaneSettings {
                warm_up: self.warm_up,
                break_above,
                rate_hz: lane.rate_hz,
            };
            Lane::open(settings, control)
        })
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What each lane measured, in the order of the lanes.
    pub lanes: Vec<LaneOutcome>,
    /// What was found beside latencies.
    pub tables: Vec<Table>,
    /// What the reader must know.
    pub warnings: Vec<String>,
}

/// Something that can be measured, set to its arguments. What only a run needs is
/// made by [`prepare`](Self::prepare), and goes into [`Ready::run`].
pub(crate) trait Probe: Sized {
    /// See [`ProbeEntry::prepare`].
    ///
    /// # Errors
    /// Whatever can be known to be impossible before the start.
    fn prepare(self, plan: &Plan, resources: &dyn Resources) -> Result<Ready, ProbeError>;
}

/// Why a probe cannot measure.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No such probe.
    #[error("there is no probe '{name}': one of {known}")]
    NoSuchProbe {
        /// What was asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A parameter's value.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// The plan has no CPU.
    #[error("the {probe} probe needs a CPU to measure on")]
    NoCpu {
        /// The probe.
        probe: &'static str,
    },
    /// A policy that does not allow threads bound to CPUs.
    #[error(
        "the {probe} probe binds each thread to a CPU, which SCHED_DEADLINE does not allow: use \
         --policy fifo, rr or other"
    )]
    Deadline {
        /// The probe.
        probe: &'static str,
    },
    /// An interval longer than the run.
    #[error(
        "the interval of {interval} is longer than the run of {duration}: nothing would be measured"
    )]
    IntervalTooLong {
        /// The interval.
        interval: Nanos,
        /// The run.
        duration: Nanos,
    },
    /// The other machine that was asked for.
    #[error("--connect {name}: {why} (it takes HOST:PORT)")]
    Connect {
        /// What was asked for.
        name: String,
        /// What is wrong with it.
        #[source]
        why: AddressError,
    },
    /// Parameters of one probe that do not fit together.
    #[error("{0}")]
    Unfit(String),
    /// The system refused something.
    #[error(transparent)]
    System(#[from] punctual_rt::Error),
    /// The process of the other end failed.
    #[error("the process of the other end: {0}")]
    Partner(#[from] PartnerError),
    /// A tracer of the kernel's cannot be the source of the figures.
    #[error("--source {name}: {why}")]
    Source {
        /// The source asked for.
        name: &'static str,
        /// Why not.
        #[source]
        why: TracerError,
    },
    /// The clock source cannot be changed.
    #[error("--sources: {0}")]
    ClockSources(#[source] SettingsError),
    /// The kernel's detector of hardware latency failed.
    #[error("the kernel's detector of hardware latency: {0}")]
    Tracer(#[source] TracerError),
    /// One of the kernel's tracers timerlat and osnoise failed.
    #[error("the kernel's tracer {tracer}: {why}")]
    Noise {
        /// Which.
        tracer: &'static str,
        /// Why.
        #[source]
        why: TracerError,
    },
}

/// Why a name is not the address of another machine.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It cannot be resolved.
    #[error(transparent)]
    Unresolved(#[from] std::io::Error),
    /// Its port is 0.
    #[error("nothing listens on port 0")]
    PortZero,
    /// Nothing was found for it.
    #[error("the name has no address")]
    NoAddress,
}

impl ProbeError {
    /// Whether the command line is to blame, rather than the machine.
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
    fn what_the_kernels_tracers_and_settings_refuse_is_a_sentence() {
        let why = || TracerError::NotStarted;
        for (error, is_usage, text) in [
            (
                ProbeError::Source {
                    name: "hwlat",
                    why: TracerError::NotOffered,
                },
                true,
                "--source hwlat: no tracer may be used here",
            ),
            (
                ProbeError::ClockSources(SettingsError::RunOver),
                true,
                "--sources: the run is over",
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
                "--connect board:0: nothing listens on port 0 (it takes HOST:PORT)",
            ),
            (
                ProbeError::Partner(PartnerError::Status(3)),
                false,
                "the process of the other end: it ended with status 3",
            ),
        ] {
            assert_eq!(error.to_string(), text);
            assert_eq!(error.is_usage(), is_usage, "{text}");
        }
    }
}
