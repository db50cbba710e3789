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

mod above;
mod accounting;
mod activities;
mod advice;
mod blame;
mod boots;
mod bucket_counts;
mod buckets;
pub mod cause;
mod checkup;
mod control_group;
mod cpuset;
mod documents;
mod due;
mod event;
mod experiment;
mod experiment_plan;
mod explanation;
mod fact_set;
mod facts;
mod finding;
mod grouped;
mod histogram;
mod host_span;
mod improvement;
mod interference;
mod interrupt;
mod interruptions;
mod job;
mod job_counters;
mod json;
mod judgement;
mod lint;
mod load_record;
mod loop_requirement;
mod measured_on;
mod nanos;
mod noise;
mod open;
mod origin;
mod parameter;
mod power;
mod probe_run;
mod process;
mod rate;
mod recording;
mod recording_id;
mod requirement;
mod resolution;
mod role;
mod sanitize;
mod series;
mod series_run;
mod setting;
mod slot;
mod stored_audit;
mod suspension;
mod table;
mod tail;
mod task;
pub mod testing;
mod text_limits;
mod thread;
mod top_samples;
mod topology;
mod trace_summary;
mod varint;
mod verdict;
mod wakeups;
mod window;

pub use above::{Above, AboveLimit};
pub use accounting::Accounting;
pub use activities::{
    Activities, ActivityAxis, ActivityGroup, ActivityKind, ActivityRow, ActivitySource, Occurrence,
};
pub use advice::Advice;
pub use blame::{Blame, BlameWords, Move, Segment, Share};
pub use boots::{BootAttempt, BootLoader, BootOutcome, Boots, WrittenFile};
pub use bucket_counts::{Buckets, DecodeError, MAX_TRACKABLE_NS};
pub use cause::{CauseWords, ShareKind, UnseenTheft};
pub use checkup::{CHECKUP_SCHEMA, Checkup, Condition, HardwareGaps, RemediedCause, Windows};
pub use control_group::{CpuQuota, GroupFacts};
pub use cpuset::{CpuSet, CpuSetError};
pub use due::{Bounds, Due};
pub use event::{
    Comm, Delay, EVENTS, EventFields, EventGap, EventKind, EventLevel, EventNames, EventSpec,
    Evidence, GapReason, HandlerOf, KernelEvent, KernelPriority, NoiseSource, NotShown,
    RealTimeLimit, RuntimeStop, SOFTIRQS, SliceStart, SmiCount, StealCount, StealRise, StopReason,
    Task, TaskState, Text, ThreadStack, Throttle, TimerlatContext, TraceEvent, Usual, UsualLength,
    Vector, Victim, WaitStacks, disk_name, event_names, interrupted_functions, softirq_name,
    stack_of,
};
pub use experiment::{
    ArmResult, EXPERIMENT_SCHEMA, Effect, Experiment, ExperimentBlock, ExperimentState, Guard,
    Pilot,
};
pub use experiment_plan::{Arm, ArmAction, ExperimentPlan};
pub use explanation::{Cause, Explanation, Outlier, Period};
pub use fact_set::{
    FACT_SET_SCHEMA, FactSet, FactSetError, Reading, TaskFact, name_matches, path_matches,
};
pub use facts::{
    ClockFacts, CpuFacts, DistributionFacts, Fact, HostFacts, IdleState, KernelFacts, MemoryFacts,
    ProcessorFacts, VirtualisationFacts,
};
pub use finding::{
    AUDIT_SCHEMA, Audit, AuditedHost, Expectation, Finding, FindingState, MeasuredMaximum, Remedy,
    Severity,
};
pub use grouped::{counted, grouped};
pub use histogram::{CountedBeside, Histogram, is_supported};
pub use host_span::HostSpan;
pub use improvement::{
    IMPROVEMENT_SCHEMA, Improvement, ImprovementState, NotTried, Proof, Stage, TriedSetting,
};
pub use interference::{CounterDelta, CpuInterference, GroupThrottle, Interference};
pub use interrupt::{HandlerThread, InterruptKind, InterruptRecord};
pub use interruptions::{
    Interruptions, KeptTicks, SentInterrupts, TICK_DEPENDENCIES, TickReasons, tick_dependencies,
};
pub use job::{
    ActivitySpan, JobWindows, Jobs, ReleaseChoice, ReleaseWait, Reservation, ThreadActivity,
    ThreadJobs, ThreadState, WaitCall,
};
pub use job_counters::{Counter, CounterComparison, CounterReading, HardwareCounters, JobCounts};
pub use json::{FromJson, ToJson, serde_json};
pub use judgement::{JudgedBy, Judgement};
pub use lint::{
    Act, ActKind, Acts, FileKind, Frame, InCall, LINT_SCHEMA, LintFacts, LintProcess, LintReport,
    LintSource, LintThread, PlacedAct, Polled, RuleResult, RuleState, TIMER_SIGNAL, Violation,
    WaitedFile, WaitedTimer,
};
pub use load_record::{Achieved, LoadRecord};
pub use loop_requirement::{LoopRequirement, MissLimit, MissLimitError};
pub use measured_on::MeasuredOn;
pub use nanos::{DurationError, Nanos, SignedNanos};
pub use noise::{NoiseGap, NoiseReports, OsnoiseSample, TimerlatSample, TimerlatStack};
pub use open::OpenPeriods;
pub use origin::{Origin, Unknown};
pub use parameter::{ArgumentError, Arguments, Parameter, ParameterKind, ParameterValue, Typed};
pub use power::{EnergyUse, FrequencyUse, IdleUse, Power, ResidencyUse, TemperatureUse};
pub use probe_run::{Chart, ProbeRun};
pub use process::ProcessId;
pub use rate::{Decision, Doubt, ERROR, LateSeconds, Looks, Rate, TIMES_AS_LONG, percent};
pub use recording::{
    Completion, Observer, ReadError, Recording, SCHEMA_VERSION, Sample, SamplesKept,
};
pub use recording_id::RecordingId;
pub use requirement::{Limit, Metric, MetricError, Requirement};
pub use resolution::Resolution;
pub use role::{PERIODIC, ROLES, Role, RoleError, SPINNING};
pub use sanitize::{escape_json, sanitize, sanitize_lines};
pub use series::{IntervalRow, Series};
pub use series_run::{RunGroup, SeriesRun, run_groups};
pub use setting::{
    BOOT_PARAMETERS, BootParameter, Location, POLICY_CPUS, Risk, SETTINGS, Scope, Setting, Values,
    WashOut, boot_parameter, marked, mask, path_of, row_of, setting, unmask,
};
pub use slot::{
    ChangeAnnotation, ChangeDecision, CpuClass, Note, SeriesEpoch, Slot, SlotCause, SlotState,
    WakeWindow,
};
pub use stored_audit::{StoredAudit, StoredFinding};
pub use suspension::{Suspension, SuspensionKind};
pub use table::{Cell, Column, Table};
pub use tail::TailRemark;
pub use task::{TaskKind, TaskRecord, TaskUsage};
pub use text_limits::{
    BoundedTexts, LONGEST_CAUSE, LONGEST_DEFINITION, LONGEST_HOST_NAME, LONGEST_LABEL,
    LONGEST_NOTE, MOST_NOTES, TooLongText, check_bytes, check_host_name, check_label, check_series,
    cut_to,
};
pub use thread::{Policy, PolicyError, Scheduling, ThreadRecord, ThreadUsage, thread_title};
pub use top_samples::{TopSample, TopSamples};
pub use topology::{Cache, CpuLocation, MemoryNode, Placement, PlacementError, Topology};
pub use trace_summary::{HostTrace, StatedLatency, TraceSummary};
pub use varint::{push_varint, take_varint};
pub use verdict::{Bound, LimitResult, Outcome, Verdict};
pub use wakeups::{
    GroupSeen, LateWakeup, OpenWait, PriorityClass, ThreadSeen, WAIT_BUCKETS, WaitHistogram,
    WakeupAxis, WakeupGroup, WakeupRow, WakeupSource, Wakeups,
};
pub use window::Window;
