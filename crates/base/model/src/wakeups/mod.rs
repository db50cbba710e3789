//! Run-queue latency of woken threads, summed over the whole machine.

mod activities;

pub use activities::{
    Activities, ActivityAxis, ActivityGroup, ActivityKind, ActivityRow, ActivitySource, Occurrence,
};

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Wake-ups observed on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wakeups {
    /// Data source: `bpf` (programs in the kernel), `events` (a trace), or `switches` (the context
    /// switches of the user's own threads).
    pub source: WakeupSource,
    /// Reason why the counts do not come from BPF programs. Null if they do.
    #[serde(default)]
    pub not_bpf: Option<String>,
    /// Length of the observation.
    pub elapsed_ns: Nanos,
    /// Sums by CPU and class, and by comm if requested.
    pub rows: Vec<WakeupRow>,
    /// The longest waits, in descending order.
    pub longest: Vec<LateWakeup>,
    /// Waits that had not ended when the data were read, in descending order. No row includes them.
    #[serde(default)]
    pub open: Vec<OpenWait>,
    /// Wake-ups that no row includes, because their data were lost, or because their waits are unknown.
    pub lost: u64,
    /// Wake-ups of threads whose comm got no row of its own, because no row was left. The rows
    /// without a comm include them.
    pub unnamed: u64,
    /// Trace events that were overwritten before they were read. No row includes the wake-ups among
    /// them. BPF programs lose no events.
    #[serde(default)]
    pub events_lost: u64,
}

/// Data source of the wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeupSource {
    /// BPF programs in the kernel.
    Bpf,
    /// Trace events, which the program reads and counts.
    Events,
    /// Context switches of the user's own threads, without privileges. Other wake-ups are not counted.
    Switches,
}

/// The wake-ups of one class on one CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeupRow {
    /// The CPU on which the thread ran after its wait.
    pub cpu: u32,
    /// Class of the threads.
    pub class: PriorityClass,
    /// Their comm, if requested.
    pub comm: Option<String>,
    /// Their control group, if requested.
    #[serde(default)]
    pub group: Option<GroupSeen>,
    /// CPU time that these threads used while a woken thread waited for their CPU. Includes only
    /// the time of threads that ran right before the wait ended. Counted only if groups were
    /// requested.
    #[serde(default)]
    pub held_ns: Nanos,
    /// The waits of these threads.
    pub waits: WaitHistogram,
}

/// A control group, identified as in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupSeen {
    /// Its path, as in /proc/PID/cgroup. Null if the group no longer exists or was not known.
    pub path: Option<String>,
    /// The container or unit of the group, such as `docker container 1f2e3d4c5b6a`.
    pub container: Option<String>,
    /// The inode number of the group's directory. 0 if unknown.
    pub id: u64,
}

impl GroupSeen {
    /// Creates a group with only its inode number.
    pub const fn from_id(id: u64) -> Self {
        Self {
            path: None,
            container: None,
            id,
        }
    }

    /// Returns the label to display: the container, or else the path.
    pub fn label(&self) -> String {
        match (&self.container, &self.path, self.id) {
            (Some(container), ..) => container.clone(),
            (None, Some(path), _) => path.clone(),
            (None, None, 0) => "unknown".to_owned(),
            (None, None, id) => format!("removed group {id}"),
        }
    }
}

impl WakeupRow {
    /// Returns the sort key of rows.
    pub fn order(&self) -> (u32, PriorityClass, Option<String>, Option<GroupSeen>) {
        (self.cpu, self.class, self.comm.clone(), self.group.clone())
    }
}

/// Scheduling class of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriorityClass {
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_FIFO and SCHED_RR, and threads boosted to such a priority.
    RealTime,
    /// SCHED_OTHER and SCHED_BATCH.
    Fair,
    /// SCHED_IDLE.
    Idle,
}

impl PriorityClass {
    /// All classes, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Deadline, Self::RealTime, Self::Fair, Self::Idle];

    /// Returns the word to display.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::RealTime => "real-time",
            Self::Fair => "fair",
            Self::Idle => "idle",
        }
    }

    /// Returns the class of a thread with the kernel's `prio` (below 0: deadline, 0 to 99:
    /// real-time) and scheduling policy number (5: SCHED_IDLE). If the policy is unknown, a
    /// SCHED_IDLE thread counts as a fair one, because their priorities are the same.
    pub const fn new(priority: i32, policy: Option<u32>) -> Self {
        match priority {
            ..0 => Self::Deadline,
            0..100 => Self::RealTime,
            _ => match policy {
                Some(5) => Self::Idle,
                _ => Self::Fair,
            },
        }
    }
}

/// An axis for grouping rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeupAxis {
    /// By CPU.
    Cpu,
    /// By class.
    Priority,
    /// By comm.
    Comm,
    /// By control group.
    Group,
}

