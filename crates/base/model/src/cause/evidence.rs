//! Evidence about a latency that no event shows.

use serde::{Deserialize, Serialize};

use super::{Device, Name, Segment};
use crate::{FunctionRun, HardwareCounters, Nanos, Text, WaitStacks};

/// Evidence about the outlier that no event shows: counters, and figures of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Steal time: the time that a hypervisor gave to other guests. Empty if it cannot be read.
    #[serde(default)]
    pub stolen: Vec<StealCount>,
    /// System management interrupts. Null if they cannot be counted.
    #[serde(default)]
    pub smi: Option<SmiCount>,
    /// Whether the machine is virtual. Null if unknown.
    #[serde(default)]
    pub virtual_machine: Option<bool>,
    /// The kernel's protection against real-time threads that never sleep. Null if unknown.
    #[serde(default)]
    pub real_time_limit: Option<RealTimeLimit>,
    /// The usual durations of the handlers in the window.
    #[serde(default)]
    pub usual: Vec<UsualLength>,
    /// Exit latency of the deepest idle state in use (`cpuidle/state*/latency`). Null if the kernel
    /// does not provide it.
    #[serde(rename = "idle_exit_ns", default)]
    pub idle_exit: Option<Nanos>,
    /// Times around the window at which the CPU quota throttled a control group of the thread or an
    /// ancestor. Empty if there were none, or if they cannot be read.
    #[serde(default)]
    pub throttles: Vec<Throttle>,
    /// Threads in the window that belong to the throttled groups. A group is not throttled on a CPU
    /// where one of its threads runs.
    #[serde(default)]
    pub in_group: Vec<u32>,
    /// Whether the evidence shows every throttling of the thread by a CPU quota. If so, and if it
    /// shows none, no quota throttled the thread.
    #[serde(default)]
    pub quotas_known: bool,
    /// Name of the sched_ext scheduler that is enabled. Null if there is none, or if this is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sched_ext: Option<Text>,
    /// Threads of the program that recorded the events. Their CPU time is overhead of the
    /// recording.
    #[serde(default)]
    pub observer: Vec<u32>,
    /// Threads in the window that belong to the Java virtual machine of the victim's process: its VM
    /// thread and its garbage collectors. Empty if the process does not run one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jvm: Vec<u32>,
    /// Times around the window at which the Go runtime of the victim's process stopped all
    /// goroutines. Empty if there were none, or if they were not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<RuntimeStop>,
    /// Spans with missing events, in a trace that another tool recorded. Empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<EventGap>,
    /// Last time during the latency at which the kernel refilled the CPU quota of some control
    /// group, according to a trace that another tool recorded. Until then a quota may have
    /// throttled the thread. Null if no refill was recorded.
    #[serde(
        rename = "quota_refilled_ns",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub quota_refilled: Option<Nanos>,
    /// Other information that a trace of another tool lacks. Empty if nothing is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_shown: Vec<NotShown>,
    /// For a job: its longest waits, with the stacks of the thread and of its waker. Empty if there
    /// are none, or if they were not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitStacks>,
    /// For a job: the processor's counters, compared with the usual job. Null if they were not
    /// requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<HardwareCounters>,
    /// Time at which the timer's interrupt came, as the kernel's tracer timerlat states it. Null if
    /// there is no such statement.
    #[serde(
        rename = "timer_interrupt_ns",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub timer_interrupt: Option<Nanos>,
    /// For a job in the light stage: the threads that woke others, with their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wakers: Vec<Name>,
    /// For a job in the light stage: wake-ups by interrupts and softirqs, as far as their stacks show
    /// the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupt_wakeups: Vec<InterruptWakeup>,
    /// The causes that the kernel's tracer or rtla states itself, in order of time. Empty if they
    /// follow from events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stated: Vec<Segment>,
    /// Long runs of kernel functions in a trace of the tracer function_graph. Empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionRun>,
}

/// A wake-up of a thread by an interrupt or a softirq.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptWakeup {
    /// Time of the wake-up, on the clock of the events.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// The woken thread.
    pub woken: u32,
    /// The source.
    pub by: InterruptSource,
}

/// Source of a wake-up by an interrupt or a softirq.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptSource {
    /// A timer of the woken thread.
    Timer,
    /// A device.
    Device(Device),
    /// A softirq in a system call of the current thread, which sends data to the woken one.
    Peer,
}

/// A time at which the runtime of a program stopped its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeStop {
    /// When the runtime began to stop them, on the clock of the events.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// When it let them continue.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// The thread that stopped the others.
    pub by: u32,
    /// The reason.
    pub reason: StopReason,
}

