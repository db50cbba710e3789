//! The domain model: the types that all crates of punctual share.
//!
//! **For:** times with units, CPU sets, the latency histogram, the recording
//! and its parts, the requirement and its verdict. Plain data with the
//! arithmetic that belongs to it.
//!
//! **Knows:** how these things are written as JSON and read back.
//!
//! **Must not know:** Linux, files, terminals, databases, other tools' formats. Nothing in this
//! crate makes a system call, and all of it can be tested without a machine.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod cause;
mod cpuset;
mod documents;
mod event;
mod experiment;
mod finding;
mod histogram;
mod json;
mod judging;
mod machine;
mod nanos;
mod plan;
mod probe;
mod recording;
mod recording_id;
mod setting;
pub mod testing;
mod text;
mod text_limits;
mod thread;
mod trace_chains;
mod trace_threads;
mod verdict;
mod wakeups;
mod words;

pub use cause::{
    ActivitySpan, Blame, BlameWords, CauseSummary, CauseWords, Delay, EventGap, Evidence,
    Explanation, GapReason, HandlerOf, HostSpan, HostTrace, JobWindows, Jobs, Move, NotShown,
    Outlier, Period, RealTimeLimit, ReleaseChoice, ReleaseWait, Resemblance, ResemblancePlace,
    Reservation, RuntimeStop, Segment, Share, ShareKind, SmiCount, StatedLatency, StealCount,
    StealRise, StopReason, Suspension, SuspensionKind, ThreadActivity, ThreadJobs, ThreadState,
    Throttle, TopSample, TopSamples, TraceSummary, UnseenTheft, Usual, UsualLength, Victim,
    WaitCall, Window,
};
pub use cpuset::{CpuSet, CpuSetError};
pub use event::{
    Comm, EVENTS, EventFields, EventKind, EventLevel, EventNames, EventSpec, FunctionRun,
    FunctionSum, KernelEvent, KernelPriority, LatencyOf, NoiseGap, NoiseReports, NoiseSource,
    OsnoiseSample, PartKind, SOFTIRQS, SliceStart, StatedPart, Task, TaskState, Text, ThreadStack,
    TimerlatContext, TimerlatSample, TimerlatStack, TraceEvent, TracedCall, TracerStatement,
    Vector, WaitStacks, disk_name, event_names, interrupted_functions, softirq_name, stack_of,
};
pub use experiment::{
    ApplicationChange, Arm, ArmAction, ArmResult, CHECKUP_SCHEMA, ChangeKind, Checkup, Condition,
    EXPERIMENT_SCHEMA, Effect, Experiment, ExperimentBlock, ExperimentPlan, ExperimentState, Guard,
    HUNT_SCHEMA, HardwareGaps, Hunt, IMPROVEMENT_SCHEMA, Improvement, ImprovementState,
    JobEvidence, LateRun, LeftLate, NUMBERS_SCHEMA, NotTried, NumberEffect, NumberResult,
    NumbersBlock, NumbersExperiment, Pilot, Proof, RemediedCause, SERIES_PROOF_SCHEMA, SampledSlot,
    SeriesProof, SeriesRuns, Stage, TriedSetting, Windows, WorstMix,
};
pub use finding::{
    AUDIT_SCHEMA, Act, ActKind, Acts, Audit, AuditedHost, Expectation, FileKind, Finding,
    FindingState, Frame, InCall, LINT_SCHEMA, LintFacts, LintProcess, LintReport, LintSource,
    LintThread, MeasuredMaximum, PlacedAct, Polled, Registers, Remedy, RuleResult, RuleState,
    Severity, StoredAudit, StoredFinding, TIMER_SIGNAL, Violation, WaitedFile, WaitedTimer,
};
pub use histogram::{
    Above, AboveLimit, Accounting, Bounds, Buckets, CountedBeside, DecodeError, Due, Histogram,
    IntervalRow, MAX_TRACKABLE_NS, OpenPeriods, Resolution, Series, TailRemark, is_supported,
};
pub use json::{FromJson, ToJson, serde_json};
pub use machine::{
    Cache, ClockFacts, CoreType, CounterDelta, CpuFacts, CpuInterference, CpuLocation,
    DistributionFacts, EnergyUse, FACT_SET_SCHEMA, Fact, FactSet, FactSetError, FrequencyUse,
    GroupThrottle, HandlerThread, HostFacts, IdleState, IdleUse, Interference, InterruptKind,
    InterruptRecord, Interruptions, KeptTicks, KernelFacts, MemoryFacts, MemoryNode, Placement,
    PlacementError, Power, PowerPoint, ProcessorFacts, Reading, ReservedCpus, ResidencyUse,
    SentInterrupts, TICK_DEPENDENCIES, TaskFact, TemperatureUse, TickReasons, Topology,
    VirtualisationFacts, name_matches, path_matches, tick_dependencies,
};
pub use nanos::{DurationError, Nanos, SignedNanos};
pub use plan::{
    ChangeAnnotation, ChangeDecision, CpuClass, Note, RunGroup, SeriesEpoch, SeriesRun, Slot,
    SlotCause, SlotState, WakeWindow, run_groups,
};
pub use probe::{
    Achieved, ArgumentError, Arguments, Chart, CpuQuota, GroupFacts, LoadRecord, Parameter,
    ParameterKind, ParameterValue, ProbeRun, Typed,
};
pub use recording::{
    Completion, IMPORTED_WITHOUT_SAMPLES, MeasuredOn, Observer, Origin, ReadError, Recording,
    RecordingLine, SCHEMA_VERSION, SETTING_CHANGED, Sample, SamplesKept, THREAD_MOVED, Unknown,
};
pub use recording_id::RecordingId;
pub use setting::{
    BOOT_PARAMETERS, BootAttempt, BootLoader, BootOutcome, BootParameter, Boots, Location,
    PERIODIC, POLICY_CPUS, ROLES, RepeatRule, Risk, Role, RoleError, SETTINGS, SPINNING, Scope,
    Setting, Values, WashOut, WrittenFile, boot_parameter, is_parameter, marked, mask,
    obeyed_words, path_of, row_of, setting, unmask,
};
pub use text::{
    Cell, Column, Table, counted, escape_json, grouped, listed, push_varint, sanitize,
    sanitize_lines, take_varint,
};
pub use text_limits::{
    BoundedTexts, LONGEST_CAUSE, LONGEST_DEFINITION, LONGEST_HOST_NAME, LONGEST_LABEL,
    LONGEST_NOTE, MOST_NOTES, TooLongText, check_bytes, check_host_name, check_label, check_series,
    cut_to,
};
pub use thread::{
    Counter, CounterComparison, CounterReading, HardwareCounters, JobCounts, Lease, MissLimit,
    MissLimitError, MissWindows, Policy, PolicyError, ProcessId, Scheduling, TaskKind, TaskRecord,
    TaskUsage, ThreadRecord, ThreadUsage, WindowCount, thread_title,
};
pub use trace_chains::{Chain, ChainEdge, ChainPart, ChainSpan, TraceChains};
pub use trace_threads::{Delays, ThreadTimes, TraceThreads};
pub use verdict::{
    Bound, Claim, ClaimUnit, Decision, Doubt, ERROR, JudgedBy, Judgement, LateSeconds, Limit,
    LimitResult, Looks, LoopRequirement, Metric, MetricError, Outcome, Question, Rate, Requirement,
    SampledRuns, Sampling, SamplingError, TIMES_AS_LONG, Verdict, percent,
};
pub use wakeups::{
    Activities, ActivityAxis, ActivityGroup, ActivityKind, ActivityRow, ActivitySource, GroupSeen,
    LateWakeup, Occurrence, OpenWait, PriorityClass, ThreadSeen, WAIT_BUCKETS, WaitHistogram,
    WakeupAxis, WakeupGroup, WakeupRow, WakeupSource, Wakeups,
};
pub use words::Advice;
