//! Jobs of an application's threads, from release to completion.

use serde::{Deserialize, Serialize};

use crate::{Histogram, Nanos, Task};

/// The jobs of the watched threads of a run. A job begins when the timer was due that ends a thread's release
/// wait, or with the wake-up if no timer ends it. It ends when the thread returns to that wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Jobs {
    /// The response time above which a job is an outlier.
    pub budget_ns: Nanos,
    /// Number of explained jobs whose largest share was caused by punctual itself and not by the
    /// application or the machine.
    pub caused_by_observer: u64,
    /// The time windows of the full stage. Null if the whole run was in the full stage.
    #[serde(default)]
    pub windows: Option<JobWindows>,
    /// The jobs of each thread, indexed as `threads`.
    pub threads: Vec<ThreadJobs>,
}

/// The time windows of the full stage, which also records system calls, page faults and interrupts.
/// Between the windows, the light stage counts all jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobWindows {
    /// Limit on the CPU time spent on watching, divided by the run time: 0.02 is 2% of one CPU.
    pub limit: f64,
    /// CPU time used for recording system calls on all CPUs and by punctual itself, divided by the
    /// run time. Excludes the scheduler's trace events.
    pub taken: f64,
    /// Number of windows.
    pub count: u64,
    /// Their total time.
    pub watched_ns: Nanos,
    /// Cost of recording one system call of a watched thread, measured at the start.
    pub call_ns: Nanos,
    /// Cost added to one system call of any other thread.
    pub other_call_ns: Nanos,
    /// Whether jobs were also watched between the windows, in the light stage. Older versions of
    /// punctual recorded nothing between the windows.
    #[serde(default)]
    pub light_between: bool,
}

/// The jobs of one thread. Their response times are its `histogram` in the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadJobs {
    /// Its index in `threads`.
    pub thread: u32,
    /// The wait that ends each job. Null if no such wait was found. In this case no jobs are known.
    pub release: Option<ReleaseWait>,
    /// The other wait that ends jobs, if the thread belongs to a pool: one idle thread at a time
    /// waits for events of the process, and the others are parked. Null for other threads, and if
    /// the thread has only been idle in `release`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_release: Option<ReleaseWait>,
    /// Other waits that end jobs, at most three, if the thread is idle in several waits, with tiny
    /// bursts of work between them. Empty for threads of a pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_idle_in: Vec<ReleaseWait>,
    /// Waits whose length was comparable when the release wait was chosen, at most eight, in
    /// descending order of time. `release` is one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<WaitCall>,
    /// Waits that ended earlier jobs of the thread, until it stopped using them. At most four, the
    /// oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_releases: Vec<ReleaseWait>,
    /// Time without counted jobs, in nanoseconds, because the release wait of the thread was not
    /// yet known and not all events of that time were kept.
    #[serde(default)]
    pub not_counted_ns: Nanos,
    /// Number of complete jobs.
    pub jobs: u64,
    /// Number of jobs above the budget.
    pub over_budget: u64,
    /// Number of jobs that were released without a wait, because the thread returned to its wait
    /// too late. Their real release time is unknown.
    pub released_at_once: u64,
    /// Number of jobs that were released while the thread was stopped by a signal or a debugger in
    /// its release wait, at an unknown time. They are also in `released_at_once`.
    #[serde(default)]
    pub released_while_stopped: u64,
    /// Longest of these stops. A job began late by at most the length of its stop.
    #[serde(default)]
    pub longest_stop_ns: Nanos,
    /// Number of jobs that were left out because the event of their release is missing, because
    /// trace events were lost, or because the thread or the run ended before their completion.
    pub incomplete: u64,
    /// Time from the release to the end of the run, of the job in progress at the end. It is also in
    /// `incomplete`. 0 if there was none.
    #[serde(default)]
    pub open_ns: Nanos,
    /// Longest time without a sleep in the release wait, in which the thread returned from it
    /// several times at once. Known only from windows of the full stage. 0 if there was none.
    #[serde(default)]
    pub busy_ns: Nanos,
    /// Beginning of this time, since the start of the run.
    #[serde(default)]
    pub busy_since_ns: Nanos,
    /// Number of observed waits of the thread, of any kind.
    pub waits: u64,
    /// System calls in which the thread waited, the longest total time first. Includes only known
    /// calls, at most eight.
    pub wait_calls: Vec<WaitCall>,
    /// CPU time of each job in nanoseconds, including interrupts on top of the thread.
    pub execution: Histogram,
    /// The SCHED_DEADLINE reservation of the thread. Null for another policy, or if it could not be
    /// read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
}

/// What a thread has reserved with SCHED_DEADLINE, compared with what its jobs used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// CPU time that is reserved in each period.
    pub runtime_ns: Nanos,
    /// Time from the release to the deadline.
    pub deadline_ns: Nanos,
    /// Length of a period.
    pub period_ns: Nanos,
    /// Number of jobs under this reservation. Earlier jobs, before the thread changed it, are not
    /// included.
    pub jobs: u64,
    /// Number of these jobs that were on the CPU for longer than `runtime_ns`, including interrupts.
    pub over_runtime: u64,
    /// Minimum number of these jobs that ended after their deadline. The kernel may have set an
    /// earlier deadline than the observed release plus `deadline_ns`.
    pub over_deadline: u64,
}

impl Reservation {
    /// Counts a job with this execution time and response time.
    pub fn count(&mut self, execution: Nanos, response: Nanos) {
        self.jobs += 1;
        self.over_runtime += u64::from(execution > self.runtime_ns);
        self.over_deadline += u64::from(response > self.deadline_ns);
    }

    /// Returns whether both have reserved the same times.
    pub fn has_same_times(&self, other: &Self) -> bool {
        let times = |one: &Self| (one.runtime_ns, one.deadline_ns, one.period_ns);
        times(self) == times(other)
    }
}

/// A system call in which a thread waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitCall {
    /// The system call.
    pub call: String,
    /// The awaited object, as in [`ReleaseWait`].
    pub object: Option<String>,
    /// Number of waits.
    pub count: u64,
    /// Total time.
    pub total_ns: Nanos,
    /// The median interval between wake-ups, if they are regular.
    pub period_ns: Option<Nanos>,
}

/// The wait of a thread between jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseWait {
    /// The system call.
    pub call: String,
    /// The awaited object: a file descriptor with its target, a futex address, a clock. Null if the
    /// call has no such argument.
    pub object: Option<String>,
    /// How it was chosen.
    pub choice: ReleaseChoice,
    /// Number of such waits that had been observed when it was chosen.
    pub seen: u64,
    /// The median interval between wake-ups, if the intervals were regular: their median deviation
    /// is at most a quarter of the median. Null otherwise.
    pub period_ns: Option<Nanos>,
}

/// How a release wait was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseChoice {
    /// It was the most regular wait of the thread.
    #[default]
    Found,
    /// The user requested this kind of wait.
    Requested,
}

/// Activity of one thread during a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadActivity {
    /// The thread.
    pub task: Task,
    /// Its activity, without gaps.
    pub spans: Vec<ActivitySpan>,
}

/// A span of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivitySpan {
    /// Start, on CLOCK_MONOTONIC.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// End.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// The CPU on which it ran.
    pub cpu: Option<u32>,
    /// State of the thread.
    pub state: ThreadState,
}

/// State of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// Running on a CPU.
    Running,
    /// Runnable, while another thread has its CPU.
    Ready,
    /// Waiting.
    Asleep,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Unknown, because no event shows it.
    Unknown,
}
