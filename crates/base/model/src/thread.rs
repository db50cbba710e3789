//! One measuring thread and what it measured.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{AboveLimit, Accounting, Due, Histogram, Nanos, OpenPeriods};

/// A scheduling policy, as in sched(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// SCHED_OTHER, the usual one.
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO.
    Fifo,
    /// SCHED_RR.
    #[serde(rename = "rr")]
    RoundRobin,
    /// SCHED_DEADLINE.
    Deadline,
    /// Not known: the recording was made elsewhere, and its file does not say.
    Unknown,
}

impl Policy {
    /// Each that a thread can be given, with the name that is typed and printed.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Other, "other"),
        (Self::Batch, "batch"),
        (Self::Idle, "idle"),
        (Self::Fifo, "fifo"),
        (Self::RoundRobin, "rr"),
        (Self::Deadline, "deadline"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(policy, _)| *policy == self)
            .map_or("unknown", |(_, name)| name)
    }

    /// Whether it is served before all usual threads.
    pub const fn is_real_time(self) -> bool {
        matches!(self, Self::Fifo | Self::RoundRobin | Self::Deadline)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A policy name nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a scheduling policy: one of other, batch, idle, fifo, rr, deadline")]
pub struct PolicyError(String);

/// Reads `fifo` and the like, also as `SCHED_FIFO`.
impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.trim().to_ascii_lowercase();
        let name = lower.strip_prefix("sched_").unwrap_or(&lower);
        Self::ALL
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(policy, _)| *policy)
            .ok_or_else(|| PolicyError(text.trim().to_owned()))
    }
}

/// A policy with its priority (0 where the policy has none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scheduling {
    /// The policy.
    pub policy: Policy,
    /// 1 (lowest) to 99 for fifo and rr, else 0.
    pub priority: u8,
}

impl Scheduling {
    /// Neither is known.
    pub const UNKNOWN: Self = Self {
        policy: Policy::Unknown,
        priority: 0,
    };
}

/// `fifo 95`, `other`; `priority 95` where only that is known.
impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.policy, self.priority) {
            (Policy::Unknown, 0) => f.pad("policy unknown"),
            (Policy::Unknown, priority) => f.pad(&format!("priority {priority}")),
            (policy, 0) => f.pad(policy.name()),
            (policy, priority) => f.pad(&format!("{policy} {priority}")),
        }
    }
}

/// What a measuring thread used during the run, after its warm-up
/// (getrusage(2) with RUSAGE_THREAD).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadUsage {
    /// Page faults that needed no I/O. Each is a latency of our own making.
    pub page_faults_minor: u64,
    /// Page faults that waited for I/O.
    pub page_faults_major: u64,
    /// Switches because the thread went to sleep.
    pub switches_voluntary: u64,
    /// Switches because something else was to run.
    pub switches_involuntary: u64,
    /// CPU time, user and system.
    pub cpu_time_ns: Nanos,
}

/// One measuring thread and what it measured.
///
/// In JSON the counts of [`Accounting`] and [`ThreadUsage`] stand flat beside
/// the others, and what follows from the histogram (`min_ns`, `mean_ns`,
/// `max_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns`, `p9999_ns`) is written
/// out for scripts; it is ignored when read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "ThreadJson", into = "ThreadJson")]
#[schemars(with = "ThreadJson")]
pub struct ThreadRecord {
    /// What distinguishes it where the CPU does not: a pair, a way, a
    /// phase.
    pub label: Option<String>,
    /// The CPU it was bound to; `None` where it could move.
    pub cpu: Option<u32>,
    /// The CPU of the other end, where something went from one to the other.
    pub from_cpu: Option<u32>,
    /// Policy and priority it ran at.
    pub scheduling: Scheduling,
    /// Where each expected wake-up went.
    pub accounting: Accounting,
    /// The latencies of the samples.
    pub histogram: Histogram,
    /// How late the missed periods were, of those where it is known: the wake-up
    /// that came at last minus the period's own due time. `None`: of none.
    pub missed_histogram: Option<Box<Histogram>>,
    /// Of the missed ones: those that had no wake-up when the run ended.
    pub open: Option<OpenPeriods>,
    /// How many periods exceeded each limit of the requirement, where they were counted
    /// one by one.
    pub above: Vec<AboveLimit>,
    /// What the thread itself used.
    pub usage: ThreadUsage,
}

impl ThreadRecord {
    /// One that has measured nothing yet.
    pub fn new(cpu: Option<u32>, scheduling: Scheduling) -> Self {
        Self {
            label: None,
            cpu,
            from_cpu: None,
            scheduling,
            accounting: Accounting::default(),
            histogram: Histogram::new(),
            missed_histogram: None,
            open: None,
            above: Vec::new(),
            usage: ThreadUsage::default(),
        }
    }

    /// Its periods that came due after the warm-up.
    pub fn due(&self) -> Due {
        let late = self.missed_histogram.as_deref();
        let missed = self.accounting.missed;
        Due::of(&self.histogram, missed, late, self.open, &self.above)
    }

    /// How the thread is named on screen: `CPU 3`, or its label.
    pub fn title(&self) -> String {
        thread_title(self.label.as_deref(), self.from_cpu, self.cpu)
    }
}

