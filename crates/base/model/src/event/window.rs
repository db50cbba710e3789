//! The stretch of time around one late reaction.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Comm, EventNames, TraceEvent};
use crate::schema::JsonSchema;
use crate::{Nanos, Scheduling};

/// What is known of one late reaction: whose, when it was due, when it came,
/// and what the kernel recorded meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// The thread that was late.
    pub victim: Victim,
    /// From what to what the latency goes.
    pub delay: Delay,
    /// When it was due, on CLOCK_MONOTONIC.
    #[serde(rename = "expected_ns")]
    pub expected: Nanos,
    /// When it came, on CLOCK_MONOTONIC; not before `expected`.
    #[serde(rename = "actual_ns")]
    pub actual: Nanos,
    /// The events, by rising time: all of the victim's CPU, and those of other
    /// CPUs that name the victim or whom it waits for. Some from before
    /// `expected` belong to it: at least the last switch, which shows what ran.
    pub events: Vec<TraceEvent>,
    /// Events that were overwritten or dropped between the first event and
    /// `actual`.
    pub lost: u64,
    /// Events of the middle that were there when the window was explained and
    /// are left out of what is kept ([`Window::shortened`]).
    #[serde(default)]
    pub left_out: u64,
    /// Names ([`crate::event_names`]) of events that were not recorded, because
    /// the kernel does not have them or they were not asked for: what they
    /// would show is not known.
    pub missing_events: Vec<String>,
    /// By how much times of events and of the probe can be apart, at most.
    #[serde(rename = "clock_error_ns")]
    pub clock_error: Nanos,
    /// Names of the kernel addresses in the events, as far as they are known.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub symbols: BTreeMap<u64, String>,
    /// Names of the system calls in the events: their numbers mean something
    /// else on each architecture.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub calls: BTreeMap<i64, String>,
    /// What counters show and no event does.
    #[serde(default)]
    pub evidence: Evidence,
}

/// The thread that was late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Victim {
    /// Its thread ID.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// Its policy and priority, where known.
    pub scheduling: Option<Scheduling>,
    /// The CPU on which its latency ended; where it is bound, that one.
    pub cpu: u32,
}

/// From what to what a latency goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delay {
    /// From the time a timer should have fired to the thread's own reading of
    /// the clock in user space: what a probe measures.
    #[default]
    Timer,
    /// From just before another thread's call that is to reach it (a post, a
    /// signal, a message) to its own reading of the clock in user space: what
    /// probes of two threads measure. What keeps that other one counts, too.
    Call,
    /// From a thread's reading of the clock before a step of its own (a touch of
    /// memory, asking for a lock, reading a clock) to its reading after it. What
    /// keeps a thread counts that it waits for in the step.
    Step,
    /// From `sched_waking` of the thread to its return to user space, or to
    /// its switch-in where the return is not recorded: any thread's wake-up.
    Wakeup,
    /// From the switch that took the CPU from the thread against its will
    /// (preempted, or stopped by a signal) to its next switch-in.
    Taken,
    /// From the wake-up that ends a thread's release wait to its return to that wait:
    /// a job of an application.
    Job,
}

/// Facts about the outlier that no event shows: counters, and figures of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Steal time: the time that a hypervisor gave to others. Empty if it cannot be read.
    #[serde(default)]
    pub stolen: Vec<StealCount>,
    /// System management interrupts. Null if they cannot be counted.
    #[serde(default)]
    pub smi: Option<SmiCount>,
    /// Whether a hypervisor is underneath; null where it is not known.
    #[serde(default)]
    pub virtual_machine: Option<bool>,
    /// The kernel's protection against real-time threads that never sleep. Null if it is
    /// not known.
    #[serde(default)]
    pub real_time_limit: Option<RealTimeLimit>,
    /// The usual lengths of the handlers in the window.
    #[serde(default)]
    pub usual: Vec<UsualLength>,
    /// What the deepest idle state in use takes to leave
    /// (`cpuidle/state*/latency`); null where the kernel does not say.
    #[serde(rename = "idle_exit_ns", default)]
    pub idle_exit: Option<Nanos>,
    /// Times around the window at which a control group above the thread was
    /// throttled by its CPU quota; empty: none was, or it cannot be read.
    #[serde(default)]
    pub throttles: Vec<Throttle>,
    /// Threads of the window that are in the throttled groups themselves: where
    /// one of them runs, its group is not throttled on that CPU.
    #[serde(default)]
    pub in_group: Vec<u32>,
    /// The threads of the program that recorded the events: what they take is its own
    /// doing.
    #[serde(default)]
    pub observer: Vec<u32>,
}

