//! Interrupts, softirqs, works, timers and polls of network devices, summed over the whole machine.

use serde::{Deserialize, Serialize};

use crate::{Nanos, WaitHistogram};

/// The kind of the kernel's activity that was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivityKind {
    /// Handlers of interrupts.
    Irq,
    /// Softirqs.
    Softirq,
    /// Works of work queues.
    Work,
    /// Functions of timers.
    Timer,
    /// Polls of network devices.
    Napi,
    /// Interrupts sent to other CPUs.
    Ipi,
}

impl ActivityKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Irq,
        Self::Softirq,
        Self::Work,
        Self::Timer,
        Self::Napi,
        Self::Ipi,
    ];

    /// Returns the word for the kind on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Irq => "irq",
            Self::Softirq => "softirq",
            Self::Work => "work",
            Self::Timer => "timer",
            Self::Napi => "napi",
            Self::Ipi => "ipi",
        }
    }

    /// Returns whether the kernel's events show how long such an activity ran.
    pub const fn has_run(self) -> bool {
        !matches!(self, Self::Ipi)
    }

    /// Returns whether the kernel's events show when such an activity was requested.
    pub const fn has_delay(self) -> bool {
        matches!(self, Self::Softirq | Self::Work | Self::Timer)
    }
}

/// Activity of one kind, as counted from trace events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activities {
    /// The kind.
    pub of: ActivityKind,
    /// Length of the observation.
    pub elapsed_ns: Nanos,
    /// Sums by CPU and source.
    pub rows: Vec<ActivityRow>,
    /// The occurrences with the longest run times, in descending order.
    pub longest: Vec<Occurrence>,
    /// The occurrences with the longest delays, in descending order.
    pub most_delayed: Vec<Occurrence>,
    /// Minimum number of trace events that were overwritten before they were read. If it is not 0,
    /// all counts are lower bounds.
    pub events_lost: u64,
    /// Events that this kernel does not have.
    pub missing: Vec<String>,
}

/// The activity of one source on one CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityRow {
    /// The CPU that ran it, or that the interrupt was sent to.
    pub cpu: u32,
    /// The source.
    pub source: ActivitySource,
    /// Number of occurrences.
    pub count: u64,
    /// Their run times. Its count is smaller than `count` if some run times are unknown.
    pub run: WaitHistogram,
    /// The times from the request to the run. Its count is smaller than `count` if some delays are
    /// unknown.
    pub delay: WaitHistogram,
    /// Packets that the polls handled. Null for other kinds.
    pub packets: Option<u64>,
}

/// A source of activity.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActivitySource {
    /// Name of the interrupt, of the softirq, of the function or of the device. For interrupts
    /// that were sent, the sending function in the kernel. Null for the sum of all sources that got
    /// no row of their own, because there were too many.
    pub name: Option<String>,
    /// Number of the interrupt; null if it has no number.
    pub irq: Option<u32>,
    /// The CPU that sent the interrupts; null for other kinds.
    pub from_cpu: Option<u32>,
    /// The thread that sent the interrupts, as `name-TID`. Null for other kinds, and if an interrupt
    /// handler sent them.
    pub thread: Option<String>,
}

/// One occurrence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    /// Time at which it began to run, on CLOCK_MONOTONIC.
    pub start_ns: Nanos,
    /// The CPU that ran it.
    pub cpu: u32,
    /// Its source.
    pub source: ActivitySource,
    /// Its run time; null if unknown.
    pub run_ns: Option<Nanos>,
    /// Time from the request to the run; null if unknown.
    pub delay_ns: Option<Nanos>,
    /// The thread that ran it or was interrupted, as `name-TID`. `idle` if the CPU was idle.
    pub thread: String,
}

/// An axis for grouping rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityAxis {
    /// By source.
    Source,
    /// By CPU.
    Cpu,
}

/// The sum of the rows that are equal on the requested axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityGroup {
    /// The CPU, if requested.
    pub cpu: Option<u32>,
    /// The source, if requested.
    pub source: Option<ActivitySource>,
    /// Number of occurrences.
    pub count: u64,
    /// Their known run times.
    pub run: WaitHistogram,
    /// Their known delays.
    pub delay: WaitHistogram,
    /// Packets that the polls handled.
    pub packets: Option<u64>,
}

impl Activities {
    /// Sums up the rows by these axes, in ascending order of source and CPU.
    pub fn by(&self, axes: &[ActivityAxis]) -> Vec<ActivityGroup> {
        let mut groups = std::collections::BTreeMap::new();
        for row in &self.rows {
            let with = |axis| axes.contains(&axis);
            let source = with(ActivityAxis::Source).then(|| row.source.clone());
            let cpu = with(ActivityAxis::Cpu).then_some(row.cpu);
            let group = groups
                .entry((source.clone(), cpu))
                .or_insert_with(|| ActivityGroup {
                    cpu,
                    source,
                    count: 0,
                    run: WaitHistogram::new(),
                    delay: WaitHistogram::new(),
                    packets: None,
                });
            group.count += row.count;
            group.run.merge(&row.run);
            group.delay.merge(&row.delay);
            if let Some(packets) = row.packets {
                *group.packets.get_or_insert(0) += packets;
            }
        }
        groups.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cpu: u32, name: &str, runs: &[u64]) -> ActivityRow {
        let mut run = WaitHistogram::new();
        runs.iter().for_each(|time| run.record(Nanos(*time)));
        ActivityRow {
            cpu,
            source: ActivitySource {
                name: Some(name.to_owned()),
                ..ActivitySource::default()
            },
            count: runs.len() as u64 + 1,
            run,
            delay: WaitHistogram::new(),
            packets: (name == "eth0").then_some(5),
        }
    }

    #[test]
    fn axes_choose_the_rows_to_sum() {
        let seen = Activities {
            of: ActivityKind::Napi,
            elapsed_ns: Nanos(1),
            rows: vec![
                row(0, "eth0", &[10, 20]),
                row(1, "eth0", &[30]),
                row(1, "lo", &[40]),
            ],
            longest: vec![],
            most_delayed: vec![],
            events_lost: 0,
            missing: vec![],
        };
        let sums = |axes: &[ActivityAxis]| -> Vec<_> {
            let groups = seen.by(axes).into_iter();
            groups
                .map(|group| (group.count, group.run.sum_ns, group.packets))
                .collect()
        };
        assert_eq!(sums(&[]), [(7, 100, Some(10))]);
        assert_eq!(
            sums(&[ActivityAxis::Source]),
            [(5, 60, Some(10)), (2, 40, None)]
        );
        assert_eq!(
            sums(&[ActivityAxis::Cpu]),
            [(3, 30, Some(5)), (4, 70, Some(5))]
        );
        let both = [ActivityAxis::Cpu, ActivityAxis::Source];
        assert_eq!(sums(&both).len(), 3);
    }

    #[test]
    fn kinds_have_distinct_words() {
        let names: std::collections::BTreeSet<_> = ActivityKind::ALL.map(ActivityKind::name).into();
        assert_eq!(names.len(), ActivityKind::ALL.len());
        let delayed = ActivityKind::ALL
            .into_iter()
            .filter(|kind| kind.has_delay());
        assert!(delayed.clone().all(ActivityKind::has_run) && delayed.count() == 3);
    }
}