/// How a measuring thread is named on screen.
pub fn thread_title(label: Option<&str>, from_cpu: Option<u32>, cpu: Option<u32>) -> String {
    match (label, from_cpu, cpu) {
        (Some(label), ..) => label.to_owned(),
        (None, Some(from), Some(cpu)) => format!("CPU {from} to {cpu}"),
        (None, None, Some(cpu)) => format!("CPU {cpu}"),
        (None, _, None) => "any CPU".to_owned(),
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Thread")]
struct ThreadJson {
    /// What distinguishes it where the CPU does not.
    #[serde(default)]
    label: Option<String>,
    /// The CPU it was bound to; null where it could move.
    cpu: Option<u32>,
    /// The CPU of the other end, where something went from one to the other.
    #[serde(default)]
    from_cpu: Option<u32>,
    /// The scheduling policy it ran under.
    policy: Policy,
    /// Its priority: 1 to 99 for fifo and rr, else 0.
    priority: u8,
    #[serde(flatten)]
    accounting: Accounting,
    /// The exact smallest latency.
    #[serde(skip_deserializing)]
    min_ns: Option<Nanos>,
    /// The mean, rounded.
    #[serde(skip_deserializing)]
    mean_ns: Option<Nanos>,
    /// The exact largest latency.
    #[serde(skip_deserializing)]
    max_ns: Option<Nanos>,
    /// Half of the samples were not later than this (at most 1% too large,
    /// never too small; so for all percentiles). Null, as each percentile, where no
    /// sample is expected above it.
    #[serde(skip_deserializing)]
    p50_ns: Option<Nanos>,
    /// 90% were not later than this.
    #[serde(skip_deserializing)]
    p90_ns: Option<Nanos>,
    /// 99% were not later than this.
    #[serde(skip_deserializing)]
    p99_ns: Option<Nanos>,
    /// 99.9% were not later than this.
    #[serde(skip_deserializing)]
    p999_ns: Option<Nanos>,
    /// 99.99% were not later than this.
    #[serde(skip_deserializing)]
    p9999_ns: Option<Nanos>,
    /// The latencies of the samples.
    histogram: Histogram,
    /// How late the missed periods were: the wake-up that came at last minus the
    /// period's own due time. Absent where none was missed, or none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    missed_histogram: Option<Box<Histogram>>,
    /// Of the missed periods, those that had no wake-up when the run ended. Absent
    /// where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open: Option<OpenPeriods>,
    /// How many periods exceeded each limit of the requirement, counted one by one.
    /// Absent where they were not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    above: Vec<AboveLimit>,
    /// The periods that came due, samples and missed ones: what requirements are
    /// judged on. Absent where none was missed.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    due: Option<DueJson>,
    #[serde(flatten)]
    usage: ThreadUsage,
}

/// Percentiles of due periods: null where missed periods of unknown latency
/// decide, and where no period is expected above.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DuePeriods")]
struct DueJson {
    /// Samples and missed periods.
    periods: u64,
    /// Missed periods of unknown latency.
    unknown: u64,
    /// Missed periods without a wake-up at the end: late by at least the time until
    /// then.
    open: u64,
    /// Half of the periods were not later than this.
    p50_ns: Option<Nanos>,
    /// 90% were not later than this.
    p90_ns: Option<Nanos>,
    /// 99% were not later than this.
    p99_ns: Option<Nanos>,
    /// 99.9% were not later than this.
    p999_ns: Option<Nanos>,
    /// 99.99% were not later than this.
    p9999_ns: Option<Nanos>,
}

impl From<Due> for DueJson {
    fn from(due: Due) -> Self {
        let known = |quantile| {
            let supported = crate::is_supported(quantile, due.periods());
            due.quantile(quantile).filter(|_| supported)?.exact()
        };
        Self {
            periods: due.periods(),
            unknown: due.unknown(),
            open: due.open(),
            p50_ns: known(0.5),
            p90_ns: known(0.9),
            p99_ns: known(0.99),
            p999_ns: known(0.999),
            p9999_ns: known(0.9999),
        }
    }
}

impl From<ThreadRecord> for ThreadJson {
    fn from(thread: ThreadRecord) -> Self {
        let due = (thread.accounting.missed > 0).then(|| thread.due().into());
        let histogram = thread.histogram;
        let supported = |quantile| histogram.supported_quantile(quantile);
        Self {
            label: thread.label,
            cpu: thread.cpu,
            from_cpu: thread.from_cpu,
            policy: thread.scheduling.policy,
            priority: thread.scheduling.priority,
            accounting: thread.accounting,
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            max_ns: histogram.max(),
            p50_ns: supported(0.5),
            p90_ns: supported(0.9),
            p99_ns: supported(0.99),
            p999_ns: supported(0.999),
            p9999_ns: supported(0.9999),
            histogram,
            missed_histogram: thread.missed_histogram,
            open: thread.open,
            above: thread.above,
            due,
            usage: thread.usage,
        }
    }
}

impl From<ThreadJson> for ThreadRecord {
    fn from(json: ThreadJson) -> Self {
        Self {
            label: json.label,
            cpu: json.cpu,
            from_cpu: json.from_cpu,
            scheduling: Scheduling {
                policy: json.policy,
                priority: json.priority,
            },
            accounting: json.accounting,
            histogram: json.histogram,
            missed_histogram: json.missed_histogram,
            open: json.open,
            above: json.above,
            usage: json.usage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_by_either_name() {
        assert_eq!("fifo".parse(), Ok(Policy::Fifo));
        assert_eq!("SCHED_RR".parse(), Ok(Policy::RoundRobin));
        let error = "fast".parse::<Policy>().unwrap_err().to_string();
        assert!(error.contains("'fast'") && error.contains("fifo"));
        for (policy, name) in Policy::ALL {
            assert_eq!(serde_json::to_value(policy).unwrap(), name);
        }
    }
}
