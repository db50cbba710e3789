//! Why a measurement cannot be made.

use punctual_app::find::Refusal;
use punctual_loads::LoadError;
use punctual_model::{CpuSet, Nanos, Policy, RecordingId};
use punctual_probes::{ProbeError, SettingsError};

use crate::{PhaseError, TargetError};

/// Why a measurement cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// CPUs that are asked for are not there or offline.
    #[error("CPU {missing} cannot be measured: the CPUs online are {online}")]
    NotOnline {
        /// Those that are missing.
        missing: CpuSet,
        /// Those that are there.
        online: CpuSet,
    },
    /// Another measurement is on a CPU.
    #[error(
        "CPU {cpu} is being measured by {who}: two measurements on a CPU disturb each other. Wait, \
         choose other --cpus, or give --share-cpus"
    )]
    CpuInUse {
        /// The CPU.
        cpu: u32,
        /// Who measures.
        who: String,
    },
    /// No CPU at all.
    #[error("no CPU to measure: the list is empty")]
    NoCpu,
    /// A priority for a policy that has none.
    #[error(
        "policy {policy} has no priority, so {priority} cannot be set: leave --priority, or choose \
         fifo or rr"
    )]
    NoPriority {
        /// The policy.
        policy: Policy,
        /// What was asked for.
        priority: u8,
    },
    /// The lanes would take most of the memory.
    #[error(
        "{threads} threads at this rate need {needed_mib} MiB of memory, more than half of the \
         {available_mib} MiB available: give fewer threads, or a longer interval"
    )]
    Memory {
        /// How many lanes there are.
        threads: u64,
        /// What they take.
        needed_mib: u64,
        /// What the machine has left.
        available_mib: u64,
    },
    /// There is nowhere to keep samples.
    #[error("samples are kept in the store, and there is none: leave --samples or name a --store")]
    SamplesNotKept,
    /// What is to be watched or joined.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The phases of a plan.
    #[error(transparent)]
    Phase(#[from] PhaseError),
    /// An application whose figures cannot be used.
    #[error(transparent)]
    Application(#[from] Refusal),
    /// Figures that cannot be read.
    #[error(transparent)]
    Figures(#[from] punctual_app::Unfit),
    /// An application that has not begun to measure.
    #[error("process {pid} ({comm}) has no lane in its figures yet")]
    NoLane {
        /// Its number.
        pid: u32,
        /// Its name.
        comm: String,
    },
    /// An application of which no lane can be explained.
    #[error("{}", .0.join("; "))]
    NoLaneExplained(Vec<String>),
    /// Jobs can be watched all the time alone.
    #[error(
        "the cost of watching cannot be limited: only BPF programs are switched quickly enough \
         ({0}). Leave out --cost"
    )]
    CostNotLimited(String),
    /// The warm-up would take all of the run.
    #[error("a warm-up of {warm_up} leaves nothing of a run of {duration}")]
    OnlyWarmUp {
        /// The warm-up.
        warm_up: Nanos,
        /// The run.
        duration: Nanos,
    },
    /// The probe.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The machine could not be read.
    #[error(transparent)]
    Host(#[from] punctual_host::HostError),
    /// The system refused something.
    #[error(transparent)]
    System(#[from] punctual_rt::Error),
    /// A control group refuses real-time priority.
    #[error(
        "{refused} was refused (EPERM): {file} is 0, and a control group without real-time runtime \
         (CONFIG_RT_GROUP_SCHED) refuses it, also to root. Write a runtime in \u{b5}s to that file \
         (each group above needs as much), or start in another group"
    )]
    GroupWithoutRealTime {
        /// Policy and priority.
        refused: String,
        /// The group's `cpu.rt_runtime_us`.
        file: String,
    },
    /// A control group that takes no process.
    #[error("cannot join by {file}: {source}; {why}")]
    Group {
        /// The file that takes a process.
        file: String,
        /// What the error means there.
        why: &'static str,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] punctual_store::StoreError),
    /// Wake-ups cannot be watched in the kernel.
    #[error(transparent)]
    Watch(#[from] punctual_trace::WatchError),
    /// Outliers of this probe cannot be explained.
    #[error("outliers of the {probe} probe cannot be explained. {why} --explain is for {able}")]
    NotExplained {
        /// The probe.
        probe: &'static str,
        /// Why not, as a sentence.
        why: &'static str,
        /// Those whose can.
        able: String,
    },
    /// Idle states that could not be disabled.
    #[error("the deepest idle state could not be set: {0}")]
    IdleStates(#[source] SettingsError),
    /// The flight recorder.
    #[error("outliers cannot be explained: {0}")]
    Trace(#[source] punctual_trace::TraceError),
    /// An event that the user asked for.
    #[error("--event: {0}")]
    Event(#[source] punctual_trace::TraceError),
    /// A recording without trace events.
    #[error(
        "recording {id} holds no trace events: they are kept of explained outliers (punctual \
         measure timer --threshold 100us --explain), of jobs only with --no-bpf"
    )]
    NoTrace {
        /// The recording.
        id: RecordingId,
    },
    /// An outlier whose events are not kept.
    #[error("no trace events are kept of outlier {number}: those whose are: {kept}")]
    NoSuchOutlier {
        /// What was asked for.
        number: u64,
        /// What there is.
        kept: String,
    },
    /// Trace events that cannot be read.
    #[error("the trace events of recording {id} cannot be read: {what}")]
    UnreadableTrace {
        /// The recording.
        id: RecordingId,
        /// What is wrong.
        what: String,
    },
    /// The thread that ran the probe panicked: a defect of ours.
    #[error("the probe's thread ended in a panic; what was measured until then is kept")]
    Panicked,
}

impl From<punctual_trace::TraceError> for SessionError {
    fn from(error: punctual_trace::TraceError) -> Self {
        match error.is_of_choice() {
            true => Self::Event(error),
            false => Self::Trace(error),
        }
    }
}

impl SessionError {
    /// Whether the command line is to blame (exit code 2), rather than the
    /// machine (1).
    pub fn is_usage(&self) -> bool {
        match self {
            Self::NotOnline { .. }
            | Self::NoCpu
            | Self::NoPriority { .. }
            | Self::Memory { .. }
            | Self::SamplesNotKept
            | Self::Target(_)
            | Self::Phase(_)
            | Self::Application(_)
            | Self::Figures(_)
            | Self::NoLane { .. }
            | Self::NoLaneExplained(_)
            | Self::OnlyWarmUp { .. }
            | Self::NotExplained { .. }
            | Self::NoSuchOutlier { .. } => true,
            Self::Probe(error) => error.is_usage(),
            Self::Load(error) => !matches!(error, LoadError::Start { .. }),
            Self::Event(_) => true,
            Self::System(error) => matches!(error, punctual_rt::Error::PriorityOutOfRange { .. }),
            _ => false,
        }
    }
}
