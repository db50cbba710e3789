//! One measuring thread and its results.

mod job_counters;
mod miss_limit;
mod process;
mod task;
mod windows;

pub use job_counters::{Counter, CounterComparison, CounterReading, HardwareCounters, JobCounts};
pub use miss_limit::{MissLimit, MissLimitError};
pub use process::{Lease, ProcessId};
pub use task::{TaskKind, TaskRecord, TaskUsage};
pub use windows::{MissWindows, WindowCount};

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{AboveLimit, Accounting, Due, Histogram, Nanos, OpenPeriods};

/// A scheduling policy, as in sched(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// SCHED_OTHER, the default policy.
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
    /// The policy is unknown, because the recording is imported and its file does not contain it.
    Unknown,
}

impl Policy {
    /// Every policy that a thread can have, with its name for input and output.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Other, "other"),
        (Self::Batch, "batch"),
        (Self::Idle, "idle"),
        (Self::Fifo, "fifo"),
        (Self::RoundRobin, "rr"),
        (Self::Deadline, "deadline"),
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(policy, _)| *policy == self)
            .map_or("unknown", |(_, name)| name)
    }

    /// Returns whether threads of this policy run before all ordinary threads.
    pub const fn is_real_time(self) -> bool {
        matches!(self, Self::Fifo | Self::RoundRobin | Self::Deadline)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An unknown policy name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a scheduling policy: use other, batch, idle, fifo, rr or deadline")]
pub struct PolicyError(String);

/// Reads a name such as `fifo`, also in the form `SCHED_FIFO`.
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

/// A policy with its priority (0 if the policy has none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduling {
    /// The policy.
    pub policy: Policy,
    /// The priority: 1 (lowest) to 99 for fifo and rr, 0 for the others.
    pub priority: u8,
}

impl Scheduling {
    /// Policy and priority are unknown.
    pub const UNKNOWN: Self = Self {
        policy: Policy::Unknown,
        priority: 0,
    };
}

/// Prints `fifo 95` or `other`, or `priority 95` if only the priority is known.
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

/// Resources used by a measuring thread during the run, after its warm-up (getrusage(2) with
/// RUSAGE_THREAD).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUsage {
    /// Page faults without I/O. Each of them adds latency that is caused by the measurement itself.
    pub page_faults_minor: u64,
    /// Page faults that waited for I/O.
    pub page_faults_major: u64,
    /// Voluntary context switches.
    pub switches_voluntary: u64,
    /// Involuntary context switches.
    pub switches_involuntary: u64,
    /// CPU time, user and system.
    pub cpu_time_ns: Nanos,
}

/// One measuring thread and its results.
///
/// In JSON the counts of [`Accounting`] and [`ThreadUsage`] are at the top level of the thread.
/// Figures that follow from the histogram are also written, for use by scripts, and are ignored
/// when reading: `min_ns`, `mean_ns`, `max_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns`,
/// `p9999_ns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ThreadJson", into = "ThreadJson")]
pub struct ThreadRecord {
    /// A label that distinguishes the thread if the CPU does not: a pair, a mechanism, a phase.
    pub label: Option<String>,
    /// The CPU that the thread was bound to. `None` if it could migrate.
    pub cpu: Option<u32>,
    /// The source CPU, if the probe measures between two CPUs.
    pub from_cpu: Option<u32>,
    /// Its policy and priority.
    pub scheduling: Scheduling,
    /// Sample accounting.
    pub accounting: Accounting,
    /// The latencies of the samples.
    pub histogram: Histogram,
    /// Known lateness of missed periods: the time of the delayed wake-up minus the period's own due
    /// time. `None` if no lateness is known.
    pub missed_histogram: Option<Box<Histogram>>,
    /// Missed periods that had no wake-up when the run ended.
    pub open: Option<OpenPeriods>,
    /// Number of periods that exceed each limit of the requirement, if they were counted one by
    /// one.
    pub above: Vec<AboveLimit>,
    /// Late periods in windows of consecutive periods, if the requirement limits them.
    pub windows: Vec<WindowCount>,
    /// Resources used by the thread itself.
    pub usage: ThreadUsage,
}

impl ThreadRecord {
    /// Label of all threads of an application that were created after the start of the recording.
    pub const LATER: &str = "threads created later";

    /// Creates a thread without any measurements.
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
            windows: Vec::new(),
            usage: ThreadUsage::default(),
        }
    }

    /// Returns its due periods after the warm-up.
    pub fn due(&self) -> Due {
        let late = self.missed_histogram.as_deref();
        let missed = self.accounting.missed;
        Due::new(&self.histogram, missed, late, self.open, &self.above)
    }

    /// Returns the name to display: `CPU 3`, or the label of the thread.
    pub fn title(&self) -> String {
        thread_title(self.label.as_deref(), self.from_cpu, self.cpu)
    }
}

/// Returns the name of a measuring thread to display.
pub fn thread_title(label: Option<&str>, from_cpu: Option<u32>, cpu: Option<u32>) -> String {
    match (label, from_cpu, cpu) {
        (Some(label), ..) => label.to_owned(),
        (None, Some(from), Some(cpu)) => format!("CPU {from} to {cpu}"),
        (None, None, Some(cpu)) => format!("CPU {cpu}"),
        (None, _, None) => "any CPU".to_owned(),
    }
}