/// The sum of the rows that are equal on the requested axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeupGroup {
    /// The CPU, if requested.
    pub cpu: Option<u32>,
    /// The class, if requested.
    pub class: Option<PriorityClass>,
    /// The comm, if requested and known.
    pub comm: Option<String>,
    /// The control group, if requested and known.
    pub group: Option<GroupSeen>,
    /// CPU time that these threads used while woken threads waited for their CPU.
    pub held: Nanos,
    /// The waits of these threads.
    pub waits: WaitHistogram,
}

impl WakeupAxis {
    /// All axes, in the order of the columns of a table.
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Priority, Self::Comm, Self::Group];

    /// Returns the word that names the axis.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Priority => "priority",
            Self::Comm => "comm",
            Self::Group => "cgroup",
        }
    }
}

impl Wakeups {
    /// Adds the rows and the numbers of lost data of the next observation. Removes the names and
    /// groups that have no row there, because those of ended programs would accumulate.
    pub fn add_next(&mut self, next: &Self) {
        let name = |row: &WakeupRow| (row.comm.clone(), row.group.as_ref().map(|group| group.id));
        let names: BTreeSet<_> = next.rows.iter().map(name).collect();
        let earlier = std::mem::take(&mut self.rows).into_iter();
        let remains = |row: &WakeupRow| name(row) == (None, None) || names.contains(&name(row));
        // The newest row of a group has its current path.
        let mut rows = BTreeMap::new();
        for row in earlier.filter(remains).chain(next.rows.iter().cloned()) {
            let key = (row.cpu, row.class, name(&row));
            let Some(sum) = rows.get_mut(&key) else {
                rows.insert(key, row);
                continue;
            };
            let WakeupRow { waits, held_ns, .. } = std::mem::replace(sum, row);
            sum.waits.merge(&waits);
            sum.held_ns += held_ns;
        }
        self.rows = rows.into_values().collect();
        self.elapsed_ns += next.elapsed_ns;
        self.lost = self.lost.saturating_add(next.lost);
        self.unnamed = self.unnamed.saturating_add(next.unnamed);
        self.events_lost = self.events_lost.saturating_add(next.events_lost);
    }

    /// Returns the longest wait, whether ended or open, or zero if there was none.
    pub fn longest(&self) -> Nanos {
        let ended = self.rows.iter().map(|row| row.waits.max_ns);
        let open = self.open.iter().map(|wait| wait.waited_ns);
        ended.chain(open).max().unwrap_or_default()
    }

    /// Sums up the rows by these axes, in ascending order of CPU, class and comm.
    pub fn by(&self, axes: &[WakeupAxis]) -> Vec<WakeupGroup> {
        let mut groups = BTreeMap::<_, (WaitHistogram, Nanos)>::new();
        for row in &self.rows {
            let with = |axis| axes.contains(&axis);
            let key = (
                with(WakeupAxis::Cpu).then_some(row.cpu),
                with(WakeupAxis::Priority).then_some(row.class),
                with(WakeupAxis::Comm).then(|| row.comm.clone()).flatten(),
                with(WakeupAxis::Group).then(|| row.group.clone()).flatten(),
            );
            let (waits, held) = groups.entry(key).or_default();
            waits.merge(&row.waits);
            *held += row.held_ns;
        }
        let made = groups.into_iter();
        made.map(|((cpu, class, comm, group), (waits, held))| WakeupGroup {
            cpu,
            class,
            comm,
            group,
            held,
            waits,
        })
        // If rows are not grouped by control group, threads that only delayed others need no row.
        .filter(|group| group.waits.count > 0 || group.group.is_some())
        .collect()
    }
}

/// One long wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateWakeup {
    /// Time at which the thread was woken, on CLOCK_MONOTONIC.
    pub woken_ns: Nanos,
    /// Length of the wait.
    pub latency_ns: Nanos,
    /// The CPU on which the thread then ran.
    pub cpu: u32,
    /// The thread that waited.
    pub victim: ThreadSeen,
    /// The thread that ran on the CPU right before it. Null if unknown.
    pub culprit: Option<ThreadSeen>,
    /// Run time of that thread during the wait. For the rest of the wait, the CPU was used by other
    /// threads or by the switch. Null if no event shows when the thread got the CPU.
    pub culprit_ran_ns: Option<Nanos>,
    /// The thread that was running when the wake-up happened. 0 if the CPU was idle, or if it is
    /// unknown.
    pub waker: u32,
}

/// A wait that has not ended yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenWait {
    /// Time at which the thread was woken, on CLOCK_MONOTONIC.
    pub woken_ns: Nanos,
    /// Length of the wait so far.
    pub waited_ns: Nanos,
    /// The CPU in whose run queue the thread is waiting. Null if unknown.
    pub cpu: Option<u32>,
    /// The thread that is waiting.
    pub victim: ThreadSeen,
    /// The thread that is running on that CPU. Null if unknown.
    pub behind: Option<ThreadSeen>,
    /// The thread that was running when the wake-up happened. 0 if the CPU was idle.
    pub waker: u32,
}