/// The steal time of one CPU between two times: all rises of its counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StealCount {
    /// The CPU.
    pub cpu: u32,
    /// From when on all rises are known, on CLOCK_MONOTONIC.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// Until when.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// The counter's steps: what was stolen differs from a rise by less than one
    /// (10 ms in `/proc/stat`, 1 ns where the kernel's own counter is read).
    #[serde(rename = "step_ns")]
    pub step: Nanos,
    /// By increasing time.
    pub rises: Vec<StealRise>,
}

/// A rise of a counter of steal time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StealRise {
    /// When it was read before the rise, on CLOCK_MONOTONIC.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// When it was read after it.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// By how much it rose.
    #[serde(rename = "stolen_ns")]
    pub stolen: Nanos,
}

/// How many system management interrupts a CPU counted between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SmiCount {
    /// The reading before, on CLOCK_MONOTONIC.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// The reading after.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// The difference.
    pub count: u64,
}

/// The kernel's protection against real-time threads that never sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RealTimeLimit {
    /// Nothing.
    None,
    /// It throttles them (`sched_rt_runtime_us`), up to Linux 6.11.
    Throttling,
    /// A deadline server runs the others for a while, since Linux 6.12
    /// (`kernel/sched/deadline.c`, `fair_server_init`).
    FairServer,
    /// The deadline server, and a throttle by control group (CONFIG_RT_GROUP_SCHED).
    FairServerOrThrottling,
}

/// A handler of interrupts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandlerOf {
    /// Of a device's interrupt, by its number.
    Irq(u32),
    /// Of a softirq, by its number.
    Softirq(u32),
    /// Of an interrupt without a device, by the name of its vector.
    Vector(String),
}

/// The lengths of a handler's runs in this recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsualLength {
    /// The handler.
    pub handler: HandlerOf,
    /// The lengths.
    pub length: Usual,
}

/// The length that 99.9% of a handler's runs do not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usual {
    /// The 99.9th percentile of their lengths, without other handlers on top.
    pub p999_ns: Nanos,
    /// How many runs were seen.
    pub count: u64,
}

/// A rise of a control group's throttling counters (`cpu.stat`) between two
/// readings. The kernel counts a throttle when it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Throttle {
    /// The control group, as in /proc/PID/cgroup.
    pub group: String,
    /// When the counters were read before the rise, on CLOCK_MONOTONIC.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// When they were read after it.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// Periods of the quota that were throttled (`nr_throttled`).
    pub periods: u64,
    /// For how long, summed over CPUs (`throttled_usec`, `throttled_time`).
    #[serde(rename = "throttled_ns")]
    pub throttled: Nanos,
}

impl Usual {
    /// A clause about a run that took far longer.
    pub fn contradicted(&self) -> String {
        let (count, longest) = (crate::grouped(self.count), self.p999_ns);
        format!("an anomaly: 99.9% of its {count} runs took at most {longest}")
    }
}

impl Window {
    /// How many events of a window are kept: some 40 KiB, compressed.
    pub const KEPT_EVENTS: usize = 4_000;

    /// The window with at most [`KEPT_EVENTS`](Self::KEPT_EVENTS) events: those
    /// in the middle go, and are counted.
    pub fn shortened(mut self) -> Self {
        let beyond = self.events.len().saturating_sub(Self::KEPT_EVENTS);
        if beyond > 0 {
            let half = Self::KEPT_EVENTS / 2;
            self.events.drain(half..half + beyond);
            self.left_out += beyond as u64;
        }
        self
    }

    /// How late it was.
    pub fn latency(&self) -> Nanos {
        self.actual - self.expected
    }

    /// Whether an event of this name could be in the window.
    pub fn has(&self, event: &str) -> bool {
        !self.missing_events.iter().any(|missing| missing == event)
    }
}

impl EventNames for Window {
    fn call(&self, id: i64) -> String {
        self.calls
            .get(&id)
            .cloned()
            .unwrap_or_else(|| format!("system call {id}"))
    }

    fn symbol(&self, address: u64) -> String {
        self.symbols
            .get(&address)
            .cloned()
            .unwrap_or_else(|| format!("{address:#x}"))
    }
}