#[derive(Serialize, Deserialize)]
struct ThreadJson {
    /// A label that distinguishes the thread if the CPU does not.
    #[serde(default)]
    label: Option<String>,
    /// The CPU that the thread was bound to. Null if it could migrate.
    cpu: Option<u32>,
    /// The source CPU, if the probe measures between two CPUs.
    #[serde(default)]
    from_cpu: Option<u32>,
    /// Its scheduling policy.
    policy: Policy,
    /// Its priority: 1 to 99 for fifo and rr, otherwise 0.
    priority: u8,
    #[serde(flatten)]
    accounting: Accounting,
    /// The exact minimum.
    #[serde(skip_deserializing)]
    min_ns: Option<Nanos>,
    /// The mean, rounded.
    #[serde(skip_deserializing)]
    mean_ns: Option<Nanos>,
    /// The exact maximum.
    #[serde(skip_deserializing)]
    max_ns: Option<Nanos>,
    /// p50 of the samples. Percentiles are at most 1% too large, and never too small. A percentile
    /// is null if no sample is expected above it.
    #[serde(skip_deserializing)]
    p50_ns: Option<Nanos>,
    /// p90 of the samples.
    #[serde(skip_deserializing)]
    p90_ns: Option<Nanos>,
    /// p99 of the samples.
    #[serde(skip_deserializing)]
    p99_ns: Option<Nanos>,
    /// p99.9 of the samples.
    #[serde(skip_deserializing)]
    p999_ns: Option<Nanos>,
    /// p99.99 of the samples.
    #[serde(skip_deserializing)]
    p9999_ns: Option<Nanos>,
    /// The latencies of the samples.
    histogram: Histogram,
    /// Known lateness of missed periods: the time of the delayed wake-up minus the period's own due
    /// time. Absent if no period was missed, or if no lateness is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    missed_histogram: Option<Box<Histogram>>,
    /// Missed periods that had no wake-up when the run ended. Absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open: Option<OpenPeriods>,
    /// Number of periods that exceed each limit of the requirement, counted one by one. Absent if
    /// they were not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    above: Vec<AboveLimit>,
    /// Late periods in windows of consecutive periods. Absent unless the requirement limits them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    windows: Vec<WindowCount>,
    /// The due periods, that is, samples and missed periods. Requirements apply to these. Absent if
    /// no period was missed.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    due: Option<DueJson>,
    #[serde(flatten)]
    usage: ThreadUsage,
}

/// Percentiles of due periods. A percentile is null if it depends on missed periods of unknown
/// latency, or if no period is expected above it.
#[derive(Serialize, Deserialize)]
struct DueJson {
    /// Samples and missed periods.
    periods: u64,
    /// Missed periods of unknown latency.
    unknown: u64,
    /// Missed periods that still had no wake-up at the end of the run. Each is late by at least the
    /// time from its due time to the end.
    open: u64,
    /// p50 of the periods.
    p50_ns: Option<Nanos>,
    /// p90 of the periods.
    p90_ns: Option<Nanos>,
    /// p99 of the periods.
    p99_ns: Option<Nanos>,
    /// p99.9 of the periods.
    p999_ns: Option<Nanos>,
    /// p99.99 of the periods.
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
            windows: thread.windows,
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
            windows: json.windows,
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

    #[test]
    fn json_has_the_figures_that_the_samples_support() {
        let mut thread = crate::testing::recording(1, 3).threads.remove(0);
        let json = serde_json::to_value(&thread).unwrap();
        let all = &thread.histogram;
        for (key, figure) in [
            ("min_ns", all.min()),
            ("mean_ns", all.mean()),
            ("max_ns", all.max()),
            ("p50_ns", all.quantile(0.5)),
            ("p90_ns", all.quantile(0.9)),
            ("p99_ns", all.quantile(0.99)),
            ("p999_ns", all.quantile(0.999)),
            // 3,000 samples do not show it.
            ("p9999_ns", None),
        ] {
            assert_eq!(json[key], serde_json::json!(figure), "{key}");
        }
        let due = thread.due();
        assert_eq!(json["due"]["periods"], 3_003);
        assert_eq!(
            (&json["due"]["unknown"], &json["due"]["open"]),
            (&0.into(), &0.into())
        );
        for (key, quantile) in [
            ("p50_ns", 0.5),
            ("p90_ns", 0.9),
            ("p99_ns", 0.99),
            ("p999_ns", 0.999),
        ] {
            let exact = due.quantile(quantile).unwrap().exact();
            assert_eq!(json["due"][key], serde_json::json!(exact), "{key}");
        }
        assert_eq!(json["due"]["p9999_ns"], serde_json::Value::Null);
        assert_eq!(
            (&json["policy"], &json["priority"]),
            (&"fifo".into(), &95.into())
        );
        assert_eq!(
            serde_json::from_value::<ThreadRecord>(json).unwrap(),
            thread
        );

        (thread.accounting.missed, thread.missed_histogram) = (0, None);
        let json = serde_json::to_value(&thread).unwrap();
        assert!(
            json.get("due").is_none(),
            "the figures above are those of all periods"
        );
    }

    #[test]
    fn thread_is_named_by_label_or_cpus() {
        for (label, from, cpu, text) in [
            (Some("disk"), Some(1), Some(2), "disk"),
            (None, Some(1), Some(2), "CPU 1 to 2"),
            (None, None, Some(2), "CPU 2"),
            (None, Some(1), None, "any CPU"),
            (None, None, None, "any CPU"),
        ] {
            assert_eq!(thread_title(label, from, cpu), text);
        }
        let real_time: Vec<&str> = (Policy::ALL.iter())
            .filter(|(policy, _)| policy.is_real_time())
            .map(|(policy, _)| policy.name())
            .collect();
        assert_eq!(real_time, ["fifo", "rr", "deadline"]);
        for (policy, priority, text) in [
            (Policy::Unknown, 0, "policy unknown"),
            (Policy::Unknown, 7, "priority 7"),
            (Policy::Other, 0, "other"),
            (Policy::Fifo, 80, "fifo 80"),
        ] {
            assert_eq!(Scheduling { policy, priority }.to_string(), text);
        }
    }
}