/// A thread at the time of a context switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSeen {
    /// Its thread ID. 0 if the CPU was idle.
    pub tid: u32,
    /// Its comm.
    pub comm: String,
    /// The kernel's `prio`: below 0 deadline, 0 to 99 real-time (99 minus the priority of
    /// SCHED_FIFO), 100 and above the others (120: nice 0).
    pub kernel_priority: i32,
    /// Number of its policy: sched(7). Null if unknown, as for trace events.
    pub policy: Option<u32>,
}

impl ThreadSeen {
    /// Returns policy and priority in the usual notation: `fifo 80`, `nice 0`.
    pub fn scheduling(&self) -> String {
        let of_time = 99 - self.kernel_priority;
        let niceness = self.kernel_priority - 120;
        match (self.tid, self.policy, self.kernel_priority) {
            (0, ..) => "idle".to_owned(),
            (_, Some(6), _) | (_, None, ..0) => "deadline".to_owned(),
            (_, Some(1), _) => format!("fifo {of_time}"),
            (_, Some(2), _) => format!("rr {of_time}"),
            (_, None, 0..100) => format!("real-time {of_time}"),
            (_, _, 0..100) => format!("boosted to {of_time}"),
            (_, Some(5), _) => "SCHED_IDLE".to_owned(),
            _ => format!("nice {niceness}"),
        }
    }
}

/// Number of buckets of a [`WaitHistogram`].
pub const WAIT_BUCKETS: usize = 100 + 90 * 10 + 1;

/// A histogram of waits in decimal log-linear buckets with two significant digits: 1 ns wide below
/// 100 ns, then 90 buckets for each decade up to 1000 s, then one bucket for longer waits. Coarser
/// than [`crate::Histogram`], so that the kernel can hold one for each CPU and class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitHistogram {
    /// Number of waits.
    pub count: u64,
    /// Sum of all waits.
    pub sum_ns: u64,
    /// The longest wait.
    pub max_ns: Nanos,
    /// Buckets that are not empty: [number, count].
    pub buckets: Vec<(u32, u64)>,
}

impl WaitHistogram {
    /// Creates an empty histogram.
    pub const fn new() -> Self {
        Self {
            count: 0,
            sum_ns: 0,
            max_ns: Nanos(0),
            buckets: Vec::new(),
        }
    }

    /// Returns the bucket of a wait.
    pub fn bucket_of(wait: Nanos) -> u32 {
        let mut unit = 1u64;
        let mut before = 0u32;
        // There are 100 buckets of 1 ns, then 90 for each decade.
        while wait.0 / unit >= 100 {
            if before == 10 {
                return WAIT_BUCKETS as u32 - 1;
            }
            unit *= 10;
            before += 1;
        }
        90 * before + (wait.0 / unit) as u32
    }

    /// Returns the smallest and the largest wait of a bucket. The last bucket has no upper end.
    pub fn bounds_of(bucket: u32) -> (Nanos, Nanos) {
        if bucket < 100 {
            return (Nanos(bucket.into()), Nanos(bucket.into()));
        }
        if bucket as usize >= WAIT_BUCKETS - 1 {
            return (Nanos(1_000_000_000_000), Nanos(u64::MAX));
        }
        let decade = (bucket - 100) / 90;
        let unit = 10u64.pow(decade + 1);
        let lower = u64::from((bucket - 100) % 90 + 10) * unit;
        (Nanos(lower), Nanos(lower + unit - 1))
    }

    /// Counts one wait.
    pub fn record(&mut self, wait: Nanos) {
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(wait.0);
        self.max_ns = self.max_ns.max(wait);
        self.add(Self::bucket_of(wait), 1);
    }

    fn add(&mut self, bucket: u32, count: u64) {
        match self.buckets.binary_search_by_key(&bucket, |b| b.0) {
            Ok(place) => self.buckets[place].1 += count,
            Err(place) => self.buckets.insert(place, (bucket, count)),
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (bucket, count) in &other.buckets {
            self.add(*bucket, *count);
        }
    }

    /// Returns the mean, or `None` if there were no waits.
    pub fn mean(&self) -> Option<Nanos> {
        self.sum_ns.checked_div(self.count).map(Nanos)
    }

    /// Returns the given quantile of the waits: the upper end of its bucket, but never more than
    /// the maximum.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        let all: u64 = self.buckets.iter().map(|b| b.1).sum();
        let rank = crate::histogram::rank_of(quantile, all)?;
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return Some(Self::bounds_of(*bucket).1.min(self.max_ns));
            }
        }
        Some(self.max_ns)
    }
}

impl Default for WaitHistogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