/// Reason why the runtime of a program stopped its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A phase of a garbage collection.
    Collection,
    /// Something else: statistics of the memory, profiles, a change of GOMAXPROCS, a trace.
    Other,
    /// The runtime does not tell it.
    Unknown,
}

impl StopReason {
    /// Returns the meaning of a number of Go's runtime (`stwReason`). Go 1.21 introduced these
    /// numbers; those up to 2 have not changed since then.
    pub fn of_go(number: u64) -> Self {
        // The type has one byte, and the rest of the register is undefined.
        match number & 0xff {
            // stwUnknown
            0 => Self::Unknown,
            // stwGCMarkTerm, stwGCSweepTerm
            1 | 2 => Self::Collection,
            _ => Self::Other,
        }
    }
}

/// A span of time in which events of a CPU may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventGap {
    /// The CPU.
    pub cpu: u32,
    /// Start of the span, on the clock of the events.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// End of the span.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// Reason why events are missing.
    pub reason: GapReason,
}

/// Reason why events are missing in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// The trace begins later.
    BeforeTrace,
    /// The tracer lost events, or overwrote them.
    Lost,
    /// The events contradict each other: a switch between them was not recorded.
    Contradiction,
    /// The wait is longer than the time covered by the events that the analysis keeps in memory.
    /// The events of the late thread are complete.
    NotHeld,
    /// Clocks of different CPUs cannot be compared.
    ClocksDiffer,
}

/// Information that a trace lacks and that cannot be taken from any recorded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotShown {
    /// The flags of events, which show whether an event occurred in an interrupt.
    Flags,
    /// Interrupts without a device, on an architecture that has events for them.
    Vectors,
}

/// The steal time of one CPU in a span of time: all increments of its counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StealCount {
    /// The CPU.
    pub cpu: u32,
    /// Start of the time span in which all increments were recorded, on CLOCK_MONOTONIC.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// End of that time span.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// The counter's resolution: the stolen time differs from an increment by less than this (10 ms
    /// in `/proc/stat`, 1 ns if the kernel's own counter is read).
    #[serde(rename = "step_ns")]
    pub step: Nanos,
    /// The increments, in chronological order.
    pub rises: Vec<StealRise>,
}

/// An increment of a steal-time counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StealRise {
    /// Time of the last reading before it, on CLOCK_MONOTONIC.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// Time of the first reading after it.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// The increment.
    #[serde(rename = "stolen_ns")]
    pub stolen: Nanos,
}

/// The system management interrupts that a CPU counted between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmiCount {
    /// Time of the first reading, on CLOCK_MONOTONIC.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// Time of the second reading.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// Number of interrupts between the two readings.
    pub count: u64,
}

/// The kernel's protection against real-time threads that never sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RealTimeLimit {
    /// No protection.
    None,
    /// Throttling of real-time threads (`sched_rt_runtime_us`), up to Linux 6.11.
    Throttling,
    /// A deadline server that runs other threads for a while, since Linux 6.12
    /// (`kernel/sched/deadline.c`, `fair_server_init`).
    FairServer,
    /// The deadline server, and throttling by control group (CONFIG_RT_GROUP_SCHED).
    FairServerOrThrottling,
}

/// An interrupt handler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandlerOf {
    /// The handler of a device interrupt, by number.
    Irq(u32),
    /// The handler of a softirq, by number.
    Softirq(u32),
    /// The handler of an interrupt without a device, by the name of its vector.
    Vector(String),
}

/// The lengths of a handler's runs in this recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsualLength {
    /// The handler.
    pub handler: HandlerOf,
    /// The lengths.
    pub length: Usual,
}

/// The length that 99.9% of a handler's runs do not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usual {
    /// The 99.9th percentile of the lengths of the runs, not counting time in handlers that
    /// interrupted them.
    pub p999_ns: Nanos,
    /// Number of runs.
    pub count: u64,
}

/// A rise of a control group's throttling counters (`cpu.stat`) between two readings. The kernel
/// increments the counters when the throttling ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttle {
    /// The path of the control group, as in /proc/PID/cgroup.
    pub group: String,
    /// Time of the reading before it, on CLOCK_MONOTONIC.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// Time of the reading after it.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// Throttled periods of the quota (`nr_throttled`).
    pub periods: u64,
    /// Throttled time, summed over CPUs (`throttled_usec`, `throttled_time`).
    #[serde(rename = "throttled_ns")]
    pub throttled: Nanos,
}

impl Usual {
    /// Returns a clause for a run of the handler that took far longer than usual.
    pub fn contradicted(&self) -> String {
        let (count, longest) = (crate::grouped(self.count), self.p999_ns);
        format!("an anomaly: 99.9% of its {count} runs took at most {longest}")
    }
}
