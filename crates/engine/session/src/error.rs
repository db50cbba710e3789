//! Errors that prevent a measurement.

use punctual_app::find::Refusal;
use punctual_loads::LoadError;
use punctual_model::{CpuSet, Nanos, Policy, RecordingId};
use punctual_probes::{ProbeError, SettingsError};

use crate::{JoinError, PhaseError, TargetError};

/// Reason why a measurement is impossible.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Requested CPUs are missing or offline.
    #[error("CPU {missing} cannot be measured, because only CPUs {online} are online")]
    NotOnline {
        /// The missing CPUs.
        missing: CpuSet,
        /// The online CPUs.
        online: CpuSet,
    },
    /// Another measurement is using a CPU.
    #[error(
        "CPU {cpu} is being measured by {who}: two measurements on a CPU disturb each other. \
         Wait, choose other --cpus, or use --share-cpus"
    )]
    CpuInUse {
        /// The CPU.
        cpu: u32,
        /// The measurement that is using it.
        who: String,
    },
    /// The list of CPUs is empty.
    #[error("no CPU to measure: the list of CPUs is empty")]
    NoCpu,
    /// A priority was given for a policy without priorities.
    #[error(
        "policy {policy} has no priority, so {priority} cannot be set: omit --priority, or \
         choose fifo or rr"
    )]
    NoPriority {
        /// The policy.
        policy: Policy,
        /// The requested priority.
        priority: u8,
    },
    /// The workers would use most of the memory.
    #[error(
        "{threads} threads at this rate need {needed_mib} MiB of memory, more than half of the \
         {available_mib} MiB available: use fewer threads or a longer interval"
    )]
    Memory {
        /// Number of workers.
        threads: u64,
        /// Memory that they need.
        needed_mib: u64,
        /// Available memory of the machine.
        available_mib: u64,
    },
    /// A window of consecutive periods is longer than the run.
    #[error(
        "a window of {periods} consecutive periods is longer than the run of {duration}, which has \
         at most {most} periods: pass a longer --duration or a shorter window"
    )]
    Window {
        /// Number of periods of the window.
        periods: u32,
        /// Length of the run, or of its shortest phase.
        duration: Nanos,
        /// Maximum number of periods in that time.
        most: u64,
    },
    /// There is no store for the samples.
    #[error(
        "--samples needs a store, but none is in use: omit --samples, or specify a store with \
         --store"
    )]
    SamplesNotKept,
    /// The target of watching or joining is invalid.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The phases of a plan are invalid.
    #[error(transparent)]
    Phase(#[from] PhaseError),
    /// The figures of an application are unusable.
    #[error(transparent)]
    Application(#[from] Refusal),
    /// The figures cannot be read.
    #[error(transparent)]
    Figures(#[from] punctual_app::Unfit),
    /// The application has not begun to measure yet.
    #[error("process {pid} ({comm}) has not created a channel yet")]
    NoChannel {
        /// Process ID.
        pid: u32,
        /// Process name.
        comm: String,
    },
    /// No channel has the requested name.
    #[error("no channel is named '{name}': the application has {}", .channels.join("; "))]
    NoSuchChannel {
        /// The requested name.
        name: String,
        /// Each channel of the application.
        channels: Vec<String>,
    },
    /// The channels lack what a limit needs.
    #[error(
        "the limit needs channels with {what}: choose one with --channel, or set its budget_ns and \
         period_ns in the application: {}", .channels.join("; ")
    )]
    ChannelTerms {
        /// The requirement on the channels.
        what: String,
        /// Each chosen channel.
        channels: Vec<String>,
    },
    /// No worker of the application can be explained.
    #[error("{}", .0.join("; "))]
    NoChannelExplained(Vec<String>),
    /// The cost of watching jobs cannot be limited without BPF programs.
    #[error(
        "the cost of watching cannot be limited without BPF programs, because only they can be \
         switched quickly enough ({0}). Omit --cost"
    )]
    CostNotLimited(String),
    /// The warm-up would take the entire run.
    #[error(
        "a warm-up of {warm_up} leaves nothing of the run of {duration}: choose a longer --duration"
    )]
    OnlyWarmUp {
        /// Length of the warm-up.
        warm_up: Nanos,
        /// Length of the run.
        duration: Nanos,
    },
    /// Error of the probe.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Error of a load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The machine's state could not be read.
    #[error(transparent)]
    Host(#[from] punctual_host::HostError),
    /// The system refused an operation.
    #[error(transparent)]
    System(#[from] punctual_rt::Error),
    /// A control group refuses real-time priority.
    #[error(
        "{refused} was refused (EPERM): {file} is 0, and a control group without real-time \
         runtime (CONFIG_RT_GROUP_SCHED) refuses real-time policies even to root. Write a runtime \
         in \u{b5}s to that file (each parent group needs at least as much), or start in another \
         group"
    )]
    GroupWithoutRealTime {
        /// Policy and priority.
        refused: String,
        /// `cpu.rt_runtime_us` of the group.
        file: String,
    },
    /// A control group does not accept processes.
    #[error(transparent)]
    Group(#[from] JoinError),
    /// Error of the store.
    #[error(transparent)]
    Store(#[from] punctual_store::StoreError),
    /// The kernel cannot watch wake-ups.
    #[error(transparent)]
    Watch(#[from] punctual_trace::WatchError),
    /// Activities of the kernel could not be counted from trace events.
    #[error("activities of the kernel cannot be watched: {0}")]
    Activities(#[source] punctual_trace::TraceError),
    /// Chains could not be followed.
    #[error("chains cannot be followed: {0}")]
    Chains(#[source] punctual_trace::TraceError),
    /// Outliers of this probe cannot be explained.
    #[error("outliers of the {probe} probe cannot be explained. {why} --explain supports {able}")]
    NotExplained {
        /// Error of the probe.
        probe: &'static str,
        /// Reason, as a sentence.
        why: &'static str,
        /// Probes whose outliers can be explained.
        able: String,
    },
    /// Idle states could not be disabled.
    #[error("the deepest idle state could not be set: {0}")]
    IdleStates(#[source] SettingsError),
    /// Error of the flight recorder.
    #[error("outliers cannot be explained: {0}")]
    Trace(#[source] punctual_trace::TraceError),
    /// The context switches of threads cannot be recorded without privileges.
    #[error(
        "the context switches of the threads cannot be recorded: perf_event_open: {0}. They must be \
         of the same user, and /proc/sys/kernel/perf_event_paranoid must be at most 2"
    )]
    SwitchesRefused(String),
    /// An event that the user requested is invalid.
    #[error("--event: {0}")]
    Event(#[source] punctual_trace::TraceError),
    /// The recording has no trace events.
    #[error(
        "recording {id} contains no trace events. They are stored for explained outliers \
         (punctual measure timer --threshold 100us --explain); for jobs, only with --no-bpf"
    )]
    NoTrace {
        /// The recording.
        id: RecordingId,
    },
    /// No events are stored for the outlier.
    #[error("no trace events are stored for outlier {number}; outliers with trace events: {kept}")]
    NoSuchOutlier {
        /// The requested number of the outlier.
        number: u64,
        /// Outliers with stored events.
        kept: String,
    },
    /// The trace events cannot be read.
    #[error("the trace events of recording {id} cannot be read: {what}")]
    UnreadableTrace {
        /// The recording.
        id: RecordingId,
        /// Kind of damage.
        what: String,
    },
    /// Threads of the run do not end.
    #[error(
        "the run ends without threads that are still running {after} after they were asked to end: \
         {threads}. The measurements up to then are stored"
    )]
    Stuck {
        /// How long they had to end.
        after: Nanos,
        /// Their names and states.
        threads: String,
    },
    /// The probe's thread panicked, which is a bug.
    #[error("the probe's thread panicked; the measurements before the panic are stored")]
    Panicked,
}

impl From<punctual_trace::TraceError> for SessionError {
    fn from(error: punctual_trace::TraceError) -> Self {
        if error.is_of_choice() {
            Self::Event(error)
        } else {
            Self::Trace(error)
        }
    }
}

impl SessionError {
    /// Returns whether the user lacks the privilege to trace.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Trace(error) if error.is_refused())
    }

    /// Returns whether the command line caused the error (exit code 2), rather than the machine
    /// (1).
    pub fn is_usage(&self) -> bool {
        match self {
            Self::NotOnline { .. }
            | Self::NoCpu
            | Self::NoPriority { .. }
            | Self::Memory { .. }
            | Self::Window { .. }
            | Self::SamplesNotKept
            | Self::Phase(_)
            | Self::Application(_)
            | Self::Figures(_)
            | Self::NoChannel { .. }
            | Self::NoChannelExplained(_)
            | Self::NoSuchChannel { .. }
            | Self::ChannelTerms { .. }
            | Self::OnlyWarmUp { .. }
            | Self::NotExplained { .. }
            | Self::NoSuchOutlier { .. } => true,
            Self::Target(error) => !error.is_of_place(),
            Self::Probe(error) => error.is_usage(),
            Self::Load(error) => !matches!(error, LoadError::Start { .. }),
            Self::Event(_) => true,
            Self::System(error) => matches!(error, punctual_rt::Error::PriorityOutOfRange { .. }),
            _ => false,
        }
    }
}
